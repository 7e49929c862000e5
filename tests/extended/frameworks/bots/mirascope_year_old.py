"""Mirascope before 2.0: its calls with tools, sync, async, streamed; with typed output."""

from mirascope.core import Messages, openai
from weather import SYSTEM, Report, get_weather

MODEL = "gpt-4o-mini"


@openai.call(MODEL, tools=[get_weather])
def step(messages: list):
    return messages


@openai.call(MODEL, tools=[get_weather])
async def step_async(messages: list):
    return messages


@openai.call(MODEL, tools=[get_weather], stream=True)
def step_streamed(messages: list):
    return messages


@openai.call(MODEL, response_model=Report)
def last_step(messages: list):
    return messages


def opening(question):
    return [Messages.System(SYSTEM), Messages.User(question)]


def results(response):
    yield response.message_param
    yield from response.tool_message_params([(tool, tool.call()) for tool in response.tools])


def sync(question: str) -> str:
    messages = opening(question)
    while (response := step(messages)).tools:
        messages += results(response)
    return response.content


async def run(question: str) -> str:
    messages = opening(question)
    while (response := await step_async(messages)).tools:
        messages += results(response)
    return response.content


def streamed(question: str) -> str:
    messages = opening(question)
    while True:
        stream = step_streamed(messages)
        text, tools = "", []
        for chunk, tool in stream:
            text += chunk.content
            tools += [tool] if tool else []
        if not tools:
            return text
        messages += [
            stream.message_param,
            *stream.tool_message_params([(tool, tool.call()) for tool in tools]),
        ]


def structured(question: str) -> str:
    messages = opening(question)
    messages += results(step(messages))
    return str(last_step(messages))
