"""The table in Markdown, and the page that holds it between marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.extended.performance.rows import TITLES, Row

BEGIN = "<!-- python -m tests.extended.performance --peers --write docs/performance.md -->"
END = "<!-- end of the table -->"


def table(rows: Iterable[Row]) -> str:
    """Give the rows below the titles, and how many goals hold."""
    rows = list(rows)
    goals = [row.holds for row in rows if row.holds is not None]
    ended = f"{goals.count(True)} of {len(goals)} goals that could be looked at hold."
    return "\n".join([lines(TITLES, [row.cells() for row in rows]), "", ended])


def lines(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Give a table in Markdown."""
    cells = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def write(page: Path, text: str) -> None:
    """Put the text between the marks of a page."""
    old = page.read_text(encoding="utf-8")
    if BEGIN not in old or END not in old.partition(BEGIN)[2]:
        raise SystemExit(f"{page}: expected the marks {BEGIN} and {END}, in this order; add both lines")
    head, _, rest = old.partition(BEGIN)
    tail = rest.partition(END)[2]
    page.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", encoding="utf-8")
