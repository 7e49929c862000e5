"""Acting out the references of the card and PKM evals, whole or spoilt in one way, on the real engine."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from pytest_agenteval.records.plan import Model, Plan, PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.planning.planner import Planner
from tests.engine.executing import execute, registry

ROOT = Path(__file__).parents[3]
ORACLE = Model("oracle", "oracle", offline=True)
AT_ONCE = 200

Turns = list[dict[str, Any]]
FACT_MARK = "<!-- fact_id: {} -->"
_HEADING = re.compile(r"^## <id:(ts_\d+)>.*$", re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.,#:/-])\d+(?:[.,]\d+)*(?![\w:/-]|[.,]\d)")
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@dataclass(frozen=True)
class Spoilt:
    """One task whose reference was spoilt, and what is done instead."""

    task: PlannedTask
    turns: Sequence[Mapping[str, Any]]

    @property
    def plan(self) -> Plan:
        """The trial that acts it out."""
        reference = {**(self.task.reference or {}), "turns": [_whole(turn) for turn in self.turns]}
        return Plan(replace(self.task, reference=reference, repetitions=1), ORACLE)


def _whole(turn: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": turn.get("text"), "calls": [dict(call) for call in turn.get("calls") or ()]}


@cache
def tasks(suite: str) -> tuple[PlannedTask, ...]:
    """Plan every task of a suite of ours, held-out ones too."""
    planner = Planner(registry(), ROOT)
    files = sorted((ROOT / "evals" / suite).rglob("task.json"))
    planned = (task for file in files for task, _ in planner.tasks(file, named=True))
    return tuple(replace(task, layers=tuple(map(str, task.layers))) for task in planned)


def acted_out(spoilt: Sequence[Spoilt]) -> list[Trial]:
    """Carry out these trials; a judge is not asked."""
    names, trials = registry(), []
    for start in range(0, len(spoilt), AT_ONCE):
        trials += execute(names, *(spoilt_task.plan for spoilt_task in spoilt[start : start + AT_ONCE]))
    return trials


def turns_of(task: PlannedTask) -> Turns:
    """Give a copy of the reference's turns, to be spoilt."""
    return copy.deepcopy([_whole(turn) for turn in (task.reference or {}).get("turns", ())])


def calls(turns: Turns, *tools: str) -> Iterator[dict[str, Any]]:
    """Give the calls of these tools."""
    return (call for turn in turns for call in turn["calls"] if call["tool"] in tools)


def fact_of(task: PlannedTask) -> str:
    """Give the id of the task's entry."""
    return str(task.input["fact_id"])


def outcome_of(task: PlannedTask) -> Mapping[str, Any]:
    """Give what the task says will be true afterwards."""
    outcome: Mapping[str, Any] = (task.reference or {}).get("expected_outcome") or {}
    return outcome


def is_filed(task: PlannedTask) -> bool:
    """Whether the entry belongs into the knowledge base."""
    return outcome_of(task).get("wrote_para") is True


@cache
def notes(task_layers: tuple[str, ...]) -> Mapping[str, str]:
    """Give the knowledge base that a task starts with."""
    texts: dict[str, str] = {}
    for layer in task_layers:
        root = Path(layer) / "PKM"
        for path in sorted(root.rglob("*.md")):
            texts[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return texts


def other_entries(task: PlannedTask) -> list[tuple[str, str]]:
    """Give id and text of the day's other entries."""
    day, _, own = fact_of(task).partition("#")
    for layer in reversed(task.layers):
        path = Path(layer) / "Facts" / day
        if path.is_file():
            parts = re.split(r"^## <id:(ts_\d+)>.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[
                1:
            ]
            pairs = zip(parts[::2], parts[1::2], strict=True)
            return [(f"{day}#{id}", text.strip()) for id, text in pairs if id != own]
    return []


def target(turns: Turns) -> str:
    """Give the path of the last file that is written."""
    return str([call["args"]["file_path"] for call in calls(turns, "Edit", "Write")][-1])


def before_insight(turns: Turns, *more: Mapping[str, Any]) -> Turns:
    """Put calls, each in a turn of its own, before the insight, which ends a trial."""
    at = next(n for n, turn in enumerate(turns) if any("insight" in call["tool"] for call in turn["calls"]))
    own = [call for call in turns[at]["calls"] if "insight" not in call["tool"]]
    last = [call for call in turns[at]["calls"] if "insight" in call["tool"]]
    extra = [{"text": None, "calls": [dict(call)]} for call in more]
    first = [{"text": None, "calls": own}] if own else []
    return [*turns[:at], *first, *extra, {"text": None, "calls": last}, *turns[at + 1 :]]


def call(tool: str, **args: Any) -> dict[str, Any]:
    """Write a call as a reference does."""
    return {"tool": tool, "args": args}


def new_text(tool_call: Mapping[str, Any]) -> str:
    """Give what an Edit or a Write brings in."""
    args = tool_call["args"]
    if tool_call["tool"] == "Write":
        return str(args["content"])
    old, new = args["old_string"], args["new_string"]
    return str(new.replace(old, "", 1)) if old.strip() and old in new else str(new)


def rewrite(turns: Turns, change: Callable[[str], str]) -> bool:
    """Change what the Edits and Writes bring in; whether anything changed."""
    changed = False
    for tool_call in calls(turns, "Edit", "Write"):
        was = new_text(tool_call)
        now = change(was)
        key = "content" if tool_call["tool"] == "Write" else "new_string"
        if now != was:
            tool_call["args"][key] = (
                tool_call["args"][key].replace(was, now) if was in tool_call["args"][key] else now
            )
            changed = True
    return changed


def numbers_in(text: str) -> list[str]:
    """Give the numbers of a text, as they are written, each once."""
    return list(
        dict.fromkeys(_NUMBER.findall(re.sub(r"\d{4}/\d\d/\d\d\.md#ts_\d+|\d{4}-\d\d-\d\d", " ", text)))
    )


def more_by_100(number: str) -> str:
    """Give the number that is greater by 100, in the same spelling."""
    whole, point, rest = number.partition(".") if number.count(".") == 1 else (number, "", "")
    return f"{int(whole.replace(',', '')) + 100}{point}{rest}"


def swapped(text: str, number: str) -> str:
    """Put the number that is greater by 100 wherever this one stands."""
    return re.sub(rf"(?<![\w.,#:/-]){re.escape(number)}(?![\w:/-]|[.,]\d)", more_by_100(number), text)


_LONG = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)")
_SHORT = re.compile(r"(?<=- )(\d\d)-(\d\d)(?=[: ])")
_NAMED = re.compile(rf"\b(\d{{1,2}})(?= (?:{'|'.join(_MONTHS)}|{'|'.join(m[:3] for m in _MONTHS)})\b)")
_ORDINAL = re.compile(r"(?<=the )(\d{1,2})th\b")
DATES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_LONG, lambda m: str(date(*map(int, m.groups())) + timedelta(1))),
    (_SHORT, lambda m: str(date(2026, *map(int, m.groups())) + timedelta(1))[5:]),
    (_NAMED, lambda m: str(int(m[1]) + 1 if int(m[1]) < 28 else int(m[1]) - 1)),
    (_ORDINAL, lambda m: f"{int(m[1]) + 1}th"),
)


def a_day_off(text: str) -> str:
    """Move every date of a text by a day; the ids of entries stay."""
    parts = re.split(r"(\d{4}/\d\d/\d\d\.md#ts_\d+)", text)
    for index in range(0, len(parts), 2):
        for pattern, moved in DATES:
            parts[index] = pattern.sub(moved, parts[index])
    return "".join(parts)
