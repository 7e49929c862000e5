"""What traffic with a model API says: an ask, a reply, or why it cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.replies import PricedApart
from pytest_agenteval.records.tool import ToolSpec
from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.text.errors import AgentEvalError

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
    Arguments are canonical JSON; what is no text is told in brackets. ``settings`` is the rest of the body.
    ``continues`` names the reply or conversation, kept by the provider, whose messages come before these.
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
