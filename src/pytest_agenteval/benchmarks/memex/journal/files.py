"""Where entries and cards are on disk: the daily fact file, and one YAML file for each card."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time
from itertools import zip_longest

from pytest_agenteval.tools.tool import ToolFailed
from pytest_agenteval.workspace.workspace import OutsideWorkspace, Workspace

_FACT_ID = re.compile(r"([0-9]{4}/[0-9]{2}/[0-9]{2})\.md#(ts_[0-9]+)")
_HEADING = re.compile(
    r"^#+[ \t]*<id:(ts_[0-9]+)>[ \t]*((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]).*$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class FactId:
    """Which entry of which day."""

    text: str
    date: str
    entry: str

    @property
    def daily_file(self) -> str:
        """The file with all entries of the day."""
        return f"Facts/{self.date}.md"

    @property
    def card_file(self) -> str:
        """The file of the entry's card."""
        return f"Cards/{self.date}_{self.entry}.yaml"


def fact_id(text: object) -> FactId | None:
    """Read a fact id such as ``2026/09/17.md#ts_1``; None when it is none."""
    found = _FACT_ID.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    try:
        datetime.strptime(found[1], "%Y/%m/%d")
    except ValueError:
        return None
    return FactId(found[0], found[1], found[2])


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a daily file: when it was written, and what it says."""

    written: datetime
    text: str


def entries(daily: str) -> Iterator[tuple[str, str]]:
    """Give the name and the text of each entry of a daily file."""
    headings = list(_HEADING.finditer(daily))
    for heading, following in zip_longest(headings, headings[1:]):
        end = None if following is None else following.start()
        yield heading[1], daily[heading.end() : end].strip()


def entry(daily: str | None, fact: FactId) -> Entry | None:
    """Find an entry in the text of its daily file; its text runs to the next heading."""
    headings = list(_HEADING.finditer(daily or ""))
    for number, heading in enumerate(headings):
        if heading[1] == fact.entry:
            following = headings[number + 1 : number + 2]
            end = following[0].start() if following else None
            date = datetime.strptime(fact.date, "%Y/%m/%d")
            written = datetime.combine(date, time.fromisoformat(heading[2]))
            return Entry(written, heading.string[heading.end() : end].strip())
    return None


def read(workspace: Workspace, path: str) -> str | None:
    """Read a file of the workspace, None when it is not there; makes no tree that nobody asked for."""
    if not workspace.made:
        return workspace.before().text(path)
    try:
        return workspace.inside(path).read_text(encoding="utf-8", errors="replace")
    except (OSError, OutsideWorkspace):
        return None


def write(workspace: Workspace, path: str, text: str) -> None:
    """Write a file of the workspace; raises ToolFailed when that cannot be done."""
    try:
        file = workspace.inside(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except (OSError, OutsideWorkspace) as failed:
        raise ToolFailed(f"the card could not be written: {failed}", "write_failed") from failed
