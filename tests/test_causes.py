"""Why a trial is errored is one of one list, wherever it is said."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_agenteval
from pytest_agenteval.text.errors import CAUSES, TrialBroken

SOURCE = Path(pytest_agenteval.__file__).parent
ELSEWHERE = (
    "chat/provider_failures.py",
    "chat/direct/",
    "chat/litellm_",
    "chat/retries.py",
    "engine/calibration_run.py",
)
"""Where a cause is why an attempt to ask a model failed, which is tried again, or a calibration, no trial."""


def test_a_class_of_errors_has_a_cause_of_the_list() -> None:
    """One of its own would be counted under a word that no page explains."""
    with pytest.raises(TypeError, match="Late has the cause 'late': one of cassette_miss, "):
        type("Late", (TrialBroken,), {"cause": "late"})


def test_every_cause_that_is_written_in_the_code_is_of_the_list() -> None:
    """On classes, and as what a trial or what breaks it is made with."""
    found = [(file, word) for file in SOURCE.rglob("*.py") for word in causes_in(file)]
    assert len(found) > 15
    assert [(str(file), word) for file, word in found if word not in CAUSES] == []


def causes_in(file: Path) -> list[str]:
    """Give each text that is a cause: ``cause = "..."``, ``cause="..."``, ``ErrorDetails("...", ...)``."""
    if file.relative_to(SOURCE).as_posix().startswith(ELSEWHERE):
        return []
    values: list[ast.expr | None] = []
    text = file.read_text(encoding="utf-8")
    if not any(word in text for word in ("cause", "ErrorDetails", ".fail")):
        return []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and any(_name_of(each) == "cause" for each in node.targets):
            values.append(node.value)
        if isinstance(node, ast.Call):
            values += [each.value for each in node.keywords if each.arg == "cause"]
            values += node.args[:1] if _name_of(node.func) in ("ErrorDetails", "fail") else []
    texts = [each.value for each in values if isinstance(each, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and text]


def _name_of(node: ast.expr) -> str:
    return getattr(node, "id", "") or getattr(node, "attr", "")
