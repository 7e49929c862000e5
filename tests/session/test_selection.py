"""Which trials are run: by pytest's own switches and by ours."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agenteval.session.selection import sample
from pytest_agenteval.session.settings import Settings
from tests.suites import collected_ids, journaled, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

TEA = task("brew", tags=["needs-net", "slow"], metadata={"failure_bucket": "L3 order"})
FILES = {
    "evals/tea/suite.yaml": suite("Tearoom"),
    "evals/tea/oolong/brew/task.json": TEA,
    "evals/tea/oolong/pour/task.json": task("pour", tags=["v1.5", "skip"]),
    "evals/inn/suite.yaml": "name: Inn\nkind: capability\ndefaults: {model: scripted}\n",
    "evals/inn/rest.json": task("rest", tags=["slow"]),
}


def short(node_ids: list[str]) -> list[str]:
    """Leave out files."""
    return [name.rpartition("::")[2] for name in node_ids]


BY_KEYWORD = {
    "brew": ["brew"],
    "oolong": ["brew", "pour"],
    "tea and not pour": ["brew"],
    "needs-net": ["brew"],
    "v1.5": ["pour"],
    "slow": ["rest", "brew"],
    "L3": ["brew"],
    "Tearoom": ["brew", "pour"],
    "oolong/pour": ["pour"],
    "scripted and rest": ["rest"],
    "claude": [],
}
BY_MARK = {
    "capability": ["rest"],
    "regression": ["brew", "pour"],
    "agenteval": ["rest", "brew", "pour"],
    "slow and regression": ["brew"],
    "needs_net": ["brew"],
    "v1_5": ["pour"],
    "skip": [],
}


def test_k_and_m_know_what_authors_wrote(pytester: pytest.Pytester) -> None:
    """``-k``: buckets, tags, folders, suites and models, hyphens and all; ``-m``: kinds and tags.

    Kinds and tags are declared marks; a tag's hyphens and points become underscores there.
    """
    write(pytester.path, FILES)
    items, _ = pytester.inline_genitems("-W", "error", "--strict-markers")
    config = items[0].config
    for option, expressions in (("keyword", BY_KEYWORD), ("markexpr", BY_MARK)):
        for expression, expected in expressions.items():
            left = [*items]
            with pytest.MonkeyPatch.context() as chosen:
                chosen.setattr(config.option, option, expression)
                config.pluginmanager.get_plugin("mark").pytest_collection_modifyitems(left, config)
            assert [item.name for item in left] == [f"{name}[scripted-1]" for name in expected], expression
    assert short(collected_ids(pytester, "-k", "oolong", "-m", "needs_net")) == ["brew[scripted-1]"]


def test_k_tells_models_apart_and_knows_no_folder_above_the_project(pytester: pytest.Pytester) -> None:
    """The model and the repetition are part of the name; the project's own folder differs by machine."""
    write(pytester.path, FILES)
    both = ("--agent-model=nop,scripted", "--repetitions=2")
    assert short(collected_ids(pytester, "-k", "rest and nop", *both)) == ["rest[nop-1]", "rest[nop-2]"]
    assert short(collected_ids(pytester, "-k", "rest and nop-2", *both)) == ["rest[nop-2]"]
    root = pytester.mkdir("teahouse")
    write(root, {"pytest.ini": "[pytest]\n", "evals/task.json": task("greet")})
    assert collected_ids(pytester, str(root), "-k", "teahouse") == []
    assert short(collected_ids(pytester, str(root), "-k", "evals")) == ["greet[rules-1]"]


HELD_OUT = {
    "evals/suite.yaml": suite(),
    "evals/many.json": [task("open"), task("secret", split="held_out")],
}


