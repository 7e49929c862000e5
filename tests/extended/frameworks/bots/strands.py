"""Strands Agents, which stream: sync, async; with a tool that ends the loop; with typed output."""

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from weather import SYSTEM, Report, get_weather, sentence


weather = tool(get_weather)


def agent(weather_tool=weather):
    model = OpenAIModel(model_id="gpt-4o-mini")
    return Agent(model=model, tools=[weather_tool], system_prompt=SYSTEM, callback_handler=None)


def sync(question: str) -> str:
    return str(agent()(question)).strip()


async def run(question: str) -> str:
    return str(await agent().invoke_async(question)).strip()


def terminal(question: str) -> str:
    results = []

    @tool(name="get_weather", context=True)
    def ending(city: str, tool_context) -> str:
        """Tell the weather in a city."""
        tool_context.invocation_state["request_state"]["stop_event_loop"] = True
        results.append(get_weather(city))
        return results[-1]

    agent(ending)(question)
    return sentence(results[-1])


def structured(question: str) -> str:
    return str(agent()(question, structured_output_model=Report).structured_output)
