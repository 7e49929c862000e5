"""Conversations that a task has begun: what was said and called before the agent's own turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.text.json_values import compact_json
from pytest_agenteval.tools.tool import ToolResult

ROLES = ("user", "assistant")
NEAR_ENOUGH = 0.87
"""How alike a key and its misspelling are; ``context`` is no misspelt ``content``."""

TURN_KEYS = frozenset({"role", "content", "calls"})
CALL_KEYS = frozenset({"tool", "args", "result", "error"})

Wrong = tuple[KeyPath, str, str, str]


def last_user_turn(task_input: Mapping[str, Any]) -> int:
    """Give the place of the last user turn; 0 where no assistant has spoken before it."""
    turns = task_input.get("turns") or ()
    spoken = any(isinstance(turn, Mapping) and turn.get("role") == "assistant" for turn in turns)
    if not spoken:
        return 0
    return max((place for place, turn in enumerate(turns) if is_user_turn(turn)), default=0)


def seed_conversation(turns: Sequence[Any], messages: list[dict[str, Any]], transcript: Recorder) -> int:
    """Put turns into the conversation as said before the trial, and their calls into the transcript.

    An assistant's calls come first, then their results, then what it said. Gives the number of user turns.
    """
    user_turns = 0
    for number, turn in enumerate(turns, start=1):
        if is_user_turn(turn):
            user_turns += 1
            messages.append({"role": "user", "content": turn_text(turn)})
            continue
        calls = list(_calls(turn, number))
        if calls:
            messages.append(
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [_tool_call_message(call) for call in calls],
                }
            )
            messages += [_tool_result_message(call) for call in calls]
        if turn.get("content") or not calls:
            messages.append({"role": "assistant", "content": turn.get("content", "")})
        for call in calls:
            transcript.end_call(transcript.begin_call(call), call)
    transcript.seeded = len(messages)
    return user_turns


def turn_text(turn: Any) -> str:
    """Give what is said in a turn, which may be a plain text."""
    return str(turn.get("content", "")) if isinstance(turn, Mapping) else str(turn)


def _calls(turn: Mapping[str, Any], number: int) -> Iterator[ToolCall]:
    for index, call in enumerate(turn.get("calls") or ()):
        error = call.get("error")
        yield ToolCall(
            f"seed_{number}_{index + 1}",
            0,
            index,
            call["tool"],
            call.get("args") or {},
            result=call.get("result"),
            error=None if error is None else ToolError("tool_error", str(error)),
            by="seed",
        )


def _tool_call_message(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.tool, "arguments": compact_json(call.args)},
    }


def _tool_result_message(call: ToolCall) -> dict[str, Any]:
    return ToolResult(call.result, call.error).message(call)


def is_user_turn(turn: Any) -> bool:
    """Whether a turn is the user's, as a plain text is."""
    return not isinstance(turn, Mapping) or turn.get("role", "user") == "user"


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

    near = {key: get_close_matches(key.lower(), ("content", "turns"), 1, NEAR_ENOUGH) for key in task_input}
    expected = "content or turns: what the user says"
    return [
        ((key,), expected, f"{key!r}, which the agent does not read", f"did you mean {meant[0]!r}?")
        for key, meant in near.items()
        if meant
    ]


def _wrong_turn(path: KeyPath, turn: Any) -> Iterator[Wrong]:
    if isinstance(turn, str):
        return
    if not isinstance(turn, Mapping):
        yield path, "a text, or a map with role and content", repr(turn)[:60], ""
        return
    for key in turn:
        if key not in TURN_KEYS:
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
    yield from _wrong_calls((*path, "calls"), turn.get("calls") or ())


def _wrong_calls(path: KeyPath, calls: Any) -> Iterator[Wrong]:
    if not isinstance(calls, list | tuple):
        yield path, "a list of calls", repr(calls)[:60], ""
        return
    for place, call in enumerate(calls):
        if not isinstance(call, Mapping) or not isinstance(call.get("tool"), str):
            yield (*path, place), "a map with tool, args and result", repr(call)[:60], ""
            continue
        for key in call:
            if key not in CALL_KEYS:
                yield (*path, place, key), "one of args, error, result, tool", f"unknown key {key!r}", ""
        if not isinstance(call.get("args", {}), Mapping):
            yield (*path, place, "args"), "a map of arguments", repr(call["args"])[:60], ""
