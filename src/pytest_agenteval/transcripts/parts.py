"""What messages of every dialect are made of: content in parts, calls, and what a reply took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool import parse_arguments
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.transcripts.builder import CallRequest, as_text
from pytest_agenteval.transcripts.place import Place

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
        place.count_of(f"cache_{word}_input_tokens") for word in ("read", "creation")
    )
    details = list(_details(place, ("prompt_tokens_details", "input_tokens_details", "input_token_details")))
    spent = list(_details(place, ("completion_tokens_details", "output_tokens_details")))
    return Usage(
        input_tokens=_first(place, "prompt_tokens", "input_tokens") + cache_read + cache_written,
        output_tokens=_first(place, "completion_tokens", "output_tokens"),
        cached_tokens=cache_read
        or sum(part.count_of("cached_tokens") for part in details)
        or place.count_of("cached_tokens"),
        reasoning_tokens=sum(part.count_of("reasoning_tokens") for part in spent)
        or place.count_of("reasoning_tokens"),
        cost_usd=place.number_of("cost_usd"),
        asks=1,
        attempts=1,
    )


def _details(place: Place, keys: tuple[str, ...]) -> Iterator[Place]:
    return (part for key in keys if (part := place.get(key)) is not None)


def _first(place: Place, *keys: str) -> int:
    return next((place.count_of(key) for key in keys if place.get(key) is not None), 0)


def result_text(place: Place | None) -> str:
    """Give what a tool gave back as the text that a model is shown: parts as text, other values as JSON."""
    if place is None:
        return ""
    is_parts = isinstance(place.value, list | tuple) and all(
        isinstance(part, Mapping) and "type" in part for part in place.value
    )
    return content_text(place) if is_parts else as_text(place.value)
