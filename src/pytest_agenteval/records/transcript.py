"""The messages and calls of a trial, with times and usage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from math import inf
from typing import Any, Literal

from msgspec.structs import force_setattr

from pytest_agenteval.records.record import NOTHING, FrozenValue, Record
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.formatting import format_duration, pluralize

# Written behind a sum of which a part is unknown.
PARTLY_UNKNOWN = " + unknown"


def format_tokens(tokens: Figure) -> str:
    """Write how many tokens were taken: ``1,234 tokens``, ``1,234 tokens + unknown``, ``tokens unknown``."""
    if tokens.known_part is None:
        return "tokens unknown"
    return pluralize(int(tokens.known), "token") + (PARTLY_UNKNOWN if tokens.unknown else "")


def format_cost(usd: Figure) -> str:
    """Write what was paid: ``$1.23``, ``$1.23 + unknown``, ``cost unknown``."""
    if usd.known_part is None:
        return "cost unknown"
    # With two digits, the cost of a small run would be 0, and so would that of one reply with four.
    paid = f"${usd.known:.2f}" if usd.known >= 1 or usd.known == 0 else f"${usd.known:.4f}"
    paid = "under $0.0001" if 0 < usd.known < 0.00005 else paid
    return paid + (PARTLY_UNKNOWN if usd.unknown else "")


def format_seconds(seconds: Figure) -> str:
    """Write how long agents took: ``1.2 s``, ``1.2 s + unknown``, ``time unknown``."""
    if seconds.known_part is None:
        return "time unknown"
    return format_duration(seconds.known) + (PARTLY_UNKNOWN if seconds.unknown else "")


class Figure(FrozenValue, frozen=True, gc=False):
    """A sum of counts or amounts: ``known`` sums up the known parts, ``unknown`` counts the others.

    It is false only where it is known that nothing was taken.
    """

    known: float = 0
    unknown: int = 0

    @property
    def value(self) -> float | None:
        """The sum, None where any part of it is unknown."""
        return None if self.unknown else self.known

    @property
    def known_part(self) -> float | None:
        """The known part of the sum; None where nothing is known."""
        return self.known if self.known or not self.unknown else None

    def __bool__(self) -> bool:
        return bool(self.known or self.unknown)

    def __add__(self, other: Figure) -> Figure:
        return Figure(self.known + other.known, self.unknown + other.unknown)


def sum_figures(values: Collection[float | None]) -> Figure:
    """Add up figures; one that is None is unknown."""
    known = [value for value in values if value is not None]
    return Figure(sum(known), len(values) - len(known))


Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
# Providers' newer and older names of roles, and the roles that they stand for here.
OTHER_ROLES: Mapping[str, Role] = {"developer": "system", "function": "tool"}
# Whether a call was replayed (hit), neither recorded nor made (miss), really made (live), or had no tape
# (none).
TapeStatus = Literal["hit", "miss", "live", "none"]


class ToolError(Record, frozen=True):
    """The error of a tool call, as the agent received it."""

    type: str
    message: str


class ToolCall(Record, frozen=True):
    """One tool call of the agent, with its result.

    ``turn`` counts the model's replies from 1, ``index`` the calls of one reply from 0.
    ``args`` is empty and ``raw_args`` holds the text when the arguments were not a JSON object.
    ``started`` and ``ended`` are seconds since the trial began; before the call is made, both are 0.
    ``by`` says who made it: the agent, the task's history, or the model's own provider while it replied.
    """

    id: str
    turn: int
    index: int
    tool: str
    args: Mapping[str, Any]
    raw_args: str | None = None
    result: Any = None
    error: ToolError | None = None
    started: float = 0.0
    ended: float = 0.0
    by: Literal["agent", "seed", "provider"] = "agent"
    tape: TapeStatus = "none"


class Message(Record, frozen=True):
    """One message of the conversation.

    ``calls`` are the calls that an assistant message requests, without results. ``call_id`` names the call
    that a tool message answers. ``seeded`` messages were given by the task. ``phase`` counts conversations
    from 1: it grows when the agent starts anew or rewrites its history.
    """

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    turn: int = 0
    seeded: bool = False
    phase: int = 1
    call_id: str = ""


class Usage(Record, frozen=True, gc=False):
    """Tokens, money and attempts of model requests; usages can be added.

    ``asks`` counts replies, ``attempts`` requests. A figure that is unknown is None, never 0: of one reply,
    and of a sum with any part unknown. Replies without tokens at an unknown price are replies of unknown
    tokens. What is known of a sum stands in ``partial_tokens`` and ``partial_cost_usd``.
    """

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cached_tokens: int | None = 0
    reasoning_tokens: int | None = 0
    cost_usd: float | None = 0.0
    asks: int | None = 0
    attempts: int | None = 0
    partial_tokens: int = 0
    partial_cost_usd: float = 0.0

    def __post_init__(self) -> None:
        # An agent that does not count writes 0, and so did earlier versions of this package. But every reply
        # takes a request, at an offline model as well, and has some tokens: such a 0 is unknown.
        if self.asks and self.attempts == 0:
            force_setattr(self, "attempts", None)
        if self.cost_usd is None and self.asks and self.input_tokens == 0 == self.output_tokens:
            for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
                force_setattr(self, name, None)

    @property
    def tokens(self) -> int | None:
        """Input and output tokens together, None where they are unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens

    @property
    def known_tokens(self) -> int:
        """The tokens that are known: all of them, or a part."""
        known = (self.input_tokens or 0) + (self.output_tokens or 0)
        # A single reply may have only one of its two counts, and then no sum.
        return known if self.tokens is not None else self.partial_tokens or known

    @property
    def known_cost_usd(self) -> float:
        """The cost that is known: all of it, or a part."""
        return self.partial_cost_usd if self.cost_usd is None else self.cost_usd

    def __add__(self, other: Usage) -> Usage:
        # Filled field by field: __post_init__ corrects figures that no single reply has, and a sum may have.
        total = copy(self)
        for name in _SUMMED:
            one, two = getattr(self, name), getattr(other, name)
            force_setattr(total, name, None if one is None or two is None else one + two)
        is_known = total.input_tokens is not None and total.output_tokens is not None
        tokens = 0 if is_known else self.known_tokens + other.known_tokens
        force_setattr(total, "partial_tokens", tokens)
        cost = self.known_cost_usd + other.known_cost_usd if total.cost_usd is None else 0.0
        force_setattr(total, "partial_cost_usd", cost)
        return total

    def to_json(self) -> dict[str, Any]:
        """Give the usage as JSON values; known parts only where there are any."""
        values = super().to_json().items()
        return {name: value for name, value in values if value or not name.startswith("partial_")}


