"""The same trial of two runs on the terminal: what differs first, side by side where there is room."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Check
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.file_changes import Alignment, FileChange, hunks_of_lines
from pytest_agenteval.reports.trial_screen import (
    MOST_TRIAL_NAME,
    Detail,
    TrialPlace,
    block_lines,
    call_lines,
    ending_style,
    file_lines,
    hunk_lines,
    labelled,
    message_lines,
    resource_facts,
    section,
    who_facts,
)
from pytest_agenteval.reports.trial_view import CallView, GradeView, MessageView, TrialView
from pytest_agenteval.text.formatting import (
    CUT,
    INDENT,
    Style,
    StyledLine,
    cut,
    ending_word,
    flow,
    format_figure,
    one_line,
    pad,
    pluralize,
    wrap,
    wrapped_lines,
)
from pytest_agenteval.text.json_values import json_digest

Lines: TypeAlias = Callable[[Detail], Iterable[StyledLine]]
"""Gives the lines of one side, as much of them as the detail says."""

SIDE_BY_SIDE = 120
"""Columns from which on two trials stand beside each other."""

BETWEEN = " | "
MOST_LINES = 40


def is_wide(detail: Detail) -> bool:
    """Whether there is room for both sides beside each other; what is shown in full never is."""
    return detail.width >= SIDE_BY_SIDE and not detail.full


def _one_side(detail: Detail) -> Detail:
    # Half of the width where both sides stand beside each other, else the width without a mark before lines.
    columns = (detail.width - len(BETWEEN)) // 2 if is_wide(detail) else max(20, detail.width - len(INDENT))
    return Detail(columns, detail.full)


def _is_hidden(old: Lines, new: Lines, detail: Detail) -> bool:
    """Whether folding hides the difference of two sides: the visible parts are the same."""
    texts = [list(map(_look, side(_one_side(detail)))) for side in (old, new)]
    return not detail.full and texts[0] == texts[1] != []


def _look(line: StyledLine) -> str:
    """Give a line as it counts for equality of visible parts."""
    # Numbers in a head, or in a line about what is left out, are lengths and times. They may show that two
    # texts differ, but not where.
    of_text = line.style not in ("cyan", "dim") and not line.text.endswith("(--full)")
    return line.text if of_text else re.sub(r"\d[\d,.]*", "", line.text)


def sides(old: Lines, new: Lines, detail: Detail) -> Iterator[StyledLine]:
    """Give both sides beside each other or, where folding hides their difference, the lines that differ."""
    if _is_hidden(old, new, detail):
        yield next(iter(old(detail)))._replace(style="dim")
        whole = Detail(detail.width, full=True)
        texts = [[line.text for line in side(whole)] for side in (old, new)]
        lines = [line for hunk in hunks_of_lines(*texts) for line in hunk_lines([hunk])]
        if not lines:
            yield StyledLine(f"{INDENT * 2}they differ in blanks alone", "dim")
        for line in lines[:MOST_LINES]:
            yield StyledLine(cut(f"{INDENT * 2}{line.text}", detail.width), line.style)
        if len(lines) > MOST_LINES:
            yield StyledLine(
                f"{INDENT * 2}{CUT} {pluralize(len(lines) - MOST_LINES, 'more line')} (--full)", "dim"
            )
    else:
        yield from beside(old(_one_side(detail)), new(_one_side(detail)), detail)


def beside(old: Iterable[StyledLine], new: Iterable[StyledLine], detail: Detail) -> Iterator[StyledLine]:
    """Put lines of both sides beside each other, or below each other with a mark before each."""
    if not is_wide(detail):
        yield from (StyledLine(f"- {line.text}", "red") for line in old)
        yield from (StyledLine(f"+ {line.text}", "green") for line in new)
        return
    half = _one_side(detail).width
    for left, right in zip_longest(old, new):
        texts = [cut(line.text, half) if line else "" for line in (left, right)]
        text = f"{pad(texts[0], half)}{BETWEEN}{texts[1]}"
        # A line of the terminal has one style: it is plain where the sides have different ones.
        styles = {line.style for line in (left, right) if line}
        yield StyledLine(text.rstrip(), styles.pop() if len(styles) == 1 else "")


INGREDIENTS = {
    "input": "task input",
    "fixture": "starting workspace",
    "prompt": "prompt",
    "code": "agent code",
    "settings": "agent settings",
    "tools": "tools",
    "model": "model",
    "ruler": "graders",
    "sent": "what models were told",
}
"""What a trial is made of, by the digest that tells it, as authors call it."""


class CheckChange(FrozenValue, frozen=True):
    """A check of one grade that passed on one side only; None where a side has no such check."""

    claim: str
    old: Check | None
    new: Check | None


class GradeChange(FrozenValue, frozen=True):
    """One grader's grade on both sides, None where a side has none, and the checks that flipped."""

    grader: str
    old: GradeView | None
    new: GradeView | None
    checks: tuple[CheckChange, ...]


