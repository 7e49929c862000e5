"""One task tried from Python: a map, a file, an id in a file; here, several at once, on a loop, regraded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_agenteval import Evidence, Trial, Trials, UsageMistake, arun, grade, run, tool_calls
from pytest_agenteval.engine import agent_time
from pytest_agenteval.session.api import running
from pytest_agenteval.text.errors import ProblemsFound
from tests.suites import suite, task, write

OSLO: Mapping[str, Any] = {
    "input": "Weather in Oslo?",
    "graders": [{"name": "answer_contains", "config": {"text": "-7"}}],
}


def answer(question: str) -> str:
    """Know one town."""
    return "-7 degrees" if "Oslo" in question else "no idea"


def short(evidence: Evidence) -> float:
    """Grade half of the way."""
    return 0.5 if len(evidence.answer) < 20 else 0.0


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, outside of the session that runs these tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "open_configs", [])
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def test_a_map_and_a_function_are_enough() -> None:
    """A function is filled by its parameters' names, a function grades, the trial says why it ended so."""
    trial = run({**OSLO, "graders": [*OSLO["graders"], short]}, agent=answer)
    assert (trial.score, trial.ending, trial.outcome.answer.text) == (0.75, "failed", "-7 degrees")
    assert (trial.key.suite, trial.key.agent) == ("", "tests.session.api.test_running:answer")
    assert trial.explain().splitlines()[0] == "score 0.75: short 0.50: returned 0.5"
    assert tool_calls(trial) == []


def test_repetitions_are_tried_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several trials are one sequence, with figures of all of them; each waits until all have begun."""
    # The first trial of a function goes alone so long.
    monkeypatch.setattr(agent_time, "LONGEST_FIRST_USE_S", 0.1)
    together = threading.Barrier(3)

    def meet(question: str) -> str:
        together.wait(10)
        return answer(question)

    trials = run(OSLO, agent=meet, repetitions=3)
    assert isinstance(trials, Trials)
    assert (len(trials), trials.score, trials.passed, trials.all_passed) == (3, 1.0, 3, True)
    assert [trial.key.repetition for trial in trials] == [1, 2, 3]


def test_functions_written_at_one_place_stay_apart() -> None:
    """Closures of one function are different agents, also when they are tried at the same time."""

    async def both() -> list[Trial]:
        return await asyncio.gather(
            *(
                arun({**OSLO, "id": f"t{number}"}, agent=lambda question, n=number: f"{n}")
                for number in range(4)
            )
        )

    assert [trial.outcome.answer.text for trial in asyncio.run(both())] == ["0", "1", "2", "3"]


def test_where_a_loop_runs_the_other_function_is_named() -> None:
    """In a notebook ``run`` would hold up the loop: it says what to write in its place."""

    async def inside() -> None:
        with pytest.raises(UsageMistake, match=r"await arun"):
            run(OSLO, agent=answer)

    asyncio.run(inside())


def test_a_trial_is_graded_without_being_tried_again() -> None:
    """Graders may come later: no agent acts, and the first trial stays as it was."""
    asked = []

    def once(question: str) -> str:
        asked.append(question)
        return answer(question)

    trial = run({"input": "Oslo?"}, agent=once)
    assert (trial.ending, trial.cause) == ("errored", "ungraded")
    assert grade(trial, [short]).score == 0.5
    assert grade(run(OSLO, agent=once)).score == 1.0
    assert asked == ["Oslo?", "Weather in Oslo?"]
    stranger = Trial.from_json({**trial.to_json(), "started_at": "another process"})
    with pytest.raises(UsageMistake, match="expected graders"):
        grade(stranger)
    assert grade(stranger, [short]).score == 0.5


def test_a_task_of_a_file_is_tried_with_what_conftests_register(project: Path) -> None:
    """A path names a task, ``PATH::ID`` one of several; another agent or settings may be said."""
    conftest = """
def pytest_agenteval_register(registry):
    registry.agent("loud", lambda task_input, ctx: task_input["content"].upper())
"""
    files = {
        "conftest.py": conftest,
        "evals/suite.yaml": suite("greetings", "agent: loud\n"),
        "evals/both.json": [task("a", wants="SAY"), task("b", wants="mina")],
    }
    write(project, files)
    first = run("evals/both.json::a", model="rules")
    assert (first.key.suite, first.key.agent, first.score) == ("greetings", "loud", 1.0)
    second = run(project / "evals/both.json::b", agent=lambda content: content.lower())
    assert (second.key.model, second.score) == ("own", 1.0)
    with pytest.raises(UsageMistake, match="2 tasks: a, b"):
        run("evals/both.json")
    with pytest.raises(UsageMistake, match="no task 'c'; there are a, b"):
        run("evals/both.json::c")
    with pytest.raises(UsageMistake, match=r"there is no .*none.json"):
        run("evals/none.json")


def test_what_is_wrong_is_told_at_the_call() -> None:
    """Problems of a map name the line that holds the call, all at once."""
    with pytest.raises(ProblemsFound) as wrong:
        run({"input": "x", "graders": [{"name": "answer_contain"}], "clock": "noon"})
    assert {Path(problem.file).name for problem in wrong.value.problems} == {"test_running.py"}
    assert {problem.path for problem in wrong.value.problems} == {("clock",)}
    with pytest.raises(ProblemsFound, match="did you mean 'answer_contains'"):
        run({"input": "x", "graders": [{"name": "answer_contain"}]})
    with pytest.raises(UsageMistake, match=r"expected a grader.*found None"):
        run({"input": "x", "graders": [None]})
    for mistake, said in (
        ({"repetitions": 0}, "repetitions"),
        ({"record": "off"}, "record"),
        ({"record_chat": "sometimes"}, "record_chat"),
        ({"model": "nobodys"}, "nobodys"),
        ({"agent": 7}, "agent"),
        ({"judge": ["rules"]}, "judges nothing"),
    ):
        with pytest.raises(UsageMistake, match=said):
            run(OSLO, **{"agent": answer, **mistake})
    with pytest.raises(UsageMistake, match=r"expected one trial.*found Trials"):
        grade(run(OSLO, agent=answer, repetitions=2), [short])  # type: ignore[arg-type]


def refused(question: str) -> str:
    """Ask a model that nobody let out."""
    asked = {"model": "m", "messages": [{"role": "user", "content": question}]}
    return httpx.post("http://127.0.0.1:9/v1/chat/completions", json=asked).text


def test_what_lets_out_and_records_is_said_in_the_words_of_who_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script has no options of pytest: it is told variables, and a notebook a line of Python."""
    monkeypatch.setattr("sys.argv", [__file__])
    message = run(OSLO, agent=refused).message
    assert f"let it out:   AGENTEVAL_LIVE=1 python {__file__}; " in message
    assert f"record it:    AGENTEVAL_RECORD_CHAT=once python {__file__}; " in message
    assert "--agent" not in message
    missed = run(OSLO, agent=refused, record_chat="none").message
    assert f"record it:  AGENTEVAL_RECORD_CHAT=new_episodes python {__file__}" in missed
    monkeypatch.setattr("sys.argv", [""])
    assert "os.environ['AGENTEVAL_RECORD_CHAT'] = 'once'" in run(OSLO, agent=refused).message
    # A mode that the call names holds, whatever the environment says.
    monkeypatch.setenv("AGENTEVAL_RECORD_CHAT", "none")
    assert "let it out" not in run(OSLO, agent=refused).message
    assert "let it out" in run(OSLO, agent=refused, record_chat="off").message
