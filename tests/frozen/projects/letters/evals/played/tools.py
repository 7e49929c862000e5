"""A tool that is taped by its calls, and one that asks as anybody does."""

from typing import Any

import httpx

from pytest_agenteval import tool_of


def _stock(item: str, shops: int = 1) -> dict[str, Any]:
    """How many there are in stock."""
    return {"item": item, "left": 7 * shops}


stock = tool_of(_stock, name="stock", taped=True)


def station(city: str) -> Any:
    """The station of a city."""
    return httpx.get("http://127.0.0.1:8931/json", params={"q": city, "n": 1}).json()
