"""The benchmark's cache of tool answers: which entry answers which call, and what is left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.importer.keys import cache_key, catalogue
from pytest_agenteval.canonical import canonical
from pytest_agenteval.importers.source_files import misshapen, read_all


@dataclass(frozen=True, slots=True)
class Recorded:
    """One entry: a call's normalised arguments and what the tool gave; ``stale`` when no key leads to it.

    ``file`` is the name of its file, without the ending: the key that once led to it.
    """

    tool: str
    args: Mapping[str, Any]
    data: Any
    created_at: str
    stale: bool
    file: str


@dataclass(frozen=True, slots=True)
class Collision:
    """Several entries for the same call: the one that is kept, and the others."""

    kept: Recorded
    lost: tuple[Recorded, ...]


@dataclass(slots=True)
class Cache:
    """The entries to keep, by tool and arguments, and what became of the others.

    ``read`` and ``reachable`` count files, ``retired`` those of tools that are no more; ``nulls`` are those
    without data.
    """

    entries: dict[str, dict[str, Recorded]] = field(default_factory=lambda: defaultdict(dict))
    read: int = 0
    reachable: int = 0
    collisions: list[Collision] = field(default_factory=list)
    retired: Counter[str] = field(default_factory=Counter)
    nulls: list[str] = field(default_factory=list)

    def find(self, tool: str, args: Mapping[str, Any]) -> Recorded | None:
        """Give what is kept for a call, written in any way that normalises to the same arguments."""
        if tool not in catalogue():
            return None
        return self.entries.get(tool, {}).get(canonical(cache_key(tool, args)[0]))

    def of(self, tool: str) -> Iterable[Recorded]:
        """Give everything that is kept of a tool."""
        return self.entries.get(tool, {}).values()

    @property
    def kept(self) -> int:
        """How many entries are kept."""
        return sum(map(len, self.entries.values()))

    @property
    def superseded(self) -> int:
        """How many files lost to another one."""
        return sum(len(one.lost) for one in self.collisions)

    @property
    def stale(self) -> int:
        """How many of them no key leads to any more."""
        return sum(one.stale for tool in self.entries.values() for one in tool.values())


def read_cache(folder: Path) -> Cache:
    """Read every entry; a folder that is not there gives an empty cache."""
    cache, held = Cache(), defaultdict[tuple[str, str], list[Recorded]](list)
    for path, entry in read_all(sorted(_files(folder))):
        _check(path, entry)
        cache.read += 1
        tool = entry["tool"]
        if entry.get("data") is None:
            cache.nulls.append(f"{tool}/{path.name}")
        if tool not in catalogue():
            cache.retired[tool] += 1
            continue
        args, key = cache_key(tool, entry.get("raw_args") or entry["input_params"])
        cache.reachable += key == path.stem
        made = str(entry.get("created_at", ""))
        one = Recorded(tool, args, entry.get("data"), made, key != path.stem, path.stem)
        held[tool, canonical(args)].append(one)
    for (tool, place), found in held.items():
        kept = cache.entries[tool][place] = max(found, key=_rank)
        if len(found) > 1:
            cache.collisions.append(Collision(kept, tuple(one for one in found if one is not kept)))
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


def _rank(one: Recorded) -> tuple[bool, str]:
    """Of entries for the same call one that can be reached comes first, else the newest."""
    return not one.stale, one.created_at
