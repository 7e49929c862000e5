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

from tests.extended.performance.peers import Found
from tests.extended.performance.rows import TITLES, Row

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
    """Give the table of the page: what takes time or memory, as far as there is a goal or a peer's time.

    Counts of lines and calls, CPU and memory without a goal, and the spread of rounds are printed only.
    """
    titles = [title for title in TITLES if title != "lowest to highest"]
    return table([row for row in rows if row.unit and _is_on_page(row)], titles)


def _is_on_page(row: Row) -> bool:
    return row.goal is not None or (bool(row.beside) and not re.search("CPU|peak", row.what))


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
    for name, found in (peers or {}).items():
        lines.append(f"{name}: {found if isinstance(found, str) else found.versions}.")
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
