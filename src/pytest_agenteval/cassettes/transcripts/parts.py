"""What messages of every dialect are made of: content in parts, calls, and what a reply took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pytest_agenteval.cassettes.transcripts.builder import CallRequest, as_text
from pytest_agenteval.cassettes.transcripts.place import Place
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool_spec import parse_arguments
from pytest_agenteval.records.transcript import Usage

TEXT_KEYS: Mapping[str, str] = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}
"""Where the text of a part stands, by the part's type."""


def content_text(content: Place | None) -> str:
    """Give content as text: parts are joined by line breaks, ``[image]`` stands for one that is no text."""
    if content is None:
        return ""
    if isinstance(content.value, str):
        return content.value
    if not isinstance(content.value, list | tuple):
        raise content.wrong("a text or a list of parts")
    return "\n".join(filter(None, map(part_text, content.items())))


def part_text(part: Place) -> str:
    """Give a part of content as text."""
    if isinstance(part.value, str):
        return part.value
    kind = part.at("type", "the type of a part, such as text").text()
    return part.text_of(TEXT_KEYS[kind]) if kind in TEXT_KEYS else f"[{kind}]"


def call_request(call: Place) -> CallRequest:
    """Read a call in any dialect.

    OpenAI's ``{id, function: {name, arguments}}``, Anthropic's ``{id, name, input}``, items of Responses
    ``{call_id, name, arguments}``, and plain ``{tool, args}``.
    """
    function = call.get("function")
    body = call if function is None else function
    name = body.get("name") or body.get("tool") or body.at("name", "the name of a tool")
    id = call.get("call_id") or call.get("id")
    return CallRequest("" if id is None else id.text(), name.text(), *_arguments(body))


def _arguments(body: Place) -> tuple[Mapping[str, object], str | None]:
    """Read arguments: a map, or the text that a model wrote, be it JSON or not."""
    for key in ("arguments", "args", "input"):
        place = body.get(key)
        if place is None:
            continue
        if isinstance(place.value, str):
            return parse_arguments(place.value or "{}")
        if not isinstance(place.value, Mapping):
            raise place.wrong("a map, or a JSON object as text")
        return {str(name): value for name, value in place.value.items()}, None
    return NOTHING, None


def usage_of(place: Place | None) -> Usage | None:
    """Read what a reply took, as OpenAI, Anthropic or we write it; None where nothing is said.

    Input tokens count cached ones in: Anthropic tells of these apart.
    """
    if place is None:
        return None
    cache_read, cache_written = (
        place.known_count_of(f"cache_{word}_input_tokens") for word in ("read", "creation")
    )
    read = _first([place], "prompt_tokens", "input_tokens")
    details = list(_details(place, ("prompt_tokens_details", "input_tokens_details", "input_token_details")))
    spent = list(_details(place, ("completion_tokens_details", "output_tokens_details")))
    return Usage(
        input_tokens=None if read is None else read + (cache_read or 0) + (cache_written or 0),
        output_tokens=_first([place], "completion_tokens", "output_tokens"),
        cached_tokens=_first([*details, place], "cached_tokens") if cache_read is None else cache_read,
        reasoning_tokens=_first([*spent, place], "reasoning_tokens"),
        cost_usd=place.number_of("cost_usd"),
        asks=1,
        attempts=1,
    )


def _details(place: Place, keys: tuple[str, ...]) -> Iterator[Place]:
    return (part for key in keys if (part := place.get(key)) is not None)


def _first(places: Iterable[Place], *keys: str) -> int | None:
    counts = (place.known_count_of(key) for place in places for key in keys)
    return next((count for count in counts if count is not None), None)


def result_text(place: Place | None) -> str:
    """Give what a tool gave back as the text that a model is shown: parts as text, other values as JSON."""
    if place is None:
        return ""
    is_parts = isinstance(place.value, list | tuple) and all(
        isinstance(part, Mapping) and "type" in part for part in place.value
    )
    return content_text(place) if is_parts else as_text(place.value)
