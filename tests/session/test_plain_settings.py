"""Settings of graders and agents that are seen to be right without pydantic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, dataclasses, field_validator

from pytest_agenteval.session.planning.registration_check import find_config_problems, plainly_takes
from pytest_agenteval.text.json_values import canonical_json


@dataclass(frozen=True)
class Inner:
    """A setting of several parts."""

    a: int


@dataclass(frozen=True)
class Settings:
    """Hints of every kind."""

    word: str = ""
    count: int = 0
    share: float = 0.0
    flag: bool = False
    anything: Any = None
    one_of: Literal["a", 1, None] = None
    words: tuple[str, ...] = ()
    pair: tuple[str, int] = ("", 0)
    either: str | list[str] | None = None
    number: int | float = 0
    table: Mapping[str, int | None] = field(default_factory=dict)
    nested: Sequence[dict[str, list[float]]] = ()
    bare: list = field(default_factory=list)  # type: ignore[type-arg]  # as people write it
    bounded: Annotated[float, Field(gt=0)] = 1.0
    all_bounded: list[Annotated[int, Field(gt=0)]] = field(default_factory=list)
    numbers: dict[int, str] = field(default_factory=dict)
    chosen: set[str] = field(default_factory=set)
    inner: Inner = Inner(0)
    function: Callable[[], None] | None = None


VALUES = [
    None, True, False, 0, 1, -1, 2.0, 0.5, 2**70, "", "a", "1", [], ["a"], ["a", 1], [1, "a"], [1.0], [-1],
    {}, {"a": 1}, {"a": None}, {"a": True}, {"1": "a"}, [{"a": [1, 2.5]}], [{"a": ["x"]}],
]  # fmt: skip


@pytest.mark.parametrize("name", [one.name for one in fields(Settings)])
def test_what_is_plainly_taken_pydantic_takes(name: str) -> None:
    """No value gets by unseen that pydantic, which explains what is wrong, would refuse."""
    adapter = TypeAdapter(Settings)
    for value in VALUES:
        try:
            adapter.validate_json(canonical_json({name: value}), strict=True)
            right = True
        except ValidationError:
            right = False
        assert right or not plainly_takes(Settings, {name: value}), value


@dataclass
class Bounded:
    """A default that is pydantic's, which a dataclass knows nothing of."""

    count: int = Field(default=1, gt=0)


@dataclass(slots=True)
class Needed:
    """Such a default where none is meant."""

    count: int = Field(gt=0)


@dataclass
class Described:
    """Bounds as the standard library lets them be said."""

    count: int = field(default=1, metadata={"gt": 0})


@dataclass
class Validated:
    """A method that pydantic calls."""

    count: int = 1

    @field_validator("count")
    @classmethod
    def above_zero(cls, count: int) -> int:
        """Refuse others."""
        if count <= 0:
            raise ValueError("above 0")
        return count


@dataclass
class Inherited(Validated):
    """A method that a base class has."""


@dataclass
class Configured:
    """A configuration that pydantic reads."""

    __pydantic_config__ = ConfigDict(str_min_length=2)
    word: str = "ab"


@dataclass
class Shaped:
    """A class that says itself how it is read."""

    count: int = 1

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        schema = handler(source)
        schema["schema"]["fields"][0]["schema"]["schema"]["gt"] = 0
        return schema


@dataclasses.dataclass
class OfPydantic:
    """A dataclass of pydantic's own."""

    count: int = Field(default=1, gt=0)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Bounded, {"count": 0}),
        (Needed, {"count": 0}),
        (Needed, {}),
        (Described, {"count": 0}),
        (Validated, {"count": 0}),
        (Inherited, {"count": 0}),
        (Configured, {"word": "a"}),
        (Shaped, {"count": 0}),
        (OfPydantic, {"count": 0}),
    ],
)
def test_what_a_class_says_to_pydantic_holds(kind: type, wrong: dict[str, Any]) -> None:
    """Bounds are no less than hints, wherever they are said."""
    name = fields(kind)[0].name

    assert [problem.path for problem in find_config_problems("g", kind, wrong)] == [(name,)]
    assert find_config_problems("g", kind, {name: "abc" if name == "word" else 1}) == ()


@pytest.mark.parametrize(
    "settings",
    [
        {"word": "a", "count": 1, "share": 1},
        {"either": ["a"], "table": {"a": 1}},
        {"one_of": "a", "pair": ["a", 1]},
    ],
)
def test_plain_settings_need_no_second_look(settings: dict[str, Any]) -> None:
    """Most graders' settings are texts, numbers, lists and maps."""
    assert plainly_takes(Settings, settings)


def test_what_a_class_refuses_itself_is_a_problem_all_the_same() -> None:
    """A class that raises is asked again, and its words are told."""

    @dataclass(frozen=True)
    class Even:
        count: int

        def __post_init__(self) -> None:
            if self.count % 2:
                raise ValueError("an even count")

    assert find_config_problems("even", Even, {"count": 2}) == ()
    assert [problem.found for problem in find_config_problems("even", Even, {"count": 1})] == [
        "an even count"
    ]
    assert [problem.found for problem in find_config_problems("even", Even, {"count": True})] == [
        "true (true or false)"
    ]


def test_a_value_that_no_branch_of_a_union_takes_is_told_once() -> None:
    """By what the first branch expects."""
    (problem,) = find_config_problems("g", Settings, {"either": 5})
    assert (problem.path, problem.expected, problem.found) == (("either",), "a text", "5 (number)")
