"""AG2: its agent; ended by its tool's result; with typed output."""

from ag2 import Agent, ToolResult, tool
from ag2.config import OpenAIConfig
from weather import SYSTEM, Report, get_weather, sentence


def agent(weather=get_weather, **more):
    config = OpenAIConfig("gpt-4o-mini")
    return Agent("weather", SYSTEM, config=config, tools=[weather], **more)


async def run(question: str) -> str:
    return (await agent().ask(question)).body


async def terminal(question: str) -> str:
    @tool(name="get_weather")
    def ending(city: str) -> ToolResult:
        """Tell the weather in a city."""
        return ToolResult(get_weather(city), final=True)

    return sentence((await agent(ending).ask(question)).body)


async def structured(question: str) -> str:
    return str(await (await agent(response_schema=Report).ask(question)).content())
