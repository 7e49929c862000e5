"""What a task gives an agent of the journal: which entry, and its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from pytest_agenteval.benchmarks.memex.journal.files import FactId, entries, entry, fact_id
from pytest_agenteval.benchmarks.memex.journal.naming import named
from pytest_agenteval.canonical import digest
from pytest_agenteval.errors import KeyPath

NEW_YEAR = datetime(2026, 1, 1, 9)
"""When an entry was written where neither clock nor id tell: fixed, so that runs can be compared."""

MORNING = "09:00:00"
LEAST, NUMBERS = 1000, 9000
"""Entries without an id are numbered by their task, far from those that people write."""

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def input_problems(task_input: Mapping[str, Any]) -> list[tuple[KeyPath, str, str]]:
    """Say what is wrong with a task's input: where, what was expected, what was found."""
    problems: list[tuple[KeyPath, str, str]] = []
    if "fact_id" in task_input and fact_id(task_input["fact_id"]) is None:
        expected = "the id of an entry, like 2026/09/17.md#ts_1; without one the entry gets its own"
        problems.append((("fact_id",), expected, _found(task_input, "fact_id")))
    if not isinstance(task_input.get("content"), str):
        problems.append((("content",), "the entry's text, may be empty", _found(task_input, "content")))
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
    fact = fact_id(task_input.get("fact_id")) or _derived(content, task_id, at, read)
    whole = task_input if "fact_id" in task_input else {**task_input, "fact_id": fact.text}
    daily = read(fact.daily_file) or ""
    if entry(daily, fact) is not None:
        return whole, {}
    time = f"{at:%H:%M:%S}" if clock and fact.date == f"{at:%Y/%m/%d}" else MORNING
    above = f"{daily.rstrip()}\n\n" if daily.strip() else ""
    laid = f'{above}## <id:{fact.entry}> {time} "{{}}"\n\n{content}\n'
    return whole, {fact.daily_file: laid}


def _derived(content: str, task_id: str, at: datetime, read: Callable[[str], str | None]) -> FactId:
    day = f"{at:%Y/%m/%d}"
    daily = read(FactId("", day, "").daily_file) or ""
    number = LEAST + int(digest(task_id)[:8], 16) % NUMBERS
    while re.search(rf"<id:ts_{number}>", daily):
        number += 1
    same = (name for name, text in entries(daily) if text == content.strip() and text)
    name = next(same, f"ts_{number}")
    return FactId(f"{day}.md#{name}", day, name)


def published(moment: datetime) -> str:
    """Write a moment as an agent is told it: with its weekday, in English on every machine."""
    return f"{_WEEKDAYS[moment.weekday()]}, {moment:%Y-%m-%d %H:%M:%S}"


def _found(task_input: Mapping[str, Any], key: str) -> str:
    return named(task_input[key]) if key in task_input else "nothing"
