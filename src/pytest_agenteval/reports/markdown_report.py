"""Runs as Markdown: pages, a summary of a job, a comment on a pull request; and notes beside lines of tasks.

The comment is posted once and updated in place. Foreign text stands in code, where GitHub makes no mention,
no link and no markup of it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from pytest_agenteval.compare.comparison import RunComparison
from pytest_agenteval.records.explanation import ending_reason
from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.reports.causes import (
    MOST_CAUSES,
    causes_markdown,
    causes_title,
    common_causes,
    errors_by_cause,
)
from pytest_agenteval.reports.comparison_report import basis_lines, comparison_markdown
from pytest_agenteval.reports.comparison_text import (
    fallen_tasks,
    format_change,
    headline,
    suite_comparison,
    verdict_text,
)
from pytest_agenteval.reports.leaderboard import (
    Leaderboard,
    leaderboard_tables,
    leaderboards_of,
    scorecard_tables,
)
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.resource_text import comparison_texts, figure_texts
from pytest_agenteval.reports.run_view import RunView, SuiteView, looked_at_text, view_of, worst_first
from pytest_agenteval.reports.run_warnings import run_warnings
from pytest_agenteval.reports.sides import Sides
from pytest_agenteval.reports.sides_report import sides_markdown, verdict_texts
from pytest_agenteval.reports.suite_tables import (
    WorstBuckets,
    remarks_on_all,
    suite_columns,
    suite_table,
    worst_buckets,
)
from pytest_agenteval.reports.tables import (
    ReportTable,
    TableColumn,
    folded_markdown,
    markdown_rows,
    table_markdown,
)
from pytest_agenteval.reports.task_lines import TaskFileLines
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import (
    NOT_KNOWN,
    StyledLine,
    code_span,
    ending_word,
    escape_markdown,
    few_names,
    first_few,
    format_figure,
    one_line,
    pluralize,
    printable,
    workflow_command,
)
from pytest_agenteval.text.redaction import KNOWN_SECRETS

MOST_MISSES = 50
MOST_TRACEBACK_LINES = 8
MOST_ALIKE = 5
"""Trials that are named beside one that errored for the same cause."""


def summary_markdown(
    view: RunView,
    totals: Sequence[StyledLine] = (),
    footer: Sequence[StyledLine] = (),
    comparison: RunComparison | None = None,
    side_verdicts: Sequence[str] = (),
) -> str:
    """Give a run as its screen does: suites, worst buckets and warnings; all tables and misses are folded.

    ``totals`` are the results of benchmarks, ``footer`` those of gates: a paragraph for each line. The
    verdict of ``comparison`` comes first, then ``side_verdicts``: which model or variant beats which.
    """
    best = view.best_first
    table = markdown_rows(_suites(best, suite_columns(best)).rows)
    verdict = [] if comparison is None else [comparison_markdown(comparison).rstrip("\n")]
    beats = ["\n".join(f"- {escape_markdown(text, MOST_VERDICT)}" for text in side_verdicts)]
    # Of calibrations alone there is nothing to add up.
    figures = figure_texts(view.resources) if view.resources and view.suites else []
    took = [escape_markdown(", ".join(figures))] if figures else []
    parts = [*verdict, "## Agent evals", *filter(None, beats), *took, table]
    parts += [*map(escape_markdown, filter(None, remarks_on_all(view))), *_paragraphs(totals)]
    parts += _causes(view, MOST_CAUSES)
    parts += [_buckets(suite) for suite in worst_buckets(view)]
    if notes := [f"- {escape_markdown(note.text)}" for note in run_warnings(view)]:
        parts.append("\n".join(notes))
    parts += _paragraphs(footer)
    if view.suites:
        tables = "\n\n".join(table_markdown(suite_table(suite)) for suite in view.suites)
        parts.append(folded_markdown("all buckets", tables))
    if view.misses:
        count = f"{pluralize(len(view.misses), 'trial')} not passed"
        head = "; ".join(filter(None, (count, looked_at_text(view.misses))))
        groups = errors_by_cause(view.misses)
        items = first_few([_miss_item(*group) for group in groups], MOST_MISSES, "- and {} more")
        parts.append(folded_markdown(head, "\n".join(items)))
    parts.append(f"run: {escape_markdown(view.path)}")
    return "\n\n".join(parts) + "\n"


def _causes(view: RunView, most: int) -> Iterator[str]:
    """Give the causes of misses as a table with a title; nothing where a few misses say all by themselves."""
    if causes := common_causes([view.misses]):
        trials = sum(suite.total.averaged + suite.total.errors for suite in view.suites)
        yield f"**{causes_title(causes, trials)}**"
        yield causes_markdown(causes, most)


def _causes_of_sides(sides: Sides) -> Iterator[str]:
    entries = [side.entries for side in sides.sides]
    if causes := common_causes(entries):
        yield f"**{causes_title(causes, sum(map(len, entries)))}**"
        yield causes_markdown(causes, MOST_CAUSES, [side.label for side in sides.sides])


def _suites(view: RunView, columns: Iterable[TableColumn]) -> ReportTable:
    names = tuple(view.label(suite) for suite in view.suites)
    return ReportTable("", "suite", names, (tuple(columns),))


def _paragraphs(lines: Sequence[StyledLine]) -> list[str]:
    return [escape_markdown(line.text) for line in lines]


def _buckets(suite: WorstBuckets) -> str:
    rows = [[name, row.score, row.interval, row.passed] for row in suite.rows for name in row.names]
    table = markdown_rows([[suite.title, "score", "95 %", "tasks passed"], *rows])
    return f"{table}\n\n{suite.more} more with misses" if suite.more else table


def append_summary(path: Path, text: str) -> str:
    """Add a text to a summary file.

    Returns a sentence where the file cannot be written, which is no error of the run; else an empty text.
    """
    try:
        with path.open("a", encoding="utf-8", newline="\n") as summary:
            # The run may have been stored before the secrets were known that are known now.
            summary.write(KNOWN_SECRETS.text(text))
    except OSError as refused:
        return f"the job's summary {path} cannot be written: {refused.strerror or refused}"
    return ""


def code_block(lines: Iterable[str]) -> str:
    """Put lines into a summary as they are, in columns; backticks become quotes, so none ends the block."""
    return "\n```text\n" + "\n".join(line.replace("`", "'") for line in lines) + "\n```\n"


def _miss_item(miss: JournalEntry, *alike: JournalEntry) -> str:
    """Give a trial that did not pass; those that errored for the same cause are named with it."""
    word, name = ending_word(miss.ending, miss.score), escape_markdown(trial_name(miss.key))
    line = f"- **{word}** {name}: {escape_markdown(ending_reason(miss))}"
    if miss.note:
        seen = "looked at" if miss.note.looked_at else "note"
        line += f" *({': '.join(filter(None, (seen, escape_markdown(miss.note.comment))))})*"
    if alike:
        line += f"; {escape_markdown(_others(alike, 'trial'))}"
    if not miss.traceback:
        return line
    last = code_block(printable(miss.traceback).splitlines()[-MOST_TRACEBACK_LINES:])
    # Indented, so that Markdown takes the block for a part of the list item.
    return line + "\n" + "\n".join(f"  {line}" if line else "" for line in last.splitlines())


def _others(alike: Sequence[JournalEntry], thing: str) -> str:
    """Name those that errored for the same cause: ``3 more tasks like it: s/a[x-1], …``; none for nothing."""
    names = few_names([trial_name(entry.key) for entry in alike], MOST_ALIKE)
    return f"{pluralize(len(alike), f'more {thing}')} like it: {names}" if alike else ""


def write_markdown(path: Path, source: ReportSource) -> None:
    replace_text(path, KNOWN_SECRETS.text(report_markdown(source)))


def report_markdown(source: ReportSource) -> str:
    """Give one run with its tables, two sides as a comparison, more of them side by side."""
    runs, comparison, sides = source.all_runs, source.comparison, source.sides
    is_one_run = len(runs) == 1 and all(side.run in (None, runs[0]) for side in sides.sides)
    parts = []
    if comparison and len({id(side.run) for side in sides.sides}) > 1:
        parts.append(comparison_markdown(comparison))
    elif len(sides) > 1 and not is_one_run:
        parts.append(sides_markdown(sides))
    if not is_one_run and len(sides) > 1:
        parts += [f"{part}\n" for part in _causes_of_sides(sides)]
    if is_one_run:
        parts.append(summary_markdown(view_of(runs[0]), side_verdicts=verdict_texts(sides)))
    boards = boards_beside(leaderboards_of(runs, source.scorecards, sides), source)
    return "\n".join([*parts, *(f"{table_markdown(table)}\n" for table in _tables(boards, len(runs)))])


def boards_beside(boards: Sequence[Leaderboard], source: ReportSource) -> list[Leaderboard]:
    """Give the boards to draw: a suite that is compared needs none, unless it has a benchmark's scorecard."""
    compared = {suite.name for suite in source.comparison.suites} if source.comparison else set()
    return [board for board in boards if board.suite not in compared or board.has_scorecard]


