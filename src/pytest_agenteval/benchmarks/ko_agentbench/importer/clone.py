"""A user's clone of the benchmark: its tasks, its logs and its cached answers of tools."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pytest_agenteval import UsageMistake, misshapen, read_json
from pytest_agenteval.benchmarks.ko_agentbench.graders import LEVELS
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.imported_runs import read_all
from pytest_agenteval.text.json_values import canonical_json


class Finding(FrozenValue, frozen=True):
    """One thing worth knowing about a task; ``is_change`` says that the import changed it because of it."""

    task: str
    text: str
    is_change: bool = False


Fields = Mapping[str, Any]


class SourceTask(FrozenValue, frozen=True):
    """One task of the benchmark as its file says it; ``level`` is that of the file."""

    id: str
    level: str
    file: Path
    fields: Fields

    @property
    def number(self) -> int:
        return int(self.level[1:])

    @property
    def golden(self) -> tuple[Fields, ...]:
        """The golden calls, without the entries that only say that context is used."""
        return tuple(action for action in maps(self.fields.get("golden_action")) if action.get("tool"))

    @property
    def fallbacks(self) -> tuple[Fields, ...]:
        """The calls that may replace the one that fails."""
        return tuple(action for action in maps(self.fields.get("fallback_options")) if action.get("tool"))

    @property
    def turns(self) -> tuple[Fields, ...]:
        """The turns of the task's conversation, in order."""
        return maps((self.fields.get("conversation_tracking") or {}).get("turns"))

    @property
    def context_tests(self) -> tuple[Fields, ...]:
        """What the answer has to remember of the conversation, and at which turn."""
        context = (self.fields.get("conversation_tracking") or {}).get("evaluation_context") or {}
        return maps(context.get("context_tests"))


class Clone(FrozenValue, frozen=True):
    """A folder that holds the benchmark."""

    root: Path

    @property
    def cache(self) -> Path:
        return self.root / "bench" / "cache"

    @property
    def logs(self) -> Path:
        """Where results lie, a folder for each model."""
        return self.root / "logs" / "benchmark_results" / "by_model"

    def tasks(self) -> tuple[SourceTask, ...]:
        """Read every task; raises ProblemsFound for a file that cannot be read."""
        return tuple(task for path in self._task_files() for task in _tasks_of(path))

    def _task_files(self) -> list[Path]:
        return [path for level in LEVELS if (path := self.root / f"bench/tasks/{level}.json").is_file()]


def open_clone(root: Path) -> Clone:
    """Open a folder as a clone; a UsageMistake says what is missing."""
    clone = Clone(root)
    if not root.is_dir():
        raise UsageMistake(f"{root}: expected a clone of Ko-AgentBench; there is no such folder")
    if not clone._task_files():
        raise UsageMistake(
            f"{root}: expected a clone of Ko-AgentBench; there is no bench/tasks/L1.json … L7.json"
        )
    return clone


def actions(turn: Fields) -> tuple[Fields, ...]:
    """Give the tool calls of an assistant's turn."""
    turn_actions = turn.get("actions") if isinstance(turn.get("actions"), list) else [turn.get("action")]
    return tuple(action for action in maps(turn_actions) if action.get("tool"))


def _tasks_of(path: Path) -> Iterator[SourceTask]:
    tasks = read_json(path)
    if not isinstance(tasks, list):
        raise misshapen(path, "a list of tasks", tasks)
    for index, fields in enumerate(tasks):
        if not isinstance(fields, dict):
            raise misshapen(path, "a task: a JSON object", fields, index)
        for key in ("task_id", "instruction"):
            if not isinstance(fields.get(key), str) or not fields[key].strip():
                raise misshapen(path, "a text", fields.get(key), index, key)
        # The id becomes the name of a file and a part of pytest's node ids.
        if not re.fullmatch(r"[^\s/\\:\[\]]+", fields["task_id"]):
            expected = "an id with no space, slash, colon or bracket"
            raise misshapen(path, expected, fields["task_id"], index, "task_id")
        yield SourceTask(fields["task_id"], path.stem, path, fields)


def maps(value: Any) -> tuple[Fields, ...]:
    return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def declared_turn(task: SourceTask) -> int:
    """Give the turn at which the benchmark evaluates: the last one tested, else the last user turn."""
    tested = [int(test["turn"]) for test in task.context_tests if isinstance(test.get("turn"), int)]
    return max(tested) if tested else _last_user(task, len(task.turns))


def evaluated_turn(task: SourceTask) -> int:
    """Give the last user turn up to the named one: after an assistant's turn no question is open."""
    # In six tasks the named turn is the assistant's: if the conversation
    # ran up to it, the prompt would hold the reference answer.
    return _last_user(task, declared_turn(task))


def turn_at(task: SourceTask, number: int) -> Fields | None:
    """Give the turn of that number, counted from 1."""
    return task.turns[number - 1] if 1 <= number <= len(task.turns) else None