class DifferenceStep(NamedTuple):
    """One message without its calls, or one call, of a conversation; ``mark`` is equal for equal steps."""

    mark: str
    message: MessageView
    call: CallView | None = None


class Stretch(FrozenValue, frozen=True):
    """Steps of both sides that stand beside each other; ``same`` where they are equal."""

    same: bool
    old: tuple[DifferenceStep, ...]
    new: tuple[DifferenceStep, ...]


class TrialDifference(FrozenValue, frozen=True):
    """The differences between two trials.

    ``ingredients`` are those that differ. ``grades`` have changed, ``same_grades`` counts the others. The
    first ``same_steps`` of the conversations are equal; ``stretches`` holds the rest, empty where there is
    none.
    """

    ingredients: tuple[str, ...]
    grades: tuple[GradeChange, ...]
    same_grades: int
    same_steps: int
    stretches: tuple[Stretch, ...]


def trial_difference(old: TrialView, new: TrialView) -> TrialDifference:
    olds, news = ({grade.grader: grade for grade in view.grades} for view in (old, new))
    changes = [
        GradeChange(grader, olds.get(grader), news.get(grader), _checks(olds.get(grader), news.get(grader)))
        for grader in dict.fromkeys((*news, *olds))
    ]
    changed = tuple(
        change
        for change in changes
        if change.old is None
        or change.new is None
        or change.checks
        or (change.old.score, change.old.passed) != (change.new.score, change.new.passed)
    )
    old_steps, new_steps = (tuple(_steps(view.messages)) for view in (old, new))
    pairs = enumerate(zip(old_steps, new_steps, strict=False))
    shorter = min(len(old_steps), len(new_steps))
    # The screen begins where the conversations part; only what follows is aligned.
    same = next((at for at, (before, after) in pairs if before.mark != after.mark), shorter)
    old_left, new_left = old_steps[same:], new_steps[same:]
    alignment = Alignment([step.mark for step in old_left], [step.mark for step in new_left])
    return TrialDifference(
        ingredients=tuple(
            words
            for name, words in INGREDIENTS.items()
            # What was sent is unknown of older runs, and unknown is no difference.
            if getattr(old.digests, name) != getattr(new.digests, name)
            and (name != "sent" or (old.digests.sent and new.digests.sent))
        ),
        grades=changed,
        same_grades=len(changes) - len(changed),
        same_steps=same,
        stretches=tuple(
            Stretch(tag == "equal", old_left[low:high], new_left[new_low:new_high])
            for tag, low, high, new_low, new_high in alignment.get_opcodes()
        ),
    )


def _checks(old: GradeView | None, new: GradeView | None) -> tuple[CheckChange, ...]:
    """Give the checks that flipped, and failed ones that the other side does not have."""
    changes: list[CheckChange] = []
    olds, news = map(_by_claim, (old, new))
    for claim in dict.fromkeys((*news, *olds)):
        before, after = olds.get(claim), news.get(claim)
        passes = [check.passed for check in (before, after) if check]
        if passes == [False] or len(set(passes)) == 2:
            changes.append(CheckChange(claim[0], before, after))
    return tuple(changes)


