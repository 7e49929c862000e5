"""One task tried from Python, several at once, regraded; and code inside a ``with``: seen, taped, refused."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_agenteval import (
    CassetteMiss,
    Evidence,
    Trial,
    TrialBroken,
    Trials,
    UsageMistake,
    arun,
    grade,
    record,
    run,
    tool_calls,
)
from pytest_agenteval.engine import worker_context
from pytest_agenteval.session.api import running
from pytest_agenteval.text.errors import ProblemsFound
from tests.loopback.model_server import ModelServer, ReplyPlan
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
    monkeypatch.setattr("sys.argv", [__file__])  # a script: hints are in its words
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
    monkeypatch.setattr(worker_context, "LONGEST_FIRST_USE_S", 0.1)
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
    """In a notebook ``run`` would hold up the loop: it says what to write instead."""

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
        ({"judge": ["rules"]}, "cannot judge"),
    ):
        with pytest.raises(UsageMistake, match=said):
            run(OSLO, **{"agent": answer, **mistake})
    with pytest.raises(UsageMistake, match=r"expected one trial.*found Trials"):
        grade(run(OSLO, agent=answer, repetitions=2), [short])  # type: ignore[arg-type]


def refused(question: str) -> str:
    """Send a request to a model that no option allows."""
    asked = {"model": "m", "messages": [{"role": "user", "content": question}]}
    return httpx.post("https://models.invalid/v1/chat/completions", json=asked).text


def test_what_lets_out_and_records_is_said_in_the_words_of_who_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script has no options of pytest: it is told variables, and a notebook a line of Python."""
    message = run(OSLO, agent=refused).message
    assert f"or send it without recording:  AGENTEVAL_LIVE=1 python {__file__}" in message
    assert f"record it:  AGENTEVAL_RECORD_CHAT=once python {__file__}\n" in message
    assert "--agent" not in message
    missed = run(OSLO, agent=refused, record_chat="none").message
    assert f"record it:  AGENTEVAL_RECORD_CHAT=new_episodes python {__file__}" in missed
    monkeypatch.setattr("sys.argv", [""])
    assert "os.environ['AGENTEVAL_RECORD_CHAT'] = 'once'" in run(OSLO, agent=refused).message
    # A mode that the call names holds, whatever the environment says.
    monkeypatch.setenv("AGENTEVAL_RECORD_CHAT", "none")
    assert "AGENTEVAL_LIVE" not in run(OSLO, agent=refused).message
    assert "AGENTEVAL_LIVE" in run(OSLO, agent=refused, record_chat="off").message


CALL = ReplyPlan(calls=(("find_order", {"id": 7}),))
WORDS = ReplyPlan(text="Your refund is on its way.")


def answer_by_model(base: str, order: int = 7, prompt: str = "I want my money back") -> str:
    """Ask a model, call a tool over HTTP as it says, ask again."""
    messages: list[dict[str, object]] = [{"role": "user", "content": prompt}]
    with httpx.Client() as client:
        asked = {"model": "gpt-5-mini", "messages": messages}
        reply = client.post(f"{base}/chat/completions", json=asked).json()["choices"][0]["message"]
        found = client.get(f"{base}/orders?id={order}").text
        call = reply["tool_calls"][0]["id"]
        messages += [reply, {"role": "tool", "tool_call_id": call, "content": found}]
        last = client.post(f"{base}/chat/completions", json=asked).json()["choices"][0]["message"]
    return str(last["content"])


RECORDED: list[tuple[str, Path]] = []
"""Where the server stood, and a copy of the cassettes: recorded once."""


