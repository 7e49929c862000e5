"""What came of all scenarios, as a table of docs/limits.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.extended.chaos.verdicts import OK, Verdict

PAGE = Path("docs/limits.md")
TITLES = ("what is done", "runs", "nothing lost, doubled or paid again", "counted")
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
    return str(len(verdicts)), str(fine), figures


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"


def write_table(rows: Iterable[tuple[str, ...]], page: Path = PAGE) -> None:
    """Put the rows between the marks of the page; what was not tried this time keeps its row."""
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    before, _, tail = rest.partition(END)
    old = (line.strip()[1:-1].split("|") for line in before.splitlines() if line.startswith("| "))
    kept = ([cell.strip() for cell in cells] for cells in old)
    by_group = {row[0]: row for row in [*kept, *rows] if row[0] != TITLES[0]}
    lines = [f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in by_group.values()]
    page.write_text("\n".join([f"{head}{BEGIN}", "", *lines, "", f"{END}{tail}"]), encoding="utf-8")
