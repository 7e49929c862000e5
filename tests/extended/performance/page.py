"""The table in Markdown, the page that holds it between marks, and on what machine it was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.extended.performance.peers import PEERS, Found
from tests.extended.performance.rows import TITLES, Row, amount

ROOT = Path(__file__).parents[3]
OWN = ("pytest-agenteval", "pytest", "pytest-xdist", "aiohttp", "litellm", "openai")

BEGIN = "<!-- python -m tests.extended.performance --peers --write docs/project/performance.md -->"
END = "<!-- end of the table -->"


def table(rows: Iterable[Row], titles: Sequence[str] = TITLES) -> str:
    """Give the columns of the rows that ``titles`` name, and how many goals hold."""
    rows = list(rows)
    goals = [row.holds for row in rows if row.holds is not None]
    ended = f"{goals.count(True)} of {len(goals)} goals with a figure hold."
    columns = [TITLES.index(title) for title in titles]
    cells = [[row.cells()[column] for column in columns] for row in rows]
    return "\n".join([lines(titles, cells), "", ended])


def page_table(rows: Iterable[Row]) -> str:
    """Give the tables of the page: goals beside plain pytest and short loops, then other frameworks.

    Counts of lines and calls, CPU and memory without a goal, and the spread of rounds are printed only.
    """
    shown = [row for row in rows if row.unit and _is_on_page(row)]
    of_peers: dict[str, list[Row]] = {}
    for row in shown:
        if _peer(row):
            of_peers.setdefault(row.what, []).append(row)
    titles = ("what", "ours", "beside", "figure", "goal")
    goals = [(row.what, row.ours, row.beside, _figure(row), _goal(row)) for row in shown if not _peer(row)]
    peers = [_line_of_peers(what, of_one) for what, of_one in of_peers.items()]
    tables = [_narrow(titles, goals), _narrow(("what", "ours", *PEERS), peers)]
    missed = "Bold figures miss their goal."
    held = [row.holds for row in shown if row.holds is not None]
    return "\n\n".join([*tables, f"{missed} {held.count(True)} of {len(held)} goals with a figure hold."])


def _is_on_page(row: Row) -> bool:
    return row.goal is not None or (bool(row.beside) and not re.search("CPU|peak", row.what))


def _peer(row: Row) -> str:
    """Name the framework that the row is beside, or give an empty text."""
    return next((name for name in PEERS if row.beside.startswith(name)), "")


def _figure(row: Row) -> str:
    figure = row.absent or amount(row.figure, row.unit)
    return f"**{figure}**" if row.holds is False else figure


def _goal(row: Row) -> str:
    goal = "" if row.goal is None else f"≤ {amount(row.goal, row.unit)}"
    return f"{goal}: cannot tell" if goal and row.is_noise else goal


def _line_of_peers(what: str, rows: Iterable[Row]) -> tuple[str, ...]:
    """Give what each framework took, then ours over theirs, with the goal."""
    by_name = {_peer(row): row for row in rows}
    cells = []
    for name in PEERS:
        row = by_name.get(name)
        parts = (row.beside.partition(": ")[2], _figure(row), _goal(row)) if row else ()
        cells.append(", ".join(filter(None, parts)))
    return (what, next(row.ours for row in by_name.values()), *cells)


def _narrow(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"|{'|'.join(row)}|" for row in cells)


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


def told(peers: Found | None) -> str:
    """Say it in a few lines."""
    lines = [
        f"Measured {date.today().isoformat()} on {processor()}, {os.cpu_count()} cores, load {_load()} at "
        f"first; {platform.system()} {platform.release()}, {platform.python_implementation()} "
        f"{platform.python_version()}.",
        f"Versions: {', '.join(_own())}.",
    ]
    if peers:
        named = (
            f"{name} {found}" if isinstance(found, str) else found.versions for name, found in peers.items()
        )
        lines.append(f"Frameworks: {'; '.join(named)}.")
    return "  \n".join(lines)


def processor() -> str:
    """Name the processor as the system does."""
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _own() -> list[str]:
    found = []
    for name in OWN:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return [f"{found[0]}{_commit()}", *found[1:]]


def _commit() -> str:
    """Name the commit of this checkout, and whether its sources differ from it."""
    try:
        commit = _git("rev-parse", "--short=10", "HEAD")
        changed = _git("status", "--porcelain", "src")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" at {commit}{' with changes' if changed else ''}"


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
