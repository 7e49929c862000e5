"""A new run takes over what an earlier one has finished: trial by trial it is said what was done, and why."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from pytest_agenteval.session.reuse import carry_notes
from pytest_agenteval.store.notes import Note
from tests.journals import junit, latest_run, properties, write_note
from tests.session.resume.paid_agents import SUITE, bills, paid_task, project
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick", "forked")

RUNS = ".agenteval/runs"


def edit(root: Path, name: str, old: str, new: str) -> None:
    """Change a file as an author would."""
    path = root / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_each_trial_is_reused_regraded_or_tried_again(pytester: pytest.Pytester) -> None:
    """By what its agent saw and by its graders; the new run needs the old one no more."""
    root = pytester.path
    tasks = [paid_task(f"t{n}") for n in range(6)]
    tasks[1]["graders"] = [{"name": "answer_contains", "config": {"text": "Omar"}}]
    tasks[2]["input"]["note"] = "a" * 2000
    tasks[3]["graders"] = [{"name": "breaks"}]
    project(root, tasks)
    register = "def pytest_agenteval_register(registry):\n"
    grader = "class Breaks:\n    def grade(self, evidence):\n        raise OSError('disk')\n\n\n"
    edit(root, "evals/conftest.py", register, f"{grader}{register}    registry.grader('breaks', Breaks)\n")
    run(pytester, "evals", "--agent-run-name=old")
    old = latest_run(root)
    for entry in old.entries:
        write_note(old.folder, entry.key, Note("2026-11-28T09:30:00Z", f"of {entry.key.task}"))
    tasks[1]["graders"] = [{"name": "answer_contains", "config": {"text": "Mina"}}]
    tasks[4]["input"]["content"] = "another"
    write(root, {"evals/tasks.json": tasks})

    result = run(pytester, "evals", "--agent-reuse", "-v", "--junitxml=j.xml", workers=1)

    line = "3 reused, 1 regraded: grader answer_contains has other settings or judges, 2 rerun: "
    told = " ".join(result.outlines)
    assert f"reuse of old: {line}" in " ".join(told.split())
    assert "errored (1)" in told
    assert "task input changed (1)" in told
    assert bills(root) == {"t0": 1, "t1": 1, "t2": 1, "t3": 2, "t4": 1, "another": 1, "t5": 1}
    words = {
        name[:2]: properties(case).get("agenteval.taken_over") for name, case in junit(root / "j.xml").items()
    }
    assert words == {"t0": "reused", "t1": "regraded", "t2": "reused", "t3": None, "t4": None, "t5": "reused"}
    new = latest_run(root)
    assert (new.header.reused, new.name != "old") == (("old",), True)
    origins = {entry.key.task: entry.origin for entry in new.entries}
    assert {
        task: origin and (origin.run, origin.attempt, origin.regraded) for task, origin in origins.items()
    } == {
        **dict.fromkeys(("t0", "t2", "t5"), ("old", 1, False)),
        "t1": ("old", 1, True),
        **dict.fromkeys(("t3", "t4")),
    }
    # A note is about what the agent did: it goes where that goes, with new grades too.
    assert {entry.key.task: entry.note for entry in new.entries if entry.note} == {
        name: Note("2026-11-28T09:30:00Z", f"of {name}") for name in ("t0", "t1", "t2", "t5")
    }
    # One that was taken away is not brought back when the run goes on.
    write_note(new.folder, new.entries[0].key, Note())
    carry_notes(new.folder, [old.folder], regraded=False)
    assert not latest_run(root).entries[0].note
    before = {entry.key: old.trial(entry) for entry in old.entries}
    for path in old.folder.iterdir():
        path.unlink()
    for entry in new.entries:
        trial = new.trial(entry)
        if entry.key.task in ("t0", "t2", "t5"):
            assert (trial.transcript, trial.grades) == (
                before[entry.key].transcript,
                before[entry.key].grades,
            )
            assert (entry.attempts, trial.spending.tokens) == (1, 0)
    assert (new.begun, new.odd) == ((), ())


CHANGES = {
    "prompt system changed": ("evals/conftest.py", "Be kind.", "Be terse."),
    "agent code changed": ("evals/conftest.py", "'''Writes a bill,", "'''Writes one bill,"),
    "settings, clock or limits changed": (
        "evals/suite.yaml",
        "agent: paid",
        "agent: paid\nsettings: {mood: calm}",
    ),
    "prompts changed": ("evals/conftest.py", "Say goodbye.", "Say farewell."),
    "fixture changed": ("fixtures/start/notes.md", "first", "second"),
}


def test_what_changed_is_named(pytester: pytest.Pytester) -> None:
    """Prompts by name as far as the trial has read them; what was tried again is taken over the next time."""
    root = pytester.path
    project(root, [paid_task("t", input={"content": "t", "base_fixture": "start"})])
    conftest = (root / "evals/conftest.py").read_text(encoding="utf-8")
    taking_settings = conftest.replace(
        "    async def run", "    def __init__(self, mood=''):\n        pass\n\n    async def run"
    )
    write(root, {"fixtures/start/notes.md": "first", "evals/conftest.py": taking_settings})
    run(pytester, "evals")
    for paid, (reason, change) in enumerate(CHANGES.items(), start=2):
        edit(root, *change)
        # A process reads a starting tree once.
        again = pytester.runpytest_subprocess if reason == "fixture changed" else partial(run, pytester)
        result = again("evals", "--agent-reuse")
        (line,) = [line for line in result.outlines if line.startswith("agenteval: reuse of")]
        assert "1 rerun: " in line
        assert reason in line
        assert bills(root)["t"] == paid
    assert pytester.runpytest_subprocess("evals", "--agent-reuse").ret == 0
    assert bills(root)["t"] == len(CHANGES) + 1


def test_of_several_runs_the_one_that_still_holds_counts(pytester: pytest.Pytester) -> None:
    """The newest is no better where its agent was another one; trials of another seed are not taken over."""
    root = pytester.path
    project(root, [paid_task("t")])
    name, before, after = "evals/conftest.py", "'''Writes a bill,", "'''Writes one bill,"
    run(pytester, "evals", "--agent-run-name=good")
    edit(root, name, before, after)
    run(pytester, "evals", "--agent-run-name=changed")
    edit(root, name, after, before)

    both = run(pytester, "evals", "--agent-reuse=good,changed")
    seeded = run(pytester, "evals", "--agent-reuse=good", "--agent-seed=4")

    both.stdout.fnmatch_lines(["agenteval: reuse of changed, good: 1 reused"])
    seeded.stdout.fnmatch_lines(["agenteval: reuse of good: 1 rerun: seed 0 -> 4"])
    assert bills(root) == {"t": 3}


UNSEEN = {
    "1 rerun: tool code changed": ("evals/tools.py", "a + b", "a - b"),
    "1 rerun: script changed": ("evals/tasks.json", "Hello, Mina!", "Hello, Omar!"),
    "1 regraded: code of grader polite": ("evals/polite.py", "1.0", "0.5"),
}


@pytest.mark.parametrize("way", ["--agent-reuse", "--agent-resume"])
def test_what_no_agent_is_told_of_is_looked_at_too(pytester: pytest.Pytester, way: str) -> None:
    """What tools compute, what an offline model acts out, and a grader's code behind one version."""
    root = pytester.path
    grades = [{"name": "polite"}]
    write(
        root,
        {
            "evals/suite.yaml": "name: demo\nkind: mixed\nagent: tool_calling\ntools: [tools.py]\n",
            "evals/tools.py": "def add(a: int, b: int) -> int:\n    return a + b\n",
            "evals/polite.py": "from pytest_agenteval import Grade\n\n\n"
            "def polite(evidence):\n    return Grade('polite', 1.0, 'kind')\n",
            "evals/conftest.py": "from polite import polite\n\n\n"
            "def pytest_agenteval_register(registry):\n    registry.grader('polite', polite)\n",
            "evals/tasks.json": [task("t", graders=grades)],
        },
    )
    run(pytester, "evals", "--agent-model=scripted")
    for words, change in UNSEEN.items():
        edit(root, *change)
        result = run(pytester, "evals", "--agent-model=scripted", way)
        assert words in next(line for line in result.outlines if line.startswith("agenteval: re"))
    again = run(pytester, "evals", "--agent-model=scripted", way)
    (line,) = [line for line in again.outlines if line.startswith("agenteval: re")]
    assert line.endswith(("1 reused", "the only trial had finished"))


