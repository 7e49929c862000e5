"""The model of the matrix: it asks for the weather once, then answers from what the tool gave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.loopback.replies import Json, ReplyPlan

WEATHER: Mapping[str, int] = {
    "Oslo": -7, "Lima": 19, "Cairo": 31, "Seoul": 4, "Quito": 14,
    "Dakar": 28, "Perth": 24, "Turin": 9, "Osaka": 12, "Minsk": -3,
}  # fmt: skip
"""Degrees of each city, no two alike: an answer tells whose result it was made of."""

_REF = re.compile(r"\[ref (\w+)((?: \w+=[\d.]+)*)\]")
_CITY = re.compile(r"weather in (\w+)\? \[ref")
_TOOL = re.compile(r"(mcp__\w+__)?get_weather")
_RESULT = re.compile(r"(\w+): (-?\d+) degrees")


class Prompt(NamedTuple):
    """What a request says of itself: its task, and how the model shall behave there."""

    task: str
    loop: bool = False
    delay_s: float = 0.0


def question(city: str, task: str, **options: float) -> str:
    """Give the user's words of a task; ``loop=1`` never comes to an end, ``delay=2`` takes 2 s per reply."""
    more = "".join(f" {name}={value}" for name, value in options.items())
    return f"What is the weather in {city}? [ref {task}{more}]"


def answer(city: str) -> str:
    """Give the model's last words on a city."""
    return f"It is {WEATHER[city]} degrees in {city}."


def read_prompt(body: Json) -> Prompt:
    """Read whose request it is; its task is empty where the question is not among its texts."""
    ref = _REF.search("\n".join(_texts(body)))
    if ref is None:
        return Prompt("")
    options = dict(word.split("=") for word in ref[2].split())
    return Prompt(ref[1], bool(float(options.get("loop", 0))), float(options.get("delay", 0)))


def next_move(body: Json, prompt: Prompt) -> ReplyPlan:
    """Decide from the texts of a request alone, whatever its wire format."""
    texts = list(_texts(body))
    city, result = _CITY.search("\n".join(texts)), _RESULT.search("\n".join(texts))
    tool = next((text for text in texts if _TOOL.fullmatch(text)), None)
    if city is None or tool is None:  # a title for the conversation, or the like
        return ReplyPlan(text="ok")
    if result is None or prompt.loop:
        return ReplyPlan(calls=((tool, {"city": city[1]}),), input_tokens=31, output_tokens=7)
    words = f"It is {result[2]} degrees in {result[1]}."
    if "final_answer" in texts:  # the tool with which some frameworks end
        return ReplyPlan(calls=(("final_answer", {"answer": words}),), input_tokens=53, output_tokens=11)
    return ReplyPlan(text=words, input_tokens=53, output_tokens=11)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
