"""The page of the docs that says which versions were tried, when, and what came of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import NamedTuple

from tests.extended.frameworks.catalogue import BY_NAME, UNREAD, Framework
from tests.extended.frameworks.environments import ROOT, YEAR_OLD
from tests.extended.frameworks.matrix import cases

AGES = ("newest", "year-old")
PAGE = ROOT / "docs" / "reference" / "frameworks.md"
HEAD = f"""# Tested versions of frameworks

<!-- Made by `python -m tests.extended.frameworks --write`. -->

This page lists the frameworks and clients that pytest-agenteval is tested with.
[Your framework](../guides/frameworks.md) has an example for 17 of them.

Each framework is installed in its newest version, and in the version of {YEAR_OLD}. The model and the tool's
API are servers on the test machine. `docs` is the example of the guide; the other ways are sync, async,
streamed and so on. Each way has to pass these checks:

- **Transcript:** it holds the agent's words, the call with its arguments, the result that the model read, and
  the answer. `tool_called` passes. Steps and tokens equal those of the server.
- **Replay:** a recorded run replays word for word without the server, and opens no connection.
- **Concurrency:** ten tasks run at once, several times each, and are not mixed up.
- **Limits:** with `limits: {{steps: 4}}`, an endless model is called four times. After a timeout, no more
  requests are sent.
- **Another model:** a [named model](../guides/compare-models.md) in another format gives the same calls,
  answers and grades (newest version).
- **No options:** nothing is sent to another machine, and the message names an option (first way only).
- `terminal`: a tool's result ends the agent, and no model reads it. Its result is unknown or what the agent
  returned; there is no error.
- `structured`: the answer is an object of a type that the agent names.

DSPy's ReAct writes its calls as text: the transcript has those that the agent returns. huggingface-hub runs
with `HF_HUB_DISABLE_TELEMETRY=1`, because its client requests a list once a day, which
[only one trial records](../project/limits.md#what-is-not-seen).

"""
NOTE = """
Where versions conflict with the framework's, pytest-agenteval was installed ¹ without litellm; ² without
litellm and mcp; ³ without them and with an older aiohttp.
[Your own agent needs none of them](../guides/frameworks.md#if-versions-conflict).
"""
UNREAD_NOTE = "not read; recorded and replayed as HTTP"


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


class Age(NamedTuple):
    """One framework in one age: its ways, and why it cannot be tested, if so.

    ``without`` are the ways that it lacks in that age, with the reasons.
    """

    framework: str
    age: str
    ways: tuple[str, ...]
    lacks: str
    without: str

    def rows(self, tested: Mapping[str, Row]) -> list[Row]:
        """Give the rows of its ways that were run."""
        named = (tested.get(f"{self.framework} {self.age} {way}") for way in self.ways)
        return [row for row in named if row and not self.lacks]

    def cell(self, tested: Mapping[str, Row], before: str) -> str:
        """Give its versions and what was not tested; ``before`` is what the page has."""
        if self.lacks:
            return f"not tested: {self.lacks}"
        rows = self.rows(tested)
        if not rows:
            return before
        run = {row.way for row in rows}
        never = ", ".join(way for way in self.ways if way not in run)
        return _versions(rows[0]) + (f"; never tested: {never}" if never else "") + self.without


class Line(NamedTuple):
    """A line of the page: one framework in both ages.

    ``is_unread``: it speaks a format that pytest-agenteval does not read.
    """

    framework: str
    ages: tuple[Age, Age]
    is_unread: bool

    @property
    def ways(self) -> str:
        """All ways in which it is run."""
        return ", ".join(dict.fromkeys(way for age in self.ages if not age.lacks for way in age.ways))


def lines_of_page() -> Iterator[Line]:
    """Give all lines, in the catalogue's order."""
    for framework in BY_NAME.values():
        is_unread = all(case.format in UNREAD for case in framework.cases)
        newest, year_old = (_age(framework, age) for age in AGES)
        yield Line(framework.name, (newest, year_old), is_unread)


def _age(framework: Framework, age: str) -> Age:
    ways = tuple(case.function for case in cases(framework) if not case.lacks(age))
    lacking = [case for case in framework.cases if case.lacks(age)]
    without = "".join(f"; without {case.function}: {case.lacks(age)}" for case in lacking)
    return Age(framework.name, age, ways, framework.lacks(age), without)


def write_page(rows: Iterable[Row]) -> None:
    """Write the page, which names the ways that were never tested."""
    tested = {row.name: row for row in rows}
    head = ["|framework|newest|a year old|ways|passed|last tested|", "|---|---|---|---|---|---|"]
    before = _lines_before()
    table = "\n".join([*head, *(_table_line(line, tested, before) for line in lines_of_page())])
    PAGE.write_text(f"{HEAD}{table}\n{NOTE}", encoding="utf-8", newline="\n")


def _lines_before() -> dict[str, list[str]]:
    """Give the page's cells by framework: rows may have been noted on another machine."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return {each[0]: each for each in cells if len(each) == 6}


def _table_line(line: Line, tested: Mapping[str, Row], before: Mapping[str, list[str]]) -> str:
    old = before.get(line.framework, [line.framework, "never tested", "never tested", "", "", ""])
    rows = [row for age in line.ages for row in age.rows(tested)]
    faults = [f"{row.way} ({row.age}): {row.faults[0]}" for row in rows if row.faults]
    good = UNREAD_NOTE if line.is_unread else "all"
    passed = "; ".join(faults).replace("|", "\\|") or good if rows else old[4]
    day = max([*(row.day for row in rows), old[5]])
    versions = [age.cell(tested, cell) for age, cell in zip(line.ages, old[1:3], strict=True)]
    return f"|{'|'.join([line.framework, *versions, line.ways, passed, day])}|"


def _versions(row: Row) -> str:
    left_out = row.left_out
    mark = "³" if "aiohttp" in left_out else "²" if "mcp" in left_out else "¹" if left_out else ""
    names = [each.replace("==", " ").removeprefix(f"{row.framework} ") for each in row.versions]
    return ", ".join(names) + mark
