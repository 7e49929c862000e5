"""Graders of a benchmark say so where the benchmark's agent does not act."""

from __future__ import annotations

import pytest

from tests.suites import only_our_plugin, run, suite, task, write

pytest_plugins = ["pytester"]

GRADERS = [{"name": "answer_contains", "config": {"text": "x"}}, {"name": "card_completion"}]


@pytest.mark.parametrize("workers", [0, 2], ids=["one-process", "two-workers"])
def test_a_task_whose_agent_nobody_names_says_which_one_its_graders_want(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """A pasted task scores 0 for want of one line, which is shown; an agent that somebody chose is right."""
    only_our_plugin(monkeypatch)
    pasted, chosen = task("pasted", graders=GRADERS), task("chosen", graders=GRADERS, agent="tool_calling")
    write(
        pytester.path,
        {
            "evals/suite.yaml": suite(),
            "evals/one/task.yaml": pasted,
            "evals/two/task.yaml": {**pasted, "id": "again"},
            "evals/chosen/task.yaml": chosen,
            "evals/plain/task.yaml": task("plain"),
        },
    )

    screen = " ".join(run(pytester, "evals", "-q", workers=workers).stdout.str().split())

    assert "evals/one/task.yaml:2: card_completion grades what agent card does" in screen
    assert "write 'agent: card' into the task" in screen
    assert "(the same in 1 more task)" in screen
    assert screen.count("grades what agent") == 1
