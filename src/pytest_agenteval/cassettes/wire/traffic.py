"""Requests to models and their replies as plain values, and values read out of JSON that others wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import msgspec

from pytest_agenteval.cassettes.interaction import Body
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.replies import PricedApart
from pytest_agenteval.records.tool_spec import JSON_DECODER, ToolSpec
from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.text.errors import AgentEvalError
from pytest_agenteval.text.json_values import compact_json

Json: TypeAlias = Mapping[str, Any]
"""A JSON object that somebody else wrote: any key may be missing, any value of another type."""

_QUOTED = 300

TrafficKind: TypeAlias = Literal["ask", "auxiliary", "unread", "other"]


class Classified(FrozenValue, frozen=True):
    """What a request is to the reader; ``format`` names the wire format of an ask, else it is empty.

    ``auxiliary`` is what serves a model and is no ask: embeddings, token counts, lists of models, uploads,
    moderation. ``unread`` goes to a model's host, in a form that is not known here. ``other`` is the rest.
    """

    kind: TrafficKind
    format: str = ""


class ModelRequest(FrozenValue, frozen=True):
    """One ask of a model, in the normal form that is the same for every format.

    ``messages`` are maps with ``role`` (system, user, assistant, tool) and ``content`` (a text, maybe empty),
    and ``tool_calls``, ``tool_call_id``, or ``error: True`` of a tool that failed, only where there are any.
    Arguments are canonical JSON; attachments are named in brackets. ``settings`` is the rest of the body.
    ``continues`` names the reply or conversation, stored by the provider, whose messages come before these.
    """

    format: str
    model: str
    messages: tuple[Json, ...]
    tools: tuple[ToolSpec, ...] = ()
    streamed: bool = False
    settings: Json = NOTHING
    continues: str = ""


class ModelReply(FrozenValue, frozen=True):
    """One reply of a model.

    ``message`` is equal to what ``read_request`` gives when the client sends it back. ``calls`` have neither
    turn nor times; those by ``provider`` carry their result, and are no part of ``message``. ``finish`` is
    stop, tool_calls, length, content_filter, ``incomplete`` of a stream that was cut off, or the provider's
    word. ``input_tokens`` are all that was read, cached or not. ``model`` is what the response names.
    ``items`` are parts of the reply by the ids under which a later request may refer to them.
    """

    message: Json
    calls: tuple[ToolCall, ...]
    usage: Usage
    finish: str
    reasoning: str
    model: str
    id: str = ""
    items: Mapping[str, Json] = NOTHING
    priced_apart: PricedApart = PricedApart()


class UnreadableTraffic(AgentEvalError):
    """A request or response that is not what its format says; the text is one line."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split())[:500])


class ModelRefused(UnreadableTraffic):
    """A response that is an error of the provider's, as its status, or an event in its stream, says.

    ``status`` is that of HTTP, which is 200 where the error came in the stream. ``words`` are the provider's
    own words for its kind, such as type and code, the first of them ``kind``; ``message`` is all that it
    says, of which the text of this exception quotes the beginning.
    """

    def __init__(self, status: int, words: Sequence[str], message: str) -> None:
        self.status, self.words, self.message = status, tuple(words), message
        quoted = ": ".join(filter(None, (self.kind, message[:_QUOTED])))
        super().__init__(f"the model API answered {status}: {quoted}")

    @property
    def kind(self) -> str:
        """The provider's first word for what went wrong, or empty."""
        return self.words[0] if self.words else ""


def read_json(text: str) -> Any:
    """Read a JSON text; raises UnreadableTraffic for what is none, NaN and bottomless nesting included."""
    # msgspec is much quicker, but refuses halves of surrogate pairs, which models send: then Python reads it.
    with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        return msgspec.json.decode(text)
    try:
        return JSON_DECODER.decode(text)
    except (ValueError, RecursionError) as problem:
        raise UnreadableTraffic(f"the body is no JSON: {problem}") from None


def json_object(body: Body, errors: str = "replace") -> Json:
    """Read a body that is a JSON object; raises UnreadableTraffic for any other."""
    value = read_json(text_of_body(body, errors))
    if not isinstance(value, dict):
        raise UnreadableTraffic("the body is no JSON object")
    return value


