"""What of two courses of one conversation is not equal."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from .leading import Course

ABOUT_NOW = 2.0
"""Seconds by which a wait until a date may differ: one of the two was asked later."""

UNKNOWN_COUNTS = ("ask.usage.cached_tokens", "ask.usage.reasoning_tokens")
"""Where litellm writes 0 if the provider says nothing; directly it is unknown."""


class Unequal(NamedTuple):
    """A place at which two courses differ, without the numbers in it, and what stands there."""

    place: str
    litellm: Any
    direct: Any

    def __str__(self) -> str:
        return f"{self.place}: litellm {_short(self.litellm)}, direct {_short(self.direct)}"


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING_THERE = _Nothing()


def unequal(litellm: Course, direct: Course) -> list[Unequal]:
    """Give all that differs: what each ask brought, and what was sent."""
    found = [*_asks(litellm, direct), *_within(list(litellm.sent), list(direct.sent), "sent")]
    return [it for it in found if it is not None]


def _asks(litellm: Course, direct: Course) -> Iterator[Unequal]:
    for ours, theirs, end in zip(direct.outcomes, litellm.outcomes, litellm.ends, strict=True):
        if ("cause" in ours) != ("cause" in theirs):
            yield Unequal("ending", end, ours.get("cause", ours.get("finish")))
        else:
            yield from _within(theirs, ours, "ask")


def _within(litellm: Any, direct: Any, place: str) -> Iterator[Unequal]:
    if isinstance(litellm, dict) and isinstance(direct, dict):
        for name in sorted({*litellm, *direct}):
            sides = (it.get(name, NOTHING_THERE) for it in (litellm, direct))
            yield from _within(*sides, f"{place}.{name}")
    elif isinstance(litellm, list) and isinstance(direct, list) and len(litellm) == len(direct):
        for theirs, ours in zip(litellm, direct, strict=True):
            yield from _within(theirs, ours, place)
    elif not _equal(litellm, direct, place):
        yield Unequal(place, litellm, direct)


def _equal(litellm: Any, direct: Any, place: str) -> bool:
    if place == "ask.retry_after_s" and isinstance(litellm, float) and isinstance(direct, float):
        return math.isclose(litellm, direct, abs_tol=ABOUT_NOW)
    if place in UNKNOWN_COUNTS and direct is None:
        return litellm in (0, None)
    if place == "ask.usage.cost_usd" and isinstance(litellm, float) and isinstance(direct, float):
        return math.isclose(litellm, direct, rel_tol=1e-9)
    return bool(litellm == direct)


def _short(value: Any) -> str:
    try:
        told = json.dumps(value, ensure_ascii=False)
    except TypeError:
        told = repr(value)
    return told if len(told) <= 160 else f"{told[:159]}…"