# The partial figures of a sum depend on the others.
_SUMMED = tuple(name for name in Usage.__struct_fields__ if not name.startswith("partial_"))


def token_figure(usage: Usage) -> Figure:
    return Figure(usage.known_tokens, int(usage.tokens is None))


def cost_figure(usage: Usage) -> Figure:
    return Figure(usage.known_cost_usd, int(usage.cost_usd is None))


NO_USAGE = Usage()


def unanswered_usage(requests: int) -> Usage:
    """Give the usage of requests that no reply came to: what the provider took for them is unknown."""
    return Usage(None, None, None, None, None, asks=0, attempts=requests)


# The usage of a request that was seen but could not be read.
UNREAD_USAGE = Usage(None, None, None, None, None, asks=1, attempts=1)

# The usage of an agent that may have called models unseen.
UNSEEN_USAGE = Usage(None, None, None, None, None, None, None)

# The error type of a tool call that returned nothing.
NOT_FINISHED = "not_finished"

# Kinds of events that a trial's reasons quote.
TOOL_EXCEPTION, NO_ANSWER = "tool_exception", "no_answer"

# Kinds of events that hold a request to a judge or to the model that plays the user, with its usage.
JUDGE_ASK, USER_ASK = "judge_ask", "user_ask"

# The agent read the prompt that the event's text names, before reply number ``turn``.
PROMPT_READ = "prompt_read"


UNREAD_REQUEST, UNREAD_REPLY = "unread_model_request", "unread_model_reply"
CHANGED_PROMPT, AROUND_TAPES, OUTPUT_CUT = "prompt_changed", "around_the_tapes", "output_cut"
UNTOLD_TOKENS, UNPRICED_LIMIT = "untold_tokens", "unpriced_limit"
UNREAD_PROMPT, UNSEEN_CALLS = "unread_prompt", "unseen_calls"
"""Kinds of events that make a trial doubtful: traffic that nobody could read, a reply to another prompt, what
was requested where nobody looks, output that was too long, a reply without its usage, a limit of
money where nobody knows the price, a prompt that was given and not read, calls that no reply requested."""

STARTED_PROGRAM, CHANGED_PROCESS, UNKNOWN_TRIAL = "started_program", "changed_process", "unknown_trial"
"""Kinds of events that make a trial doubtful: a program was started, whose requests nobody sees; what trials
side by side share was changed; a request was refused that may have been this trial's."""

