"""The same trial of two runs on the terminal: what differs first, side by side where there is room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Check
from pytest_agenteval.reports.show.conversation_lines import call_lines, message_lines
from pytest_agenteval.reports.show.diff_lines import file_lines
from pytest_agenteval.reports.show.foreign_text import Detail, block_lines
from pytest_agenteval.reports.show.reason_lines import labelled
from pytest_agenteval.reports.show.trial_difference import (
    CheckChange,
    GradeChange,
    Step,
    Stretch,
    TrialDifference,
    trial_difference,
)
from pytest_agenteval.reports.show.trial_lines import (
    MOST_NAME,
    TrialPlace,
    ending_style,
    resource_facts,
    section,
    who_facts,
)
from pytest_agenteval.reports.show.two_sides import beside, is_hidden, is_wide, one_side, sides
from pytest_agenteval.reports.trial.file_changes import FileChange
from pytest_agenteval.reports.trial.trial_view import GradeView, TrialView
from pytest_agenteval.text.formatting import (
    INDENT,
    Style,
    StyledLine,
    ending_word,
    flow,
    format_figure,
    one_line,
    pluralize,
    wrap,
    wrapped_lines,
)

MOST_STEPS = 40
MOST_CHECKS = 12
MOST_GRADER = 60


def difference_lines(
    old: TrialView, new: TrialView, places: tuple[TrialPlace, TrialPlace], detail: Detail
) -> Iterator[StyledLine]:
    """Give what differs between two trials: outcome and ingredients, grades, conversation, answer, files."""
    difference = trial_difference(old, new)
    yield from _head(old, new, places, difference, detail)
    yield from section("grades", _grades(difference, detail))
    yield from section("conversation", _conversation(difference, detail))
    if old.answer != new.answer:
        yield from section("answer", sides(partial(_answer, old), partial(_answer, new), detail))
    yield from section("workspace", _workspace(old, new, detail))


def _head(
    old: TrialView,
    new: TrialView,
    places: tuple[TrialPlace, TrialPlace],
    difference: TrialDifference,
    detail: Detail,
) -> Iterator[StyledLine]:
    names = " -> ".join(dict.fromkeys(one_line(view.name, MOST_NAME) for view in (old, new)))
    endings = " -> ".join(ending_word(view.ending, view.score) for view in (old, new))
    title = f"{endings}  {names}"
    yield from (StyledLine(line, ending_style(new)) for line in wrap(title, detail.width))
    for side, view, place in zip(("old", "new"), (old, new), places, strict=True):
        facts = (side, *who_facts(view, place), *resource_facts(view))
        yield from map(StyledLine, flow(facts, detail.width, INDENT))
    what = ", ".join(difference.ingredients) or "nothing that a trial is made of"
    yield from wrapped_lines(f"differs: {what}", detail.width, "bold")


def _grades(difference: TrialDifference, detail: Detail) -> Iterator[StyledLine]:
    for change in difference.grades:
        old, new = map(_grade_text, (change.old, change.new))
        grade = f"{one_line(change.grader, MOST_GRADER)}  {old} -> {new}"
        yield from wrapped_lines(grade, detail.width, _direction(change))
        checks = change.checks if detail.full else change.checks[:MOST_CHECKS]
        for check in checks:
            yield from _check(check, detail)
        if len(checks) < len(change.checks):
            remaining = pluralize(len(change.checks) - len(checks), "more check")
            yield StyledLine(f"{INDENT * 2}and {remaining} (--full)", "dim")
    if difference.same_grades:
        yield StyledLine(f"{INDENT}{pluralize(difference.same_grades, 'grade')} as before", "dim")


def _grade_text(grade: GradeView | None) -> str:
    if grade is None:
        return "not graded"
    return "undecided" if grade.score is None else format_figure(grade.score)


def _direction(change: GradeChange) -> Style:
    old, new = (grade.score if grade else None for grade in (change.old, change.new))
    if old is None or new is None or old == new:
        return "yellow"
    return "green" if new > old else "red"


def _check(change: CheckChange, detail: Detail) -> Iterator[StyledLine]:
    """Give a check that flipped, with what both sides found."""
    words = " -> ".join(map(_check_word, (change.old, change.new)))
    yield from _plain(block_lines(f"{words}: {change.claim}", detail, INDENT * 2, most=3))
    for label, check in (("old", change.old), ("new", change.new)):
        if check and not check.passed:
            sides = (("expected", check.expected), (f"{label} found", check.found))
            for side, text in sides:
                if text:
                    yield from _plain(labelled(side, text, detail, INDENT * 3, most=3))


def _check_word(check: Check | None) -> str:
    return "none" if check is None else "ok" if check.passed else "no"


def _conversation(difference: TrialDifference, detail: Detail) -> Iterator[StyledLine]:
    """Say how long the conversations are the same, then show how they go on."""
    same = difference.same_steps
    if not difference.stretches:
        if same:
            yield StyledLine(f"{INDENT}the same: {pluralize(same, 'step')}", "dim")
        return
    before = f"the first {_are(same)} the same; they part" if same else "they part"
    place = f"{before} at step {same + 1}{_turn(difference.stretches[0])}"
    yield from wrapped_lines(place, detail.width, "bold")
    visible = 0
    for stretch in difference.stretches:
        room = len(stretch.old) + len(stretch.new) if detail.full else max(0, MOST_STEPS - visible)
        yield from _stretch(stretch, room, detail)
        visible += max(len(stretch.old), len(stretch.new))
    if visible > MOST_STEPS and not detail.full:
        yield StyledLine(f"{INDENT}and {pluralize(visible - MOST_STEPS, 'more step')} (--full)", "dim")


def _are(steps: int) -> str:
    return "step is" if steps == 1 else f"{steps:,} steps are"


def _turn(stretch: Stretch) -> str:
    turns = [side[0].message.turn for side in (stretch.old, stretch.new) if side and side[0].message.turn]
    return f" (turn {turns[0]})" if turns else ""


def _stretch(stretch: Stretch, room: int, detail: Detail) -> Iterator[StyledLine]:
    if stretch.same:
        for step in stretch.old[:room]:
            yield from (line._replace(style="dim") for line in _step_lines(step, detail))
        return
    apart: list[tuple[Step | None, Step | None]] = []
    for old, new in zip_longest(stretch.old[:room], stretch.new[:room]):
        if is_hidden(partial(_step_lines, old), partial(_step_lines, new), detail):
            yield from _apart(apart, detail)
            apart = []
            yield from sides(partial(_step_lines, old), partial(_step_lines, new), detail)
        else:
            apart.append((old, new))
    yield from _apart(apart, detail)


def _apart(pairs: Sequence[tuple[Step | None, Step | None]], detail: Detail) -> Iterator[StyledLine]:
    """Give steps of both sides beside each other; below each other, all old ones come first."""
    groups = [[pair] for pair in pairs] if is_wide(detail) else [pairs]
    column = one_side(detail)
    for group in groups:
        old, new = ([line for step in side for line in _step_lines(step, column)] for side in _unzip(group))
        yield from beside(old, new, detail)


def _unzip(pairs: Sequence[tuple[Step | None, Step | None]]) -> tuple[list[Step | None], list[Step | None]]:
    return [old for old, _ in pairs], [new for _, new in pairs]


def _step_lines(step: Step | None, detail: Detail) -> list[StyledLine]:
    if step is None:
        return []
    if step.call is not None:
        return list(call_lines(step.call, detail))
    return list(message_lines(replace(step.message, calls=()), detail))


def _answer(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    return _plain(block_lines(view.answer, detail, INDENT))


def _workspace(old: TrialView, new: TrialView, detail: Detail) -> Iterator[StyledLine]:
    """Give the files that were changed in two ways, or on one side only."""
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
        return [StyledLine(f"{INDENT}{one_line(path, MOST_NAME)}  not changed", "dim")]
    return list(file_lines(file, detail))


def _plain(texts: Iterable[str]) -> Iterator[StyledLine]:
    return map(StyledLine, texts)
