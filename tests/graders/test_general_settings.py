"""What an author is told of wrong settings of the general graders, when the task is loaded."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_agenteval.graders.answers import AnswerJson, AnswerMatches
from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.tool_calls import (
    CallArguments,
    CallCeiling,
    CallsInOrder,
    StepCeiling,
    TokenCeiling,
    ToolCalled,
    ToolNotCalled,
)
from pytest_agenteval.graders.workspace_files import (
    FileContains,
    FileExists,
    FileMatches,
    FileUnchanged,
    FileValue,
    FrontMatter,
)
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]

WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "file_exists": ({"paths": ["a.md", "/etc"]}, "paths[1]", "a path from the workspace's root"),
    "file_contains": ({"path": "a.md", "texts": []}, "texts", "at least one text"),
    "file_matches": ({"path": "a.md", "patterns": ["a", "("]}, "patterns[1]", "at position 0"),
    "file_unchanged": ({"paths": ["a/"]}, "paths[0]", "'a/**'"),
    "front_matter": (
        {"path": "a.md", "values": {"t": {"contians": "x"}}},
        "contians",
        "did you mean 'contains'?",
    ),
    "file_value": ({"path": "a.json", "values": {"[x": 1}}, "[x", "a path like"),
    "tool_called": ({"tools": ["a"], "at_least": 3, "at_most": 2}, "at_most", "3 or more"),
    "tool_not_called": ({"tools": "a"}, "tools", "'a' (text)"),
    "calls_in_order": ({"tools": ["a"], "strict": True}, "strict", "one of exact, succeeded, tools"),
    "call_arguments": ({"tool": "t", "args": {"q": {"regex": "("}}}, "args.q.regex", "at position 0"),
    "step_ceiling": ({"steps": 0}, "steps", "1 or more"),
    "call_ceiling": ({"calls": "2"}, "calls", "'2' (text)"),
    "token_ceiling": ({}, "tokens", "it has no default"),
    "answer_matches": ({"patterns": ["[z-a]"]}, "patterns[0]", "at position 1"),
    "answer_json": ({"schema": {"type": "nope"}}, "schema.type", "'nope' is not valid"),
}


@pytest.mark.usefixtures("quick")
def test_wrong_settings_are_told_at_load(pytester: pytest.Pytester) -> None:
    """File, line and key, what was expected and found, for each grader by its name, without a traceback."""
    tasks = {
        f"evals/{name}.json": task(name, graders=[{"name": name, "config": config}])
        for name, (config, _, _) in WRONG.items()
    }
    write(pytester.path, {"evals/suite.yaml": suite(), **tasks})

    result = run(pytester, "--continue-on-collection-errors")

    result.assert_outcomes(errors=len(WRONG))
    text = str(result.stdout)
    assert "Traceback" not in text
    for name, (_, key, message) in WRONG.items():
        problem = re.search(rf"^evals/{name}\.json:\d+: graders\[0\]\.config.*(\n  .*)+", text, re.MULTILINE)
        assert problem is not None, name
        assert key in problem[0]
        assert message in problem[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AnswerMatches([]), "patterns: expected at least one text"),
        (
            lambda: AnswerMatches(["[a"]),
            "patterns[0]: expected a regular expression, found '[a': unterminated",
        ),
        (lambda: AnswerJson(), "schema: expected a schema, or values, found neither"),
        (lambda: AnswerJson({}), "schema: expected a JSON Schema: a map with at least one key, found {}"),
        (
            lambda: AnswerJson({"type": "text"}),
            "schema.type: expected a JSON Schema, found 'text' is not valid",
        ),
        (lambda: AnswerJson({"pattern": "("}), "schema.pattern: expected a JSON Schema"),
        (
            lambda: AnswerJson({"items": {"$ref": "https://example.org/item.json"}}),
            "schema.items.$ref: expected a place in the schema itself, as in #/$defs/item",
        ),
        (
            lambda: AnswerJson({"items": {"$ref": "#/$defs/no"}}),
            "schema.items.$ref: expected a place that is in",
        ),
        (lambda: AnswerJson(values={}), "values: expected a map with at least one entry"),
        (lambda: AnswerJson(values={"a[": 1}), "values.a[: expected a path like"),
        (lambda: FileExists(), "paths: expected at least one path, here or in absent, found none"),
        (lambda: FileExists(["/etc/passwd"]), "paths[0]: expected a path from the workspace's root"),
        (lambda: FileExists([], ["a", "../b"]), "absent[1]: expected a path from the workspace's root"),
        (lambda: FileExists(["notes/"]), "the files of a folder are 'notes/**'"),
        (lambda: FileContains("a.md", []), "texts: expected at least one text, found an empty list"),
        (lambda: FileContains("a.md", ["a", " "]), "texts[1]: expected a text that is not blank, found ' '"),
        (lambda: FileContains("a//b", ["a"]), "path: expected a path"),
        (lambda: FileMatches("a.md", "x"), "patterns: expected a list of texts, found 'x'"),
        (
            lambda: FileMatches("a.md", ["a", "b(c"]),
            "patterns[1]: expected a regular expression, found 'b(c': missing ), unterminated subpattern at "
            "position 1",
        ),
        (lambda: FileUnchanged([]), "paths: expected at least one text"),
        (lambda: FileValue("a.toml", {"a": 1}), "path: expected a path that ends in .json, .yaml, .yml"),
        (lambda: FileValue("a.json", {}), "values: expected a map with at least one entry, found {}"),
        (lambda: FrontMatter("/a.md", {"a": 1}), "path: expected a path from the workspace's root"),
        (lambda: FrontMatter("a.md", {"a": {"regex": "("}}), "values.a.regex: expected a regular expression"),
        (lambda: ToolCalled([]), "tools: expected at least one text"),
        (lambda: ToolCalled("search"), "tools: expected a list of texts, found 'search'"),
        (
            lambda: ToolCalled(["a"], at_least=0),
            "at_least: expected 1 or more, or at_most beside it, found 0",
        ),
        (lambda: ToolCalled(["a"], at_least=-1), "at_least: expected a whole number, 0 or more, found -1"),
        (lambda: ToolCalled(["a"], 3, 2), "at_most: expected a whole number, 3 or more, found 2"),
        (lambda: ToolNotCalled(["a", ""]), "tools[1]: expected a text that is not blank"),
        (lambda: CallArguments("", {"q": 1}), "tool: expected a text that is not blank"),
        (lambda: CallArguments("t", {}), "args: expected a map with at least one entry"),
        (lambda: CallArguments("t", {"q": {"regexp": "a"}}), "did you mean 'regex'?"),
        (lambda: CallArguments("t", {"q": 1}, "all"), "which: expected any, every, first, last or a number"),  # type: ignore[arg-type]  # wrong on purpose
        (
            lambda: CallArguments("t", {"q": 1}, 0),
            "which: expected any, every, first, last or a number from 1",
        ),
        (lambda: CallArguments("t", {"q": 1}, True), "which: expected"),
        (lambda: StepCeiling(0), "steps: expected a whole number, 1 or more, found 0"),
        (lambda: TokenCeiling(0), "tokens: expected a whole number, 1 or more, found 0"),
        (lambda: CallCeiling(-1), "calls: expected a whole number, 0 or more, found -1"),
        (lambda: StepCeiling(True), "steps: expected a whole number, 1 or more, found true"),
        (lambda: StepCeiling(2.5), "steps: expected a whole number, 1 or more, found 2.5"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: CallsInOrder([]), "tools: expected at least one text"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Any, message: str) -> None:
    """A wrong setting is told by its key, with both sides."""
    with pytest.raises(WrongSetting) as caught:
        make()

    assert message in str(caught.value)
