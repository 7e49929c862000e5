"""Functions as tools: hints are the schema, the docstring is the description."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import Field
from typing_extensions import TypedDict

from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.tools.tool import ToolFailed
from pytest_agenteval.tools.toolsets import tool_of


@dataclass
class Point:
    """A place on the map."""

    x: float
    y: float = 0.0


class Options(TypedDict, total=False):
    """How to look."""

    sort: str


def near(
    where: Point,
    kind: Literal["cafe", "park"],
    title: Annotated[str, Field(description="what it is called")] = "",
    most: int | None = None,
    tags: list[str] = [],  # noqa: B006  # never changed
    options: list[Options] | Options | None = None,
) -> dict[str, Any]:
    """Find what is near.

    The nearest comes first.
    """
    return {"where": where, "kind": kind, "title": title, "most": most, "tags": tags, "options": options}


def test_hints_defaults_and_docstring_are_the_declaration() -> None:
    """The model is told what a reader of the function is told."""
    spec = tool_of(near).spec
    assert (spec.name, spec.description) == ("near", "Find what is near.\n\nThe nearest comes first.")
    Draft202012Validator.check_schema(dict(spec.parameters))
    properties = spec.parameters["properties"]
    assert list(properties) == ["where", "kind", "title", "most", "tags", "options"]
    assert spec.parameters["required"] == ["where", "kind"]
    assert properties["kind"] == {"enum": ["cafe", "park"], "type": "string"}
    assert properties["title"] == {"default": "", "description": "what it is called", "type": "string"}
    assert spec.parameters["additionalProperties"] is False
    assert not spec.taped
    assert spec.blocking


def test_arguments_come_in_the_types_of_the_hints() -> None:
    """JSON becomes dataclasses on the way in, and JSON again on the way out."""
    result: Any = tool_of(near).function({"where": {"x": 1}, "kind": "park", "options": [{"sort": "n"}]})
    assert (result["where"], result["options"]) == ({"x": 1.0, "y": 0.0}, [{"sort": "n"}])
    assert (result["most"], result["tags"]) == (None, [])


def test_an_async_function_is_awaited_on_the_loop() -> None:
    """It blocks no thread; its tape is as it was asked for."""

    async def double(n: int = 2) -> int:
        return n * 2

    tool = tool_of(double, name="twice", uses_http=True, matching={"n": "ignore"})
    assert (tool.spec.name, tool.spec.blocking, tool.spec.taped, tool.uses_http) == (
        "twice",
        False,
        True,
        True,
    )
    assert asyncio.run(tool.function({})) == 4  # type: ignore[arg-type]  # it is a coroutine


def test_arguments_of_the_wrong_type_are_the_agents_mistake() -> None:
    """The agent is told which one and why."""
    with pytest.raises(ToolFailed, match=r"where\.x: .*valid number") as failed:
        tool_of(near).function({"where": {"x": "far"}, "kind": "park"})
    assert failed.value.type == "bad_arguments"


def test_names_of_parameters_may_be_anything() -> None:
    """Names that models of ours have too are no trouble."""

    def odd(json: str, schema: int = 1, _hidden: int = 2) -> list[Any]:
        return [json, schema, _hidden]

    assert tool_of(odd).function({"json": "a", "_hidden": 3}) == ["a", 1, 3]


def starred(*words: str) -> None:
    """Take what no name is for."""


def unhinted(word) -> None:  # type: ignore[no-untyped-def]
    """Say too little."""


def forward(word: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Say what is not there."""


def opaque(loop: asyncio.AbstractEventLoop) -> None:
    """Take what JSON cannot say."""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (starred, "'\\*words' cannot be given by name"),
        (unhinted, "the parameter 'word' has no type hint"),
        (forward, "'Missing' is not defined"),
        (opaque, "AbstractEventLoop"),
    ],
)
def test_a_function_that_no_schema_describes_is_a_mistake(function: Any, why: str) -> None:
    """Its file and line are named."""
    line = function.__code__.co_firstlineno
    with pytest.raises(UsageMistake, match=rf"test_functions\.py:{line}: {function.__name__} .*{why}"):
        tool_of(function)


def test_a_wrapped_async_function_is_awaited() -> None:
    """A decorator may hide that a function is async: its value is shown, not its coroutine."""

    async def add(a: int) -> int:
        return a + 1

    @functools.wraps(add)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return add(*args, **kwargs)

    tool = tool_of(wrapped)
    assert tool.spec.blocking

    async def called() -> Any:
        return await tool.function({"a": 1})

    assert asyncio.run(called()) == 2


def test_a_function_that_yields_asynchronously_is_no_tool() -> None:
    """Its value would be a generator that nobody reads."""

    async def each(a: int) -> AsyncIterator[int]:
        yield a

    with pytest.raises(UsageMistake, match="return a list"):
        tool_of(each)
