"""A conversation as Anthropic takes it: turns of user and model, and where a later system message goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from pytest_agenteval.chat.direct.anthropic_content import (
    Block,
    call_blocks,
    is_signed,
    result_blocks,
    said_blocks,
    system_blocks,
    text_block,
    user_blocks,
)

NOTE = (
    "Operator note (not from the user): the following was originally a mid-conversation system-role reminder."
)
"""Stands before a system message that has to go as a user's; the words are litellm's."""


class Turn(NamedTuple):
    """What one message comes to: ``role`` is user, result, assistant or system."""

    role: str
    blocks: list[Block]


def split_system(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Block], Sequence[Mapping[str, Any]]]:
    """Give the system messages that a conversation begins with as blocks, and the rest of it."""
    leading = list(takewhile(lambda message: _role(message) == "system", messages))
    return [block for message in leading for block in system_blocks(message)], messages[len(leading) :]


def conversation(
    messages: Iterable[Mapping[str, Any]],
    names: Mapping[str, str],
    echoes: Mapping[str, Any],
    *,
    takes_system: bool,
) -> list[dict[str, Any]]:
    """Give the messages behind the system prompt.

    ``names`` are those of tools on the wire, ``echoes`` the thoughts that led to calls, by the id of the
    first; ``takes_system`` says that the model takes system messages in the midst of a conversation.
    """
    turns = [turn for message in messages if (turn := _turn(message, names, echoes)).blocks]
    placed = _with_system(turns) if takes_system else _without_system(turns)
    return _with_bare_end([_joined(role, list(run)) for role, run in groupby(placed, key=_wire_role)])


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role") or "assistant"
    return {"developer": "system", "tool": "result", "function": "result"}.get(role, role)


def _turn(message: Mapping[str, Any], names: Mapping[str, str], echoes: Mapping[str, Any]) -> Turn:
    role = _role(message)
    if role == "assistant":
        return Turn(role, list(_replied(message, names, echoes)))
    read = {"system": system_blocks, "result": result_blocks}.get(role, user_blocks)
    return Turn(role, read(message))


def _replied(
    message: Mapping[str, Any], names: Mapping[str, str], echoes: Mapping[str, Any]
) -> Iterator[Block]:
    """Give a reply: its thoughts, what it says, its calls; thoughts that it says itself come once."""
    calls = message.get("tool_calls") or ()
    said = list(said_blocks(message))
    thoughts = (echoes.get(calls[0].get("id")) if calls else None) or message.get("thinking_blocks") or ()
    if not any(block["type"] == "thinking" for block in said):
        yield from (dict(thought) for thought in thoughts if is_signed(thought))
    yield from said
    yield from call_blocks(calls, names)


def _wire_role(turn: Turn) -> str:
    return "user" if turn.role == "result" else turn.role


def _without_system(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Let the user say what the system says; results come right after their calls, so before it."""
    waiting: list[Turn] = []
    for turn in turns:
        if turn.role == "system":
            waiting.append(_as_users(turn))
            continue
        if turn.role != "result":
            yield from waiting
            waiting = []
        yield turn
    yield from waiting


def _with_system(turns: Sequence[Turn]) -> Iterator[Turn]:
    """Put what the system says behind the user's turn that it stands beside, where the provider takes it.

    Between two replies and behind the last one there is none: there the user says it.
    """
    waiting: list[Turn] = []
    said = [turn.role != "system" for turn in turns]
    for place, turn in enumerate(turns):
        if turn.role == "assistant":
            yield from waiting
            waiting = []
        if turn.role != "system":
            yield turn
        elif _is_beside_user(turns, said, place):
            waiting.append(turn)
        else:
            yield _as_users(turn)
    yield from waiting


def _is_beside_user(turns: Sequence[Turn], said: Sequence[bool], place: int) -> bool:
    before = next((turns[at] for at in range(place, -1, -1) if said[at]), None)
    after = next((turns[at] for at in range(place, len(turns)) if said[at]), None)
    return any(turn is not None and _wire_role(turn) == "user" for turn in (before, after))


def _as_users(turn: Turn) -> Turn:
    return Turn("user", [text_block(NOTE), *turn.blocks])


def _joined(role: str, turns: Iterable[Turn]) -> dict[str, Any]:
    """Make one message of turns of one role; a call whose id came before in them is the same call."""
    blocks: list[Block] = []
    called: set[str] = set()
    for block in (block for turn in turns for block in turn.blocks):
        if block["type"] == "tool_use":
            if block["id"] in called:
                continue
            called.add(block["id"])
        blocks.append(block)
    return {"role": role, "content": blocks}


def _with_bare_end(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take the blanks off the end of a reply that is to be gone on with: the provider refuses them."""
    if messages and messages[-1]["role"] == "assistant":
        messages[-1] = {"role": "assistant", "content": list(map(_bare, messages[-1]["content"]))}
    return messages


def _bare(block: Block) -> Block:
    return {**block, "text": block["text"].rstrip()} if block["type"] == "text" else block
