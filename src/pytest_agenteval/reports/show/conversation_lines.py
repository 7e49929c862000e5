"""A conversation on the terminal: who said what, and each call with what came of it in one line."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agenteval.reports.show.foreign_text import (
    Detail,
    arguments_text,
    block_lines,
    compact_json,
    cut,
    first_line,
    indented_json,
)
from pytest_agenteval.reports.trial.trial_view import CallView, MessageView, TrialView
from pytest_agenteval.text.formatting import (
    INDENT,
    Style,
    StyledLine,
    cell_width,
    format_duration,
    one_line,
    pad,
    pluralize,
    wrapped_lines,
)

ARROW = " -> "
MARKS = {"hit": "played", "miss": "not recorded", "live": "live", "none": ""}
"""What is said of a call and its tape."""

LEAST_ARGUMENTS, LEAST_RESULT = 8, 16
MOST_TOOL = 60
MOST_RESULT = 4000
"""Characters of a text that is shown on one line."""

MOST_CALLS = 40
"""Calls of one message that are shown where not all is."""


def conversation_lines(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    """Give the conversation: system prompts and seeded messages in a line each, unless all is shown."""
    phase = 1
    for message in view.messages:
        if message.phase != phase:
            phase = message.phase
            yield StyledLine(f"{INDENT}-- conversation {phase}", "dim")
        yield from message_lines(message, detail)


def message_lines(message: MessageView, detail: Detail) -> Iterator[StyledLine]:
    """Give one message: who, what, and its calls."""
    who = _who(message)
    if _is_folded(message) and not detail.full:
        size = pluralize(message.content.count("\n") + 1, "line")
        head = f"{INDENT}{who}, {size}: "
        room = detail.width - cell_width(head)
        yield StyledLine(head + first_line(message.content, room), "dim")
    else:
        yield from wrapped_lines(f"{who}{_took(message)}", detail.width, "cyan")
        if message.reasoning:
            yield from _reasoning(message.reasoning, detail)
        yield from map(StyledLine, block_lines(message.content, detail, INDENT * 2))
    if message.role == "assistant" and not (message.content or message.calls or message.reasoning):
        yield StyledLine(f"{INDENT * 2}said nothing", "dim")
    calls = message.calls if detail.full else message.calls[:MOST_CALLS]
    for call in calls:
        yield from call_lines(call, detail)
    if len(calls) < len(message.calls):
        remaining = len(message.calls) - len(calls)
        yield StyledLine(f"{INDENT * 2}and {pluralize(remaining, 'more call')} (--full)", "dim")


def _is_folded(message: MessageView) -> bool:
    return message.role == "system" or (message.seeded and not message.calls)


def _who(message: MessageView) -> str:
    return f"{message.role}, given" if message.seeded and message.role != "system" else message.role


def _took(message: MessageView) -> str:
    is_model_turn = message.role == "assistant" and not message.seeded
    parts = [f"turn {message.turn}"] if message.turn and is_model_turn else []
    if message.seconds is not None:
        parts.append(format_duration(message.seconds))
    if message.usage and message.usage.tokens:
        parts.append(pluralize(message.usage.tokens, "token"))
    return f"  {', '.join(parts)}" if parts else ""


def _reasoning(text: str, detail: Detail) -> Iterator[StyledLine]:
    if detail.full:
        yield StyledLine(f"{INDENT * 2}(thinking)", "dim")
        yield from (StyledLine(line, "dim") for line in block_lines(text, detail, INDENT * 3))
    else:
        head = f"{INDENT * 2}(thinking) "
        yield StyledLine(head + first_line(text, detail.width - cell_width(head)), "dim")


def call_lines(call: CallView, detail: Detail) -> Iterator[StyledLine]:
    """Give a call: ``tool(args) -> result`` and whether it was played, or all of it on lines of their own."""
    if detail.full:
        yield from _whole_call(call, detail)
        return
    mark = call_mark(call)
    room = detail.width - len(INDENT) * 2 - (cell_width(mark) + 2 if mark else 0)
    line = pad(INDENT * 2 + call_text(call, room), detail.width - cell_width(mark)) + mark
    yield StyledLine(line.rstrip(), call_style(call))


def call_text(call: CallView, room: int) -> str:
    """Write a call and what came of it on one line of at most ``room`` columns.

    Where both do not fit, arguments get what the result leaves, and at least half.
    """
    tool = one_line(call.tool, MOST_TOOL)
    result = first_line(_short_result(call), room)
    room_for_both = room - cell_width(f"{tool}(){ARROW}")
    for_args = max(LEAST_ARGUMENTS, room_for_both - cell_width(result), room_for_both // 2)
    text = f"{tool}({arguments_text(call.args, call.raw_args, for_args)}){ARROW}"
    return cut(text + cut(result, max(LEAST_RESULT, room - cell_width(text))), room)


def _short_result(call: CallView) -> str:
    if call.error is not None:
        return f"{call.error.type}: {call.error.message}"
    if isinstance(call.result, str):
        return compact_json(call.result[:MOST_RESULT])
    return _no_result(call) if call.result is None else compact_json(call.result)


def _no_result(call: CallView) -> str:
    return "nothing" if call.executed else "not carried out"


def call_mark(call: CallView) -> str:
    """Say who made a call that the agent did not, and what its tape had to do with it."""
    return ", ".join(filter(None, ("given" if call.by == "seed" else "", MARKS[call.tape])))


def call_style(call: CallView) -> Style:
    """Give the look of a call: one that failed or was not recorded stands out."""
    return "red" if call.tape == "miss" else "yellow" if call.error else ""


def _whole_call(call: CallView, detail: Detail) -> Iterator[StyledLine]:
    mark = call_mark(call)
    took = format_duration(call.ended - call.started) if call.ended else ""
    about = ", ".join(filter(None, (mark, took)))
    head = f"{INDENT * 2}{one_line(call.tool, MOST_TOOL)}" + (f"  {about}" if about else "")
    yield StyledLine(head, call_style(call) or "bold")
    args = call.raw_args if call.raw_args is not None else dict(call.args)
    yield from map(StyledLine, block_lines(indented_json(args), detail, INDENT * 3))
    if call.error is not None:
        text = f"{call.error.type}: {call.error.message}"
    else:
        text = _no_result(call) if call.result is None else indented_json(call.result)
    yield StyledLine(f"{INDENT * 2}->", "dim")
    yield from map(StyledLine, block_lines(text, detail, INDENT * 3))
    if call.reply:
        yield StyledLine(f"{INDENT * 2}-> as the model was told", "dim")
        yield from map(StyledLine, block_lines(call.reply, detail, INDENT * 3))
