"""Explains why a trial ended as it did, in one line and at length, and which requests were not recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from pytest_agenteval.records.evidence import Check, Grade, Outcome, unified
from pytest_agenteval.records.transcript import NO_ANSWER, TOOL_EXCEPTION, Event, Transcript
from pytest_agenteval.text.formatting import (
    cell_width,
    format_figure,
    one_line,
    pad,
    pluralize,
    printable,
    shorten_middle,
    wrap,
)

MOST_REASON = 200
MOST_SIDE = 200
MOST_PARTS = 90, 100
"""Characters of a failed check's claim, and of what it expected and found, in the one-line reason."""
MOST_CHECKS = 8
MOST_MESSAGE = 300
MOST_MESSAGE_LINES = 12
MOST_TRACEBACK_LINES = 30
MOST_CALL, MOST_WAY = 300, 1000

MOST_LINES = 40
MOST_LINE = 160
# Files with more characters than this are shown without a diff: ``difflib`` would take too long.
LARGE = 64 * 1024


class _EndedTrial(Protocol):
    """What both a ``Trial`` and its entry in a journal know of how the trial ended."""

    @property
    def ending(self) -> str: ...
    @property
    def score(self) -> float | None: ...
    @property
    def grades(self) -> tuple[Grade, ...]: ...
    @property
    def limit(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def traceback(self) -> str: ...


class _WholeTrial(_EndedTrial, Protocol):
    """What only a ``Trial`` knows. A protocol, for the module of ``Trial`` imports this one."""

    @property
    def transcript(self) -> Transcript: ...
    @property
    def outcome(self) -> Outcome: ...


def short_reason(trial: _EndedTrial) -> str:
    """Explain in one line how a trial ended: its score, the worst grader, and why."""
    if trial.ending == "errored":
        return ending_reason(trial)
    score = f"score {format_figure(trial.score)}"
    return one_line(": ".join(part for part in (score, ending_reason(trial)) if part), MOST_REASON)


def ending_reason(trial: _EndedTrial) -> str:
    """Explain in one line what went wrong: cause and message, or limit and worst grader; may be empty."""
    if trial.ending == "errored":
        parts = [part for part in (trial.cause, trial.message.partition("\n")[0]) if part]
        return one_line(": ".join(parts) or "errored", MOST_REASON)
    limit = [f"limit reached: {trial.limit}"] if trial.limit else []
    worst = worst_grade(trial.grades)
    graded = [] if worst is None else [f"{worst.grader} {_score(worst)}: {_main_reason(worst)}"]
    return one_line("; ".join(limit + graded), MOST_REASON)


def worst_grade(grades: tuple[Grade, ...]) -> Grade | None:
    """Give the grade furthest below its threshold, the heavier of two equally far; None if none is below."""
    below = [grade for grade in grades if grade.passed is False]
    return max(below, key=lambda grade: (grade.threshold - (grade.score or 0.0), grade.weight), default=None)


def failed_checks(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if not check.passed]


def _telling_checks(grade: Grade) -> list[Check]:
    """Give the failed checks; none of a judge's, whose own words say more than which score was too low."""
    return [] if "judgement" in grade.details else failed_checks(grade.checks)


def check_sides(check: Check) -> list[tuple[str, str]]:
    """Give what a check expected and what it found, each with its label; an empty side is left out."""
    return [(label, text) for label, text in (("expected", check.expected), ("found", check.found)) if text]


def reason_below(trial: _EndedTrial) -> str:
    """Give the reason of a miss or a failure, for lines that show its ending and score already."""
    return ending_reason(trial) or "below its threshold"


def error_text(trial: _EndedTrial, transcript: Transcript | None = None) -> str:
    """Explain why a trial errored: in one line, then the traceback of code that raised, and all grades."""
    head = short_reason(trial)
    first, _, body = printable(trial.message).partition("\n")
    # A message that was too long for the one line is written in full.
    if first not in head:
        head, body = f"{trial.cause}: {first}", body
    notes = transcript_notes(transcript) if transcript else []
    trace = printable(trial.traceback[-4000:])  # the rest is in the transcript
    return "\n".join(part for part in (head, body, trace, *grade_lines(trial), *notes) if part)


def explain_trial(trial: _WholeTrial, width: int = 100) -> list[str]:
    """Explain at length why a trial ended as it did: graders, failed checks, last answer, changed files.

    The first line is ``short_reason``. Every part is bounded, and shows where it was cut.
    """
    # The reason comes first, then the grades, then what may explain them: notes, requests, answer, files.
    lines = [short_reason(trial), *_message_lines(trial), *grade_lines(trial)]
    if trial.limit:
        lines.append(f"  limit reached: {one_line(trial.limit, MOST_SIDE)}")
    lines += [f"  {one_line(note, MOST_MESSAGE)}" for note in transcript_notes(trial.transcript)]
    times = count_unrecorded(trial.transcript.events)
    # The message of an errored trial names one of them already.
    calls = [call for call in times if not trial.message.startswith(f"{call.file}: {call.question}")]
    for call in calls[:MOST_CHECKS]:
        often = f", {times[call]} times" if times[call] > 1 else ""
        lines += [f"  not recorded{often}: {call.name}", *(f"    {way}" for way in call.ways)]
    if len(calls) > MOST_CHECKS:
        lines.append(f"  and {len(calls) - MOST_CHECKS} more that were not recorded")
    if trial.outcome.answer.text:
        lines.append(f"  answer: {one_line(trial.outcome.answer.text, 300)}")
    lines += [shorten_middle(f"  {line}", width) for line in workspace_diff(trial.outcome)]
    return [lines[0], *(piece for line in lines[1:] for piece in wrap(line, width))]


def transcript_notes(transcript: Transcript) -> list[str]:
    """Give what the user's own code did that may be the reason: tools that raised, no answer."""
    times = Counter(event.text for event in transcript.events if event.kind in (TOOL_EXCEPTION, NO_ANSWER))
    return [text if n == 1 else f"{text}, {n} times" for text, n in times.most_common(MOST_CHECKS)]


def grade_lines(trial: _EndedTrial) -> Iterator[str]:
    """Give the result of each grader, with the checks that failed."""
    names = max((cell_width(printable(grade.grader)) for grade in trial.grades), default=0)
    for grade in trial.grades:
        # One long name must not push the results of all graders to the right.
        yield from _grade_lines(grade, min(names, 32))


def _score(grade: Grade) -> str:
    """Write a score, the measured value if it is outside of 0..1, and what it needs if that is not 1."""
    past = f" (measured {format_figure(grade.unclamped)})" if grade.unclamped is not None else ""
    return format_figure(grade.score) + past + needs_text(grade.threshold)


def needs_text(threshold: float) -> str:
    """Write behind a score which score is enough: ``0.38, needs 0.60``; nothing where only 1 is."""
    return f", needs {format_figure(threshold)}" if threshold != 1.0 else ""


def _main_reason(grade: Grade) -> str:
    """Give the first failed check, else the rationale of the grader."""
    failed = _telling_checks(grade)
    if not failed:
        return one_line(grade.rationale, MOST_REASON) or "no reason given"
    more = f"; {len(failed) - 1} more" if len(failed) > 1 else ""
    return failed[0].failure(MOST_PARTS) + more


def _grade_lines(grade: Grade, name_width: int) -> Iterator[str]:
    label = pad(shorten_middle(one_line(grade.grader, 60), name_width), name_width)
    rationale = one_line(grade.rationale, MOST_SIDE) or "no reason given"
    failed = _telling_checks(grade)
    if grade.crashed:
        yield f"  {label}  crashed: {rationale}"
    elif grade.score is None:
        yield f"  {label}  undecided{' (required)' if grade.required else ''}: {rationale}"
    elif grade.passed:
        yield f"  {label}  {_score(grade)}"
    else:
        reason = f"{len(failed)} of {pluralize(len(grade.checks), 'check')} failed" if failed else rationale
        yield f"  {label}  {_score(grade)}  {reason}"
    for check in failed[:MOST_CHECKS]:
        yield f"    not met: {one_line(check.claim, MOST_SIDE)}"
        yield from (f"      {side + ':':<10}{one_line(text, MOST_SIDE)}" for side, text in check_sides(check))
    if len(failed) > MOST_CHECKS:
        yield f"    and {len(failed) - MOST_CHECKS} more failed checks"


def _message_lines(trial: _EndedTrial) -> list[str]:
    """Give the part of the message that the first line left out, and the end of a traceback."""
    first, *others = printable(trial.message).splitlines() or [""]
    # The first line of the explanation has the cause, a colon and a blank before the message.
    message = [first, *others] if len(first) > MOST_REASON - len(trial.cause) - 2 else others
    traceback = printable(trial.traceback).splitlines()
    left = len(traceback) - MOST_TRACEBACK_LINES
    above = [f"... {pluralize(left, 'more line')} of the traceback above"] if left > 0 else []
    lines = [*message[:MOST_MESSAGE_LINES], *above, *traceback[-MOST_TRACEBACK_LINES:]]
    return [f"  {line}" for line in lines]


def workspace_diff(outcome: Outcome) -> list[str]:
    """Give one line of counts, then unified diffs; what was left out of them is counted."""
    diff = outcome.diff
    if not diff:
        return []
    kinds = (("created", diff.created), ("changed", diff.modified), ("deleted", diff.deleted))
    paths = [path for _, of_kind in kinds for path in of_kind]
    lines = ["workspace: " + ", ".join(f"{len(of_kind)} {kind}" for kind, of_kind in kinds if of_kind)]
    for count, path in enumerate(paths):
        room = MOST_LINES - len(lines)
        # The head of a diff takes three lines: in less room nothing of the change would be shown.
        if room < 4:
            return [*lines, f"... {pluralize(len(paths) - count, 'more file')}"]
        if any(len(tree.text(path) or "") > LARGE for tree in (outcome.before, outcome.after)):
            lines.append(_diff_line(f"{path}: too large to show"))
            continue
        # The diff compares lines without their ends.
        same = [f"{path}: differs only in how its lines end"]
        changes = unified(outcome.before, outcome.after, path) or same
        most = min(12, room - 1)
        lines += map(_diff_line, changes[:most])
        if len(changes) > most:
            lines.append(f"... {pluralize(len(changes) - most, 'more line')} of {_diff_line(path)}")
    return lines


def _diff_line(line: str) -> str:
    # The name of a file may have a line break in it.
    text = printable(line.expandtabs(4)).replace("\n", "\\n")
    return text if len(text) <= MOST_LINE else text[: MOST_LINE - 1] + "…"


class UnrecordedCall(NamedTuple):
    """One request that no recording answers: the file that lacks it, what is recorded, what can be done."""

    file: str
    question: str
    found: str
    hint: str

    @property
    def name(self) -> str:
        return one_line(f"{self.file}: {self.question}", MOST_CALL)

    @property
    def ways(self) -> Iterator[str]:
        """What is recorded instead, and how to record the request, line by line."""
        yield f"found: {one_line(self.found, MOST_CALL)}"
        yield from (one_line(way.strip(), MOST_WAY) for way in self.hint.splitlines())


def count_unrecorded(events: Iterable[Event]) -> Counter[UnrecordedCall]:
    """Count the requests of a trial that were not recorded, in their order."""
    names = ("file", "asked", "found", "hint")
    return Counter(
        UnrecordedCall(*(printable(str(event.details.get(name, ""))) for name in names))
        for event in events
        if event.kind == "cassette_miss"
    )
