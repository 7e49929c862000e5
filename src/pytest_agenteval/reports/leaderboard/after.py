"""What is said of levels after a run: one line for each model, or the whole table."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agenteval.reports.cells import wrap
from pytest_agenteval.reports.leaderboard.grid import grid_lines
from pytest_agenteval.reports.leaderboard.standing import Standing, standings_of
from pytest_agenteval.reports.leaderboard.tables import composite_text, standing_grids
from pytest_agenteval.reports.terminal import NARROWEST, WIDEST, Line
from pytest_agenteval.reports.wording import figure
from pytest_agenteval.store.reader import Run


def level_lines(run: Run, width: int, *, whole: bool) -> Iterator[Line]:
    """Give the levels of each suite and model that has them; nothing for other suites."""
    width = max(NARROWEST, min(width, WIDEST))
    for standing in standings_of(run):
        if not any(level.total.value is not None for level in standing.levels):
            continue
        if whole:
            for grid in standing_grids(standing):
                yield from grid_lines(grid, width)
        else:
            yield from (Line(piece) for piece in wrap(_in_brief(standing), width))
        yield Line("")


def _in_brief(standing: Standing) -> str:
    told = [
        f"{level.name} {figure(level.total.value)}"
        for level in standing.levels
        if level.total.value is not None
    ]
    whole = standing.composite is not None and standing.composite.value is not None
    composite = f"; {composite_text(standing.composite)}" if whole and standing.composite else ""
    name = f"{standing.view.suite} with {standing.view.who}"
    return f"levels of {name}: {', '.join(told)}{composite} (-v: each metric)"
