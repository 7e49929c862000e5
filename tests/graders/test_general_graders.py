"""What all general graders have in common, and one trial that goes through all of them."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any

import pytest

from pytest_agenteval.builtin import GRADERS
from pytest_agenteval.canonical import canonical
from pytest_agenteval.graders.outcome.answer import AnswerMatches
from pytest_agenteval.graders.outcome.files import FileExists
from pytest_agenteval.graders.transcript.tool_usage import CallsInOrder
from tests.suites import only_our_plugin, run, suite, task, write

pytest_plugins = ["pytester"]

PLACES = [place.split(":") for place in GRADERS.values()]
CLASSES = [getattr(import_module(f"pytest_agenteval.{module}"), name) for module, name in PLACES]
FITTING: dict[str, dict[str, Any]] = {
    "file_exists": {"paths": ["a.md"], "absent": ["b.md"]},
    "file_contains": {"path": "*.md", "texts": ["HELLO"], "fold": True},
    "file_matches": {"path": "a.md", "patterns": ["^Hello"]},
    "file_unchanged": {"paths": ["**"]},
    "front_matter": {"path": "a.md", "values": {"tags[0]": {"one_of": ["sea"]}}},
    "file_value": {"path": "v.json", "values": {"n": {"number": 3, "relative": 0.1}}},
    "tool_called": {"tools": ["search"], "at_least": 0, "at_most": 1},
    "tool_not_called": {"tools": ["search"]},
    "step_ceiling": {"steps": 1},
    "call_ceiling": {"calls": 0},
    "token_ceiling": {"tokens": 30},
    "answer_contains": {"text": "Seoul"},
    "answer_matches": {"patterns": ["Seoul"]},
    "answer_json": {"schema": {"required": ["city"]}, "values": {"city": "Seoul"}},
}
MISSED = {
    "calls_in_order": {"tools": ["search"]},
    "call_arguments": {"tool": "search", "args": {"q": "boat"}},
}


@pytest.mark.parametrize("grader", CLASSES, ids=[grader.__name__ for grader in CLASSES])
def test_a_grader_is_a_frozen_value_with_a_version_and_a_threshold(grader: Any) -> None:
    """Settings are fields and nothing else is; the ruler's digest finds the version on the class."""
    assert grader.__dataclass_params__.frozen
    assert set(grader.__slots__) == {field.name for field in fields(grader)}
    assert (grader.version, getattr(grader, "threshold", 1.0)) == ("1", 1.0)


def test_lists_and_tuples_make_equal_graders() -> None:
    """Settings come from JSON and from Python alike."""
    assert FileExists(["a"], ["b"]) == FileExists(("a",), ("b",))
    assert CallsInOrder(["a"]) == CallsInOrder(("a",))
    assert canonical(AnswerMatches(["a"]).patterns) == '["a"]'


def test_every_grader_grades_a_trial_by_its_registered_name(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From task files to grades: what holds passes, and what was not done fails with its reason."""
    only_our_plugin(monkeypatch)
    script = [{"text": '{"city": "Seoul"}', "input_tokens": 20, "output_tokens": 5}]
    files = {"a.md": "---\ntags: [sea]\n---\nHello there\n", "v.json": {"n": 3.2}}
    workspace_files = {f"evals/good/workspace/{name}": content for name, content in files.items()}
    good = task("good", graders=[{"name": name, "config": config} for name, config in FITTING.items()])
    bad = task("bad", graders=[{"name": name, "config": config} for name, config in MISSED.items()])
    write(
        pytester.path,
        {
            "evals/suite.yaml": suite(),
            "evals/good/task.json": {**good, "script": script},
            "evals/bad/task.json": {**bad, "script": script},
            **workspace_files,
        },
    )

    result = run(pytester)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*no: step 1: search", "*found: *no call", "*no: search: q", "*found: *no call"]
    )
