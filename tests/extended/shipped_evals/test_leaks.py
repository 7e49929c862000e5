"""The prompts that ship hold no text of a shipped task."""

from __future__ import annotations

from pytest_agenteval.loop.contamination import prompt_leaks
from pytest_agenteval.loop.todays_tasks import suite_with_tasks
from tests.benchmarks.test_planted_leaks import SUITES, prompts


def test_shipped_prompts_leak_nothing() -> None:
    """With all of their lines new."""
    for folder in SUITES.values():
        assert prompt_leaks({}, prompts(), [suite_with_tasks(folder / "suite.yaml")]) == ()
