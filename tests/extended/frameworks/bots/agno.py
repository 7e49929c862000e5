"""Agno: sync and async."""

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from weather import SYSTEM, get_weather


def agent():
    return Agent(model=OpenAIChat("gpt-5-mini"), instructions=SYSTEM, tools=[get_weather], telemetry=False)


def sync(question: str) -> str:
    return agent().run(question).content


async def run(question: str) -> str:
    return (await agent().arun(question)).content
