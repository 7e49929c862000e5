"""What is said of a scenario: that nothing or something was lost, or that it was too slow; and the table."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pytest_agenteval.records.record import NOTHING
from tests.extended.chaos.figures import unequal_figures
from tests.extended.chaos.project import TooSlow

OK = "ok"
LOST = "LOST"
NO_VERDICT = "no verdict: the run was too slow"
TRIES = 2


class Findings(NamedTuple):
    """What went wrong, and what was counted: ``{"requests": 204, "trials": 200}``."""

    wrong: list[str]
    figures: Mapping[str, float] = NOTHING


CarriedOut: TypeAlias = Callable[[Path], list[str] | Findings]
"""Carries a scenario out in a folder of its own."""


class Verdict(NamedTuple):
    """What became of a scenario, the reasons, and what was counted."""

    word: str
    reasons: list[str]
    seconds: float
    figures: Mapping[str, float] = NOTHING


def verdict(scenario: CarriedOut) -> Verdict:
    """Carry a scenario out, and once more where its run was too slow to tell."""
    began = time.monotonic()
    word, reasons, figures = _verdict(scenario)
    return Verdict(word, reasons, time.monotonic() - began, figures)


def _verdict(scenario: CarriedOut) -> tuple[str, list[str], Mapping[str, float]]:
    slow: list[str] = []
    for _ in range(TRIES):
        try:
            wrong, figures = _carried_out(scenario)
        except TooSlow as why:
            slow.append(str(why))
        else:
            return LOST if wrong else OK, wrong + [f"at first too slow: {each}" for each in slow], figures
    return NO_VERDICT, slow, NOTHING


def _carried_out(scenario: CarriedOut) -> Findings:
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        try:
            findings = scenario(Path(folder) / "project")
        except TooSlow:
            raise
        except Exception as raised:
            return Findings([f"{type(raised).__name__}: {raised}"])
        wrong, figures = findings if isinstance(findings, Findings) else Findings(findings)
        return Findings(wrong + unequal_figures(Path(folder)), figures)


PAGE = Path("docs/project/limits.md")
TITLES = ("what is done", "nothing lost, doubled or paid again", "counted")
BEGIN, END = "<!-- python -m tests.extended.chaos --write -->", "<!-- end of the table -->"


def group_rows(ends: Iterable[tuple[str, Verdict]]) -> list[tuple[str, ...]]:
    """Give a row for each group of scenarios: how many, how many lost nothing, and what was counted."""
    groups: dict[str, list[Verdict]] = {}
    for group, end in ends:
        groups.setdefault(group, []).append(end)
    return [(group, *_row(verdicts)) for group, verdicts in groups.items()]


def _row(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    counted: dict[str, float] = {}
    for name, number in (pair for end in verdicts for pair in end.figures.items()):
        counted[name] = counted.get(name, 0) + number
    fine = sum(end.word == OK for end in verdicts)
    figures = ", ".join(f"{_figure(number)} {name}" for name, number in counted.items())
    return f"{fine} of {len(verdicts)} runs", figures


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"


def write_table(rows: Iterable[tuple[str, ...]], page: Path = PAGE) -> None:
    """Put the rows between the marks of the page; what was not tried this time keeps its row."""
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    before, _, tail = rest.partition(END)
    old = (line.strip()[1:-1].split("|") for line in before.splitlines() if line.startswith("|"))
    kept = ([cell.strip() for cell in cells] for cells in old)
    by_group = {row[0]: row for row in [*kept, *rows] if row[0] not in (TITLES[0], "---")}
    lines = [f"|{'|'.join(TITLES)}|", "|---" * len(TITLES) + "|"]
    lines += [f"|{'|'.join(row)}|" for row in by_group.values()]
    page.write_text("\n".join([f"{head}{BEGIN}", "", *lines, "", f"{END}{tail}"]), encoding="utf-8")
