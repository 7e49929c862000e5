"""What feedback shows of one trial, as lines that can be cut from the end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from pytest_agenteval.loop.feedback.content import Section, SectionKind, TrialFeedback
from pytest_agenteval.loop.feedback.first_wrong import MOST_ARGS, agent_calls, first_wrong, reference_calls
from pytest_agenteval.records.explanation import failed_checks
from pytest_agenteval.records.transcript import PROMPT_READ
from pytest_agenteval.reports.file_changes import FileChange
from pytest_agenteval.reports.trial_view import CallView, MessageView, TrialView
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.formatting import format_figure, one_line, printable
from pytest_agenteval.text.json_values import compact_json, jsonable

MOST_RESULT, MOST_SIDE, MOST_CLAIM, MOST_REASON = 120, 200, 200, 600
MOST_LINE = 400
MOST_LINES = 60
"""Lines of a section before anything is cut for want of room."""

OF_PASSING: tuple[SectionKind, ...] = ("input", "calls", "files", "answer")
"""Sections of a trial that passed: there is nothing to explain."""

PATTERN = "a match of "
"""How graders begin to say that a pattern was expected."""

MOST_MARK = 80
UNCHANGED = 1
"""Unchanged lines of a file around changed ones."""


def trial_feedback(
    view: TrialView,
    task: Task | None,
    *,
    failed: bool,
    passing: TrialView | None = None,
    changing: Collection[str] = (),
) -> TrialFeedback:
    """Give what there is to look at of a trial; ``passing`` is a trial of its task that passed.

    ``changing`` are the tools that are known to change the workspace.
    """
    sections: dict[SectionKind, Iterator[str]] = {
        "input": _input_lines(view, task),
        "checks": _check_lines(view),
        "reasons": _reason_lines(view),
        "calls": (f"{number}. {_call_text(call)}" for number, call in enumerate(agent_calls(view), start=1)),
        "reference": _reference_lines(task),
        "files": _file_lines(view),
        "answer": _text_lines(view.answer),
    }
    shown = {kind: list(lines) for kind, lines in sections.items() if failed or kind in OF_PASSING}
    return TrialFeedback(
        name=view.name,
        task=task.description if task else "",
        ending=view.ending,
        score=view.score,
        first_wrong=first_wrong(view, passing, task, changing) if failed else None,
        prompts_read=tuple(_prompts_read(view)),
        sections=tuple(
            Section(kind, tuple(lines[:MOST_LINES]), max(0, len(lines) - MOST_LINES))
            for kind, lines in shown.items()
            if lines
        ),
    )


def _prompts_read(view: TrialView) -> Iterator[str]:
    """Say which prompts the agent read, each with the first reply that it was read for."""
    turns: dict[str, int] = {}
    for event in view.events:
        if event.kind == PROMPT_READ:
            turn = event.details.get("turn")
            turns.setdefault(event.text, turn if isinstance(turn, int) else 1)
    for name, turn in turns.items():
        yield one_line(name, MOST_MARK) + (f" (from reply {turn} on)" if turn > 1 else "")


def _text_lines(text: str) -> Iterator[str]:
    """Give the lines of a text without those that are blank; long ones are cut."""
    for line in text.splitlines():
        if line.strip():
            yield _cut(printable(line.expandtabs(4)).rstrip(), MOST_LINE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _input_lines(view: TrialView, task: Task | None) -> Iterator[str]:
    """Give what the agent was given: the conversation before its first reply, then each later user turn."""
    messages = list(_input_messages(view.messages))
    if not messages:
        for name, value in (task.input if task else {}).items():
            yield _cut(
                one_line(
                    f"{name}: {value if isinstance(value, str) else compact_json(jsonable(value))}",
                    2 * MOST_LINE,
                ),
                MOST_LINE,
            )
        return
    for message in messages:
        lines = list(_text_lines(message.content))
        if len(messages) > 1:
            lines = [f"{message.role}: {lines[0] if lines else ''}".rstrip(), *lines[1:]]
        yield from lines
        for call in message.calls:
            yield f"  {_call_text(call)}"


def _input_messages(messages: Iterable[MessageView]) -> Iterator[MessageView]:
    """Give the messages to the agent: no system prompt, no reply of its own, nothing twice."""
    seen: set[tuple[str, str]] = set()
    for message in messages:
        is_input = message.seeded or message.role == "user"
        mark = (message.role, message.content)
        if is_input and message.role not in ("system", "tool") and (message.calls or mark not in seen):
            seen.add(mark)
            yield message


def _check_lines(view: TrialView) -> Iterator[str]:
    """Give each failed check with what was expected and found; without checks, what the grader says."""
    for grade in view.grades:
        if grade.passed is not False:
            continue
        failed = failed_checks(grade.checks)
        head = f"{one_line(grade.grader, MOST_MARK)} {format_figure(grade.score)}"
        if not failed and not grade.votes:
            yield f"{head}: {one_line(grade.rationale, MOST_SIDE) or 'no reason given'}"
        before = ""
        for check in failed:
            found = "found as above" if before and check.found == before else _side("found", check.found)
            pattern = check.expected.removeprefix(PATTERN)
            claim_has_it = pattern != check.expected and pattern in check.claim
            expected = "" if claim_has_it else _side("expected", check.expected)
            before = check.found
            claim = f"{head}: {one_line(check.claim, MOST_CLAIM)}"
            yield " | ".join(filter(None, (claim, expected, found)))


def _side(word: str, text: str) -> str:
    return f"{word} {one_line(text, MOST_SIDE)}" if text else ""


def _reason_lines(view: TrialView) -> Iterator[str]:
    for grade in view.grades:
        if grade.passed is False:
            for vote in grade.votes:
                who = f"{one_line(vote.judge, 40)} on {one_line(grade.grader, MOST_MARK)}"
                scores = vote.scores_text(40) or "no score"
                yield f"{who} ({scores}): {one_line(vote.rationale or vote.problem, MOST_REASON)}"


def _call_text(call: CallView) -> str:
    """Write a call with its arguments, cut, and what came of it."""
    args = call.raw_args if call.raw_args is not None else compact_json(jsonable(call.args))
    sent = _cut(one_line(args, 2 * MOST_ARGS), MOST_ARGS)
    return f"{one_line(call.tool, MOST_MARK)}({sent}) -> {_result(call)}"


def _result(call: CallView) -> str:
    if call.error is not None:
        return f"failed, {one_line(call.failure, MOST_RESULT)}"
    if not call.executed:
        return "not carried out"
    result = call.result if isinstance(call.result, str) else compact_json(call.result)
    return one_line(call.reply or result, MOST_RESULT)


def _reference_lines(task: Task | None) -> Iterator[str]:
    yield from (f"{at}. {call.text()}" for at, call in enumerate(reference_calls(task), start=1))
    solution = task.reference_solution if task else None
    if solution and solution.turns and solution.turns[-1].text.strip():
        yield f"answer: {one_line(solution.turns[-1].text, MOST_LINE)}"


def _file_lines(view: TrialView) -> Iterator[str]:
    for file in view.files:
        yield f"{file.change} {one_line(file.path, MOST_SIDE)}" + (f" ({file.note})" if file.note else "")
        yield from (_cut(printable(line), MOST_LINE) for line in _diff_lines(file))
    if view.files_left_out:
        yield f"and {view.files_left_out} more files"


def _diff_lines(file: FileChange) -> Iterator[str]:
    """Give the changed lines, with the nearest unchanged one on either side."""
    for hunk in file.hunks:
        rows = hunk.rows
        changed = [at for at, (tag, _, _) in enumerate(rows) if tag != " "]
        for at, (tag, old, new) in enumerate(rows):
            if tag == " " and any(abs(at - other) <= UNCHANGED for other in changed):
                yield f"  {old}"
            if tag in "~-":
                yield f"- {old}"
            if tag in "~+":
                yield f"+ {new}"
