"""Why a trial ended as it did: what broke it, what graders found, what judges said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pytest_agenteval.records.evidence import Check
from pytest_agenteval.reports.show.foreign_text import Detail, block_lines, first_line
from pytest_agenteval.reports.trial.trial_view import GradeView, TrialView, VoteView
from pytest_agenteval.text.formatting import (
    INDENT,
    Style,
    StyledLine,
    format_figure,
    one_line,
    pluralize,
    printable,
    wrap,
    wrapped_lines,
)

MOST_CHECKS = 12
MOST_NAME = 60
MOST_TRACEBACK = 30
SIDE = len("expected  ")


def reason_lines(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    """Give what went wrong, the grades that are not passed with their checks and votes, then the others."""
    yield from _broken(view, detail)
    if view.limit:
        yield StyledLine(f"{INDENT}limit reached: {first_line(view.limit, detail.width - 18)}", "yellow")
    alike = {} if detail.full else _undecided_alike(view)
    for grade in view.grades:
        if id(grade) in alike:
            yield from _undecided_lines(alike[id(grade)], detail)
        elif not (grade.passed or _is_bare(grade)) or detail.full or grade.votes:
            yield from grade_lines(grade, detail)
    if not detail.full:
        for line in _in_a_line(view):
            yield from (StyledLine(piece, "dim") for piece in wrap(line, detail.width))


def _is_bare(grade: GradeView) -> bool:
    """Whether a grade could not tell, and has no more to say than why."""
    return grade.passed is None and not grade.checks and not grade.votes


def _undecided_alike(view: TrialView) -> dict[int, list[GradeView]]:
    """Put grades together that could not tell for one reason, by the first of them."""
    groups: dict[tuple[str, str], list[GradeView]] = defaultdict(list)
    for grade in filter(_is_bare, view.grades):
        groups[grade.undecided, grade.rationale].append(grade)
    return {id(group[0]): group for group in groups.values()}


def _undecided_lines(grades: Sequence[GradeView], detail: Detail) -> Iterator[StyledLine]:
    names = ", ".join(f"{one_line(grade.grader, MOST_NAME)}{_about(grade)}" for grade in grades)
    yield from wrapped_lines(f"{names}  {_score(grades[0])}", detail.width, "yellow")
    yield from map(StyledLine, block_lines(grades[0].rationale, detail, INDENT * 2))


def _in_a_line(view: TrialView) -> Iterator[str]:
    """Name the grades of which there is no more to say: passed ones, and those that no score can fail."""
    unremarkable = [grade for grade in view.grades if grade.passed and not grade.votes]
    measures = [grade for grade in unremarkable if grade.threshold <= 0 and not grade.checks]
    for label, grades in (
        ("passed", [grade for grade in unremarkable if grade not in measures]),
        ("measured, any score passes", measures),
    ):
        names = [f"{one_line(grade.grader, MOST_NAME)} {_score(grade)}" for grade in grades]
        if names:
            yield f"{INDENT}{label}: {', '.join(names)}"


def _broken(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    """Give what broke an errored trial, and the end of the traceback."""
    if view.cause:
        yield StyledLine(f"{INDENT}{one_line(view.cause, MOST_NAME)}", "red")
    yield from map(StyledLine, block_lines(view.message, detail, INDENT * 2))
    trace = view.traceback.splitlines()
    visible = trace if detail.full else trace[-MOST_TRACEBACK:]
    if len(visible) < len(trace):
        remaining = pluralize(len(trace) - len(visible), "line")
        yield StyledLine(f"{INDENT * 2}… {remaining} of the traceback above (--full)", "dim")
    yield from (StyledLine(f"{INDENT * 2}{printable(line.expandtabs(4))}", "dim") for line in visible)


def grade_lines(grade: GradeView, detail: Detail) -> Iterator[StyledLine]:
    """Give what one grader found: score, failed checks with both sides, votes with their reasons."""
    failed = [check for check in grade.checks if not check.passed]
    style: Style = "yellow" if grade.passed is None else "dim" if grade.passed else "red"
    head = f"{INDENT}{one_line(grade.grader, MOST_NAME)}  {_score(grade)}{_about(grade)}"
    if failed:
        head += f"  {len(failed)} of {pluralize(len(grade.checks), 'check')} failed"
    yield from (StyledLine(line, style) for line in wrap(head, detail.width))
    if not failed or detail.full:
        yield from map(StyledLine, block_lines(grade.rationale, detail, INDENT * 2))
    yield from _checks(grade.checks if detail.full else failed, detail)
    for vote in grade.votes:
        yield from vote_lines(vote, detail)


def _checks(checks: Sequence[Check], detail: Detail) -> Iterator[StyledLine]:
    visible = checks if detail.full else checks[:MOST_CHECKS]
    for check in visible:
        yield from map(StyledLine, _check(check, detail))
    if len(visible) < len(checks):
        remaining = pluralize(len(checks) - len(visible), "more failed check")
        yield StyledLine(f"{INDENT * 2}and {remaining} (--full)", "dim")


def _check(check: Check, detail: Detail) -> Iterator[str]:
    mark = "ok" if check.passed else "no"
    yield from block_lines(f"{mark}: {check.claim}", detail, INDENT * 2, most=3)
    for label, text in (("expected", check.expected), ("found", check.found)):
        if text:
            yield from labelled(label, text, detail, INDENT * 3)


def labelled(label: str, text: str, detail: Detail, indent: str, most: int = 6) -> Iterator[str]:
    """Give a label with the text behind it, whose later lines stand below its first."""
    hung = indent + " " * SIDE
    lines = list(block_lines(text, detail, hung, most=most)) or [hung]
    yield f"{indent}{label:<{SIDE}}{lines[0][len(hung) :]}".rstrip()
    yield from lines[1:]


def vote_lines(vote: VoteView, detail: Detail) -> Iterator[StyledLine]:
    """Give one judge's vote: a score for each dimension, and why; or what kept it from one."""
    scores = ", ".join(
        f"{one_line(name, MOST_NAME)} {format_figure(score)}" for name, score in vote.scores.items()
    )
    for line in wrap(
        f"{INDENT * 2}vote of {one_line(vote.judge, MOST_NAME)}: {scores or 'none'}", detail.width
    ):
        yield StyledLine(line, "bold")
    if vote.problem:
        yield from (StyledLine(line, "yellow") for line in block_lines(vote.problem, detail, INDENT * 3))
    yield from map(StyledLine, block_lines(vote.rationale, detail, INDENT * 3))


def _score(grade: GradeView) -> str:
    if grade.score is None:
        return f"undecided ({one_line(grade.undecided, MOST_NAME)})" if grade.undecided else "undecided"
    measured = f" (measured {format_figure(grade.value)})" if grade.value != grade.score else ""
    return format_figure(grade.score) + measured


def _about(grade: GradeView) -> str:
    parts = [f"threshold {format_figure(grade.threshold)}"] if grade.threshold != 1.0 else []
    parts += [f"weight {grade.weight:g}"] if grade.weight != 1.0 else []
    parts += ["required"] if grade.required else []
    return f" ({', '.join(parts)})" if parts else ""
