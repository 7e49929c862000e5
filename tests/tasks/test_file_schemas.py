"""The JSON Schemas that editors and reference pages use."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.cli.schema import schema_named, spec_definitions
from pytest_agenteval.tasks.task_spec import GraderSpec, Spec
from pytest_agenteval.tools.http_declaration import ResultSpec

LEAST: dict[str, Any] = {"id": "a", "input": {}, "graders": [{"name": "n"}]}


def subclasses(model: type[Spec]) -> list[type[Spec]]:
    """Give every class below another."""
    return [model, *(below for one in model.__subclasses__() for below in subclasses(one))]


def valid(schema: dict[str, Any], value: Any) -> bool:
    """Tell whether a value follows a schema."""
    jsonschema = pytest.importorskip("jsonschema")
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize("name", ["task", "suite"])
def test_a_schema_is_itself_valid_and_says_what_it_is(name: str) -> None:
    """Draft 2020-12, with an id that no one has to fetch."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = schema_named(name)

    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].startswith("urn:pytest-agenteval:")
    assert schema["title"]
    assert schema["description"]


@pytest.mark.parametrize("model", subclasses(Spec))
def test_every_field_says_what_is_expected(model: type[Spec]) -> None:
    """The description is the *expected* line of an error: without one an author learns nothing."""
    fields = spec_definitions(model)[model.__name__].get("properties", {})
    assert [name for name, field in fields.items() if not field.get("description")] == []


@pytest.mark.parametrize(
    ("value", "good"),
    [
        (LEAST, True),
        ([LEAST, LEAST], True),
        ([], False),
        ({**LEAST, "unknown": 1}, False),
        ({**LEAST, "reference_solution": None}, True),
        ({**LEAST, "reference_solution": {"sampleTranscript": [], "source": "dreamt"}}, True),
        ({**LEAST, "script": [{"calls": [{"tool": "t", "args": "{oops"}]}]}, True),
        ({**LEAST, "script": [{"calls": [{"tool": "t", "args": 3}]}]}, False),
        ({**LEAST, "metadata": {"n": 3}}, True),
        ({**LEAST, "id": "a b"}, False),
        ({**LEAST, "graders": []}, False),
        ({**LEAST, "graders": [{"name": "n", "weight": 0}]}, False),
        ({"id": "a"}, False),
    ],
)
def test_the_task_schema_takes_what_the_reader_takes(value: Any, good: bool) -> None:
    """One task or a list; unknown keys are mistakes."""
    assert valid(schema_named("task"), value) is good


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ({"name": "s"}, True),
        ({"name": "s", "agent_name": "a", "requireReferenceSolution": True, "taskPassThreshold": 1.0}, True),
        ({"name": "s", "defaults": {"model": "claude"}}, True),
        ({"name": "s", "defaults": {"model": ["claude", "x"], "limits": {"steps": 3}}}, True),
        ({"name": "s", "defaults": {"model": 3}}, False),
        ({"name": "s", "defaults": {"model": " "}}, False),
        ({"name": "s", "defaults": {"model": [" "]}}, False),
        ({"name": "s", "kind": "odd"}, False),
        ({}, False),
    ],
)
def test_the_suite_schema_takes_what_the_reader_takes(value: Any, good: bool) -> None:
    """In both spellings."""
    assert valid(schema_named("suite"), value) is good


def test_an_editor_is_told_what_a_thing_is_and_what_holds_where_nothing_is_said() -> None:
    """Maps that are empty by default say nothing; bounds that only keep infinity out are none."""
    definitions = schema_named("task")["$defs"]
    limits = definitions["Task"]["properties"]["limits"]

    assert definitions["GraderSpec"]["description"] == GraderSpec.__doc__
    assert limits["default"] == {"steps": None, "seconds": None, "tokens": None, "cost_usd": None}
    assert "default" not in definitions["GraderSpec"]["properties"]["config"]
    assert definitions["GraderSpec"]["properties"]["weight"] == {
        "default": 1.0,
        "description": "a number above 0",
        "exclusiveMinimum": 0,
        "type": "number",
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", subclasses(Spec))
def test_a_default_is_written_as_an_author_would(kind: type[Spec]) -> None:
    """Each can be said in a schema, by the names that stand in files."""
    schema = spec_definitions(kind)[kind.__name__]
    spelled = {"as" if name == "convert" else name for name in ResultSpec.__struct_fields__}

    default = schema.get("properties", {}).get("result", {}).get("default")
    assert default is None or default.keys() == spelled
