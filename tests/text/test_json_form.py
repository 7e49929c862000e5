"""The JSON form of whatever agents, tools and graders give."""

from __future__ import annotations

import json
from collections import UserDict, deque
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from math import inf, nan
from numbers import Integral, Real
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, ClassVar
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from pytest_agenteval.store.record_files import encode_line
from pytest_agenteval.text.json_values import jsonable


class Colour(Enum):
    """Values that encoders do not all take."""

    RED = "red"
    PAIR = (1, 2)
    HALF = 0.5


class Level(IntEnum):
    """A number with a name."""

    LOW = 1


class Word(StrEnum):
    """A text with a name."""

    YES = "yes"


class Text(str):
    """A text of its own type."""

    def __repr__(self) -> str:
        return "another"


class Model(BaseModel):
    """A model of pydantic."""

    share: float = inf
    at: date = date(2026, 5, 25)


class Broken(BaseModel):
    """A model that cannot be taken apart."""

    def model_dump(self, **_: Any) -> Any:  # type: ignore[override]  # as people write it
        """Fail."""
        raise ValueError("no")


class Struct(msgspec.Struct):
    """A struct of msgspec."""

    share: float = nan


@dataclass
class Node:
    """A dataclass with everything that is no field of its values."""

    name: str = ""
    inner: Any = None
    given: InitVar[int] = 0
    kinds: ClassVar[int] = 3
    unset: int = field(init=False, repr=False)


class Thing:
    """An object of somebody's."""

    def __repr__(self) -> str:
        return "<Thing>"


class Count:
    """A number as numpy has them: no int, and registered as one."""

    def __int__(self) -> int:
        return 7


class Measure:
    """A number as numpy has them: no float, and registered as one."""

    def __float__(self) -> float:
        return -inf


Integral.register(Count)
Real.register(Measure)

FORMS: list[tuple[Any, Any]] = [
    (b"ab", "YWI="),
    (nan, "NaN"),
    (-inf, "-Infinity"),
    (2**70, 2**70),
    (Decimal("1.10"), "1.10"),
    (date(2026, 5, 25), "2026-05-25"),
    (datetime(2026, 5, 25, 9, tzinfo=UTC), "2026-05-25T09:00:00Z"),
    (timedelta(days=1, hours=1), "P1DT3600S"),
    (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (PurePosixPath("/a/b"), "/a/b"),
    (Fraction(1, 2), "1/2"),
    (Count(), 7),
    (Measure(), "-Infinity"),
    (Colour.RED, "red"),
    (Colour.PAIR, [1, 2]),
    (Colour.HALF, 0.5),
    (Level.LOW, 1),
    (Word.YES, "yes"),
    (Text("own"), "own"),
    (Model(), {"share": "Infinity", "at": "2026-05-25"}),
    (Broken(), "Broken()"),
    (Struct(), {"share": "NaN"}),
    (Node("a", [Node("b", Thing())]), {"name": "a", "inner": [{"name": "b", "inner": "<Thing>"}]}),
    (Node("a", deque([1, PurePosixPath("p")])), {"name": "a", "inner": [1, "p"]}),
    (Thing(), "<Thing>"),
    (MappingProxyType({"a": (1,)}), {"a": [1]}),
    (UserDict(a=1), {"a": 1}),
    ({3}, [3]),
    ("\ud800", "\ud800"),
    ({None: 0, True: 1, 2: 2, 2.5: 3}, {"null": 0, "true": 1, "2": 2, "2.5": 3}),
    ({Colour.RED: 1, date(2026, 5, 25): 2, b"ab": 3}, {"red": 1, "2026-05-25": 2, "YWI=": 3}),
    ({(1, 2): 3}, {"(1, 2)": 3}),
]


@pytest.mark.parametrize(("value", "form"), FORMS, ids=[type(value).__name__ for value, _ in FORMS])
def test_a_value_has_one_form_whatever_stands_beside_it(value: Any, form: Any) -> None:
    """A run's files, and records that are sent as JSON: which encoder wrote it cannot be seen."""
    assert jsonable(value) == form
    assert type(jsonable(value)) is type(form) or isinstance(value, type(form))
    for beside in (1, None, inf, "\ud83c", Thing(), {(1, 2): 3}):
        assert json.loads(encode_line({"value": value, "beside": beside}))["value"] == form, beside


def _circle() -> Node:
    child = Node("child")
    child.inner = {"up": [Node("parent", child)]}
    return child


def _struct_circle() -> Any:
    class Ring(msgspec.Struct):
        """A struct that may hold itself."""

        inner: Any = None

        def __repr__(self) -> str:
            return "Ring()"

    ring = Ring()
    ring.inner = deque([ring])
    return ring


@pytest.mark.parametrize("make", [_circle, _struct_circle])
def test_an_object_that_holds_itself_is_its_repr(make: Callable[[], Any]) -> None:
    """Trees whose nodes know their parents are no reason to lose a trial."""
    value = make()

    assert jsonable({"at": [value]}) == {"at": [repr(value)]}
    assert json.loads(encode_line({"at": value})) == {"at": repr(value)}


def test_an_object_of_attrs_that_holds_itself_is_its_repr() -> None:
    """Whoever takes it apart goes round and round."""
    ring = pytest.importorskip("attrs").make_class("Ring", ["inner"])(None)
    ring.inner = {"at": ring}

    assert jsonable(ring) == repr(ring)
    assert json.loads(encode_line({"ring": ring})) == {"ring": repr(ring)}


def test_a_set_has_one_order() -> None:
    """Whatever it holds; which order Python gives it changes from run to run."""
    assert jsonable({"b", 1, None, "a", (2,)}) == ["a", "b", 1, None, [2]]


def test_one_object_at_two_places_does_not_hold_itself() -> None:
    """It is written twice."""
    shared = Node("s")
    assert jsonable(Node("a", [shared, shared]))["inner"] == [{"name": "s", "inner": None}] * 2
