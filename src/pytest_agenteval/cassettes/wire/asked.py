"""What a reply is read against: the request it answers, itself read only where the reply leaves gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from pytest_agenteval.cassettes.wire.json_body import as_count, as_map, as_text
from pytest_agenteval.cassettes.wire.normal_form import (
    WireCall,
    assistant_message,
    normal_ids,
    tool_calls,
)
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelReply,
    ModelRequest,
    UnreadableTraffic,
)
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.replies import UNKNOWN, PricedApart, credible_usage, finish_of
from pytest_agenteval.records.transcript import Usage


class ReplyParts(FrozenValue, frozen=True):
    """What a format's reader takes out of a response."""

    content: str = ""
    calls: Sequence[WireCall] = ()
    usage: Usage = UNKNOWN
    finish: str = "stop"
    refused: bool = False
    reasoning: str = ""
    model: str = ""
    id: str = ""
    items: Mapping[str, Json] = NOTHING
    priced_apart: PricedApart = PricedApart()


class Asked:
    """The request that a reply answers; ``numbered`` says that the format has no ids of calls."""

    def __init__(self, read: Callable[[], ModelRequest], *, numbered: bool = False) -> None:
        self._read = read
        self._numbered = numbered

    @cached_property
    def request(self) -> ModelRequest | None:
        """The request, or None where it cannot be read: the reply is readable all the same."""
        try:
            return self._read()
        except UnreadableTraffic:
            return None

    def reply(self, parts: ReplyParts) -> ModelReply:
        """Give the reply in normal form."""
        own = [call for call in parts.calls if call.by == "agent"]
        ids = normal_ids(own, self._prior_calls(own), numbered=self._numbered)
        places = [place for place, call in enumerate(parts.calls) if call.by == "agent"]
        return ModelReply(
            assistant_message(parts.content, own, ids),
            tool_calls(parts.calls, dict(zip(places, ids, strict=True))),
            credible_usage(parts.usage),
            finish_of(parts.finish, calls=bool(own), refused=parts.refused),
            parts.reasoning,
            parts.model or (self.request.model if self.request else ""),
            parts.id,
            parts.items,
            parts.priced_apart,
        )

    def _prior_calls(self, calls: Sequence[WireCall]) -> int:
        """Count the calls that the conversation holds, where an id has to be made of that."""
        needed = self._numbered or len({call.id for call in calls if call.id}) < len(calls)
        if not needed or self.request is None:
            return 0
        return sum(len(message.get("tool_calls", ())) for message in self.request.messages)


def usage_of(
    read: object, written: object, *, cached: object = None, reasoning: object = None, cost: object = None
) -> Usage:
    """Give the usage of one reply of counts that may be missing; ``cost`` is in dollars, if it is known.

    Perplexity says of what it is made up, too: searches, which tokens say nothing of, are most of it.
    """
    cost = as_map(cost).get("total_cost", cost)
    known = cost if isinstance(cost, int | float) and not isinstance(cost, bool) else None
    counts = [None if count is None else as_count(count) for count in (read, written, cached, reasoning)]
    return Usage(counts[0], counts[1], counts[2], counts[3], None if known is None else float(known), 1, 1)


def priced_apart(usage: Json, service_tier: object, *, read: str, written: str) -> PricedApart:
    """Give what a usage in OpenAI's words says of tokens that have prices of their own."""
    of_prompt, of_reply = as_map(usage.get(read)), as_map(usage.get(written))
    return PricedApart(
        as_count(of_prompt.get("cache_write_tokens")),
        audio_input=as_count(of_prompt.get("audio_tokens")),
        audio_output=as_count(of_reply.get("audio_tokens")),
        service_tier=as_text(service_tier),
    )
