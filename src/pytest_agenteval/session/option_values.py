"""Readers of options with a format of their own: prompt variants, gates, prices and files of reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from pytest_agenteval.records.plan import ModelPrice, PriceTier, Variant
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.reports.report_files import check_report_path, listed_files
from pytest_agenteval.session.options import RawValue, WrongValue, names
from pytest_agenteval.tasks.suite_spec import Gate
from pytest_agenteval.text.errors import UsageMistake, did_you_mean

FORBIDDEN = frozenset("@[]: ,/")  # what may not stand in a variant's name, which is part of test ids


def read_variants(raw: RawValue) -> tuple[Variant, ...]:
    """Read the prompt files of each ``NAME=PATH``."""
    variants = tuple(_variant(text, raw.place, raw.folder) for text in names(raw))
    first: dict[str, Variant] = {}
    for variant in variants:
        other = first.setdefault(variant.name.lower(), variant)
        if other is not variant:
            both = f"some systems take the variants {other.name!r} and {variant.name!r} for one"
            twice = f"the variant {variant.name!r} is named more than once"
            raise UsageMistake(f"{raw.place}: {twice if other.name == variant.name else both}")
    return variants


def _variant(text: str, place: str, folder: Path) -> Variant:
    """Read a variant: a folder of prompt files, or one file, which is the prompt ``system``."""
    name, sign, where = text.partition("=")
    if not sign or not name or not where:
        raise UsageMistake(f"{place}: expected NAME=PATH; found {text!r}")
    if not name.isascii() or not name.isprintable() or FORBIDDEN & set(name):
        raise UsageMistake(f"{place}: the name {name!r} may hold ASCII letters, digits, '_', '-' and '.'")
    path, place = folder / where, f"{place} {name}"
    if not path.exists():
        raise UsageMistake(f"{place}: no such file or folder: {where}")
    prompts = {"system": path} if path.is_file() else {}
    for file in sorted(path.iterdir()) if path.is_dir() else ():
        if file.is_file() and not file.name.startswith("."):
            prompt = file.name.partition(".")[0]
            first = prompts.setdefault(prompt, file)
            if first != file:
                both = f"{first.name} and {file.name}"
                raise UsageMistake(f"{place}: two files for the prompt {prompt!r}: {both}")
    if not prompts:
        raise UsageMistake(f"{place}: no prompt file in {path}")
    texts = {}
    for prompt, file in prompts.items():
        try:
            texts[prompt] = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as broken:
            raise UsageMistake(f"{place}: {file} cannot be read: {broken}") from None
    return Variant(name, texts, where)


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


def read_report_files(raw: RawValue) -> tuple[Path, ...]:
    """Read the files that reports are written to; one that cannot be written is refused before the run."""
    files = raw.value if isinstance(raw.value, list) else listed_files(str(raw.value))
    paths = () if files == ["none"] else tuple(raw.folder / str(file) for file in files)
    for path in paths:
        try:
            check_report_path(path)
        except UsageMistake as mistake:
            raise UsageMistake(f"{raw.place}: {mistake}") from None
    return paths


AMOUNTS = ("input", "output", "cached", "cache_write")
_DOLLARS = "US dollars for a million tokens, 0 or more"
_TIERS = "a list of tables such as {above = 200000, input = 5.0}"


def read_prices(raw: RawValue) -> Mapping[str, ModelPrice]:
    """Read the price of each model; raises UsageMistake, with the line, for a wrong entry."""
    if not isinstance(raw.value, dict):
        raise WrongValue
    return {name: _read_price(raw, name, table) for name, table in raw.value.items()}


def _read_price(raw: RawValue, name: str, table: Any) -> ModelPrice:
    def check(key: str, expected: str, found: Any, fits: bool, hint: str = "") -> None:
        if not fits:
            line = _line_of_price(raw.folder / "pyproject.toml", name, key)
            place = raw.place.replace("pyproject.toml:", f"pyproject.toml:{line}:", 1)
            quoted = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
            parts = (f"{place}.{quoted}: expected {expected}", f"found {found}", hint)
            raise UsageMistake("; ".join(filter(None, parts)))

    def check_keys(table: Mapping[str, Any], keys: tuple[str, ...], inside: str = "") -> None:
        for key in table:
            hint = did_you_mean(key, keys)
            check(inside or key, f"one of {', '.join(keys)}", f"unknown key {key!r}", key in keys, hint)
        for key in table.keys() & {*AMOUNTS}:
            check(inside or key, f"{key}: {_DOLLARS}", repr(table[key]), _is_amount(table[key]))

    keys = (*AMOUNTS, "tiers", "as_of")
    check("", f"a table with {', '.join(keys)}", repr(table), isinstance(table, dict))
    check_keys(table, keys)
    for key in ("input", "output"):
        check("", f"the key {key}: {_DOLLARS}", f"no {key}", key in table)
    tiers = table.get("tiers", [])
    check("tiers", _TIERS, repr(tiers), isinstance(tiers, list))
    for tier in tiers:
        check("tiers", _TIERS, repr(tier), isinstance(tier, dict))
        check_keys(tier, ("above", *AMOUNTS), "tiers")
        above = tier.get("above")
        # True is an int to Python, but no number of tokens.
        is_count = isinstance(above, int) and not isinstance(above, bool) and above > 0
        check("tiers", "above: a whole number of tokens, 1 or more", repr(above), is_count)
    # TOML has dates of its own, so the value is a text or a date.
    as_of = str(table.get("as_of", ""))
    check("as_of", "as_of: a date such as 2026-11-23", repr(as_of), not as_of or _is_date(as_of))
    return ModelPrice(**{**table, "tiers": tuple(PriceTier(**tier) for tier in tiers), "as_of": as_of})


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _line_of_price(file: Path, name: str, key: str) -> int:
    """Give the line of a key of a model's price, else that on which its table begins."""
    lines = file.read_text(encoding="utf-8").splitlines()
    prices = next(at for at, line in enumerate(lines) if "prices" in line)
    head = next((at for at in range(prices, len(lines)) if name in lines[at]), prices)
    own = range(head + 1, len(lines))
    end = next((at for at in own if lines[at].startswith("[") and "tiers" not in lines[at]), len(lines))
    found = (at for at in range(head + 1, end) if key and re.match(rf'[\s\["]*{key}\b', lines[at]))
    return next(found, head) + 1
