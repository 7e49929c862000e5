"""The journal's entries: their ids, the daily file that holds them, the file of each card, a task's input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, time
from itertools import zip_longest
from typing import Any

from pytest_agenteval import OutsideWorkspace, ToolFailed, Workspace
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.text.json_values import json_digest


def describe_value(value: Any) -> str:
    """Name a value that was found in another's place."""
    if isinstance(value, str):
        return f"{value[:40]!r} (text)" if value else "an empty text"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    return "an object" if isinstance(value, Mapping) else repr(value)


_FACT_ID = re.compile(r"([0-9]{4}/[0-9]{2}/[0-9]{2})\.md#(ts_[0-9]+)")
_HEADING = re.compile(
    r"^#+[ \t]*<id:(ts_[0-9]+)>[ \t]*((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]).*$", re.MULTILINE
)


class FactId(FrozenValue, frozen=True):
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
    match = _FACT_ID.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    try:
        datetime.strptime(match[1], "%Y/%m/%d")
    except ValueError:
        return None
    return FactId(match[0], match[1], match[2])


class DailyEntry(FrozenValue, frozen=True):
    """One entry of a daily file: when it was written, and what it says."""

    written_at: datetime
    text: str


def daily_entries(daily: str) -> Iterator[tuple[str, str]]:
    """Give the name and the text of each entry of a daily file."""
    headings = list(_HEADING.finditer(daily))
    for heading, following in zip_longest(headings, headings[1:]):
        end = None if following is None else following.start()
        yield heading[1], daily[heading.end() : end].strip()


def find_entry(daily: str | None, fact: FactId) -> DailyEntry | None:
    """Find an entry in the text of its daily file; its text runs to the next heading."""
    headings = list(_HEADING.finditer(daily or ""))
    for number, heading in enumerate(headings):
        if heading[1] == fact.entry:
            following = headings[number + 1 : number + 2]
            end = following[0].start() if following else None
            date = datetime.strptime(fact.date, "%Y/%m/%d")
            written_at = datetime.combine(date, time.fromisoformat(heading[2]))
            return DailyEntry(written_at, heading.string[heading.end() : end].strip())
    return None


def read(workspace: Workspace, path: str) -> str | None:
    """Read a file of the workspace, None when it is not there; makes no tree that nobody asked for."""
    if not workspace.exists:
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
        file.write_text(text, encoding="utf-8", newline="\n")
    except (OSError, OutsideWorkspace) as failed:
        raise ToolFailed(f"the card could not be written: {failed}", "write_failed") from failed


NEW_YEAR = datetime(2026, 1, 1, 9)
"""When an entry was written where neither clock nor id tell: fixed, so that runs can be compared."""

MORNING = "09:00:00"
FIRST_NUMBER, NUMBERS = 1000, 9000
"""Entries without an id are numbered by their task, far from those that people write."""

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def input_problems(task_input: Mapping[str, Any]) -> list[tuple[KeyPath, str, str]]:
    """Say what is wrong with a task's input: where, what was expected, what was found."""
    problems: list[tuple[KeyPath, str, str]] = []
    if "fact_id" in task_input and fact_id(task_input["fact_id"]) is None:
        expected = "the id of an entry, like 2026/09/17.md#ts_1; without one the entry gets its own"
        problems.append((("fact_id",), expected, _describe_key(task_input, "fact_id")))
    if not isinstance(task_input.get("content"), str):
        problems.append(
            (("content",), "the entry's text, may be empty", _describe_key(task_input, "content"))
        )
    return problems


def prepared(
    task_input: Mapping[str, Any], task_id: str, clock: str | None, read: Callable[[str], str | None]
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Give the input with the entry's id, and the day's file with the entry in it where it lacks it.

    The journal gives an entry its id and writes it down before any agent sees it. Of an entry without an id
    the day is the clock's; the number is that of the day's entry with the very same text, else one that
    comes from the task's id.
    """
    if input_problems(task_input):  # another agent's input
        return task_input, {}
    content = task_input["content"]
    at = NEW_YEAR if clock is None else datetime.fromisoformat(clock)
    fact = fact_id(task_input.get("fact_id")) or _derive_fact_id(content, task_id, at, read)
    whole = task_input if "fact_id" in task_input else {**task_input, "fact_id": fact.text}
    daily = read(fact.daily_file) or ""
    if find_entry(daily, fact) is not None:
        return whole, {}
    time = f"{at:%H:%M:%S}" if clock and fact.date == f"{at:%Y/%m/%d}" else MORNING
    above = f"{daily.rstrip()}\n\n" if daily.strip() else ""
    laid = f'{above}## <id:{fact.entry}> {time} "{{}}"\n\n{content}\n'
    return whole, {fact.daily_file: laid}


def _derive_fact_id(content: str, task_id: str, at: datetime, read: Callable[[str], str | None]) -> FactId:
    day = f"{at:%Y/%m/%d}"
    daily = read(FactId("", day, "").daily_file) or ""
    number = FIRST_NUMBER + int(json_digest(task_id)[:8], 16) % NUMBERS
    # Tasks are many and numbers few: another task, or the user, may have it already.
    while re.search(rf"<id:ts_{number}>", daily):
        number += 1
    same = (name for name, text in daily_entries(daily) if text == content.strip() and text)
    name = next(same, f"ts_{number}")
    return FactId(f"{day}.md#{name}", day, name)


def format_moment(moment: datetime) -> str:
    """Write a moment as an agent is told it: with its weekday, in English on every machine."""
    return f"{_WEEKDAYS[moment.weekday()]}, {moment:%Y-%m-%d %H:%M:%S}"


def _describe_key(task_input: Mapping[str, Any], key: str) -> str:
    return describe_value(task_input[key]) if key in task_input else "nothing"
