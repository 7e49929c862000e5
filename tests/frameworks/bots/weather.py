"""The tool of every agent of the matrix: it asks an API over HTTP, as tools do."""

import os

import httpx

SYSTEM = "You tell the weather."


def get_weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: The name of the city.
    """
    place = httpx.get(f"{os.environ['WEATHER_API']}/weather", params={"city": city}, timeout=20).json()
    return f"{place['city']}: {place['degrees']} degrees"


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Tell the weather.", "parameters": PARAMETERS},
}
RESPONSES_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Tell the weather.",
    "parameters": PARAMETERS,
    "strict": False,
}
