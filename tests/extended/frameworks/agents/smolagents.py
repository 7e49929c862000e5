from smolagents import OpenAIServerModel, ToolCallingAgent, tool

import weather


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: The name of the city.
    """
    return weather.get_weather(city)


model = OpenAIServerModel("gpt-5-mini")
