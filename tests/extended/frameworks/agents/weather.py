import os

import httpx


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    place = httpx.get(f"{os.environ['WEATHER_API']}/weather", params={"city": city}).json()
    return f"{place['city']}: {place['degrees']} degrees"