def _by_claim(grade: GradeView | None) -> dict[tuple[str, int], Check]:
    # A grader that asks one question of each file makes several checks with the same claim.
    numbers: Counter[str] = Counter()
    checks: dict[tuple[str, int], Check] = {}
    for check in grade.checks if grade else ():
        checks[check.claim, numbers[check.claim]] = check
        numbers[check.claim] += 1
    return checks


def _steps(messages: Sequence[MessageView]) -> Iterator[DifferenceStep]:
    for message in messages:
        # A message and its calls are steps of their own. Times and ids are in no mark: they differ always.
        if message.content or not message.calls:
            yield DifferenceStep(json_digest([message.role, message.content]), message)
        for call in message.calls:
            error = [call.error.type, call.error.message] if call.error else []
            mark = json_digest([call.tool, call.args, call.raw_args, call.result, error])
            yield DifferenceStep(mark, message, call)


MOST_STEPS = 40
MOST_CHECKS = 12
MOST_GRADER = 60


def difference_lines(
    old: TrialView, new: TrialView, places: tuple[TrialPlace, TrialPlace], detail: Detail
) -> Iterator[StyledLine]:
    """Give what differs between two trials: outcome and ingredients, grades, conversation, answer, files."""
    difference = trial_difference(old, new)
    names = " -> ".join(dict.fromkeys(one_line(view.name, MOST_TRIAL_NAME) for view in (old, new)))
    endings = " -> ".join(ending_word(view.ending, view.score) for view in (old, new))
    title = f"{endings}  {names}"
    yield from (StyledLine(line, ending_style(new)) for line in wrap(title, detail.width))
    for side, view, place in zip(("old", "new"), (old, new), places, strict=True):
        facts = (side, *who_facts(view, place), *resource_facts(view))
        yield from map(StyledLine, flow(facts, detail.width, INDENT))
    what = ", ".join(difference.ingredients) or "nothing that a trial is made of"
    yield from wrapped_lines(f"differs: {what}", detail.width, "bold")
    yield from section("grades", _grade_lines(difference, detail))
    yield from section("conversation", _conversation(difference, detail))
    if old.answer != new.answer:
        yield from section("answer", sides(partial(_answer, old), partial(_answer, new), detail))
    yield from section("workspace", _workspace(old, new, detail))


def _grade_lines(difference: TrialDifference, detail: Detail) -> Iterator[StyledLine]:
    for change in difference.grades:
        old, new = map(_grade_text, (change.old, change.new))
        grade = f"{one_line(change.grader, MOST_GRADER)}  {old} -> {new}"
        scores = [each.score if each else None for each in (change.old, change.new)]
        style: Style = "yellow"
        if scores[0] is not None and scores[1] is not None and scores[0] != scores[1]:
            style = "green" if scores[1] > scores[0] else "red"
        yield from wrapped_lines(grade, detail.width, style)
        checks = change.checks if detail.full else change.checks[:MOST_CHECKS]
        for check in checks:
            words = " -> ".join(map(_check_word, (check.old, check.new)))
            yield from _plain(block_lines(f"{words}: {check.claim}", detail, INDENT * 2, most=3))
            for label, failed in (("old", check.old), ("new", check.new)):
                if failed and not failed.passed:
                    for side, text in (("expected", failed.expected), (f"{label} found", failed.found)):
                        if text:
                            yield from _plain(labelled(side, text, detail, INDENT * 3, most=3))
        if len(checks) < len(change.checks):
            remaining = pluralize(len(change.checks) - len(checks), "more check")
            yield StyledLine(f"{INDENT * 2}and {remaining} (--full)", "dim")
    if difference.same_grades:
        yield StyledLine(f"{INDENT}{pluralize(difference.same_grades, 'grade')} as before", "dim")


def _grade_text(grade: GradeView | None) -> str:
    if grade is None:
        return "not graded"
    return "undecided" if grade.score is None else format_figure(grade.score)


