"""``--agent-regrade``: stored trials are graded again, by today's graders and without an agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_agenteval.store.notes import Note
from pytest_agenteval.store.run_folder import find_run
from tests.journals import latest_run, write_note
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

RUNS = ".agenteval/runs"

POLITE = (
    "---\nname: polite\nversion: 1\nscale: {low: 1, high: 5}\ndimensions: {tone: Is it kind?}\n"
    "combine: mean\nshows: {answer: the reply}\noutput: answer\n---\nThe reply:\n{{ answer }}\n"
)
JUDGES = (
    "from pytest_agenteval.chat.chat import Reply\n"
    "class Kind:\n"
    "    async def ask(self, messages, **more):\n"
    '        return Reply(\'{"tone": 4, "rationale": "kind"}\')\n'
    "def pytest_agenteval_register(registry):\n"
    "    registry.model('kind', lambda model, plan: Kind())\n"
    "    registry.model('stern', lambda model, plan: Kind())\n"
)


def files(*tasks: dict[str, Any]) -> dict[str, Any]:
    """Give the files of a project with these tasks."""
    return {
        "pytest.ini": "[pytest]\n",
        "evals/suite.yaml": suite(),
        **{f"evals/{task['id']}.json": task for task in tasks},
    }


def first_run(pytester: pytest.Pytester, *tasks: dict[str, Any]) -> str:
    """Try the tasks once, and give the run's name."""
    write(pytester.path, files(*tasks))
    run(pytester, "evals", "-q")
    return find_run(pytester.path / RUNS, "latest").name


@pytest.mark.parametrize("workers", [0, 1])
def test_todays_graders_look_at_yesterdays_answers(pytester: pytest.Pytester, workers: int) -> None:
    """The script would say something else by now: nobody acts, not where pytest reruns a failure either."""
    name = first_run(pytester, task("a", says="Hello, Mina!"), task("b", says="Bye."))
    changed = task("a", says="changed", wants="Hello"), task("b", says="changed", wants="Hello")
    write(pytester.path, files(*changed))
    noted = latest_run(pytester.path)
    write_note(noted.folder, noted.entries[1].key, Note("2026-11-28T09:30:00Z", "no greeting"))

    reruns = () if workers else ("-p", "pytest_rerunfailures", "--reruns=1")
    result = run(pytester, "evals", "-v", f"--agent-regrade={name}", *reruns, workers=workers)

    assert {(kind, result.parseoutcomes()[kind]) for kind in ("passed", "failed")} == {
        ("passed", 1),
        ("failed", 1),
    }
    result.stdout.fnmatch_lines_random(
        ["*PASSED 1.00*::a?scripted-1?*", "*FAILED 0.00*::b?scripted-1?*"]
        if workers
        else ["*::a?scripted-1? PASSED 1.00*", "*::b?scripted-1? FAILED 0.00*"]
    )
    stored = latest_run(pytester.path)
    assert stored.header.regraded == (name,)
    answers = {entry.key.task: stored.trial(entry).outcome.answer.text for entry in stored.entries}
    assert answers == {"a": "Hello, Mina!", "b": "Bye."}
    assert [bool(entry.note.looked_at) for entry in stored.entries] == [False, True]


def test_what_a_real_model_did_is_graded_again_without_its_key(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked of the model that acted, so nothing that it needs is missing."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    name = first_run(pytester, task("a"))
    header = pytester.path / RUNS / name / "run.json"
    document = json.loads(header.read_text(encoding="utf-8"))
    document["models"][0] |= {"id": "openai/gpt-9", "offline": False}
    header.write_text(json.dumps(document), encoding="utf-8")

    run(pytester, "evals", f"--agent-regrade={name}").assert_outcomes(passed=1)


def test_a_task_that_the_run_does_not_hold_is_left_out(pytester: pytest.Pytester) -> None:
    """Only stored trials become items, with the models and repetitions of their run."""
    write(pytester.path, files(task("a"), task("b")))
    run(pytester, "evals/a.json", "-q", "--repetitions=2")

    result = run(pytester, "evals", "-v", "--agent-regrade=latest", "--agent-model=nop")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::a?scripted-1? PASSED*", "*::a?scripted-2? PASSED*"])


def test_stored_trials_without_a_task_are_counted(pytester: pytest.Pytester) -> None:
    """Tasks that are gone, or another suite: the run says what it left out, also where that is all."""
    name = first_run(pytester, task("a"), task("b"))
    with next((pytester.path / RUNS / name).glob("journal-*")).open("ab") as journal:
        journal.write(b'{"v": 1, "kind": "fini')
    (pytester.path / "evals" / "b.json").unlink()

    result = run(pytester, "evals", f"--agent-regrade={name}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            f"{name}: 1 of 2 stored trials not regraded: no such task here",
            f"{name}: journal-main-*.jsonl:5: left out: half a line*",
        ]
    )

    write(pytester.path, {"evals/suite.yaml": suite("other")})
    nothing = run(pytester, "evals", f"--agent-regrade={name}", workers=1)
    assert nothing.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    nothing.stdout.fnmatch_lines([f"agenteval: {name}: 2 of 2 stored trials not regraded: no such task here"])
    assert str(nothing.stdout).count("no such task here") == 1


