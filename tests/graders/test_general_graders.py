"""What all general graders have in common, and one trial that goes through all of them."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib import import_module
from typing import Any
from unicodedata import normalize

import pytest

from pytest_agenteval.graders.answers import AnswerMatches
from pytest_agenteval.graders.grader import trait_of
from pytest_agenteval.graders.tool_calls import CallsInOrder
from pytest_agenteval.graders.workspace_files import FileExists
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.registry.installed import GRADERS
from pytest_agenteval.text.json_values import canonical_json
from tests.graders.sample_evidence import call, tree
from tests.suites import only_our_plugin, run, suite, task, write

pytest_plugins = ["pytester"]

PLACES = [place.split(":") for place in GRADERS.values()]
CLASSES = [getattr(import_module(f"pytest_agenteval.{module}"), name) for module, name in PLACES]
CLASSES_BY_NAME = dict(zip(GRADERS, CLASSES, strict=True))
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
    assert (grader.version in ("1", "2", "3"), getattr(grader, "threshold", 1.0)) == (True, 1.0)


def test_a_grader_that_says_nothing_of_itself_has_the_defaults() -> None:
    """Documented in ``GraderTraits``: what is not declared is part of digests and verdicts all the same."""
    said = {name: trait_of(object(), name) for name in ("version", "threshold", "quick", "rubric_digest")}
    assert said == {"version": "1", "threshold": 1.0, "quick": False, "rubric_digest": ""}
    assert (trait_of(None, "files"), trait_of(None, "names_tools")) == ({}, "")


def test_lists_and_tuples_make_equal_graders() -> None:
    """Settings come from JSON and from Python alike."""
    assert FileExists(["a"], ["b"]) == FileExists(("a",), ("b",))
    assert CallsInOrder(["a"]) == CallsInOrder(("a",))
    assert canonical_json(AnswerMatches(["a"]).patterns) == '["a"]'


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
        ["*not met: step 1: search", "*found: *no call", "*not met: search: q", "*found: *no call"]
    )


@pytest.mark.parametrize("task_form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("file_exists", {"paths": ["노트/한글.md"]}),
        ("file_exists", {"paths": ["노트/*글.md"]}),
        ("file_contains", {"path": "노트/한글.md", "texts": ["café\n둘째"]}),
        ("file_matches", {"path": "노트/**", "patterns": ["^제목: 한글$", "^..$"]}),
        ("front_matter", {"path": "노트/한글.md", "values": {"제목": "한글", "값": {"regex": "^é$"}}}),
        ("file_value", {"path": "v.json", "values": {"이름.성": {"one_of": ["김", "é"]}}}),
        (
            "call_arguments",
            {"tool": "search", "args": {"q": {"contains": "한글"}, "길": {"subset": {"é": ["ü"]}}}},
        ),
        ("answer_contains", {"text": "한글\ncafé"}),
        ("answer_contains", {"text": "CAFÉ", "ignore_case": True}),
        ("answer_matches", {"patterns": ["^한글$", "caf.$"]}),
    ],
)
def test_texts_compare_in_one_form_and_by_lines(name: str, config: dict[str, Any], task_form: Any) -> None:
    """Two texts that look alike are equal: however Unicode spells them, and however lines end."""
    evidence_form = {"NFC": "NFD", "NFD": "NFC"}[task_form]
    note = normalize(evidence_form, "---\r\n제목: 한글\r\n값: é\r\n---\r\ncafé\r\n둘째\r\n")
    files = {"노트/한글.md": note, "v.json": normalize(evidence_form, '{"이름": {"성": "é"}}')}
    args = json.loads(normalize(evidence_form, '{"q": "x 한글 y", "길": {"é": ["ü"]}}'))
    evidence = Evidence(
        {},
        Transcript(calls=(call("search", args),)),
        Outcome(
            Answer(normalize(evidence_form, "한글\r\ncafé")),
            after=tree({normalize(evidence_form, path): text for path, text in files.items()}),
        ),
    )
    grader = CLASSES_BY_NAME[name](**json.loads(normalize(task_form, json.dumps(config, ensure_ascii=False))))

    assert grader.grade(evidence).score == 1.0
