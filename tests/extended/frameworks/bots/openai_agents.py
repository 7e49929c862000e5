"""OpenAI's Agents SDK: over responses, over chat completions, and streamed; ended by its tool; typed."""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from weather import SYSTEM, Report, get_weather, sentence

set_tracing_disabled(True)
HOW = {"name": "weather", "instructions": SYSTEM, "tools": [function_tool(get_weather)]}


async def responses(question: str) -> str:
    return (await Runner.run(Agent(model="gpt-5-mini", **HOW), question)).final_output


def responses_sync(question: str) -> str:
    return Runner.run_sync(Agent(model="gpt-5-mini", **HOW), question).final_output


async def chat(question: str) -> str:
    model = OpenAIChatCompletionsModel("gpt-5-mini", AsyncOpenAI())
    return (await Runner.run(Agent(model=model, **HOW), question)).final_output


async def streamed(question: str) -> str:
    result = Runner.run_streamed(Agent(model="gpt-5-mini", **HOW), question)
    async for _ in result.stream_events():
        pass
    return result.final_output


async def terminal(question: str) -> str:
    agent = Agent(model="gpt-5-mini", tool_use_behavior="stop_on_first_tool", **HOW)
    return sentence((await Runner.run(agent, question)).final_output)


async def structured(question: str) -> str:
    agent = Agent(model="gpt-5-mini", output_type=Report, **HOW)
    return str((await Runner.run(agent, question)).final_output)
