"""What is said of levels after a run: one line for each model, or the whole table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.benchmarks.ko_agentbench.levels import LEVEL_METRICS, Level
from pytest_agenteval.reports.formatting import format_figure
from pytest_agenteval.reports.leaderboard.board_tables import composite_text, standing_tables
from pytest_agenteval.reports.leaderboard.standings import Standing, standings_of, suite_entries
from pytest_agenteval.reports.statistics import NO_JUDGE
from pytest_agenteval.reports.suite_table import mark_unjudged
from pytest_agenteval.reports.tables import table_lines
from pytest_agenteval.reports.text_width import Line, clamp_width, wrap
from pytest_agenteval.store.journal_entry import Entry
from pytest_agenteval.store.run_reader import Run


def level_lines(run: Run, width: int, *, whole: bool) -> Iterator[Line]:
    """Give the levels of each suite and model that has them; nothing for other suites."""
    width = clamp_width(width)
    for standing in standings_of(run):
        if not standing.levels:
            continue
        if whole:
            for table in standing_tables(standing):
                yield from table_lines(table, width)
        else:
            yield from (Line(piece) for piece in wrap(_in_brief(run, standing), width))
        yield Line("")


def _in_brief(run: Run, standing: Standing) -> str:
    entries: dict[str, list[Entry]] = {}
    for entry in suite_entries(run, standing.view):
        entries.setdefault(entry.bucket, []).append(entry)
    told = [
        _level(standing, level, entries[level.name]) for level in standing.levels if level.name in entries
    ]
    name = f"{standing.view.suite} with {standing.view.who}"
    return f"levels of {name}: {', '.join(told)}{_composite(standing)} (-v: each metric)"


def _level(standing: Standing, level: Level, entries: Sequence[Entry]) -> str:
    """Write the value of a level that was tried and what had no part in it, or why it has none."""
    if level.value is not None:
        lacking = [metric.name for metric in level.metrics if metric.value is None]
        value = mark_unjudged(format_figure(level.value), standing.lacks(level.name))
        return f"{level.name} {value}" + (f" (without {', '.join(lacking)})" if lacking else "")
    own = (grade for entry in entries for grade in entry.grades if grade.grader in LEVEL_METRICS[level.name])
    if any(grade.details.get("undecided") == NO_JUDGE for grade in own):
        return f"{level.name} - (needs --agent-judge)"
    return f"{level.name} - ({'undecided' if any(entry.averaged for entry in entries) else 'errored'})"


def _composite(standing: Standing) -> str:
    found = standing.composite
    if found is None:
        return ""
    return f"; {composite_text(standing)}" + (f" (lacks {', '.join(found.missing)})" if found.missing else "")