def test_held_out_tasks_are_run_when_asked_for_only(pytester: pytest.Pytester) -> None:
    """What is held out is left out, even where it is named, and takes nobody's place in a sample."""
    write(pytester.path, HELD_OUT)
    for args, expected in (
        ((), ["open"]),
        (("--agent-split=dev",), ["open"]),
        (("--agent-split=held_out",), ["secret"]),
        (("--agent-split=all",), ["open", "secret"]),
        (("evals/many.json::secret",), []),
        (("--agent-sample=1", "--agent-split=held_out"), ["secret"]),
        (("--agent-sample=1",), ["open"]),
    ):
        assert short(collected_ids(pytester, *args)) == [f"{name}[scripted-1]" for name in expected], args


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_left_out_is_counted_as_deselected(pytester: pytest.Pytester, workers: int) -> None:
    """Nobody mistakes a part for the whole; someone else's tests stay."""
    write(pytester.path, HELD_OUT | {"test_other.py": "def test_other(): pass\n"})

    result = run(pytester, workers=workers)

    result.assert_outcomes(passed=2, deselected=0 if workers else 1)
    assert journaled(pytester.path) == ["open[scripted-1]"]


def bucketed(*names: str) -> dict[str, Any]:
    """Give a suite of tasks of two buckets, named ``bucket_number``."""
    tasks = {
        f"evals/{name}/task.json": task(name, metadata={"failure_bucket": name.split("_")[0]})
        for name in names
    }
    return {"evals/suite.yaml": suite(), **tasks}


ALPHA = [f"alpha_{number}" for number in range(9)]
BETA = [f"beta_{number}" for number in range(3)]


def test_a_sample_holds_so_many_tasks_of_each_bucket(pytester: pytest.Pytester) -> None:
    """A task comes whole, with all of its repetitions; a small bucket gives what it has."""
    write(pytester.path, bucketed(*ALPHA, *BETA))

    found = short(collected_ids(pytester, "--agent-sample=4", "--repetitions=2"))

    assert [sum(name.startswith(bucket) for name in found) for bucket in ("alpha", "beta")] == [8, 6]
    assert all(name.replace("-1]", "-2]") in found for name in found)


def drawn(names: Iterable[str], seed: int = 0) -> set[str]:
    """Give the four of these tasks of one bucket that a sample holds."""
    tasks: Any = [SimpleNamespace(suite="s", bucket="alpha", id=name) for name in names]
    return {id for _, id in sample(tasks, 4, seed)}


def test_a_sample_is_the_same_in_each_process_and_changes_with_the_seed(pytester: pytest.Pytester) -> None:
    """The seed alone draws, and its default is a fixed one: each chosen trial is run once, by any worker."""
    write(pytester.path, bucketed(*ALPHA))

    first = collected_ids(pytester, "--agent-sample=4")

    assert set(collected_ids(pytester, "--agent-sample=4", "--agent-seed=1")) != set(first)
    assert Settings.seed.default == 0
    assert len({tuple(sorted(drawn(ALPHA, seed))) for seed in range(4)}) > 1
    run(pytester, "--agent-sample=4", workers=1).assert_outcomes(passed=4)
    assert journaled(pytester.path) == sorted(short(first))


def test_a_task_that_is_added_moves_no_other() -> None:
    """With one task more, at most one of the sample makes room for it."""
    names = [*ALPHA]
    before = drawn(names)
    for number in range(20, 60):
        names.append(f"alpha_{number}")
        after = drawn(names)
        assert len(before - after) <= 1
        assert after - before <= {names[-1]}
        before = after


def test_repetitions_on_the_command_line_beat_the_tasks_own(pytester: pytest.Pytester) -> None:
    """``--repetitions`` comes before ``trials_per_run``, which comes before the suite's."""
    files = {
        "evals/suite.yaml": suite().replace("defaults: {", "defaults: {trials_per_run: 2, "),
        "evals/many.json": [task("own", trials_per_run=3), task("suites")],
    }
    write(pytester.path, files)

    assert len(collected_ids(pytester, "-k", "own")) == 3
    assert len(collected_ids(pytester, "-k", "suites")) == 2
    assert len(collected_ids(pytester, "--repetitions=1")) == 2


ONLY_FILES = {
    "evals/suite.yaml": "name: s\nkind: capability\ndefaults: {model: scripted}\n",
    "evals/pass.json": task("fine"),
    "evals/miss.json": task("weak", says="Hm."),
    "evals/half.json": task(
        "half",
        says="Hello, Mina!",
        graders=[
            {"name": "answer_contains", "label": name, "config": {"text": name}}
            for name in ("Mina", "Goodbye")
        ],
    ),
    "evals/error.json": task("broken", script=[]),
    "evals/limit.json": task(
        "endless",
        script=[{"calls": [{"tool": "none"}]}] * 3,
        limits={"steps": 1},
    ),
}
BY_ENDING = [
    ("passed", ["fine"]),
    ("missed", ["endless", "half", "weak"]),
    ("errored", ["broken"]),
    ("limited", ["endless"]),
    ("not_run", ["late"]),
    ("missed, errored", ["broken", "endless", "half", "weak"]),
    ("failed", []),
]


