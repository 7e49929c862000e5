"""Haystack's Agent: sync, async, streamed; with its tool as exit condition; with typed output."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from weather import SYSTEM, Report, get_weather, sentence

STREAMED = {"stream_options": {"include_usage": True}}


def agent(kwargs=None, strict=False, **more):
    model = OpenAIChatGenerator(model="gpt-4o-mini", generation_kwargs=kwargs, tools_strict=strict)
    weather = create_tool_from_function(get_weather)
    return Agent(chat_generator=model, tools=[weather], system_prompt=SYSTEM, **more)


def sync(question: str) -> str:
    return agent().run(messages=[ChatMessage.from_user(question)])["last_message"].text


async def run(question: str) -> str:
    return (await agent().run_async(messages=[ChatMessage.from_user(question)]))["last_message"].text


def streamed(question: str) -> str:
    streaming = agent(STREAMED, streaming_callback=lambda chunk: None)
    return streaming.run(messages=[ChatMessage.from_user(question)])["last_message"].text


def terminal(question: str) -> str:
    ending = agent(exit_conditions=["get_weather"])
    last = ending.run(messages=[ChatMessage.from_user(question)])["last_message"]
    return sentence(last.tool_call_result.result)


def structured(question: str) -> str:
    typed = agent({"response_format": Report}, strict=True)
    last = typed.run(messages=[ChatMessage.from_user(question)])["last_message"]
    return str(Report.model_validate_json(last.text))