def _tables(boards: Sequence[Leaderboard], runs: int) -> Iterator[ReportTable]:
    """Give the scorecard of each model of a single run; a board wherever there is more than one standing."""
    for board in boards:
        if runs == 1:
            for standing in board.standings:
                if standing.scorecard:
                    yield from scorecard_tables(standing, standing.scorecard)
        if runs > 1 or (board.has_scorecard and len(board.standings) > 1):
            yield from leaderboard_tables(board)


MOST = 10
"""Annotations of each level that GitHub shows of a step."""

MOST_TITLE = 200
WARNING, ERROR = "warning", "error"


def annotation_lines(
    run: Run, root: Path, comparison: RunComparison | None = None, *, strict: bool = False
) -> Iterator[str]:
    """Give a run's annotations as workflow commands, a task each; the rest is counted.

    Misses are warnings; failed and errored trials are errors, and misses too where ``strict`` fails them.
    Tasks that fell furthest since the baseline come first, then the worst. ``root`` is pytest's rootdir.
    """
    task_lines, trials = TaskFileLines(root), Counter(entry.key[:3] for entry in run.entries)
    by_level: dict[str, list[JournalEntry]] = {ERROR: [], WARNING: []}
    for entry in worst_first(run.entries):
        by_level[WARNING if entry.ending == "missed" and not strict else ERROR].append(entry)
    left_out = 0
    for level, entries in by_level.items():
        tasks = {id(task[0]): task for task in _by_task(entries, fallen_tasks(comparison))}
        # Tasks of which all that is left errored for one cause have one annotation.
        groups = errors_by_cause(task[0] for task in tasks.values())
        for worst, *alike in groups[:MOST]:
            yield _command(level, tasks[id(worst)], alike, trials[worst.key[:3]], task_lines, root)
        left_out += sum(map(len, groups[MOST:]))
    if left_out:
        why = f"GitHub shows at most {MOST} of each level; the job summary lists all"
        more = f"{pluralize(left_out, 'more task')} with trials not passed, without an annotation: {why}"
        yield workflow_command("notice", more, title="Agent evals")


