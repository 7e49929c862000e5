"""The loop that agents share: ask the model, call the tools that it asks for, until it has no more calls.

Before it: conversations that a task begins. After it: attempts that go on until a task is complete, and the
plain agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from msgspec.structs import replace

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatSettings, Reply, tool_call
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.tools.tool import ToolResult

ROLES = ("user", "assistant")
Wrong = tuple[KeyPath, str, str, str]


def last_user_turn(task_input: Mapping[str, Any]) -> int:
    """Give the place of the last user turn; 0 where no assistant has spoken before it."""
    turns = task_input.get("turns") or ()
    spoken = any(isinstance(turn, Mapping) and turn.get("role") == "assistant" for turn in turns)
    # User turns without an assistant between them are a conversation that the agent leads from the start.
    if not spoken:
        return 0
    return max((place for place, turn in enumerate(turns) if is_user_turn(turn)), default=0)


async def seed_conversation(
    task_input: Mapping[str, Any], messages: list[dict[str, Any]], ctx: AgentContext
) -> None:
    """Put the turns before the last user turn into messages and transcript, as what came before the trial.

    An assistant's calls come first, then their results, then its text.
    """
    seeded = last_user_turn(task_input)
    if not seeded:
        return
    transcript = ctx.transcript
    for number, turn in enumerate(task_input["turns"][:seeded], start=1):
        if is_user_turn(turn):
            # It is taken from the task's turns, which would give it as the next message.
            await ctx.turns()
            messages.append({"role": "user", "content": turn_text(turn)})
            continue
        calls: list[ToolCall] = []
        for index, given in enumerate(turn.get("calls") or ()):
            id, args, error = f"seed_{number}_{index + 1}", given.get("args") or {}, given.get("error")
            failed = None if error is None else ToolError("tool_error", str(error))
            result = given.get("result")
            calls.append(ToolCall(id, 0, index, given["tool"], args, result=result, error=failed, by="seed"))
        if calls:
            written = [tool_call(call) for call in calls]
            messages.append({"role": "assistant", "content": "", "tool_calls": written})
            messages += [ToolResult(call.result, call.error).message(call) for call in calls]
        if turn.get("content") or not calls:
            messages.append({"role": "assistant", "content": turn.get("content", "")})
        # None of these calls is made. They are in the transcript so that graders can recognise repeated ones.
        for call in calls:
            transcript.end_call(transcript.begin_call(call), call)
    transcript.seeded = len(messages)


def turn_text(turn: Any) -> str:
    """Give the text of a turn, which may be a plain text."""
    return str(turn.get("content", "")) if isinstance(turn, Mapping) else str(turn)


def is_user_turn(turn: Any) -> bool:
    """Whether a turn is the user's; a plain text is one."""
    return not isinstance(turn, Mapping) or turn.get("role", "user") == "user"


def user_messages(task_input: Mapping[str, Any]) -> list[str]:
    """Give what the user says, turn by turn."""
    # Without turns the whole input is the user's, and a ``role`` in it is data of the task.
    turns = task_input.get("turns")
    return [turn_text(turn) for turn in turns if is_user_turn(turn)] if turns else [turn_text(task_input)]


def input_problems(task_input: Mapping[str, Any]) -> list[Wrong]:
    """Say what is wrong with ``turns``: each is a text, or a map of role and content, the last a user's."""
    turns = task_input.get("turns")
    if turns is None:
        return misspelt_words(task_input)
    if not isinstance(turns, list | tuple) or not turns:
        return [(("turns",), "a list of turns", repr(turns)[:60], "")]
    wrong = [problem for place, turn in enumerate(turns) for problem in _wrong_turn(("turns", place), turn)]
    if not wrong and not is_user_turn(turns[-1]):
        found = "an assistant's turn"
        wrong.append(
            (("turns", len(turns) - 1), "a user's turn at the end: it is the one answered", found, "")
        )
    return wrong


def misspelt_words(task_input: Mapping[str, Any]) -> list[Wrong]:
    """Say which key seems to be meant for what the user says, where nothing else says it."""
    if "content" in task_input or "turns" in task_input:
        return []
    from difflib import get_close_matches

    # Without this check the agent would get an empty message, and answer that. The similarity is so high
    # that ``context``, which a task may well use for its own purpose, is no misspelt ``content``.
    near = {key: get_close_matches(key.lower(), ("content", "turns"), 1, 0.87) for key in task_input}
    expected = "content or turns: what the user says"
    words = [(key, meant[0]) for key, meant in near.items() if meant]
    found = "which the agent does not read"
    return [((key,), expected, f"{key!r}, {found}", f"did you mean {word!r}?") for key, word in words]


def _wrong_turn(path: KeyPath, turn: Any) -> Iterator[Wrong]:
    if isinstance(turn, str):
        return
    if not isinstance(turn, Mapping):
        yield path, "a text, or a map with role and content", repr(turn)[:60], ""
        return
    for key in turn:
        if key not in ("role", "content", "calls"):
            yield (*path, key), "one of calls, content, role", f"unknown key {key!r}", ""
    role = turn.get("role", "user")
    if role not in ROLES:
        yield (*path, "role"), "user or assistant", repr(role), ""
    if not isinstance(turn.get("content", ""), str):
        yield (*path, "content"), "a text", repr(turn["content"])[:60], ""
    if role == "user" and not turn.get("content"):
        yield (*path, "content"), "a text: what the user says", "nothing", ""
    if role == "user" and turn.get("calls"):
        yield (*path, "calls"), "calls at an assistant's turn", "calls at a user's", ""
    path, calls = (*path, "calls"), turn.get("calls") or ()
    if not isinstance(calls, list | tuple):
        yield path, "a list of calls", repr(calls)[:60], ""
        return
    for place, call in enumerate(calls):
        if not isinstance(call, Mapping) or not isinstance(call.get("tool"), str):
            yield (*path, place), "a map with tool, args and result", repr(call)[:60], ""
            continue
        for key in call:
            if key not in ("tool", "args", "result", "error"):
                yield (*path, place, key), "one of args, error, result, tool", f"unknown key {key!r}", ""
        if not isinstance(call.get("args", {}), Mapping):
            yield (*path, place, "args"), "a map of arguments", repr(call["args"])[:60], ""


