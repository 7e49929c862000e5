"""The model of the matrix: it asks for the weather once, then answers from what the tool gave."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.loopback.replies import Json, ReplyPlan

WEATHER: Mapping[str, int] = {
    "Oslo": -7, "Lima": 19, "Cairo": 31, "Seoul": 4, "Quito": 14,
    "Dakar": 28, "Perth": 24, "Turin": 9, "Osaka": 12, "Minsk": -3,
}  # fmt: skip
"""Degrees of each city, no two alike: an answer tells whose result it was made of."""

LAST_TOOLS = ("final_answer", "final_result", "Report", "finish")
"""Tools with which some frameworks end: their arguments are the answer."""

_SCHEMA, _WRITTEN_SCHEMA = {"json_schema", "json_object"}, "according to the following OpenAPI schema"
_REF = re.compile(r"\[ref (\w+)((?: \w+=[\d.]+)*)\]")
_CITY = re.compile(r"weather in (\w+)\? \[ref")
_TOOL = re.compile(r"(mcp__\w+__|Weather-)?get_weather")
_FIELDS = re.compile(r"`\[\[ ## (?!completed)(\w+) ## \]\]`")
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
    ref = _REF.search("\n".join(texts_in(body)))
    if ref is None:
        return Prompt("")
    options = dict(word.split("=") for word in ref[2].split())
    return Prompt(ref[1], bool(float(options.get("loop", 0))), float(options.get("delay", 0)))


def next_move(body: Json, prompt: Prompt) -> ReplyPlan:
    """Decide from the texts of a request alone, whatever its wire format."""
    texts = list(texts_in(body))
    whole = "\n".join(texts)
    city, result = _CITY.search(whole), _RESULT.search(whole)
    if city is not None and (fields := _FIELDS.findall(whole)):
        return _written_step(fields, city[1], None if prompt.loop else result)
    tool = next((text for text in texts if _TOOL.fullmatch(text)), None)
    if city is None or tool is None:  # a title for the conversation, or the like
        return ReplyPlan(text="ok")
    if result is None or prompt.loop:
        return ReplyPlan(calls=((tool, {"city": city[1]}),), input_tokens=31, output_tokens=7)
    words = f"It is {result[2]} degrees in {result[1]}."
    report = {"city": result[1], "degrees": int(result[2])}
    if _WRITTEN_SCHEMA in whole or _SCHEMA & {str(format.get("type")) for format in _formats(body)}:
        return ReplyPlan(text=json.dumps(report), input_tokens=53, output_tokens=11)
    last_tool = next((name for name in LAST_TOOLS if name in texts), None)
    if last_tool:
        last_args = {"answer": words} if last_tool == "final_answer" else report
        return ReplyPlan(calls=((last_tool, last_args),), input_tokens=53, output_tokens=11)
    return ReplyPlan(text=words, input_tokens=53, output_tokens=11)


def _written_step(fields: list[str], city: str, result: re.Match[str] | None) -> ReplyPlan:
    """Give a step of DSPy's ReAct, whose calls are written in the text, or the answer after its last."""
    weather = ("get_weather", {"city": city}) if result is None else ("finish", {})
    values = {"next_tool_name": weather[0], "next_tool_args": json.dumps(weather[1])}
    if result is not None:
        values["answer"] = f"It is {result[2]} degrees in {result[1]}."
    text = "\n\n".join(
        f"[[ ## {name} ## ]]\n{values.get(name, 'So be it.')}" for name in (*fields, "completed")
    )
    return ReplyPlan(text=text, input_tokens=31, output_tokens=7)


def _formats(body: Json) -> Iterator[Json]:
    """Give the form in which a request wants the last words: of chat completions, and of responses."""
    for each in (body.get("response_format"), (body.get("text") or {}).get("format")):
        if isinstance(each, Mapping):
            yield each


def texts_in(value: Any) -> Iterator[str]:
    """Give every text of a request, its keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
