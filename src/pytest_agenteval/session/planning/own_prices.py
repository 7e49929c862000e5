"""``[tool.agenteval.prices]``: what models cost where the user says so, read strictly."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Any

from pytest_agenteval.records.prices import ModelPrice, PriceTier
from pytest_agenteval.session.options import RawValue
from pytest_agenteval.text.errors import UsageMistake, nearest

AMOUNTS = ("input", "output", "cached", "cache_write")
KEYS = (*AMOUNTS, "tiers", "as_of")
TIER_KEYS = ("above", *AMOUNTS)
DOLLARS = "US dollars for a million tokens, 0 or more"
_HEAD = re.compile(r"\s*\[\[?(.+?)\]\]?\s*(?:#.*)?$")


def read_prices(raw: RawValue) -> Mapping[str, ModelPrice]:
    """Read the table; raises UsageMistake, with the line, for what is no price."""
    if not isinstance(raw.value, dict):
        raise UsageMistake(f"{raw.place}: expected a table for each model; found {raw.value!r}")
    return {name: _Reader(raw, name).price(table) for name, table in raw.value.items()}


class _Reader:
    """Reads the price of one model, and knows where it stands."""

    def __init__(self, raw: RawValue, name: str) -> None:
        self._raw, self._name = raw, name

    def price(self, table: Any) -> ModelPrice:
        if not isinstance(table, dict):
            raise self._mistake("", f"a table with {', '.join(KEYS)}", table)
        self._refuse_unknown(table, KEYS)
        for key in ("input", "output"):
            if key not in table:
                raise self._mistake("", f"the key {key}: {DOLLARS}", f"no {key}")
        amounts = {key: self._dollars(key, table[key]) for key in AMOUNTS if key in table}
        tiers = table.get("tiers", [])
        if not isinstance(tiers, list):
            raise self._mistake("tiers", "a list of tables such as {above = 200000, input = 5.0}", tiers)
        return ModelPrice(**amounts, tiers=tuple(map(self._tier, tiers)), as_of=self._date(table))

    def _tier(self, table: Any) -> PriceTier:
        if not isinstance(table, dict):
            raise self._mistake("tiers", "a list of tables such as {above = 200000, input = 5.0}", table)
        self._refuse_unknown(table, TIER_KEYS, "tiers")
        above = table.get("above")
        if not isinstance(above, int) or isinstance(above, bool) or above < 1:
            raise self._mistake("tiers", "above: a whole number of tokens, 1 or more", above)
        return PriceTier(above, **{key: self._dollars(key, table[key]) for key in AMOUNTS if key in table})

    def _refuse_unknown(self, table: Mapping[str, Any], keys: tuple[str, ...], inside: str = "") -> None:
        for key in table:
            if key not in keys:
                found = f"unknown key {key!r}"
                raise self._mistake(inside or key, f"one of {', '.join(keys)}", found, nearest(key, keys))

    def _dollars(self, key: str, value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0:
            return float(value)
        raise self._mistake(key, f"{key}: {DOLLARS}", value)

    def _date(self, table: Mapping[str, Any]) -> str:
        value = table.get("as_of", "")
        try:
            return str(value if value == "" else date.fromisoformat(str(value)))
        except ValueError:
            raise self._mistake("as_of", "as_of: a date such as 2026-11-23", value) from None

    def _mistake(self, key: str, expected: str, found: Any, hint: str = "") -> UsageMistake:
        place = f"{self._raw.place}.{_quoted(self._name)}"
        line = line_of(self._raw.folder / "pyproject.toml", ("tool", "agenteval", "prices", self._name), key)
        place = place.replace("pyproject.toml:", f"pyproject.toml:{line}:", 1) if line else place
        told = found if isinstance(found, str) and found.startswith(("unknown key", "no ")) else repr(found)
        parts = [f"{place}: expected {expected}", f"found {told}", hint]
        return UsageMistake("; ".join(part for part in parts if part))


def line_of(file: Path, table: tuple[str, ...], key: str) -> int:
    """Give the line of a key below a table's head, else that of the head; 0 where neither is found.

    TOML's own reader tells no lines: a table that is written inside another has that one's head.
    """
    best, deepest = 0, 0
    for number, inside, text in _lines(file):
        depth = len(inside) if inside == table[: len(inside)] else 0
        named = re.match(rf"\s*[\"']?{re.escape(key or table[-1])}[\"']?\s*[=.]", text)
        rank = 2 * depth + (1 if named and depth else 0)
        if rank > deepest:
            best, deepest = number, rank
    return best


def _lines(file: Path) -> Iterator[tuple[int, tuple[str, ...], str]]:
    """Give each line with its number and the table that it stands in."""
    inside: tuple[str, ...] = ()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for number, text in enumerate(lines, start=1):
        head = _HEAD.match(text)
        if head:
            inside = _path(head[1]) or inside
        yield number, inside, text


def _path(head: str) -> tuple[str, ...]:
    try:
        below: Any = tomllib.loads(f"[{head}]")
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while below:
        ((name, below),) = below.items()
        path.append(name)
    return tuple(path)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
