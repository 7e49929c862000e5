"""How ``--agent-gate`` is written: rules of a gate, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.session.options import RawValue, WrongValue, names
from pytest_agenteval.tasks.gate_spec import Gate
from pytest_agenteval.text.errors import nearest

OFF = "none"
BUCKET = "buckets."
KEYS = ("score", "buckets.NAME", "pass_hat_k", "not_worse", "better", "errored", "recheck")


def read_gate(raw: RawValue) -> Mapping[str, Any] | None:
    """Read ``score=0.8,buckets.NAME=0.9``, or a table of pyproject.toml; None for ``none``."""
    if isinstance(raw.value, dict):
        rules = dict(raw.value)
    else:
        parts = names(raw)
        if OFF in parts:
            if len(parts) > 1:
                raise WrongValue(hint="none stands alone")
            return None
        rules = dict(map(_rule, parts))
        if len(rules) < len(parts):
            raise WrongValue(hint="each rule only once")
    rules = _with_buckets(rules)
    unknown = next((key for key in rules if key not in Gate.__struct_fields__ or key == "baseline"), None)
    if unknown is not None:
        raise WrongValue(expected=f"one of {', '.join(KEYS)}", hint=nearest(unknown, KEYS))
    try:
        from_builtins(Gate, rules)
    except msgspec.ValidationError as wrong:
        raise WrongValue(expected=f"numbers and true or false as docs/gates.md says ({wrong})") from None
    return rules


def _with_buckets(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Put what is said as ``buckets.NAME`` into the map of buckets, where that is one."""
    buckets = {key.removeprefix(BUCKET): value for key, value in rules.items() if key.startswith(BUCKET)}
    others = {key: value for key, value in rules.items() if not key.startswith(BUCKET)}
    own = others.get("buckets", {})
    if buckets and isinstance(own, dict):
        others["buckets"] = {**own, **buckets}
    return others


def _rule(text: str) -> tuple[str, Any]:
    key, equals, value = text.rpartition("=")
    if not equals:
        raise WrongValue
    words: dict[str, Any] = {"true": True, "false": False}
    try:
        word = value.strip().lower()
        return key.strip(), words[word] if word in words else _number(word)
    except ValueError:
        raise WrongValue(expected=f"a number, true or false behind {key}=") from None


def _number(text: str) -> float | int:
    return int(text) if text.strip().isdigit() else float(text)