# The kind of event that names a connection that is not recorded, such as one of a WebSocket or a database.
UNTAPED_CONNECTION = "untaped_connection"

# The kind of event for an agent that called other models, and never the one that the run names.
OTHER_MODEL = "other_model"
# The kind of event that names a setting of the agent's request that was not passed to the run's model.
LEFT_OUT = "setting_left_out"

DOUBTFUL_EVENTS = frozenset(
    {
        *(UNREAD_REQUEST, UNREAD_REPLY, CHANGED_PROMPT, AROUND_TAPES, OUTPUT_CUT, UNTOLD_TOKENS),
        *(UNPRICED_LIMIT, STARTED_PROGRAM, CHANGED_PROCESS, UNKNOWN_TRIAL, UNREAD_PROMPT, UNSEEN_CALLS),
        *(OTHER_MODEL, UNTAPED_CONNECTION, LEFT_OUT),
    }
)
# Doubtful events that are counted by what their text names, as in ``started_program: curl``.
NAMED_EVENTS = frozenset({STARTED_PROGRAM, CHANGED_PROCESS, OTHER_MODEL, UNTAPED_CONNECTION, LEFT_OUT})


class Event(Record, frozen=True):
    """A retry, crash, limit or similar during a trial.

    ``at`` is seconds since the trial began.
    """

    at: float
    kind: str
    text: str
    details: Mapping[str, Any] = NOTHING


class Ask(Record, frozen=True):
    """One model reply: when it was requested, when it came, and its usage.

    ``started``, ``ended`` are seconds since the trial began, of the request that brought the reply;
    ``first_token_s`` is seconds after ``started``, None when the reply was not streamed. ``model`` is the
    model that the reply itself names. It is empty where an agent used the chat of its context: then the
    trial's key names it.
    """

    turn: int
    started: float
    ended: float
    usage: Usage
    finish: str = "stop"
    first_token_s: float | None = None
    reasoning: str = ""
    model: str = ""

    @property
    def seconds(self) -> float | None:
        """How long the reply took; None where nobody measured it.

        An agent that returns its own transcript may know no times, or only when a reply came: then both are
        equal, which no measured request has.
        """
        seconds = self.ended - self.started
        # Whatever an agent returns as times may be infinite, or no number.
        return seconds if 0 < seconds < inf else None


def used_other_models(doubtful_events: Iterable[str]) -> bool:
    """Whether the agent called models of its own, and never the one that was named."""
    return any(kind.startswith(OTHER_MODEL) for kind in doubtful_events)


def models_of(asks: Sequence[Ask]) -> tuple[str, ...]:
    """Give the models that an agent called by itself, as their replies name them, each once."""
    return tuple(dict.fromkeys(ask.model for ask in asks if ask.model))


class Transcript(Record, frozen=True):
    """The messages and calls of one trial in order.

    ``tools`` are those that were declared to a model.
    """

    messages: tuple[Message, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    asks: tuple[Ask, ...] = ()
    events: tuple[Event, ...] = ()
    usage: Usage = Usage()
    tools: tuple[ToolSpec, ...] = ()

    @property
    def last_words(self) -> str:
        """The text of the last assistant message that has any."""
        texts = (message.content for message in reversed(self.messages) if message.role == "assistant")
        return next(filter(None, texts), "")

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the agent called by itself, as their replies name them, each once."""
        return models_of(self.asks)

    @property
    def turn_seconds(self) -> tuple[float, ...]:
        """How long each reply took that was measured, rounded to milliseconds."""
        seconds = [ask.seconds for ask in self.asks]
        return tuple([round(each, 3) for each in seconds if each is not None])

    def usage_of(self, *kinds: str) -> Usage:
        """Give the usage of requests that are events of these kinds: to judges, or to a simulated user."""
        asks = [event for event in self.events if event.kind in kinds]
        return sum([Usage.from_json(event.details["usage"]) for event in asks], NO_USAGE)

    @property
    def all_usage(self) -> Usage:
        """The usage of agent, judges and simulated user together."""
        return self.usage + self.usage_of(JUDGE_ASK, USER_ASK)

    @property
    def doubtful_events(self) -> Mapping[str, int]:
        """How often something happened that makes the trial doubtful, by the kind of event."""
        if not self.events:
            return NOTHING
        return Counter(
            f"{event.kind}: {event.text}" if event.kind in NAMED_EVENTS else event.kind
            for event in self.events
            if event.kind in DOUBTFUL_EVENTS
        )
