"""Annotations of a run's task files: what GitHub shows beside the line that was not reached."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison.headline import fallen_tasks
from pytest_agenteval.reports.explanations import ending_reason
from pytest_agenteval.reports.github.workflow_commands import workflow_command
from pytest_agenteval.reports.task_lines import TaskLines
from pytest_agenteval.reports.view import worst_first
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import format_figure, one_line, pluralize

MOST = 10
"""Annotations of each level that GitHub shows of a step."""

MOST_TITLE = 200
WARNING, ERROR = "warning", "error"


class MissedTask(FrozenValue, frozen=True):
    """A task with trials that did not pass, all of one level: the worst of them, and how many."""

    level: str
    worst: JournalEntry
    count: int
    trials: int


def annotation_lines(
    run: Run, root: Path, comparison: Comparison | None = None, *, strict: bool = False
) -> Iterator[str]:
    """Give a run's annotations as workflow commands, a task each; the rest is counted.

    Misses are warnings, failed and errored trials errors; misses too where ``strict`` fails them. What fell
    furthest since the baseline comes first, then what is worst. ``root`` is pytest's rootdir.
    """
    task_lines, fallen = TaskLines(root), fallen_tasks(comparison)
    missed_tasks = sorted(
        _missed_tasks(run.entries, strict), key=lambda task: fallen.get(task.worst.key[:2], 0.0)
    )
    left_out = 0
    for level in (ERROR, WARNING):
        of_level = [task for task in missed_tasks if task.level == level]
        yield from (_command(task, task_lines, root) for task in of_level[:MOST])
        left_out += max(0, len(of_level) - MOST)
    if left_out:
        why = f"GitHub shows {MOST} of a level, and the job's summary all"
        more = f"{pluralize(left_out, 'more task')} with trials not passed, without an annotation: {why}"
        yield workflow_command("notice", more, title="Agent evals")


def _missed_tasks(entries: Sequence[JournalEntry], strict: bool) -> list[MissedTask]:
    trials: dict[tuple[str, ...], int] = {}
    for entry in entries:
        trials[_task(entry)] = trials.get(_task(entry), 0) + 1
    by_level: dict[tuple[str, tuple[str, ...]], list[JournalEntry]] = {}
    for entry in worst_first(entries):
        by_level.setdefault((_level(entry, strict), _task(entry)), []).append(entry)
    return [
        MissedTask(level, not_passed[0], len(not_passed), trials[task])
        for (level, task), not_passed in by_level.items()
    ]


def _task(entry: JournalEntry) -> tuple[str, ...]:
    return entry.key.suite, entry.key.task, entry.key.agent


def _level(entry: JournalEntry, strict: bool) -> str:
    return WARNING if entry.ending == "missed" and not strict else ERROR


def _command(task: MissedTask, task_lines: TaskLines, root: Path) -> str:
    worst = task.worst
    word = "ERROR" if worst.ending == "errored" else f"{worst.ending.upper()} {format_figure(worst.score)}"
    of_all = f"{task.count} of {pluralize(task.trials, 'trial')}, the worst: " if task.trials > 1 else ""
    return workflow_command(
        task.level,
        "\n".join(filter(None, (ending_reason(worst), of_all + trial_name(worst.key)))),
        file=path_in_repository(root, worst.file),
        line=task_lines.line_of(worst),
        title=one_line(f"{word} {worst.key.suite}/{worst.key.task}", MOST_TITLE),
    )


def path_in_repository(root: Path, file: str) -> str:
    """Give a file's path from the checked-out repository, where the run's rootdir lies in it."""
    workspace = os.environ.get("GITHUB_WORKSPACE", "")
    if not (file and workspace):
        return file
    path = Path(os.path.realpath(root / file))
    top = os.path.realpath(workspace)
    return path.relative_to(top).as_posix() if path.is_relative_to(top) else file
