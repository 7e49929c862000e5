"""``agenteval schema``: published shapes, as JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.cli.schema import schema_named, spec_definitions
from pytest_agenteval.tasks.task_spec import GraderSpec, Spec
from pytest_agenteval.tools.http_declaration import ResultSpec

LEAST: dict[str, Any] = {"id": "a", "input": {}, "graders": [{"name": "n"}]}


def valid(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value follows a schema."""
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def subclasses(model: type[Spec]) -> list[type[Spec]]:
    """Give every class below another."""
    return [model, *(below for one in model.__subclasses__() for below in subclasses(one))]


@pytest.mark.parametrize("name", ["task", "suite", "text"])
def test_a_schema_is_one_that_validators_take(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain JSON on standard output, of the draft that it names."""
    assert main(["schema", name]) == 0
    schema = json.loads(capsys.readouterr().out)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("model", subclasses(Spec))
def test_every_field_says_what_is_expected(model: type[Spec]) -> None:
    """The description is the *expected* line of an error: without one an author learns nothing."""
    fields = spec_definitions(model)[model.__name__].get("properties", {})
    assert [name for name, field in fields.items() if not field.get("description")] == []


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("task", LEAST, True),
        ("task", [LEAST, LEAST], True),
        ("task", [], False),
        ("task", {**LEAST, "unknown": 1}, False),
        ("task", {**LEAST, "reference_solution": None}, True),
        ("task", {**LEAST, "reference_solution": {"sampleTranscript": [], "source": "dreamt"}}, True),
        ("task", {**LEAST, "script": [{"calls": [{"tool": "t", "args": "{oops"}]}]}, True),
        ("task", {**LEAST, "script": [{"calls": [{"tool": "t", "args": 3}]}]}, False),
        ("task", {**LEAST, "metadata": {"n": 3}}, True),
        ("task", {**LEAST, "id": "a b"}, False),
        ("task", {**LEAST, "graders": []}, False),
        ("task", {**LEAST, "graders": [{"name": "n", "weight": 0}]}, False),
        ("task", {"id": "a"}, False),
        ("suite", {"name": "s"}, True),
        (
            "suite",
            {"name": "s", "agent_name": "a", "requireReferenceSolution": True, "taskPassThreshold": 1.0},
            True,
        ),
        ("suite", {"name": "s", "defaults": {"model": "claude"}}, True),
        ("suite", {"name": "s", "defaults": {"model": ["claude", "x"], "limits": {"steps": 3}}}, True),
        ("suite", {"name": "s", "defaults": {"model": 3}}, False),
        ("suite", {"name": "s", "defaults": {"model": " "}}, False),
        ("suite", {"name": "s", "defaults": {"model": [" "]}}, False),
        ("suite", {"name": "s", "kind": "odd"}, False),
        ("suite", {}, False),
    ],
)
def test_a_schema_takes_what_the_reader_takes(name: str, value: Any, good: bool) -> None:
    """One task or a list; suites in both spellings; unknown keys are mistakes."""
    assert valid(schema_named(name), value) is good


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


def test_an_unknown_schema_is_a_mistake_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest names are listed, and one is proposed."""
    assert main(["schema", "tsak"]) == 2
    line = capsys.readouterr().err
    assert line.startswith("agenteval: schema WHAT: expected one of task, ")
    assert line.endswith("; found 'tsak'; did you mean 'task'?\n")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["report", "--modles"], "report has no option --modles; did you mean '--models'?"),
        (["compare", "a", "b", "--zzz=1"], "compare has no option --zzz; agenteval compare --help lists its"),
    ],
)
def test_a_misspelt_option_of_a_verb_is_one_line(
    typed: list[str], found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It comes before what is missing: the mistake is the word that was typed."""
    assert main(typed) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"agenteval: {found}")


@pytest.mark.parametrize(
    ("verb", "hint"), [("improv", "did you mean 'improve'?"), ("zzz", "agenteval --help lists the verbs")]
)
def test_a_misspelt_verb_is_one_line(verb: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest verb, if there is one, and not the list of all."""
    assert main([verb, "--nonsense"]) == 2
    assert capsys.readouterr().err == f"agenteval: there is no verb {verb!r}; {hint}\n"


def test_a_verb_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without one the command names one, and says how to list them."""
    assert main([]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "agenteval: name a verb, as in `agenteval runs`; agenteval --help lists the verbs"
