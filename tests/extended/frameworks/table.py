"""The page of the docs that says which versions were tried, when, and what came of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import NamedTuple

from tests.extended.frameworks.catalogue import BY_NAME, UNREAD
from tests.extended.frameworks.environments import ROOT, YEAR_OLD
from tests.extended.frameworks.matrix import cases

AGES = ("newest", "year-old")
PAGE = ROOT / "docs" / "reference" / "frameworks.md"
HEAD = f"""# Frameworks that were tried

<!-- Made by `python -m tests.extended.frameworks --write`. -->

Each framework has an environment of its own, with its newest version or with that which was newest on
{YEAR_OLD} (and all that it needs, as of that day), and pytest-agenteval beside it; model and tool's API are
a server on this machine. Of each way of running it, the example of
[agents.md](../guides/agents.md#frameworks) (`docs`, where it has one) and those that are named, this
has to be true:

- the transcript has the agent's words, the call with its arguments, the result as the model was shown it, and
  the answer; `tool_called` passes;
- `terminal`, where the tool's result ends the agent and no model is shown it: the result is unknown or what
  the agent returned, and no error; `structured`: the answer is an object, of a type that the agent names;
- DSPy's ReAct writes its calls in texts: those that the agent returns are in the transcript;
- steps and tokens are those that the server counted;
- what `--agent-record=once --agent-record-chat=once` recorded is replayed word by word once the server is
  gone: no connection is begun;
- ten tasks at once, each several times (trials divided by ten tells how often, all ways together), are not
  mixed up;
- under `limits: {{steps: 4}}` a model that never ends is asked four times;
- after the end of a trial that ran out of time, nothing more is asked;
- without flags nothing is sent, and a flag is named (tried with the first way alone).

huggingface-hub is run with `HF_HUB_DISABLE_TELEMETRY=1`. Without it the client asks the hub for a list once a
day: only one trial records that request, and another one may miss it in a replay
([limits](../project/limits.md#what-is-not-seen)).

"""
NOTE = """
¹ without our litellm, which wants other versions of what this one needs; ² without our mcp, too; ³ and with
an older aiohttp than ours: none is needed by an agent of one's own.
"""
UNREAD_NOTE = "format not read: recorded, replayed as HTTP, and a line says so"


@dataclass(frozen=True, slots=True)
class Row:
    """One way of running a framework in one age: what was installed, and what came of it."""

    framework: str
    age: str
    way: str
    versions: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    trials: int = 0
    seconds: float = 0.0
    day: str = field(default_factory=lambda: date.today().isoformat())

    @property
    def name(self) -> str:
        """What tells it from all others."""
        return f"{self.framework} {self.age} {self.way}"


class Notes:
    """The latest row of each way, kept in a file: what was not tried again stands as it was."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()

    def add(self, row: Row) -> None:
        """Put a row in the place of an earlier one."""
        with self._lock:
            rows = {**{each.name: each for each in self.rows()}, row.name: row}
            self._file.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps([asdict(each) for each in rows.values()], indent=1, ensure_ascii=False)
            self._file.write_text(text, encoding="utf-8", newline="\n")

    def rows(self) -> list[Row]:
        """Give all rows."""
        if not self._file.exists():
            return []
        return [Row(**each) for each in json.loads(self._file.read_text(encoding="utf-8"))]


class Line(NamedTuple):
    """A line of the page: one framework in one age, all ways of it, and why it cannot be tried, if so.

    ``is_unread``: it speaks a format that pytest-agenteval does not read. ``without`` are the ways that it
    lacks in that age, with the reasons.
    """

    framework: str
    age: str
    ways: tuple[str, ...]
    lacks: str
    is_unread: bool
    without: str

    @property
    def title(self) -> str:
        """What it begins with."""
        return f"{self.framework}, {self.age.replace('-', ' ')}"


def lines_of_page() -> Iterator[Line]:
    """Give all lines, in the catalogue's order."""
    for framework in BY_NAME.values():
        is_unread = all(case.format in UNREAD for case in framework.cases)
        for age in AGES:
            ways = tuple(case.function for case in cases(framework) if not case.lacks(age))
            lacking = [case for case in framework.cases if case.lacks(age)]
            without = "".join(f"; without {case.function}: {case.lacks(age)}" for case in lacking)
            yield Line(framework.name, age, ways, framework.lacks(age), is_unread, without)


def write_page(rows: Iterable[Row]) -> None:
    """Write the page, which names the ways that were never tried."""
    tried = {row.name: row for row in rows}
    head = ["| framework | versions | ways | trials | holds | tried |", "|---|---|---|---|---|---|"]
    before = _lines_before()
    table = "\n".join([*head, *(_table_line(line, tried, before) for line in lines_of_page())])
    PAGE.write_text(f"{HEAD}{table}\n{NOTE}", encoding="utf-8", newline="\n")


def _lines_before() -> dict[str, str]:
    """Give the lines of the page as it is, by their titles: rows may have been noted on another machine."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}


def _table_line(line: Line, tried: Mapping[str, Row], before: Mapping[str, str]) -> str:
    if line.lacks:
        return f"| {line.title} | | not tried: {line.lacks} | | | |"
    named = {way: tried.get(f"{line.framework} {line.age} {way}") for way in line.ways}
    rows = [row for row in named.values() if row]
    never = [way for way, row in named.items() if not row]
    parts = [", ".join(row.way for row in rows), f"never tried: {', '.join(never)}" if never else ""]
    ways = "; ".join(filter(None, parts)) + line.without
    if not rows:
        return before.get(line.title, f"| {line.title} | | {ways} | | | |")
    faults = [f"{row.way}: {row.faults[0]}" for row in rows if row.faults]
    good = UNREAD_NOTE if line.is_unread else "all"
    holds = good if not faults else "; ".join(faults).replace("|", "\\|")
    trials, day = sum(row.trials for row in rows), max(row.day for row in rows)
    return f"| {line.title} | {_versions(rows[0])} | {ways} | {trials} | {holds} | {day} |"


def _versions(row: Row) -> str:
    left_out = row.left_out
    mark = "³" if "aiohttp" in left_out else "²" if "mcp" in left_out else "¹" if left_out else ""
    return ", ".join(each.replace("==", " ") for each in row.versions) + mark
