"""The interface of every chat: messages, settings and replies, whichever model is behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.tool_spec import ToolSpec, parse_arguments
from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.text.errors import TrialBroken
from pytest_agenteval.text.json_values import compact_json

ChatMessage: TypeAlias = Mapping[str, Any]
"""A message in OpenAI's format: role, content, tool_calls, tool_call_id."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Settings of a request; None leaves it to the provider.

    ``extra`` goes to the provider as it is.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    tool_choice: str | None = None
    extra: Mapping[str, Any] = field(default=NOTHING, hash=False)

    def as_params(self) -> dict[str, Any]:
        """Give the settings that are not None."""
        params = {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "top_p": self.top_p,
            "seed": self.seed,
            "tool_choice": self.tool_choice,
        }
        return {**{name: value for name, value in params.items() if value is not None}, **self.extra}


DEFAULT_SETTINGS = ChatSettings()


class Reply(Record, frozen=True):
    """A model's reply, with its usage.

    ``finish`` is ``stop``, ``tool_calls``, ``length``, ``content_filter``, or else the provider's own word.
    ``first_token_s`` is seconds from the request to the first token, None when the reply was not streamed;
    ``seconds`` is the duration of the request that brought it, None if it was not measured. ``taped``: the
    reply was replayed from a cassette.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage(asks=1, attempts=1)
    finish: str = "stop"
    reasoning: str = ""
    first_token_s: float | None = None
    taped: bool = False
    seconds: float | None = None

    @property
    def cost_usd(self) -> float | None:
        """What the reply cost, or None when the price is unknown."""
        return self.usage.cost_usd

    @property
    def attempts(self) -> int | None:
        """How many requests it took, or None when that is unknown."""
        return self.usage.attempts

    def message(self) -> dict[str, Any]:
        """Give the reply as the message that goes back into the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [tool_call(call) for call in self.calls]
        return message


def tool_call(call: ToolCall) -> dict[str, Any]:
    """Give a call as an assistant message of OpenAI's chat completions holds it."""
    # Arguments that were not a JSON object go back as the model wrote them, so that it sees its own mistake.
    arguments = compact_json(call.args) if call.raw_args is None else call.raw_args
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def own_calls(calls: Iterable[tuple[str | None, str, str]], prefix: str) -> tuple[ToolCall, ...]:
    """Give a reply's calls, each with an id of its own; they come as id, tool and arguments.

    A call without an id, or with that of another, gets ``prefix`` and its place: two calls with one id would
    leave open which result belongs to which.
    """
    made: dict[str, ToolCall] = {}
    for place, (given, tool, arguments) in enumerate(calls):
        id = given if given and given not in made else f"{prefix}_{place}"
        args, raw = parse_arguments(arguments)
        made[id] = ToolCall(id, 0, place, tool, args, raw)
    return tuple(made.values())


class Chat(Protocol):
    """A model that answers conversations."""

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the model's next reply.

        The calls of the reply carry id, tool and arguments; the caller counts the turns. Raises ProviderDown
        when the model is out of reach.
        """


Send: TypeAlias = Callable[[], Awaitable[Reply]]
"""Sends one request for an ask; a request that fails raises AttemptFailed."""


class ProviderChat:
    """A chat whose asks are requests that may fail: to a network, or to a model that has to be loaded."""

    model: Model

    async def prepare(self, messages: Sequence[ChatMessage] = (), **ask: Any) -> Send:
        """Get ready for an ask, which is no time of the trial; give what sends it."""
        raise NotImplementedError

    async def ask(self, messages: Sequence[ChatMessage], **ask: Any) -> Reply:
        """Send one request and give the reply."""
        return await (await self.prepare(messages, **ask))()


class NoModel(TrialBroken):
    """An agent used ``ctx.chat``, and the run names no model for it."""

    cause = "no_model"


class OwnModelChat:
    """The chat of an agent that sends requests to its own model: each ask raises NoModel."""

    async def ask(self, messages: Sequence[ChatMessage], **_: Any) -> Reply:
        raise NoModel("ctx.chat has no model: the suite's is `own`; name one with --agent-model=NAME")


ChatFactory: TypeAlias = Callable[[Model, Plan], Chat]
"""Makes a trial's chat. An offline model that needs the task's reference or script finds it in the plan."""
