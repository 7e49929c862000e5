"""An audit as lines of a terminal: a table of graders and spoilers for each suite, then what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.reports.audit.audit import Audit, Sight, SuiteAudit, WrongTrial
from pytest_agenteval.reports.tables import Column, Note, ReportTable, table_lines, table_markdown
from pytest_agenteval.text.formatting import NOT_KNOWN, StyledLine, one_line, pluralize, wrapped_lines

TITLES = {
    "skip_call": "skip",
    "wrong_argument": "argument",
    "number_plus_one": "number",
    "date_off_by_a_day": "day",
    "fact_dropped": "fact",
    "stray_file": "stray",
    "neighbour_overwritten": "neighbour",
    "verbatim_paste": "paste",
    "answer_everything": "all",
}
ALL = "all graders"
NO_SUITE = "tasks of no suite"
NO_SIGHT = "no spoilt reference shows anything"
MOST_LINE = 400


def audit_lines(audit: Audit, width: int, *, tells_unseen: bool) -> Iterator[StyledLine]:
    """Give what the audit shows; with ``tells_unseen`` also each spoiler that nobody saw, by task."""
    for suite in audit.suites:
        yield from table_lines(suite_table(suite), width)
        yield from _wrong_lines(suite, width, tells_unseen)
        yield _verdict(suite, audit.least)
        yield StyledLine("")
    for name, tasks in audit.unaudited.items():
        what = f"{name or NO_SUITE}: {pluralize(len(tasks), 'task')} without a reference_solution: "
        line = one_line(f"{what}{', '.join(tasks)}", MOST_LINE)
        yield from wrapped_lines(line, width, "yellow", indent="")
    yield from _rubric_lines(audit, width)
    if audit.unfinished:
        yield StyledLine(f"{pluralize(audit.unfinished, 'trial')} never ended", "red")


def _rubric_lines(audit: Audit, width: int) -> Iterator[StyledLine]:
    """Say of all rubrics together that planted verdicts move none, or which move which."""
    moved = [rubric for rubric in audit.rubrics if rubric.moved_by]
    for rubric in moved:
        count = f"{len(rubric.moved_by)} of {rubric.tried} planted verdicts are read as the judge's own"
        line = f"{rubric.place}: rubric {rubric.rubric}: {count}: {'; '.join(rubric.moved_by)}"
        yield from wrapped_lines(one_line(line, MOST_LINE), width, "red", indent="  ")
    if audit.rubrics and not moved:
        names = {rubric.rubric for rubric in audit.rubrics}
        tried = sum(rubric.tried for rubric in audit.rubrics)
        line = (
            f"{pluralize(len(names), 'rubric')}: none of {tried} planted verdicts is read as the judge's own"
        )
        yield from wrapped_lines(line, width, "green", indent="")


def audit_markdown(audit: Audit) -> str:
    """Give the tables of an audit in Markdown."""
    return "\n\n".join(table_markdown(suite_table(suite)).rstrip("\n") for suite in audit.suites) + "\n"


def suite_table(suite: SuiteAudit) -> ReportTable:
    """Give how many of the spoilers each grader saw, of those that it could decide."""
    spoilers = [name for name in TITLES if name in suite.spoilers]
    graders = suite.graders
    columns = tuple(
        Column(
            TITLES[name],
            (_cell(suite.spoilers[name]), *(_cell(grader.spoilers.get(name)) for grader in graders)),
        )
        for name in spoilers
    )
    names = (ALL, *(grader.grader for grader in graders))
    count = f"{pluralize(suite.tasks, 'task')}, {suite.sight.tried} spoilt references"
    title = f"{suite.suite or NO_SUITE}: {count}: seen/tried"
    notes = (Note(f"{len(suite.for_judges)} more need a judge"),) if suite.for_judges else ()
    return ReportTable(title, "grader", names, (columns,), notes)


def _cell(sight: Sight | None) -> str:
    return f"{sight.seen}/{sight.tried}" if sight is not None and sight.tried else NOT_KNOWN


def _wrong_lines(suite: SuiteAudit, width: int, tells_unseen: bool) -> Iterator[StyledLine]:
    for title, trials in (
        ("the reference does not reach 1.0: its spoilt forms show nothing", suite.below),
        ("passed by doing nothing", suite.idle),
        ("broke, and shows nothing", suite.broken),
        ("seen by nobody", suite.unseen if tells_unseen else ()),
    ):
        if trials:
            yield StyledLine(f"  {title}", "bold")
        for place, of_task in _by_task(trials):
            yield StyledLine(f"    {one_line(f'{place} {of_task[0].task}', MOST_LINE)}")
            for trial in of_task:
                yield from wrapped_lines(one_line(_trial_text(trial), MOST_LINE), width, "", indent="      ")


def _by_task(trials: Sequence[WrongTrial]) -> list[tuple[str, list[WrongTrial]]]:
    """Give trials by task, with the place of each; first the task with most of them."""
    tasks: dict[str, list[WrongTrial]] = {}
    for trial in trials:
        tasks.setdefault(trial.place, []).append(trial)
    return sorted(tasks.items(), key=lambda task: (-len(task[1]), task[0]))


def _trial_text(trial: WrongTrial) -> str:
    got = trial.reason or (f"score {trial.score:.2f}" if trial.score is not None else "no score")
    noticed = f", noticed by {', '.join(trial.noticed)}" if trial.noticed and not trial.reason else ""
    done = f" ({trial.done})" if trial.done else ""
    return f"{TITLES.get(trial.player, trial.player)}{done}: {got}{noticed}"


def _verdict(suite: SuiteAudit, least: float) -> StyledLine:
    sight, tasks = suite.sight, suite.tasks
    reference = f"reference at 1.0 in {tasks - len(suite.below)} of {tasks} tasks"
    idle = f"nothing done misses in {suite.misses_idle}"
    seen = f"{sight.seen} of {sight.tried} seen ({sight.share:.1%})" if sight.tried else NO_SIGHT
    text = f"{one_line(suite.suite or NO_SUITE, MOST_LINE)}: {seen}; {reference}, {idle}"
    return StyledLine(text, "green" if suite.is_sound(least) else "red")
