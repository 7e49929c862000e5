"""Readers of options with a format of their own: gates, prices and prompt variants."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from pytest_agenteval.records.plan import ModelPrice, PriceTier, Variant
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.session.options import RawValue, WrongValue, names
from pytest_agenteval.tasks.suite_spec import Gate
from pytest_agenteval.text.errors import UsageMistake, did_you_mean

FORBIDDEN = frozenset("@[]: ,/")  # what may not stand in a variant's name, which is part of test ids


def read_variants(texts: Sequence[str], place: str, folder: Path) -> tuple[Variant, ...]:
    """Read each ``NAME=PATH``, relative to ``folder``; ``place`` names the option in error messages."""
    variants = tuple(_variant(text, place, folder) for text in texts)
    names = [variant.name for variant in variants]
    for name in names:
        if names.count(name) > 1:
            raise UsageMistake(f"{place}: the variant {name!r} is named more than once")
        if other := next((each for each in names if each != name and each.lower() == name.lower()), None):
            raise UsageMistake(f"{place}: some systems take the variants {name!r} and {other!r} for one")
    return variants


def _variant(text: str, place: str, folder: Path) -> Variant:
    """Read a variant: a folder of prompt files, or one file, which is the prompt ``system``."""
    name, sign, where = text.partition("=")
    if not sign or not name or not where:
        raise UsageMistake(f"{place}: expected NAME=PATH; found {text!r}")
    if not name.isascii() or not name.isprintable() or FORBIDDEN & set(name):
        raise UsageMistake(f"{place}: the name {name!r} may hold ASCII letters, digits, '_', '-' and '.'")
    path, place = folder / where, f"{place} {name}"
    if path.is_file():
        return Variant(name, {"system": _prompt_text(path, place)}, where)
    if not path.is_dir():
        raise UsageMistake(f"{place}: no such file or folder: {where}")
    prompts: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            prompt = file.name.partition(".")[0]
            first = prompts.setdefault(prompt, file)
            if first != file:
                both = f"{first.name} and {file.name}"
                raise UsageMistake(f"{place}: two files for the prompt {prompt!r}: {both}")
    if not prompts:
        raise UsageMistake(f"{place}: no prompt file in {path}")
    return Variant(name, {prompt: _prompt_text(file, place) for prompt, file in prompts.items()}, where)


def _prompt_text(file: Path, place: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise UsageMistake(f"{place}: {file} cannot be read: {broken}") from None


GATE_KEYS = ("score", "buckets.NAME", "pass_hat_k", "not_worse", "better", "errored", "recheck")
_BUCKET = "buckets."


def read_gate(raw: RawValue) -> Mapping[str, Any] | None:
    """Read ``score=0.8,buckets.NAME=0.9``, or a table of pyproject.toml; None for ``none``."""
    if isinstance(raw.value, dict):
        written: dict[str, Any] = raw.value
    else:
        parts = names(raw)
        if "none" in parts:
            if len(parts) > 1:
                raise WrongValue(hint="none stands alone")
            return None
        written = dict(map(_gate_rule, parts))
        if len(written) < len(parts):
            raise WrongValue(hint="each rule only once")
    rules = {key: value for key, value in written.items() if not key.startswith(_BUCKET)}
    buckets = {key.removeprefix(_BUCKET): written[key] for key in written if key.startswith(_BUCKET)}
    if buckets and isinstance(own := rules.get("buckets", {}), dict):
        rules["buckets"] = {**own, **buckets}
    unknown = next((key for key in rules if key not in Gate.__struct_fields__ or key == "baseline"), None)
    if unknown is not None:
        raise WrongValue(expected=f"one of {', '.join(GATE_KEYS)}", hint=did_you_mean(unknown, GATE_KEYS))
    try:
        from_builtins(Gate, rules)
    except msgspec.ValidationError as wrong:
        raise WrongValue(expected=f"numbers and true or false as docs/gates.md says ({wrong})") from None
    return rules


def _gate_rule(text: str) -> tuple[str, Any]:
    key, equals, value = text.rpartition("=")
    if not equals:
        raise WrongValue
    word = value.strip().lower()
    if word in ("true", "false"):
        return key.strip(), word == "true"
    try:
        return key.strip(), int(word) if word.isdigit() else float(word)
    except ValueError:
        raise WrongValue(expected=f"a number, true or false behind {key}=") from None


PRICE_AMOUNTS = ("input", "output", "cached", "cache_write")
PRICE_KEYS = (*PRICE_AMOUNTS, "tiers", "as_of")
TIER_KEYS = ("above", *PRICE_AMOUNTS)
DOLLARS_PER_MILLION = "US dollars for a million tokens, 0 or more"
_TABLE_HEAD = re.compile(r"\s*\[\[?(.+?)\]\]?\s*(?:#.*)?$")


def read_prices(raw: RawValue) -> Mapping[str, ModelPrice]:
    """Read the table of prices; raises UsageMistake, with the line, for a wrong entry."""
    if not isinstance(raw.value, dict):
        raise UsageMistake(f"{raw.place}: expected a table for each model; found {raw.value!r}")
    return {name: _PriceReader(raw, name).price(table) for name, table in raw.value.items()}


class _PriceReader:
    """Reads the price of one model; its errors name the line in pyproject.toml."""

    def __init__(self, raw: RawValue, name: str) -> None:
        self._raw, self._name = raw, name

    def price(self, table: Any) -> ModelPrice:
        if not isinstance(table, dict):
            raise self._mistake("", f"a table with {', '.join(PRICE_KEYS)}", table)
        self._refuse_unknown(table, PRICE_KEYS)
        for key in ("input", "output"):
            if key not in table:
                raise self._mistake("", f"the key {key}: {DOLLARS_PER_MILLION}", f"no {key}")
        amounts = {key: self._dollars(key, table[key]) for key in PRICE_AMOUNTS if key in table}
        tiers = table.get("tiers", [])
        if not isinstance(tiers, list):
            raise self._mistake("tiers", "a list of tables such as {above = 200000, input = 5.0}", tiers)
        # TOML has dates of its own, so the value is a text or a date.
        as_of = table.get("as_of", "")
        try:
            day = as_of if as_of == "" else date.fromisoformat(str(as_of))
        except ValueError:
            raise self._mistake("as_of", "as_of: a date such as 2026-11-23", as_of) from None
        return ModelPrice(**amounts, tiers=tuple(map(self._tier, tiers)), as_of=str(day))

    def _tier(self, table: Any) -> PriceTier:
        if not isinstance(table, dict):
            raise self._mistake("tiers", "a list of tables such as {above = 200000, input = 5.0}", table)
        self._refuse_unknown(table, TIER_KEYS, "tiers")
        above = table.get("above")
        # True is an int to Python, but no number of tokens.
        if not isinstance(above, int) or isinstance(above, bool) or above < 1:
            raise self._mistake("tiers", "above: a whole number of tokens, 1 or more", above)
        return PriceTier(
            above, **{key: self._dollars(key, table[key]) for key in PRICE_AMOUNTS if key in table}
        )

    def _refuse_unknown(self, table: Mapping[str, Any], keys: tuple[str, ...], inside: str = "") -> None:
        for key in table:
            if key not in keys:
                found = f"unknown key {key!r}"
                raise self._mistake(
                    inside or key, f"one of {', '.join(keys)}", found, did_you_mean(key, keys)
                )

    def _dollars(self, key: str, value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0:
            return float(value)
        raise self._mistake(key, f"{key}: {DOLLARS_PER_MILLION}", value)

    def _mistake(self, key: str, expected: str, found: Any, hint: str = "") -> UsageMistake:
        name = self._name if re.fullmatch(r"[A-Za-z0-9_-]+", self._name) else f'"{self._name}"'
        place = f"{self._raw.place}.{name}"
        line = _line_of(self._raw.folder / "pyproject.toml", ("tool", "agenteval", "prices", self._name), key)
        place = place.replace("pyproject.toml:", f"pyproject.toml:{line}:", 1) if line else place
        is_text = isinstance(found, str) and found.startswith(("unknown key", "no "))
        parts = [f"{place}: expected {expected}", f"found {found if is_text else repr(found)}", hint]
        return UsageMistake("; ".join(filter(None, parts)))


def _line_of(file: Path, table: tuple[str, ...], key: str) -> int:
    """Give the line of a key below a table's head, else that of the head; 0 where neither is found."""
    # tomllib gives no line numbers. A table that is written inside another one gets the head of that one.
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    best, best_rank = 0, 0
    inside: tuple[str, ...] = ()
    for number, text in enumerate(lines, start=1):
        if head := _TABLE_HEAD.match(text):
            inside = _table_path(head[1]) or inside
        depth = len(inside) if inside == table[: len(inside)] else 0
        is_key = re.match(rf"\s*[\"']?{re.escape(key or table[-1])}[\"']?\s*[=.]", text)
        rank = 2 * depth + (1 if is_key and depth else 0)
        if rank > best_rank:
            best, best_rank = number, rank
    return best


def _table_path(head: str) -> tuple[str, ...]:
    try:
        below: Any = tomllib.loads(f"[{head}]")
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while below:
        ((name, below),) = below.items()
        path.append(name)
    return tuple(path)