def _by_task(
    entries: Iterable[JournalEntry], fallen: Mapping[tuple[str, str], float]
) -> list[list[JournalEntry]]:
    """Put trials together by task, over all models and repetitions; tasks that fell furthest come first."""
    tasks: dict[tuple[str, ...], list[JournalEntry]] = {}
    for entry in entries:
        tasks.setdefault(entry.key[:3], []).append(entry)
    # Sorting is stable: tasks that did not fall stay in the order of their worst trials.
    return sorted(tasks.values(), key=lambda of_task: fallen.get(of_task[0].key[:2], 0.0))


def _command(
    level: str,
    not_passed: Sequence[JournalEntry],
    alike: Sequence[JournalEntry],
    trials: int,
    task_lines: TaskFileLines,
    root: Path,
) -> str:
    worst = not_passed[0]
    word = ending_word(worst.ending, worst.score)
    of_all = f"{len(not_passed)} of {pluralize(trials, 'trial')}, the worst: " if trials > 1 else ""
    return workflow_command(
        level,
        "\n".join(
            filter(None, (ending_reason(worst), of_all + trial_name(worst.key), _others(alike, "task")))
        ),
        file=_path_in_repository(root, worst.file),
        line=task_lines.line_of(worst),
        title=one_line(f"{word} {worst.key.suite}/{worst.key.task}", MOST_TITLE),
    )


def _path_in_repository(root: Path, file: str) -> str:
    workspace = os.environ.get("GITHUB_WORKSPACE", "")
    if not (file and workspace):
        return file
    # GitHub wants paths from the checked-out repository, in which pytest's rootdir may be a folder. Links are
    # followed on both sides, so that both paths are spelt alike.
    path = Path(os.path.realpath(root / file))
    top = os.path.realpath(workspace)
    return path.relative_to(top).as_posix() if path.is_relative_to(top) else file


MOST_LINES = 200
"""Lines of a comparison in a comment, 120 characters each: GitHub refuses one of more than 65,536."""

MOST_SUITES = 30
MOST_NOTES = 5
MOST_VERDICT = 1000
WORST = 3
COLUMNS = ("score", "95 %", "tasks passed", "trials", "cost")