@pytest.mark.parametrize("way", ["--agent-reuse", "--agent-resume"])
def test_a_trial_without_its_transcript_is_tried_again_and_told(pytester: pytest.Pytester, way: str) -> None:
    """Files of a run that are gone, or were cut off, are no trials that had finished."""
    root = pytester.path
    project(root, [paid_task(f"t{n}") for n in range(3)])
    run(pytester, "evals", "--agent-concurrency=1")
    (file,) = latest_run(root).folder.glob("transcripts-*")
    with file.open("r+b") as transcripts:
        transcripts.truncate(file.stat().st_size - 10)

    result = run(pytester, "evals", way)

    (line,) = [line for line in result.outlines if line.startswith("agenteval: re")]
    assert line.endswith(", 1 rerun: transcript lost")
    assert sorted(bills(root).values()) == [1, 1, 2]


def test_a_run_that_goes_on_looks_at_what_was_edited_meanwhile(pytester: pytest.Pytester) -> None:
    """It tries again or grades again, as one more attempt; new grades of an old trial are paid for once."""
    root = pytester.path
    tasks = [paid_task(f"t{n}") for n in range(3)]
    project(root, tasks)
    run(pytester, "evals")
    tasks[0]["input"]["content"] = "edited"
    tasks[1]["graders"][0]["config"]["text"] = "Omar"
    write(
        root, {"evals/tasks.json": tasks, "evals/suite.yaml": SUITE.replace("demo", "demo\ndescription: new")}
    )

    result = run(pytester, "evals", "--agent-resume", "-v")
    edited = latest_run(root)
    again = run(pytester, "evals", "--agent-resume")

    told = " ".join(result.outlines)
    assert "1 had finished, 1 regraded: grader answer_contains has other settings or judges" in told
    assert "1 rerun: task input changed" in told
    result.stdout.fnmatch_lines(["*t1*MISSED 0.00 regraded*"])
    again.stdout.fnmatch_lines(["*nothing to do: all 3 trials had finished*"])
    assert bills(root) == {"t0": 1, "edited": 1, "t1": 1, "t2": 1}
    counted = {
        entry.key.task: (entry.attempt, entry.attempts, len(entry.earlier)) for entry in edited.entries
    }
    assert counted == {"t0": (2, 2, 1), "t1": (2, 1, 0), "t2": (1, 1, 0)}
    assert len(list((root / RUNS).glob("2*"))) == 1


