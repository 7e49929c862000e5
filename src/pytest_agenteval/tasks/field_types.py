"""The kinds of value that authored files are made of, each with its rule in words.

A description here, or at a field, is the *expected* line of an error and the text of the JSON Schema. What
msgspec takes by these rules pydantic takes too (``pydantic_models``), which then says what is wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from pytest_agenteval.records.record import FrozenValue

# Memex's spelling of a key, and ours; both are read.
SPELLINGS: Mapping[str, str] = {
    "agent_name": "agent",
    "requireReferenceSolution": "require_reference_solution",
    "sampleTranscript": "sample_transcript",
    "taskPassThreshold": "task_pass_threshold",
}

LARGEST = sys.float_info.max
"""The bound of every number that JSON knows, which infinity is beyond."""
_CLOCK = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?"


class Spec(FrozenValue, frozen=True, forbid_unknown_fields=True):
    """Base of everything an author writes: unknown keys are mistakes, values are frozen."""

    def to_json(self) -> dict[str, Any]:
        """Give the spec as JSON values, lists for tuples and all defaults said."""
        # What is read from a file holds nothing but JSON's own values: JSON's way there and back is exact.
        value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return value


class TwoSpellings(Spec, frozen=True):
    """A spec some of whose keys may also be spelled as Memex does."""


def expects(text: str) -> Meta:
    """Say what a field takes: the *expected* line of an error about it."""
    return Meta(description=text)


class Holds(NamedTuple):
    """A rule that msgspec leaves to ``__post_init__`` of the spec; schemas say it by the ``pattern``."""

    rule: Callable[[Any], bool]
    pattern: str = ""


def is_clock(text: str) -> bool:
    """Whether a text is a date and a time of day, perhaps with seconds and an offset."""
    if not re.fullmatch(_CLOCK, text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def check_clock(text: str | None) -> None:
    """Raise ValueError for a text that is no clock."""
    if text is not None and not is_clock(text):
        raise ValueError("not a date and a time")


def is_named(text: str) -> bool:
    """Whether a text is not blank."""
    return bool(text.strip())


def check_named(value: object) -> None:
    """Raise ValueError for a blank text."""
    if isinstance(value, str) and not is_named(value):
        raise ValueError("a blank text")


# Where a text ends is \Z in patterns: Python's $ is also before a last line's end.
Named = Annotated[str, Meta(pattern=r"\S", description="a text that is not blank")]
# What stands beside lists or maps: msgspec 0.22 frees a pattern there twice, and Python crashes.
NamedBesideOthers = Annotated[str, Holds(is_named, r"\S"), expects("a text that is not blank")]
Tag = Annotated[str, Meta(pattern=r"^\S+\Z", description="a text without spaces")]
Id = Annotated[str, Meta(pattern=r"^[^\s/\\:\[\]]+\Z")]
Count = Annotated[int, Meta(ge=1)]
Tokens = Annotated[int, Meta(ge=0)]
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Positive = Annotated[float, Meta(gt=0, le=LARGEST)]
AtLeastZero = Annotated[float, Meta(ge=0, le=LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Tolerance = Annotated[float, Meta(gt=0, lt=1)]
Map = Mapping[str, Any]
Paths = Mapping[str, Annotated[str, Meta(pattern=r"\S", description="the path of a prompt file")]]
Shares = Mapping[str, Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]]
ModelName = Annotated[str, Meta(pattern=r"\S", description="the name of a model")]
ModelNameBesideOthers = Annotated[str, Holds(is_named, r"\S"), expects("the name of a model")]
ClockText = Annotated[str, Holds(is_clock)]