def turns_until(task: SourceTask, until: int) -> list[dict[str, Any]]:
    """Give the turns up to a number as a task of ours writes them, seeded calls with their results."""
    task_turns = []
    for turn in task.turns[:until]:
        task_turn: dict[str, Any] = {"role": turn.get("role")}
        calls = actions(turn) if turn.get("role") == "assistant" else ()
        if calls:
            task_turn["calls"] = [
                {"tool": call["tool"], "args": call.get("args") or {}, "result": call.get("result")}
                for call in calls
            ]
        task_turns.append({**task_turn, "content": turn.get("content") or ""})
    return task_turns


def _last_user(task: SourceTask, until: int) -> int:
    numbers = [n for n, turn in enumerate(task.turns[:until], start=1) if turn.get("role") == "user"]
    return numbers[-1] if numbers else 0


CATALOGUE = Path(__file__).with_name("catalogue.json")
# The words that the benchmark takes for truth values when it makes a key.
_TRUE, _FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


@cache
def catalogue() -> Mapping[str, Any]:
    """Give each current tool's signature and its parameters: type, default, bounds, whether required."""
    tools: Mapping[str, Any] = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    return tools


def parameters(tool: str) -> Mapping[str, Mapping[str, Any]]:
    """Give a current tool's parameters; KeyError for any other tool."""
    declared: Mapping[str, Mapping[str, Any]] = catalogue()[tool]["parameters"]
    return declared


def normalize_args(tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Give the arguments as the cache stores them: defaults filled in, types forced, unknown keys dropped."""
    declared = parameters(tool)
    # The only other spelling that the benchmark takes for a parameter.
    if tool == "StockPrice_ls" and "symbol" in args and "shcode" not in args:
        args = {**args, "shcode": args["symbol"]}
    with_defaults = {**{name: p["default"] for name, p in declared.items() if "default" in p}, **args}
    shared = sorted(with_defaults.keys() & declared.keys())
    return {name: _convert(with_defaults[name], declared[name]["type"]) for name in shared}


def cache_key(tool: str, args: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Give the normalised arguments of a call of a current tool, and its key."""
    settled = normalize_args(tool, args)
    request = {"tool": tool, "args": settled, "sig": catalogue()[tool]["signature"]}
    # To the letter as the benchmark writes it: 127.0 and 127 are two calls, and Korean is not escaped.
    text = json.dumps(request, sort_keys=True, ensure_ascii=False)
    return settled, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _convert(value: Any, kind: str) -> Any:
    """Make a value of the parameter's type; what cannot be made so stays as it is."""
    try:
        if kind == "integer":
            return int(value)
        if kind == "number":
            return value if isinstance(value, int) else float(value)
    except (TypeError, ValueError, OverflowError):
        return value
    if kind == "string":
        return value if isinstance(value, str) else str(value)
    if isinstance(value, str) and kind == "boolean":
        lower = value.strip().lower()
        return True if lower in _TRUE else False if lower in _FALSE else value
    return value


class CachedCall(FrozenValue, frozen=True):
    """One entry: a call's normalised arguments and what the tool gave; ``stale`` when no key leads to it."""

    tool: str
    args: Mapping[str, Any]
    data: Any
    created_at: str
    stale: bool


@dataclass(slots=True)
class Cache:
    """The entries by tool and arguments, and what became of the other files.

    ``retired`` counts those of tools that are no more, ``nulls`` those without data, and ``collisions`` the
    calls that several files answer: one that a key of today leads to is taken, else the newest.
    """

    entries: dict[str, dict[str, CachedCall]] = field(default_factory=lambda: defaultdict(dict))
    retired: int = 0
    collisions: int = 0
    nulls: int = 0

    def find(self, tool: str, args: Mapping[str, Any]) -> CachedCall | None:
        """Give the entry of a call, written in any way that normalises to the same arguments."""
        if tool not in catalogue():
            return None
        return self.entries.get(tool, {}).get(canonical_json(cache_key(tool, args)[0]))

    def of(self, tool: str) -> list[CachedCall]:
        return list(self.entries.get(tool, {}).values())

    @property
    def entry_count(self) -> int:
        """How many different calls have an entry."""
        return sum(map(len, self.entries.values()))

    @property
    def stale(self) -> int:
        """How many of them no key leads to any more."""
        return sum(call.stale for tool in self.entries.values() for call in tool.values())


def read_cache(folder: Path) -> Cache:
    """Read every entry; a folder that is not there gives an empty cache."""
    cache, calls_by_key = Cache(), defaultdict[tuple[str, str], list[CachedCall]](list)
    # The benchmark writes TOOL/xx/KEY.json; it once wrote xx/KEY.json.
    for path, entry in read_all(sorted([*folder.glob("*/??/*.json"), *folder.glob("??/*.json")])):
        tool = entry["tool"]
        cache.nulls += entry.get("data") is None
        if tool not in catalogue():
            cache.retired += 1
            continue
        # Worked out anew from the raw call: declarations have changed
        # since, and the stored arguments were normalised by the old ones.
        args, key = cache_key(tool, entry.get("raw_args") or entry["input_params"])
        created_at = str(entry.get("created_at", ""))
        call = CachedCall(tool, args, entry.get("data"), created_at, key != path.stem)
        calls_by_key[tool, canonical_json(args)].append(call)
    for (tool, place), calls in calls_by_key.items():
        cache.entries[tool][place] = max(calls, key=lambda call: (not call.stale, call.created_at))
        cache.collisions += len(calls) > 1
    return cache
