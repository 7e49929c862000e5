"""What an author is told of wrong settings of the general graders, when the task is loaded."""

from __future__ import annotations

import re
from typing import Any

import pytest

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
