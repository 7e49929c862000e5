"""Figures and commands as the page writes them: those of all other reports, and safe to copy."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_agenteval.records.transcript import Figure, Message, Transcript, Usage, format_cost
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.formatting import format_figure
from tests.extended.browser.sample_reports import write
from tests.extended.browser.visit import TALL, Visit
from tests.reports.runs import store_run, trial

Open = Callable[..., Visit]
EIGHTHS = [number / 8 for number in range(9)]
"""Scores that lie between two figures of two digits: Python rounds to the even one, JavaScript up."""

COSTS = [None, 0.0, 0.03125, 1.125]
QUOTED = "what's; echo `acted`"


def _trials() -> Iterator[Trial]:
    for place, score in enumerate(EIGHTHS):
        usage = Usage(10, 10, cost_usd=COSTS[place % len(COSTS)], asks=1, attempts=1)
        said = Transcript((Message("user", "half \ud800"),), usage=usage)
        yield trial(f"t{place}", 1, score, f"b{place}", transcript=said)
    yield trial(QUOTED, 1, 0.5, "b8", transcript=Transcript((Message("user", "hello"),)))


@pytest.fixture(scope="module")
def eighths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every score that two programs may round in two ways."""
    folder = tmp_path_factory.mktemp("eighths")
    return write(folder, store_run(folder / "runs", _trials()))


def test_figures_are_those_of_other_reports(visit: Open, eighths: Path) -> None:
    """A score is never 0.62 in the terminal and 0.63 on the page, in rows, buckets and trials."""
    seen = visit(eighths, "#/?sort=task", viewport=TALL)
    expected = list(map(format_figure, EIGHTHS))
    shown = "[...document.querySelectorAll('{} .number:not(.dim)')].slice(0, 9).map(each => each.textContent)"
    assert seen.get(shown.format(".row.task")) == expected
    assert {*expected} - {"1.00"} <= {*seen.get(shown.format(".figures.bucket"))}
    seen.open_trial("s/t5[rules-1]")
    assert seen.get("document.querySelector('.summary .score').textContent") == "0.62"


def test_a_cost_that_nobody_knows_is_not_0(visit: Open, eighths: Path) -> None:
    """Costs are rounded as everywhere, and one without a price says so and comes last."""
    seen = visit(eighths, "#/?sort=cost&q=rules", viewport=TALL)
    costs = seen.get("[...document.querySelectorAll('.row.task .number.dim')].map(each => each.textContent)")
    assert costs[:2] == [format_cost(Figure(1.125))] * 2
    assert costs[2:4] == [format_cost(Figure(0.03125))] * 2
    assert costs[-3:] == ["cost unknown"] * 3


def test_a_command_that_is_copied_does_nothing_else(visit: Open, eighths: Path) -> None:
    """A task's name is one argument of the command, whatever stands in it."""
    seen = visit(eighths)
    seen.open_trial(name := f"s/{QUOTED}[rules-1]")
    command = seen.get("document.querySelector('.facts .command').textContent")
    assert shlex.split(command) == ["agenteval", "show", name]


def test_a_change_says_over_which_tasks_it_is(visit: Open, tmp_path: Path) -> None:
    """A score over tasks that the old run lacks is not the end of the change, and no dot says that it is."""
    old = store_run(tmp_path / "runs", [trial("a", 1, 0.5, "x"), trial("c", 1, 0.5, "y")])
    new = [trial("a", 1, 0.75, "x"), trial("b", 1, 0.0, "x"), trial("c", 1, 0.75, "y")]
    seen = visit(write(tmp_path, old, store_run(tmp_path / "runs", new)), viewport=TALL)
    rows = seen.get("[...document.querySelectorAll('.figures.bucket')].map(row => row.innerText).sort()")
    assert ["compared over 1 of 2 tasks" in row for row in rows] == [True, False]
    ends = "[...document.querySelectorAll('.figures.bucket .dot')].map(dot => +dot.getAttribute('cx'))"
    assert seen.get(ends) == [4 + 92 * score for score in (0.5, 0.75) * 2]