MOST_AT_ONCE = 32
"""Calls of one reply that run side by side: each may need a thread."""

StopCondition = Callable[[Sequence[tuple[ToolCall, ToolResult]]], bool]
"""Decides, from a reply's calls and results, whether the conversation ends."""


def until_no_calls(answered: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
    """Go on until the model asks for no more calls."""
    return False


async def converse(
    ctx: AgentContext,
    messages: list[dict[str, Any]],
    *,
    finished: StopCondition = until_no_calls,
    most_asks: int | None = None,
    settings: ChatSettings = DEFAULT_SETTINGS,
) -> str:
    """Let the model reply and call tools until it is done; return its last text.

    ``messages`` grows by the conversation. The calls of one reply run side by side; their results are added
    in the order of the calls. ``finished`` sees the calls of each reply with their results.
    """
    replies, text = 0, ""
    while most_asks is None or replies < most_asks:
        reply = await ctx.chat.ask(messages, tools=ctx.tools.specs, settings=settings)
        replies += 1
        messages.append(reply.message())
        text = reply.text
        if not reply.calls:
            break
        answered = await call_all(ctx, reply)
        messages.extend(result.message(call) for call, result in answered)
        if finished(answered):
            break
    return text


async def call_all(ctx: AgentContext, reply: Reply) -> list[tuple[ToolCall, ToolResult]]:
    """Make every call of one reply, side by side; give calls and results in the reply's order.

    Of more than ``MOST_AT_ONCE`` the next begins when one has ended.
    """
    turn, room = ctx.transcript.turn, asyncio.Semaphore(MOST_AT_ONCE)
    calls = [replace(call, turn=turn, index=index) for index, call in enumerate(reply.calls)]
    if len(calls) == 1:
        return [(calls[0], await ctx.tools.call(calls[0]))]

    async def call_in_turn(call: ToolCall) -> ToolResult:
        async with room:
            return await ctx.tools.call(call)

    # Whatever one call raises, the others still come to their end: none of them runs on after the trial.
    answered = []
    results = await asyncio.gather(*map(call_in_turn, calls), return_exceptions=True)
    for call, result in zip(calls, results, strict=True):
        if isinstance(result, BaseException):
            raise result
        answered.append((call, result))
    return answered


MAX_EQUAL_CALLS = 5


async def run_until_complete(
    attempt: Callable[[], Awaitable[str]],
    end_state: Callable[[], Mapping[str, Any]],
    remind: Callable[[Mapping[str, Any]], None],
    retries: int,
) -> Answer:
    """Make an attempt, then up to ``retries`` more, each with a reminder of what is missing.

    ``attempt`` gives the last words, ``end_state`` a state whose ``is_complete`` says whether that was it,
    ``remind`` is given an incomplete state. The answer holds the last words and the last state; an incomplete
    one is no error: graders tell what it is worth.
    """
    text, state = await attempt(), end_state()
    for _ in range(retries):
        if state["is_complete"]:
            break
        remind(state)
        text, state = await attempt(), end_state()
    return Answer(text, state)


class RepeatedCallGuard:
    """Detects a model that repeats the same call."""

    def __init__(self, most: int = MAX_EQUAL_CALLS) -> None:
        self._most = most
        self._last: tuple[str, Mapping[str, Any], str | None] | None = None
        self._count = 0

    def is_stuck(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
        """Whether the same call has now come too often on end, within this reply or over several."""
        for call, _ in answered:
            # Raw arguments are compared too: calls whose arguments are no JSON have none, and would be equal.
            this = call.tool, call.args, call.raw_args
            self._count = self._count + 1 if this == self._last else 1
            self._last = this
            if self._count >= self._most:
                return True
        return False


@dataclass(frozen=True, slots=True)
class ToolCallingAgent:
    """The built-in agent: the suite sets its system prompt and tools.

    ``system`` is the system prompt, empty for none; a prompt template called ``system`` takes its place.
    ``tools`` names the tools to offer. Where the task's turns hold an assistant's, ``seed_replay`` takes what
    stands before the last user turn as the past, and answers that one turn; ``full_rollout`` passes over the
    assistant's turns and answers every user turn itself.
    """

    system: str = ""
    tools: tuple[str, ...] = ()
    conversation: Literal["seed_replay", "full_rollout"] = "seed_replay"

    prompt_names: ClassVar[tuple[str, ...]] = ("system",)

    @staticmethod
    def input_problems(task_input: Mapping[str, Any]) -> list[tuple[KeyPath, str, str, str]]:
        """Say what is wrong with the turns of a task, each with its key below ``input``."""
        return input_problems(task_input)

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Answer each user message in turn; the answer is the text of the last reply."""
        messages: list[dict[str, Any]] = []
        system = ctx.prompts.render("system") if "system" in ctx.prompts.texts else self.system
        if system:
            messages.append({"role": "system", "content": system})
        if self.conversation == "seed_replay":
            await seed_conversation(task_input, messages, ctx)
        text = ""
        while (user_message := await ctx.turns(text)) is not None:
            messages.append({"role": "user", "content": user_message})
            text = await converse(ctx, messages)
        return Answer(text)
