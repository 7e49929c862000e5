"""``agenteval schema``: published shapes, as JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from pytest_agenteval.cli.main import main
from tests.suites import task


def printed_schema(capsys: pytest.CaptureFixture[str], what: str) -> Any:
    """Give the schema that the command prints."""
    assert main(["schema", what]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_schema_is_one_that_validators_take(capsys: pytest.CaptureFixture[str]) -> None:
    """Plain JSON on standard output, of the draft that it names; the others are looked at every night."""
    schema = printed_schema(capsys, "text")

    jsonschema.validators.validator_for(schema, default=None).check_schema(schema)


def test_the_task_schema_takes_tasks_and_refuses_others(capsys: pytest.CaptureFixture[str]) -> None:
    """A task, or a list of them, and nothing else."""
    schema = printed_schema(capsys, "task")

    validator = jsonschema.Draft202012Validator(schema)
    assert [*validator.iter_errors(task("greet")), *validator.iter_errors([task("one"), task("two")])] == []
    for wrong in ({**task("greet"), "trials_pre_run": 3}, {"id": "greet"}, "greet"):
        assert not validator.is_valid(wrong)


def test_an_unknown_schema_is_a_mistake_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    """The names that there are are listed."""
    with pytest.raises(SystemExit) as ended:
        main(["schema", "tsak"])

    assert ended.value.code == 2
    assert "'task', 'suite'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "hint"), [("improv", "did you mean 'improve'?"), ("zzz", "agenteval --help lists the verbs")]
)
def test_a_misspelt_verb_is_one_line(verb: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest verb, if there is one, and not the list of all."""
    assert main([verb, "--nonsense"]) == 2
    assert capsys.readouterr().err == f"agenteval: there is no verb {verb!r}; {hint}\n"


def test_a_verb_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without one the command says which there are."""
    with pytest.raises(SystemExit) as ended:
        main([])

    assert ended.value.code == 2
    assert "usage: agenteval" in capsys.readouterr().err
