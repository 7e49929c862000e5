"""The tool of every agent of the matrix: it asks an API over HTTP, as tools do."""

import os

import httpx
from pydantic import BaseModel

SYSTEM = "You tell the weather."


def opening(question):
    """Give the first messages of a chat."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def get_weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: The name of the city.
    """
    place = httpx.get(f"{os.environ['WEATHER_API']}/weather", params={"city": city}, timeout=20).json()
    return f"{place['city']}: {place['degrees']} degrees"


class Report(BaseModel):
    """The weather in a city."""

    city: str
    degrees: int

    def __str__(self) -> str:
        return f"It is {self.degrees} degrees in {self.city}."


def sentence(result: str) -> str:
    """Give the tool's result in the words of the model."""
    city, degrees = result.removesuffix(" degrees").split(": ")
    return str(Report(city=city, degrees=degrees))


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
