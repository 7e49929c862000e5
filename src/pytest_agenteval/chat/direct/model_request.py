"""What a model is asked, and how a module writes it in one provider's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pytest_agenteval.cassettes.wire.normal_form import ReplyParts
from pytest_agenteval.cassettes.wire.traffic import Json
from pytest_agenteval.records.record import NOTHING, FrozenValue


class ModelAsk(FrozenValue, frozen=True):
    """One ask of a model, before it is written in a provider's format.

    ``model`` is the provider's own name of it. ``messages`` and ``tools`` are plain copies in the shape of
    OpenAI's chat completions. ``settings`` holds what was set, and was not refused before: temperature,
    top_p, seed, max_tokens, tool_choice (auto, none, required, a tool's name, or OpenAI's map) and
    reasoning_effort; ``further`` others that have their names from OpenAI's chats. ``extra_body`` lies over
    the body as it is. ``counts_streamed`` says that a stream may be asked for its token counts.
    ``echoes`` are what ``echo_of`` gave for earlier replies, by the id of the first call of each.
    ``abilities`` is the model's entry in the table of prices, empty where it has none; ``own_host`` says that
    no other address than the provider's own is asked. ``has_family`` says that its name tells what a model
    takes: on a server of the user's own it does not.
    """

    model: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    response_schema: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = NOTHING
    extra_body: Mapping[str, Any] = NOTHING
    streamed: bool = False
    counts_streamed: bool = True
    echoes: Mapping[str, Any] = NOTHING
    abilities: Mapping[str, Any] = NOTHING
    own_host: bool = True
    further: Mapping[str, Any] = NOTHING
    has_family: bool = True


class DirectFormat(Protocol):
    """What a module gives that writes requests in one format."""

    FORMAT: str
    """Its name with the reader of model traffic."""

    PATH: str
    """What stands behind the address."""

    def body_of(self, ask: ModelAsk) -> dict[str, Any]:
        """Write the request's body; nothing of ``ask`` is written into."""
        ...

    def headers_of(self, key: str, body: Mapping[str, Any]) -> dict[str, str]:
        """Give the headers that name the key, and what else the provider wants to be told of this body."""
        ...

    def echo_of(self, whole: Json) -> Any:
        """Give what of a whole reply goes back with the results of its calls, or None."""
        ...

    def reply_of(self, parts: ReplyParts, ask: ModelAsk) -> ReplyParts:
        """Give a reply in the words of what was asked: tools by their names, a schema's object as text."""
        ...
