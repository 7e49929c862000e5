"""What an agent's endpoint replies: the answer, and whatever else it tells, by paths into its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.cassettes.interaction import Request, Response, text_of
from pytest_agenteval.cassettes.transcripts.parts import (
    UNKNOWN_USAGE,
    Place,
    call_request,
    read_usage,
    result_text,
)
from pytest_agenteval.cassettes.wire.reader import read_reply
from pytest_agenteval.cassettes.wire.traffic import UnreadableTraffic
from pytest_agenteval.chat.model_prices import NOTHING_APART
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.replies import PricedApart
from pytest_agenteval.records.tool_spec import shown_value
from pytest_agenteval.records.transcript import ToolCall, ToolError, Usage
from pytest_agenteval.text.errors import KeyPath, TrialBroken
from pytest_agenteval.text.json_values import ABSENT, parse_path, value_at

PATHS = ("answer", "state", "calls", "usage")
"""The keys of a form that are paths into a reply."""

FORMATS: Mapping[str, str] = {
    "openai": "openai.chat",
    "openai.responses": "openai.responses",
    "anthropic": "anthropic.messages",
}


class UnreadableReply(TrialBroken):
    """An endpoint replied, and not with what its suite says."""

    cause = "answer"


class EndpointReply(FrozenValue, frozen=True):
    """What one reply of an endpoint tells; its calls have neither turn nor times."""

    text: str = ""
    state: Mapping[str, Any] = NOTHING
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    finish: str = "stop"
    reasoning: str = ""
    model: str = ""
    priced_apart: PricedApart = NOTHING_APART


class ReplyReader:
    """Reads the replies of one endpoint, as its form says: by its shape, and by the paths that are given."""

    def __init__(self, form: Mapping[str, Any], shape: str) -> None:
        self._address, self._shape = str(form["http"]), shape
        self._paths: dict[str, KeyPath] = {key: parse_path(form[key]) for key in PATHS if form.get(key)}
        if shape == "json":
            self._paths.setdefault("answer", ("answer",))
        self._may_be_text = shape == "json" and not any(form.get(key) for key in PATHS)

    def read(self, request: Request, response: Response) -> EndpointReply:
        """Give what a reply tells; raises UnreadableReply or UnreadableTranscript, which name the place."""
        shaped = self._shaped(request, response)
        body = self._json(response) if self._paths else NOTHING
        if isinstance(body, str):
            return replace(shaped, text=body)
        fields: dict[str, Any] = {}
        if "answer" in self._paths:
            fields["text"] = self._answer(body)
        state = self._at(body, "state")
        if state is not None:
            fields["state"] = state.map()
        calls = self._at(body, "calls")
        if calls is not None:
            fields["calls"] = tuple(map(_call, calls.items()))
        usage = read_usage(self._at(body, "usage"))
        if usage is not None:
            fields |= {"usage": usage, "priced_apart": NOTHING_APART}
        return replace(shaped, **fields)

    def _shaped(self, request: Request, response: Response) -> EndpointReply:
        """Read what a reply of OpenAI's or Anthropic's shape tells by itself."""
        if self._shape == "json":
            return EndpointReply()
        try:
            reply = read_reply(FORMATS[self._shape], request, response)
        except UnreadableTraffic as odd:
            raise UnreadableReply(f"{self._address}: {odd}; look at agent.as in suite.yaml") from None
        text = str(reply.message.get("content", ""))
        usage = reply.usage if reply.usage.known_tokens else UNKNOWN_USAGE
        said = text, NOTHING, reply.calls, usage, reply.finish, reply.reasoning, reply.model
        return EndpointReply(*said, reply.priced_apart)

    def _json(self, response: Response) -> Any:
        """Give a reply's JSON; a plain text is the answer where the form names no path at all."""
        text = text_of(response.body)
        try:
            body, is_json = json.loads(text), True
        except (ValueError, RecursionError):
            body, is_json = text, False
        if isinstance(body, str) and not self._may_be_text:
            raise UnreadableReply(f"{self._address}: expected a reply in JSON, found {text[:60]!r}")
        if not is_json and _is_no_words(text, response):
            expected = "a text, or JSON that can be read"
            raise UnreadableReply(f"{self._address}: expected {expected}, found {text[:60]!r}")
        return body

    def _answer(self, body: Any) -> str:
        place = self._at(body, "answer")
        if place is None:
            name, keys = Place(body, self._paths["answer"]).wrong("the answer's text"), ""
            raise UnreadableReply(
                f"{self._address}: {name}{keys}; agent.answer in suite.yaml says where it is"
            )
        return result_text(place)

    def _at(self, body: Any, key: str) -> Place | None:
        """Give what stands where the form says, None where that is nothing or null, or it says nothing."""
        if key not in self._paths:
            return None
        value = value_at(body, self._paths[key])
        return None if value is ABSENT or value is None else Place(value, self._paths[key])


def _is_no_words(text: str, response: Response) -> bool:
    """Whether a text is half of a JSON document, or a page that a server shows in place of an answer."""
    begins = text[:60].lstrip().lower()
    types = [
        value
        for name, values in response.headers.items()
        if name.lower() == "content-type"
        for value in values
    ]
    says_json = any("json" in value.lower() for value in types)
    return begins.startswith(("<!doctype html", "<html")) or (says_json and begins.startswith(("{", "[")))


def _call(place: Place) -> ToolCall:
    """Read a call, with its result or error where these are told beside it."""
    request, error, result = call_request(place), place.get("error"), place.map().get("result")
    failed = None if error is None else ToolError("tool_error", result_text(error))
    value = shown_value(result) if isinstance(result, str) else result
    return ToolCall(request.id, 0, 0, request.tool, request.args, request.raw_args, value, failed)