def text_of_body(body: Body, errors: str = "replace") -> str:
    """Give a body as text; a byte that is no UTF-8 becomes U+FFFD, or what ``errors`` says."""
    # Some servers put a byte order mark before their JSON.
    return body.decode("utf-8-sig", errors) if isinstance(body, bytes) else (body or "").lstrip("\ufeff")


def as_map(value: Any) -> Json:
    """Give a map; any other value gives the empty one."""
    return value if isinstance(value, dict) else NOTHING


def maps_in(value: Any) -> list[Json]:
    """Give the maps of a list; any other item is left out, and any other value gives no maps."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Give a text; any other value gives the empty one."""
    return value if isinstance(value, str) else ""


def joined_text(content: Any, read: Callable[[Json], str], between: str) -> str:
    """Give content as a text, be it one, or a list of parts, each of which ``read`` gives as a text."""
    return content if isinstance(content, str) else between.join(filter(None, map(read, maps_in(content))))


def rest_of(body: Json, *read: str) -> dict[str, Any]:
    """Give what a body holds besides the keys that were read; null counts as absent."""
    return {name: value for name, value in body.items() if name not in read and value is not None}


def wrapped_result(result: Any) -> tuple[str, bool]:
    """Give a tool's result as a text, and whether it is an error, where an API takes nothing but objects.

    Each client has its own name for the one key of the object. A map with more keys is the result itself.
    """
    if isinstance(result, dict) and len(result) == 1:
        (name, inner), *_ = result.items()
        if name in _WRAPPERS:
            return _result_text(inner), name in _FAILED
    return _result_text(result), False


def _result_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else compact_json(value)


_FAILED = ("error", "call_error")
_WRAPPERS = ("result", "output", "content", "return_value", *_FAILED)


def function_spec(tool: Json) -> ToolSpec:
    """Read a tool of OpenAI's form, nested or flat; a tool of the provider's is named by its type."""
    kind = as_text(tool.get("type"))
    inner = as_map(tool.get("function") or tool.get("custom")) or tool
    name = as_text(inner.get("name")) or as_text(tool.get("server_label")) or kind
    return tool_spec(name, inner.get("description"), inner.get("parameters"))


def tool_spec(name: str, description: Any, parameters: Any) -> ToolSpec:
    return ToolSpec(name, as_text(description), as_map(parameters))


_DATA_URL = re.compile(r"data:([\w.+/-]*)(?:;[\w.=+-]+)*?;base64,", re.I)
_LONGEST = 200


def placeholder(kind: str, *words: str) -> str:
    """Write an attachment as ``[image image/png, 2.1 kB]``; empty words are left out."""
    about = ", ".join(word for word in words if word)
    return f"[{kind} {about}]" if about else f"[{kind}]"


def base64_placeholder(kind: str, data: object, mime: str = "", name: str = "") -> str:
    """Describe an attachment by its name, type and size; ``data`` is base64."""
    return placeholder(kind, name, mime, size_of_base64(data if isinstance(data, str) else ""))


def url_placeholder(kind: str, url: object, name: str = "") -> str:
    """Describe an attachment by its address, or by type and size where a ``data:`` address holds it all."""
    url = url if isinstance(url, str) else ""
    if url[:5].lower() != "data:":
        return placeholder(kind, name, url if len(url) <= _LONGEST else f"{url[:_LONGEST]}…")
    match = _DATA_URL.match(url)
    if match is None:
        return placeholder(kind, name, "data")
    return base64_placeholder(kind, url[match.end() :], match[1], name)


def data_placeholder(kind: str, data: str, name: str = "") -> str:
    """Describe an attachment by its base64 text, which may be a ``data:`` address."""
    is_url = data[:5].lower() == "data:"
    return url_placeholder(kind, data, name) if is_url else base64_placeholder(kind, data, name=name)


def size_of_base64(data: str) -> str:
    """Give how much a base64 text holds, as people write it."""
    # Four letters hold three bytes; one or two ``=`` at the end hold none.
    size = len(data) * 3 // 4 - data[-2:].count("=")
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
