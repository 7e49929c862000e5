"""What a task gives an agent of the journal: which entry, and its text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pytest_agenteval.agents.journal.files import fact_id
from pytest_agenteval.agents.journal.naming import named
from pytest_agenteval.errors import KeyPath

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def input_problems(task_input: Mapping[str, Any]) -> list[tuple[KeyPath, str, str]]:
    """Say what is wrong with a task's input: where, what was expected, what was found."""
    problems: list[tuple[KeyPath, str, str]] = []
    if fact_id(task_input.get("fact_id")) is None:
        expected = "the id of an entry, like 2026/09/17.md#ts_1"
        problems.append((("fact_id",), expected, _found(task_input, "fact_id")))
    if not isinstance(task_input.get("content"), str):
        problems.append((("content",), "the entry's text, may be empty", _found(task_input, "content")))
    return problems


def published(moment: datetime) -> str:
    """Write a moment as an agent is told it: with its weekday, in English on every machine."""
    return f"{_WEEKDAYS[moment.weekday()]}, {moment:%Y-%m-%d %H:%M:%S}"


def _found(task_input: Mapping[str, Any], key: str) -> str:
    return named(task_input[key]) if key in task_input else "nothing"
