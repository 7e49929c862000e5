"""What runs write down for those who change prompts: splits, prompts that were read, looks, a name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_agenteval.compare.comparison import compare_runs
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.session.inner_pytest import BESIDE, InnerPytest
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import AgentEvalError
from tests.suites import run

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CONFTEST = """
from pytest_agenteval import Answer, Reply

class Reader:
    templates = {"system": "Be {% include 'tone' %}.", "tone": "kind", "unread": "never"}
    async def run(self, task_input, ctx):
        system = ctx.prompts.render("system")
        ctx.prompts.render("system")
        reply = await ctx.chat.ask([{"role": "system", "content": system}])
        return Answer(reply.text + ctx.prompts.render("tone"))

class Echo:
    async def ask(self, messages, **more):
        return Reply(messages[0]["content"])

def pytest_agenteval_register(registry):
    registry.agent("reader", Reader)
    registry.model("echo", lambda model, plan: Echo())
"""
GRADERS = "graders: [{name: answer_contains, config: {text: kind}}]\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    """Give a project with a task of each split, whose agent reads prompts."""
    pytester.makeconftest(CONFTEST)
    suite = pytester.mkdir("evals")
    (suite / "suite.yaml").write_text("name: tone\nagent: reader\n")
    (suite / "seen.yaml").write_text(f"id: seen\ninput: {{content: hi}}\n{GRADERS}")
    (suite / "unseen.yaml").write_text(f"id: unseen\nsplit: held_out\ninput: {{content: hi}}\n{GRADERS}")
    return pytester.path


def _run(pytester: pytest.Pytester, name: str, *args: str, workers: int = 0) -> Run:
    result = run(pytester, "evals", "--agent-model=echo", f"--agent-run-name={name}", *args, workers=workers)
    assert result.ret == 0
    return load_run(pytester.path / ".agenteval/runs" / name)


def test_a_run_says_which_split_was_tried_and_how_often(project: Path, pytester: pytest.Pytester) -> None:
    """Each trial has its task's split; held-out tasks count as looks, others and our own players do not."""
    dev = _run(pytester, "dev")
    pytester.runpytest("evals", "--agent-model=nop", "--agent-run-name=nop", "--agent-split=all")
    assert not load_run(project / ".agenteval/runs/nop").header.held_out_looks
    first, second = (_run(pytester, name, "--agent-split=all") for name in ("one", "two"))
    third = _run(pytester, "three", "--agent-split=held_out", workers=1)

    assert [(entry.key.task, entry.split) for entry in dev.entries] == [("seen", "dev")]
    assert {entry.key.task: entry.split for entry in first.entries} == {"seen": "dev", "unseen": "held_out"}
    looks = [dict(run.header.held_out_looks) for run in (dev, first, second, third)]
    assert looks == [{}, {"tone": 1}, {"tone": 2}, {"tone": 3}]
    assert "held_out_looks" not in json.loads((dev.folder / "run.json").read_text())
    levels = [_comparison(first, new).suites[0] for new in (second, third)]
    assert [suite.held_out_looks for suite in levels] == [1, 2]
    assert [round(suite.levels.suite, 6) for suite in levels] == [0.984802, 0.9962]


def test_two_runs_side_by_side_are_one_look(
    project: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is made beside another has its number, and their comparison is the look of that number."""
    for number, pair in enumerate((("a-old", "a-new"), ("b-old", "b-new")), start=1):
        monkeypatch.delenv(BESIDE, raising=False)
        old = _run(pytester, pair[0], "--agent-split=held_out")
        monkeypatch.setenv(BESIDE, pair[0])
        new = _run(pytester, pair[1], "--agent-split=held_out")
        assert [dict(run.header.held_out_looks) for run in (old, new)] == [{"tone": number}] * 2
        assert _comparison(old, new).suites[0].held_out_looks == number


def _comparison(old: Run, new: Run):  # type: ignore[no-untyped-def]
    return compare_runs(compared_run(old), compared_run(new))


def test_prompts_that_are_read_are_events(project: Path, pytester: pytest.Pytester) -> None:
    """A read names the prompt and those it includes, once for each reply; what is not read is not there.

    A second run of a run's name is refused before anything is tried, and so is a name that is a path.
    """
    read = _run(pytester, "one")

    (trial,) = (read.trial(entry) for entry in read.entries)
    reads = [
        (event.text, event.details["turn"])
        for event in trial.transcript.events
        if event.kind == "prompt_read"
    ]
    assert reads == [("system", 1), ("tone", 1), ("tone", 2)]
    digests = {event.text: event.details["digest"] for event in trial.transcript.events}
    assert digests["system"] != digests["tone"]
    for name, told in (("one", "a new name; found 'one'"), ("../one", "a name for a folder")):
        refused = run(pytester, "evals", "--agent-model=echo", f"--agent-run-name={name}")
        refused.stderr.fnmatch_lines([f"*--agent-run-name: expected {told}*"])
        assert refused.ret == pytest.ExitCode.USAGE_ERROR


def test_an_inner_run_is_told_nothing_of_the_outer_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pytest that we start has its run where we say; options of the user's own run do not reach it."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("AGENTEVAL_SPLIT", "all")
    output = project / "pytest.txt"

    def start(name: str, *args: str) -> InnerPytest:
        return InnerPytest(args, folder=project, results=project / "runs", name=name, output=output)

    both = [start(name, "evals", "--agent-model=echo") for name in ("old", "new")]
    assert [inner.wait() for inner in both] == [0, 0]
    assert [entry.key.task for inner in both for entry in load_run(inner.run).entries] == ["seen", "seen"]
    with pytest.raises(AgentEvalError, match=r"pytest left no run.*nowhere"):
        start("none", "nowhere").wait()