CRASHING = (
    "class Broken:\n    def grade(self, evidence):\n        raise ValueError('of then')\n\n"
    "def pytest_agenteval_register(registry):\n    registry.grader('broken', Broken)\n"
)


def test_what_cannot_be_graded_again_is_an_error_of_its_own_cause(pytester: pytest.Pytester) -> None:
    """Another question, without what broke it first; a trial that broke; a transcript that is lost."""
    graders = [{"name": "broken"}]
    write(pytester.path, {"conftest.py": CRASHING})
    asked, crashed = task("asked"), task("crashed", graders=graders)
    name = first_run(pytester, asked, crashed, task("broke", script=[]), task("lost"), task("whole"))
    (path,) = (pytester.path / RUNS / name).glob("transcripts-*.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    broken = [line.replace("{", "[", 1) if '"lost"' in line else line for line in lines]
    path.write_text("".join(broken), encoding="utf-8")
    other = {"content": "Say hello to Jun."}
    write(pytester.path, files({**asked, "input": other}, {**crashed, "input": other}))

    # A name and ``latest`` mean the same trials.
    result = run(pytester, "evals", "-v", f"--agent-regrade=latest,{name}")

    result.assert_outcomes(passed=1, errors=4)
    result.stdout.fnmatch_lines_random(
        ["*input has changed since that run*", f"transcript_lost: *no transcript at {path.name}:*"]
    )
    for text in ("*Traceback*", "*of then*"):
        result.stdout.no_fnmatch_line(text)
    entries = {entry.key.task: entry for entry in latest_run(pytester.path).entries}
    assert {task: entry.cause for task, entry in entries.items()} == {
        "asked": "input_changed",
        "crashed": "input_changed",
        "broke": "nothing_to_act_out",
        "lost": "transcript_lost",
        "whole": "",
    }
    assert entries["crashed"].traceback == ""


def test_a_run_that_is_not_there_is_a_usage_mistake(pytester: pytest.Pytester) -> None:
    """The message names the runs that there are; also where no task can be read either."""
    name = first_run(pytester, task("a"))
    nightly = run(pytester, "evals", "--agent-regrade=nightly")
    write(pytester.path, files(task("a", misspelt=1)))
    none = run(pytester, "evals", "--agent-results=elsewhere", "--agent-regrade=latest")

    assert (nightly.ret, none.ret) == (4, 4)
    nightly.stderr.fnmatch_lines([f"*there is no run 'nightly' in *; runs there, newest first: {name}*"])
    none.stderr.fnmatch_lines(["*there is no run 'latest' in *"])


def test_trials_that_never_ended_are_told_wherever_a_run_is_read_again(pytester: pytest.Pytester) -> None:
    """Figures over those that a killed run had come to would pass for figures over all."""
    name = first_run(pytester, task("a"), task("b", says="Bye."), task("c"))
    (journal,) = (pytester.path / RUNS / name).glob("journal-*")
    lines = [line for line in journal.read_text("utf-8").splitlines() if '"c"' not in line]
    journal.write_text("\n".join(lines) + "\n", encoding="utf-8")

    regraded = run(pytester, "evals", f"--agent-regrade={name}")
    chosen = run(pytester, "evals", f"--agent-only=failed@{name}")
    others = run(pytester, "evals", f"--agent-only=not_run@{name}")

    remark = f"{name}: 1 of 3 planned trials never ended:"
    regraded.stdout.fnmatch_lines([f"{remark} nothing to regrade"])
    chosen.stdout.fnmatch_lines([remark, f"*--agent-only=not_run@{name} runs them"])
    others.stdout.no_fnmatch_line("*never ended*")
    others.assert_outcomes(passed=1)


def test_what_judges_said_is_read_again_without_a_key(pytester: pytest.Pytester) -> None:
    """Where judges would be asked the same, their stored replies decide; where not, the grade says so.

    The run names those who were heard, as reports name who judged.
    """
    judged = {"name": "judge", "config": {"rubric": "polite.jinja"}, "threshold": 0.5}
    write(
        pytester.path,
        {**files({**task("a"), "graders": [judged]}), "evals/polite.jinja": POLITE, "conftest.py": JUDGES},
    )
    run(pytester, "evals", "-q", "--agent-judge=kind").assert_outcomes(passed=1)

    run(pytester, "evals", "-q", "--agent-regrade=latest").assert_outcomes(passed=1)
    again = latest_run(pytester.path)
    assert again.trial(again.entries[0]).grades[0].score == 0.75
    assert [judge.name for judge in again.header.judges] == ["kind"]

    write(pytester.path, {"evals/polite.jinja": POLITE.replace("The reply:", "Their reply:")})
    run(pytester, "evals", "-q", "--agent-regrade=latest").assert_outcomes(errors=1)
    third = latest_run(pytester.path)
    grade = third.trial(third.entries[0]).grades[0]
    assert grade.rationale == "the judges' prompt has changed: judge again with --agent-judge=MODEL"
    assert grade.undecided == "no_judge"
