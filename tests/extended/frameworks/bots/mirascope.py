"""Mirascope: its model with tools, sync, async, streamed; with typed output."""

from mirascope import llm
from weather import SYSTEM, Report, get_weather

weather = llm.tool(get_weather)


def opening(question):
    return [llm.messages.system(SYSTEM), llm.messages.user(question)]


def model():
    return llm.Model("openai/gpt-4o-mini:completions")


def sync(question: str) -> str:
    response = model().call(opening(question), tools=[weather])
    while response.tool_calls:
        response = response.resume(response.execute_tools())
    return response.text()


async def run(question: str) -> str:
    @llm.tool
    async def get_weather(city: str) -> str:
        """Tell the weather in a city."""
        return weather.fn(city)

    response = await model().call_async(opening(question), tools=[get_weather])
    while response.tool_calls:
        response = await response.resume(await response.execute_tools())
    return response.text()


def streamed(question: str) -> str:
    response = model().stream(opening(question), tools=[weather])
    response.finish()
    while response.tool_calls:
        response = response.resume(response.execute_tools())
        response.finish()
    return response.text()


def structured(question: str) -> str:
    response = model().call(opening(question), tools=[weather], format=Report)
    while response.tool_calls:
        response = response.resume(response.execute_tools())
    return str(response.parse())
