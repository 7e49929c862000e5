"""Pydantic AI: its three ways of running, over chat completions and over responses."""

from pydantic_ai import Agent
from weather import SYSTEM, get_weather

agent = Agent("openai-chat:gpt-5-mini", instructions=SYSTEM, tools=[get_weather])
of_responses = Agent("openai-responses:gpt-5-mini", instructions=SYSTEM, tools=[get_weather])


def sync(question: str) -> str:
    return agent.run_sync(question).output


async def run(question: str) -> str:
    return (await agent.run(question)).output


async def streamed(question: str) -> str:
    async with agent.run_stream(question) as result:
        return await result.get_output()


async def responses(question: str) -> str:
    return (await of_responses.run(question)).output