RUN: list[Path] = []
"""The results of the project's run: made once, and copied."""


@pytest.fixture
def project(quick: None, pytester: pytest.Pytester) -> pytest.Pytester:
    """A project that was run once; a task was added since."""
    write(pytester.path, ONLY_FILES)
    results = pytester.path / ".agenteval"
    if not RUN:
        run(pytester).assert_outcomes(passed=1, xfailed=3, errors=1)
        RUN.append(shutil.copytree(results, pytester.mkdir("first") / "results", symlinks=True))
    else:
        shutil.copytree(RUN[0], results, symlinks=True)
    write(pytester.path, {"evals/late.json": task("late")})
    return pytester


def names(found: list[str]) -> list[str]:
    """Give the tasks' ids."""
    return sorted(name.rpartition("::")[2].partition("[")[0] for name in found)


def test_endings_select_from_the_latest_run(project: pytest.Pytester) -> None:
    """A limited trial is also what its grades made of it; what was not there yet was not run."""
    for endings, expected in BY_ENDING:
        assert names(collected_ids(project, f"--agent-only={endings}")) == expected, endings


def test_workers_select_from_the_run_before_theirs(project: pytest.Pytester) -> None:
    """Whichever of them is ready first, none takes the run that is just beginning for the latest."""
    (before,) = (project.path / ".agenteval" / "runs").glob("2*")

    result = run(project, "--agent-only=missed,errored", workers=2)

    result.assert_outcomes(xfailed=3, errors=1)
    result.stdout.no_fnmatch_line("*nothing to try*")
    before.rename(project.path / "before")
    assert names(journaled(project.path)) == ["broken", "endless", "half", "weak"]


def test_another_run_can_be_named(project: pytest.Pytester) -> None:
    """By its name, its beginning, or its path; the latest is the one that was run last.

    Where there is no such run, those that are there are listed; where nothing ended so, it is named.
    """
    (first,) = (project.path / ".agenteval" / "runs").glob("2*")
    missing = run(project, "--agent-only=passed@1999")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines([f"ERROR: --agent-only: there is no run '1999' in *{first.name}*"])
    for workers in (0, 1):
        result = run(project, "--agent-only=failed", workers=workers)
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        result.stdout.fnmatch_lines(
            [
                "agenteval: --agent-only=failed: nothing to run: none of 6 trials has this ending in run "
                f"{first.name}"
            ]
        )

    run(project, "-k", "fine or late").assert_outcomes(passed=2, deselected=4)

    assert names(collected_ids(project, "--agent-only=passed")) == ["fine", "late"]
    for name in (first.name, first.name[:-2], str(first)):
        assert names(collected_ids(project, f"--agent-only=passed,errored@{name}")) == ["broken", "fine"]


def test_repetitions_and_models_are_chosen_one_by_one(pytester: pytest.Pytester) -> None:
    """Each trial has an ending of its own."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/task.json": task("greet")})
    run(pytester, "--agent-model=scripted,nop").assert_outcomes(passed=1, failed=1)
    again = ("--agent-model=scripted,nop", "--repetitions=2")

    assert collected_ids(pytester, "--agent-only=failed", *again) == ["evals/task.json::greet[nop-1]"]
    assert collected_ids(pytester, "--agent-only=not_run", *again) == [
        "evals/task.json::greet[scripted-2]",
        "evals/task.json::greet[nop-2]",
    ]


def test_a_run_that_could_not_be_collected_is_no_run(project: pytest.Pytester) -> None:
    """A broken file interrupts pytest: the latest run stays the one in which something was tried.

    A sample is drawn from what ended so.
    """
    write(project.path, {"evals/torn.json": '{"id": "torn", "graders": [}'})

    run(project).assert_outcomes(errors=1)

    (project.path / "evals" / "torn.json").unlink()
    assert names(collected_ids(project, "--agent-only=errored", "--agent-sample=1")) == ["broken"]