@pytest.fixture
def recorded(project: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Have what was recorded from a server that is gone; give its address."""
    if not RECORDED:
        with ModelServer([CALL, WORDS]) as server:
            base = server.openai_base
            with record("shop/refund", record="once", record_chat="once") as seen:
                assert answer_by_model(base) == "Your refund is on its way."
            assert seen.tape_counts[1].recorded == 2
        copy = tmp_path_factory.mktemp("recorded") / "cassettes"
        RECORDED.append((base, shutil.copytree("cassettes", copy)))
    else:
        shutil.copytree(RECORDED[0][1], "cassettes")
    return RECORDED[0][0]


def test_what_was_recorded_is_seen_and_played_without_a_server(recorded: str, project: Path) -> None:
    """Messages, calls, tokens and the model's name are read off the wire, and the same again in a replay."""
    with record("shop/refund") as seen:
        assert answer_by_model(recorded) == "Your refund is on its way."
    assert [message.role for message in seen.messages] == ["user", "assistant", "tool", "assistant"]
    assert [(call.tool, call.args) for call in seen.calls] == [("find_order", {"id": 7})]
    assert (seen.usage.asks, seen.usage.input_tokens) == (2, 20)
    assert {ask.model for ask in seen.asks} == {"gpt-5-mini"}
    assert (seen.misses, seen.tape_counts[1].hits) == ((), 2)
    files = {path.relative_to(project).as_posix() for path in project.glob("cassettes/**/*.yaml")}
    assert files == {"cassettes/shop/refund.yaml", "cassettes/shop/refund.chat/own-1.yaml"}


def test_blocks_that_are_open_at_once_do_not_mix(recorded: str) -> None:
    """Async blocks on one loop, with clients in threads, each see all of their own and nothing else."""

    async def one() -> tuple[str, int]:
        async with record("shop/refund") as seen:
            reply = await asyncio.to_thread(answer_by_model, recorded)
        return reply, len(seen.messages)

    async def all_of_them() -> list[tuple[str, int]]:
        return await asyncio.gather(*(one() for _ in range(5)))

    assert asyncio.run(all_of_them()) == [("Your refund is on its way.", 4)] * 5


def test_of_blocks_within_each_other_the_inner_sees(recorded: str) -> None:
    """What is asked belongs to the innermost block."""
    with record("shop/refund") as outer, record("shop/refund") as inner:
        answer_by_model(recorded)
    assert (len(outer.calls), len(inner.calls)) == (0, 1)


def test_nothing_goes_out_that_nobody_let_out(project: Path) -> None:
    """With default modes a model is not asked, and the message has the commands that record or let out."""
    with ModelServer([CALL, WORDS]) as server:
        with pytest.raises(TrialBroken, match="AGENTEVAL_RECORD_CHAT=new_episodes"), record("fresh"):
            answer_by_model(server.openai_base)
        assert server.requests == []
    assert not (project / "cassettes").exists()


def test_a_miss_is_told_though_the_code_swallows_it(recorded: str) -> None:
    """What is not recorded breaks the block at its end, with the nearest recording."""
    block = record("shop/refund")
    with pytest.raises(CassetteMiss, match=r"orders\(id='8'\)"), block:
        _swallow(f"{recorded}/orders?id=8")
    assert len(block.misses) == 1


def test_replies_of_another_prompt_are_played_with_a_warning(recorded: str) -> None:
    """Who changed a prompt learns, where the block stands, that the old replies were played."""
    said = "2 replies were replayed, but .* AGENTEVAL_RECORD_CHAT=all"
    with pytest.warns(UserWarning, match=said) as warned, record("shop/refund"):
        answer_by_model(recorded, prompt="I want another one")
    assert warned[0].filename == __file__


@pytest.mark.parametrize("recorded_streamed", [True, False])
def test_who_reads_events_is_played_no_document(project: Path, recorded_streamed: bool) -> None:
    """A recorded stream is no reply to who asks for none, nor the other way round: an answer is lost."""

    def ask(base: str, *, streamed: bool) -> str:
        asked = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "hi"}], "stream": streamed}
        return httpx.post(f"{base}/chat/completions", json=asked).text

    with ModelServer([WORDS]) as server:
        base = server.openai_base
        with record("way", record_chat="once"):
            reply = ask(base, streamed=recorded_streamed)
    with pytest.raises(CassetteMiss, match="stream"), record("way"):
        ask(base, streamed=not recorded_streamed)
    with record("way"):
        assert ask(base, streamed=recorded_streamed) == reply


def test_a_client_without_a_key_is_helped_in_a_replay(recorded: str) -> None:
    """Clients look for keys when they are made: the exception says that any text will do."""
    with pytest.raises(ValueError, match="set ACME_API_KEY") as raised, record("shop/refund"):
        raise ValueError("no credentials: set ACME_API_KEY")
    assert raised.value.__notes__ == ["hint: this key is not sent, so any text will do: ACME_API_KEY=none"]


def _swallow(address: str) -> None:
    with pytest.raises(BaseException, match="not recorded"):
        httpx.get(address)


def test_the_codes_own_mistakes_stay_its_own(recorded: str) -> None:
    """An exception of the code inside is raised as it is, and a block that ended well raises nothing."""
    with pytest.raises(ZeroDivisionError), record("shop/refund"):
        print(1 / 0)
    with record("shop/refund") as seen:
        pass
    assert seen.messages == ()


@pytest.mark.parametrize("name", ["", "../up", "/tmp/x", "a\\b", 7])
def test_a_name_is_a_path_below_the_cassettes(name: str) -> None:
    """A name that leads elsewhere is refused before anything is opened."""
    with pytest.raises(UsageMistake, match="expected a name"):
        record(name)
    block = record("twice")
    with block, pytest.raises(UsageMistake, match="a second time"), block:
        pass