def comment_markdown(
    run: Run,
    view: RunView,
    task_lines: TaskFileLines,
    comparison: RunComparison | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """Give the comment, short enough for GitHub; where something was cut, it says so.

    Below the table stand the warnings about its figures. ``comparison`` is that with the run's baseline,
    ``remarks`` are the results of gates and of benchmarks: a paragraph for each.
    """
    verdict = headline(comparison) if comparison is not None else _totals_text(view)
    parts = [f"### {_plain(verdict)}"]
    for remark in remarks:
        text = _plain(remark, links=True)
        parts.append(f"**{text}**" if remark.startswith("gate: broken") else text)
    took = comparison_texts(comparison) if comparison is not None else []
    if view.resources is not None:
        parts.append(_plain(", ".join(took or figure_texts(view.resources))))
    best = view.best_first
    columns = [column for column in suite_columns(best) if column.title in COLUMNS]
    if comparison is not None and view.suites:
        before = zip(*(_before(suite, comparison) for suite in best.suites), strict=True)
        columns[1:1] = map(TableColumn, ("before", "change", "verdict"), before)
    table = markdown_rows(_suites(best, columns).rows[: 1 + MOST_SUITES])
    remaining = len(view.suites) - MOST_SUITES
    parts.append(f"{table}\n\nand {pluralize(remaining, 'more suite')}" if remaining > 0 else table)
    # Of the remarks only the first, which says who acted: a comment has less room than a page.
    parts += [_plain(line) for line in islice(remarks_on_all(view), 1)]
    if notes := [f"- {_plain(note.text)}" for note in islice(run_warnings(view), MOST_NOTES)]:
        parts.append("\n".join(notes))
    parts += _causes(view, WORST)
    parts += _worst(run, task_lines, comparison)
    if comparison is not None:
        more = "... {} more lines: agenteval compare OLD NEW shows them"
        block = "\n".join(["```text", *first_few(basis_lines(comparison), MOST_LINES, more), "```"])
        parts.append(folded_markdown("details of the verdict", block))
    return KNOWN_SECRETS.text("\n\n".join(parts) + "\n")


def _plain(text: str, *, links: bool = False) -> str:
    """Give a text in which nothing is markup, and no ``@name`` is a mention."""
    return escape_markdown(text, MOST_VERDICT, links=links)


def _totals_text(view: RunView) -> str:
    """Say how many of the decided tasks passed, and how many trials errored or did not run."""
    totals = [suite.total for suite in view.suites]
    parts = [_passed_text(view)]
    if errored := sum(total.errors for total in totals):
        parts.append(f"{pluralize(errored, 'trial')} errored")
    if not_run := sum(total.not_run for total in totals):
        parts.append(f"{pluralize(not_run, 'trial')} not run")
    return f"{'; '.join(parts)}."


def _passed_text(view: RunView) -> str:
    """Say how many tasks passed; of one suite with several models or prompts, with which of them most did."""
    totals = [suite.total for suite in view.suites]
    passed, decided = (
        sum(getattr(total, name) for total in totals) for name in ("tasks_passed", "tasks_decided")
    )
    suites = {suite.suite for suite in view.suites}
    if len(suites) == len(totals):
        return f"{passed} of {pluralize(decided, 'task')} passed"
    if len(suites) > 1:
        return f"{passed} of {pluralize(decided, 'task')} passed, each counted with each model"
    best, *others = sorted(
        view.suites, key=lambda suite: (-suite.total.tasks_passed, -(suite.total.score or 0))
    )
    low, high = others[-1].total.tasks_passed, others[0].total.tasks_passed
    rest = f"{low} with {others[0].who}" if len(others) == 1 else f"{low} to {high} with {len(others)} others"
    most = pluralize(best.total.tasks_decided, "task")
    return f"{best.total.tasks_passed} of {most} passed with {best.who}, {rest}"


def _before(suite: SuiteView, comparison: RunComparison | None) -> tuple[str, str, str]:
    """Give a suite's old score, its change and the verdict; dashes where it is not compared."""
    part = suite_comparison(comparison, suite)
    if part is None or part.suite is None:
        return NOT_KNOWN, NOT_KNOWN, NOT_KNOWN
    change = part.suite
    verdict = verdict_text(change) if change.testable else change.verdict
    return format_figure(change.old), format_change(change.change), verdict


def _worst(run: Run, task_lines: TaskFileLines, comparison: RunComparison | None) -> Iterator[str]:
    fallen = fallen_tasks(comparison)
    worst = [of_task[0] for of_task in _by_task(worst_first(run.entries), fallen)]
    if not worst:
        return
    of_all = f"the {WORST} worst of {len(worst)} tasks"
    title = of_all if len(worst) > WORST else pluralize(len(worst), "task")
    items = (
        _item(group, task_lines, fallen.get(group[0].key[:2]))
        for group in islice(errors_by_cause(worst), WORST)
    )
    yield folded_markdown(f"{title} with trials not passed", "\n\n".join(items))


def _item(group: Sequence[JournalEntry], task_lines: TaskFileLines, change: float | None) -> str:
    entry, *alike = group
    word = ending_word(entry.ending, entry.score)
    fell = f" ({format_change(change)})" if change else ""
    line = task_lines.line_of(entry)
    place = f" in {code_span(f'{entry.file}:{line}' if line else entry.file)}" if entry.file else ""
    text = f"**{word}**{fell} {code_span(trial_name(entry.key))}{place}\\\n{code_span(ending_reason(entry))}"
    return f"{text}\\\n{code_span(_others(alike, 'task'))}" if alike else text
