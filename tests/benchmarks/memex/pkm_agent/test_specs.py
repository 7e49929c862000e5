"""What a model is told of the PKM tools."""

from __future__ import annotations

import inspect
import json

import pytest
from jsonschema import Draft202012Validator

from pytest_agenteval.benchmarks.memex.pkm_agent.agent import FUNCTIONS, specs
from pytest_agenteval.records.tool_spec import ToolSpec

ARGUMENTS = {
    "Read": (["file_path"], ["offset", "limit"]),
    "BatchRead": (["file_patterns"], []),
    "Write": (["file_path", "content"], []),
    "Edit": (["file_path", "old_string", "new_string"], ["replace_all"]),
    "Move": (["source_path", "destination_path"], ["overwrite"]),
    "Remove": (["path", "confirm"], []),
    "LS": (["path"], ["ignore", "depth"]),
    "Glob": (["pattern"], ["path"]),
    "Grep": (
        ["pattern"],
        ["path", "include", "output_mode", "A", "B", "C", "n", "i", "type", "head_limit", "multiline"],
    ),
    "update_timeline_card_insight": (["fact_id", "insight_text"], ["related_fact_ids"]),
    "skip_pkm_organization": (["evidence"], []),
}


def test_there_are_eleven_tools_with_their_arguments() -> None:
    """Names and arguments are those that recorded runs of the original agent have."""
    parameters = {spec.name: spec.parameters for spec in specs()}

    assert list(parameters) == list(ARGUMENTS)
    for name, (required, optional) in ARGUMENTS.items():
        assert list(parameters[name]["required"]) == required
        assert list(parameters[name]["properties"]) == [*required, *optional]


@pytest.mark.parametrize("spec", specs(), ids=lambda spec: spec.name)
def test_every_tool_and_argument_is_explained(spec: ToolSpec) -> None:
    """A declaration is a schema that JSON can carry, with a word on each argument."""
    declared = json.loads(json.dumps(spec.declaration()))["function"]

    Draft202012Validator.check_schema(declared["parameters"])
    assert declared["description"].endswith(".")
    assert all(argument["description"] for argument in declared["parameters"]["properties"].values())


def test_every_argument_that_is_told_of_is_read() -> None:
    """No tool promises an argument that its function does not take, and none has a default that it needs."""
    for name, (required, optional) in ARGUMENTS.items():
        taken = list(inspect.signature(FUNCTIONS[name]).parameters.values())[1:]
        assert {one.name for one in taken} == {*required, *optional}
        assert all(one.default is not one.empty for one in taken if one.name in optional)