def _check_word(check: Check | None) -> str:
    return "none" if check is None else "ok" if check.passed else "no"


def _conversation(difference: TrialDifference, detail: Detail) -> Iterator[StyledLine]:
    """Say how many steps are the same, then show how the conversations go on."""
    same = difference.same_steps
    if not difference.stretches:
        if same:
            yield StyledLine(f"{INDENT}the same: {pluralize(same, 'step')}", "dim")
        return
    are = "step is" if same == 1 else f"{same:,} steps are"
    before = f"the first {are} the same; they part" if same else "they part"
    first = difference.stretches[0]
    turns = [side[0].message.turn for side in (first.old, first.new) if side and side[0].message.turn]
    place = f"{before} at step {same + 1}{f' (turn {turns[0]})' if turns else ''}"
    yield from wrapped_lines(place, detail.width, "bold")
    visible = 0
    for stretch in difference.stretches:
        room = len(stretch.old) + len(stretch.new) if detail.full else max(0, MOST_STEPS - visible)
        yield from _stretch(stretch, room, detail)
        visible += max(len(stretch.old), len(stretch.new))
    if visible > MOST_STEPS and not detail.full:
        yield StyledLine(f"{INDENT}and {pluralize(visible - MOST_STEPS, 'more step')} (--full)", "dim")


def _stretch(stretch: Stretch, room: int, detail: Detail) -> Iterator[StyledLine]:
    if stretch.same:
        for step in stretch.old[:room]:
            yield from (line._replace(style="dim") for line in _step_lines(step, detail))
        return
    apart: list[tuple[DifferenceStep | None, DifferenceStep | None]] = []
    for old, new in zip_longest(stretch.old[:room], stretch.new[:room]):
        if _is_hidden(partial(_step_lines, old), partial(_step_lines, new), detail):
            yield from _apart(apart, detail)
            apart = []
            yield from sides(partial(_step_lines, old), partial(_step_lines, new), detail)
        else:
            apart.append((old, new))
    yield from _apart(apart, detail)


def _apart(
    pairs: Sequence[tuple[DifferenceStep | None, DifferenceStep | None]], detail: Detail
) -> Iterator[StyledLine]:
    """Give steps of both sides beside each other or, in a narrow terminal, all old ones above new ones."""
    groups = [[pair] for pair in pairs] if is_wide(detail) else [pairs]
    column = _one_side(detail)
    for group in groups:
        old, new = (
            [line for step in side for line in _step_lines(step, column)]
            for side in ([old for old, _ in group], [new for _, new in group])
        )
        yield from beside(old, new, detail)


def _step_lines(step: DifferenceStep | None, detail: Detail) -> list[StyledLine]:
    if step is None:
        return []
    if step.call is not None:
        return list(call_lines(step.call, detail))
    return list(message_lines(replace(step.message, calls=()), detail))


def _answer(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    return _plain(block_lines(view.answer, detail, INDENT))


def _workspace(old: TrialView, new: TrialView, detail: Detail) -> Iterator[StyledLine]:
    """Give the files that the trials changed differently, or that only one of them changed."""
    olds, news = ({file.path: file for file in view.files} for view in (old, new))
    paths = sorted({*olds, *news})
    alike = [path for path in paths if olds.get(path) == news.get(path)]
    for path in paths:
        if path not in alike:
            before, after = (partial(_file, path, files.get(path)) for files in (olds, news))
            yield from sides(before, after, detail)
    if alike:
        yield StyledLine(f"{INDENT}{pluralize(len(alike), 'file')} changed alike", "dim")


def _file(path: str, file: FileChange | None, detail: Detail) -> list[StyledLine]:
    if file is None:
        return [StyledLine(f"{INDENT}{one_line(path, MOST_TRIAL_NAME)}  not changed", "dim")]
    return list(file_lines(file, detail))


def _plain(texts: Iterable[str]) -> Iterator[StyledLine]:
    return map(StyledLine, texts)
