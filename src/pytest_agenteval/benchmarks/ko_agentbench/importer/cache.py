"""The benchmark's cache of tool answers: the key of a call, which entry answers it, and what is left out.

A key is the digest of the tool's name, its normalised arguments and a signature of the tool's declaration. It
is worked out without the benchmark's own code: the signatures are constants, those of the declarations that
were current when the cache was last filled.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pytest_agenteval import misshapen
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.imported_runs import read_all
from pytest_agenteval.text.json_values import canonical_json

CATALOGUE = Path(__file__).with_name("catalogue.json")
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
    """Give the arguments as the cache keeps them: defaults filled in, types forced, unknown keys dropped."""
    declared = parameters(tool)
    with_defaults = {
        **{name: p["default"] for name, p in declared.items() if "default" in p},
        **_with_own_names(tool, args),
    }
    return {
        name: _convert(with_defaults[name], declared[name]["type"])
        for name in sorted(with_defaults.keys() & declared.keys())
    }


def cache_key(tool: str, args: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Give the normalised arguments of a call of a current tool, and its key."""
    settled = normalize_args(tool, args)
    request = {"tool": tool, "args": settled, "sig": catalogue()[tool]["signature"]}
    # To the letter as the benchmark writes it: 127.0 and 127 are two calls, and Korean is not escaped.
    text = json.dumps(request, sort_keys=True, ensure_ascii=False)
    return settled, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _with_own_names(tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take the one spelling that the benchmark takes beside its own."""
    if tool == "StockPrice_ls" and "symbol" in args and "shcode" not in args:
        return {**args, "shcode": args["symbol"]}
    return args


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
        return _flag(value)
    return value


def _flag(text: str) -> bool | str:
    lower = text.strip().lower()
    return True if lower in _TRUE else False if lower in _FALSE else text


class CachedCall(FrozenValue, frozen=True):
    """One entry: a call's normalised arguments and what the tool gave; ``stale`` when no key leads to it.

    ``file`` is the name of its file, without the ending: the key that once led to it.
    """

    tool: str
    args: Mapping[str, Any]
    data: Any
    created_at: str
    stale: bool
    file: str


class Collision(FrozenValue, frozen=True):
    """Several entries for the same call: the one that is kept, and the others."""

    preferred: CachedCall
    lost: tuple[CachedCall, ...]


@dataclass(slots=True)
class Cache:
    """The entries to keep, by tool and arguments, and what became of the others.

    ``read`` and ``reachable`` count files, ``retired`` those of tools that are no more; ``nulls`` are those
    without data.
    """

    entries: dict[str, dict[str, CachedCall]] = field(default_factory=lambda: defaultdict(dict))
    read: int = 0
    reachable: int = 0
    collisions: list[Collision] = field(default_factory=list)
    retired: Counter[str] = field(default_factory=Counter)
    nulls: list[str] = field(default_factory=list)

    def find(self, tool: str, args: Mapping[str, Any]) -> CachedCall | None:
        """Give the entry of a call, written in any way that normalises to the same arguments."""
        if tool not in catalogue():
            return None
        return self.entries.get(tool, {}).get(canonical_json(cache_key(tool, args)[0]))

    def of(self, tool: str) -> Iterable[CachedCall]:
        """Give every entry of a tool."""
        return self.entries.get(tool, {}).values()

    @property
    def entry_count(self) -> int:
        """How many different calls have an entry."""
        return sum(map(len, self.entries.values()))

    @property
    def superseded(self) -> int:
        """How many files lost to another one."""
        return sum(len(collision.lost) for collision in self.collisions)

    @property
    def stale(self) -> int:
        """How many of them no key leads to any more."""
        return sum(call.stale for tool in self.entries.values() for call in tool.values())


def read_cache(folder: Path) -> Cache:
    """Read every entry; a folder that is not there gives an empty cache."""
    cache, calls_by_key = Cache(), defaultdict[tuple[str, str], list[CachedCall]](list)
    for path, entry in read_all(sorted(_files(folder))):
        _check(path, entry)
        cache.read += 1
        tool = entry["tool"]
        if entry.get("data") is None:
            cache.nulls.append(f"{tool}/{path.name}")
        if tool not in catalogue():
            cache.retired[tool] += 1
            continue
        # Worked out anew from the raw call: declarations have changed since, and the stored arguments were
        # normalised by the old ones.
        args, key = cache_key(tool, entry.get("raw_args") or entry["input_params"])
        cache.reachable += key == path.stem
        created_at = str(entry.get("created_at", ""))
        call = CachedCall(tool, args, entry.get("data"), created_at, key != path.stem, path.stem)
        calls_by_key[tool, canonical_json(args)].append(call)
    for (tool, place), same_call in calls_by_key.items():
        preferred = cache.entries[tool][place] = max(same_call, key=_rank)
        if len(same_call) > 1:
            cache.collisions.append(
                Collision(preferred, tuple(call for call in same_call if call is not preferred))
            )
    return cache


def _files(folder: Path) -> Iterator[Path]:
    """Give the files at TOOL/xx/KEY.json and, as the benchmark once laid them, at xx/KEY.json."""
    yield from folder.glob("*/??/*.json")
    yield from folder.glob("??/*.json")


def _check(path: Path, entry: Any) -> None:
    args = entry.get("raw_args") or entry.get("input_params") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or (args is not None and not isinstance(args, dict)):
        raise misshapen(path, "a cached call: key, tool, input_params, data", entry)
    if not isinstance(entry.get("tool"), str) or "input_params" not in entry:
        raise misshapen(path, "a cached call: key, tool, input_params, data", ", ".join(entry))


def _rank(call: CachedCall) -> tuple[bool, str]:
    """Of entries for the same call one that can be reached comes first, else the newest."""
    return not call.stale, call.created_at