def test_a_suite_of_another_kind_costs_nothing(pytester: pytest.Pytester) -> None:
    """A miss becomes a failure without an agent or a grader: a task is shown as its suite has it today."""
    root = pytester.path
    project(root, [paid_task("t", wants="Omar")])
    run(pytester, "evals").assert_outcomes(xfailed=1)
    edit(root, "evals/suite.yaml", "capability", "regression")

    for option in ("--agent-resume", "--agent-reuse"):
        run(pytester, "evals", option).assert_outcomes(failed=1)
    assert bills(root) == {"t": 1}
    (entry,) = latest_run(root).entries
    assert (entry.ending, entry.kind, entry.attempts) == ("failed", "regression", 1)


PYTHON_TEST = """
import pytest


def test_greeting(agenteval):
    assert agenteval.run("evals/tasks.json", agent="paid").score == 1


@pytest.mark.agenteval
def test_marked():
    with open("marked.txt", "a") as file:
        file.write("x")
"""


def test_trials_of_tests_are_taken_over_too(pytester: pytest.Pytester) -> None:
    """What a test asks for through the fixture; a test that is itself a trial runs again."""
    root = pytester.path
    project(root, [paid_task("t")])
    write(root, {"test_own.py": PYTHON_TEST})
    run(pytester, "test_own.py", "evals").assert_outcomes(passed=3)
    paid = bills(root)

    run(pytester, "test_own.py", "evals", "--agent-resume").assert_outcomes(passed=3)
    run(pytester, "test_own.py", "evals", "--agent-reuse").assert_outcomes(passed=3)

    assert bills(root) == paid
    assert (root / "marked.txt").read_text() == "xxx"


TASK_FIXTURE = """

import pytest
from msgspec.structs import replace


@pytest.fixture
def task(task):
    return replace(task, input={**task.input, "content": Path("asked").read_text()})
"""


def test_a_fixture_that_changes_tasks_is_asked_first(pytester: pytest.Pytester) -> None:
    """What its trial is given is known only in its turn; then it is decided like any other."""
    root = pytester.path
    project(root, [paid_task("a"), paid_task("b")])
    conftest = root / "evals/conftest.py"
    conftest.write_text(conftest.read_text() + TASK_FIXTURE, encoding="utf-8")
    (root / "asked").write_text("one")
    run(pytester, "evals")

    same = run(pytester, "evals", "--agent-resume")
    (root / "asked").write_text("two")
    run(pytester, "evals", "--agent-resume", workers=1)

    assert "2 decided later" in " ".join(same.outlines)
    assert bills(root) == {"one": 2, "two": 2}


def test_an_older_run_without_digests_is_tried_again(pytester: pytest.Pytester) -> None:
    """Nobody knows what it was made of; and it has no list of its trials."""
    root = pytester.path
    project(root, [paid_task("a"), paid_task("b", waits=False)])
    run(pytester, "evals")
    folder = latest_run(root).folder
    (journal,) = folder.glob("journal-*")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        if line["task"] == "a":
            line.pop("digests", None)
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "planned-trials.json").unlink()

    result = run(pytester, "evals", "--agent-resume")

    result.assert_outcomes(passed=2)
    assert bills(root) == {"a": 2, "b": 1}
    result.stdout.fnmatch_lines(["*1 had finished, 1 rerun: their digests are unknown*"])
