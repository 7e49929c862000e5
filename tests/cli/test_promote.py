"""``agenteval promote`` and ``demote``: over several runs, and in the file beside the suite's."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from tests.cli.conftest import Agenteval
from tests.suites import run, task, write

pytest_plugins = ["pytester"]

SUITE = (
    "# ours\nname: greetings\nkind: capability  # for now\ndefaults: {model: scripted, trials_per_run: 2}\n"
)
HEAD = "# Written by agenteval promote and demote: a miss of these buckets and tasks is a failure.\n"
PROMOTED = f"{HEAD}buckets:\n- polite\n"


@pytest.fixture(autouse=True)
def _alone(agenteval_command: Agenteval) -> None:
    """Runs load this plugin only."""


def greetings(root: Path, **wants: str) -> None:
    """Write a suite of two buckets: both tasks of ``polite`` pass, and one of ``short``."""
    buckets = {"morning": "polite", "evening": "polite", "hi": "short", "yo": "short"}
    wants = {"yo": "Juna", **wants}
    tasks = {
        f"evals/{id}.json": task(id, wants=wants.get(id, "Mina"), metadata={"failure_bucket": bucket})
        for id, bucket in buckets.items()
    }
    held_out = task("night", wants="Juna", split="held_out", metadata={"failure_bucket": "polite"})
    write(root, {"evals/suite.yaml": SUITE, "evals/night.json": held_out, **tasks})


def try_all(pytester: pytest.Pytester, *args: str, workers: int = 0) -> pytest.RunResult:
    """Run the suite."""
    return run(pytester, "-p", "pytest_agenteval.plugin", "evals", *args, workers=workers)


TRIED: list[Path] = []
"""The results of one run of the suite, once a test has made it."""


def tried(pytester: pytest.Pytester) -> None:
    """Write the suite, and a run of it, which is made once."""
    greetings(pytester.path)
    if not TRIED:
        try_all(pytester).assert_outcomes(passed=6, xfailed=2)
        TRIED.append(pytester.path / "tried")
        shutil.copytree(pytester.path / ".agenteval", TRIED[0], symlinks=True)
    else:
        shutil.copytree(TRIED[0], pytester.path / ".agenteval", symlinks=True)


def printed(capsys: pytest.CaptureFixture[str], *args: str, status: int = 0) -> str:
    """Give what the command prints."""
    capsys.readouterr()
    with suppress(SystemExit):  # which argparse raises, with 2
        assert main(list(args)) == status
    output = capsys.readouterr()
    return output.out if status == 0 else output.err


def test_what_always_passed_is_promoted_and_then_fails(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """The change is shown, written only when asked, and taken back; suite.yaml stays as it is."""
    file = pytester.path / "evals" / "_promoted.yaml"
    tried(pytester)
    try_all(pytester, workers=2).assert_outcomes(passed=6, xfailed=2)

    shown = printed(capsys, "promote", "greetings", "--runs=2", "--model=scripted")
    assert not file.exists()
    assert "greetings: 2 of 2 mature runs with scripted: " in shown
    assert "+++ evals/_promoted.yaml\n" in shown
    assert "+buckets:\n+- polite\nadd --write to change evals/_promoted.yaml\n" in shown
    assert "  polite (2 tasks and 1 held out): 8 trials passed\n" in shown
    risk = r"a run in which nothing changed fails about \d+ % of the time \(after 4 passes each\)"
    assert re.search(f"  these 2 tasks: {risk}", shown)
    assert "  short: 0 of 2 runs passed in a row: 4 of 8 trials missed, the newest in 2" in shown

    written = printed(capsys, "promote", "--runs=2", "--model=scripted", "--write")
    assert file.read_text() == PROMOTED
    assert "evals/_promoted.yaml: written" in written
    again = printed(capsys, "promote", "--runs=2", "--model=scripted")
    assert "nothing to promote" in again
    assert "---" not in again
    assert "  all 2 promoted tasks: a run in which nothing changed fails about " in again

    greetings(pytester.path, morning="Juna")
    try_all(pytester).assert_outcomes(passed=4, failed=2, xfailed=2)
    candidates = printed(capsys, "demote", "--model=scripted")
    assert "greetings: polite: 2 of 12 trials missed, the newest in 2" in candidates
    assert "agenteval demote greetings polite --write undoes their promotion\n" in candidates

    assert "-- polite" in printed(capsys, "demote", "polite")
    assert file.read_text() == PROMOTED
    printed(capsys, "demote", "greetings", "polite", "--write")
    assert not file.exists()
    assert (pytester.path / "evals" / "suite.yaml").read_text() == SUITE


def test_single_tasks_of_other_buckets(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Buckets that are ready go as a whole; of the others each task that always passed."""
    tried(pytester)

    printed(capsys, "promote", "evals", "--runs=1", "--model=scripted", "--tasks", "--write")

    assert (pytester.path / "evals" / "_promoted.yaml").read_text() == f"{PROMOTED}tasks:\n- hi\n"
    assert "no trial missed in the last 1 run" in printed(capsys, "demote", "--model=scripted")


def test_nothing_to_promote_says_why(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Offline models count only where they are named; parts of a suite do not count."""
    tried(pytester)
    try_all(pytester, "-k", "morning")

    offline = printed(capsys, "promote")
    few = printed(capsys, "promote", "--model=scripted")

    assert "greetings: 0 of 5 mature runs with a real model\n" in offline
    assert "greetings: nothing to promote\n" in offline
    assert "  not counted: offline models (scripted); add --model=NAME to count one\n" in offline
    assert "greetings: 1 of 5 mature runs with scripted: 2" in few
    assert ": 1 of 4 tasks\n" in few
    assert "  polite: 1 of 5 runs passed in a row: too few mature runs\n" in few
    assert "---" not in few
    with (pytester.path / "evals" / "suite.yaml").open("a") as file:
        file.write("regression: {buckets: [polite]}\n")
    lapses = " ".join(printed(capsys, "demote").split())
    assert lapses == "greetings: polite: offline models (scripted) not counted; add --model=NAME to count one"


@pytest.mark.parametrize("verb", ["promote", "demote"])
def test_a_model_that_no_run_has_is_misspelt(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """Nothing to promote would be another answer. Before the first run nobody can tell."""
    greetings(pytester.path)

    printed(capsys, verb, "--model=scriptd")
    try_all(pytester, "-k", "morning")

    assert "no run with the model 'scriptd' in .agenteval/runs; models of runs: scripted" in printed(
        capsys, verb, "--model=scriptd", status=2
    )


def test_a_suite_in_which_every_miss_fails_has_nothing_to_promote(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its kind says so already."""
    write(pytester.path, {"evals/suite.yaml": "name: s\nkind: regression\n", "evals/a.json": task("a")})

    line = "s: of kind regression, where every miss fails already: nothing to promote\n"
    assert printed(capsys, "promote") == line
    assert printed(capsys, "demote") == "s: nothing is promoted\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("promote", "greeting"), "did you mean 'greetings'?"),
        (("promote", "evals/hi.json"), "expected a folder, or one of suite.yaml"),
        (("promote", "--runs=0"), "--runs: expected a whole number, 1 or more; found '0'"),
        (("demote", "--runs=many"), "--runs: expected a whole number, 1 or more; found 'many'"),
        (("demote", "polit"), "did you mean 'polite'?"),
        (("demote", "morning"), "morning is promoted with its bucket: agenteval demote greetings polite"),
    ],
)
def test_misuse_is_told(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], says: str
) -> None:
    """Exit status 2, and the way out."""
    greetings(pytester.path)
    (pytester.path / "evals" / "_promoted.yaml").write_text(PROMOTED)

    assert says in printed(capsys, *args, status=2)


def test_a_name_goes_from_the_file_that_lists_it(
    pytester: pytest.Pytester, agenteval_command: Agenteval
) -> None:
    """Ours is written; a name in the suite's own file is its author's, and its line is named."""
    json_suite = '{"name": "s",\n  "kind": "capability",\n  "regression": {"tasks": [\n"a", "b"]}\n}\n'
    tasks = {"evals/a.json": task("a"), "evals/c.json": task("c"), "more/d.json": task("d")}
    write(pytester.path, {"evals/suite.json": json_suite, "more/suite.yaml": "name: more\n", **tasks})
    write(pytester.path, {"evals/b.json": task("b"), "evals/_promoted.yaml": "# mine\ntasks: [c, 'no']\n"})
    write(pytester.path, {"evals/no.json": task("no")})

    # What its author has put into ours stays, as long as no name changes.
    assert "---" not in agenteval_command("promote", "s", "--write").out
    assert (pytester.path / "evals" / "_promoted.yaml").read_text().startswith("# mine")
    kept = agenteval_command("demote", "b", "--write")
    output = agenteval_command("demote", "c", "--write")

    assert (kept.status, kept.err) == (
        2,
        "agenteval: evals/suite.json:4: 'b' is promoted by the suite itself: remove it there",
    )
    assert (output.status, output.err) == (0, "")
    assert (pytester.path / "evals" / "suite.json").read_text() == json_suite
    assert (pytester.path / "evals" / "_promoted.yaml").read_text() == f"{HEAD}tasks:\n- 'no'\n"
    assert agenteval_command("demote").out.startswith("s: a, b, no: no runs yet")

    # What both files list stays promoted until it is out of the suite's own.
    write(pytester.path, {"evals/_promoted.yaml": "tasks: [b, c]\n"})
    both = agenteval_command("demote", "b", "--write")
    assert (both.status, both.err) == (2, kept.err)


def test_a_file_that_names_nothing_any_more_is_removed(
    pytester: pytest.Pytester, agenteval_command: Agenteval
) -> None:
    """The last names that are taken back take their file along, and the verb says so."""
    write(pytester.path, {"evals/a.json": task("a"), "evals/_promoted.yaml": "tasks: [a]\n"})
    write(pytester.path, {"evals/suite.yaml": "name: s\nkind: capability\n"})

    assert agenteval_command("demote", "a").out.endswith("\nadd --write to remove evals/_promoted.yaml")
    taken_back = agenteval_command("demote", "a", "--write").out
    assert taken_back.endswith("\nevals/_promoted.yaml: removed, as nothing is left in it")
    assert not (pytester.path / "evals" / "_promoted.yaml").exists()


TEMPLATE = "name: {{suite}}\nagent: {call: x:y}\n"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"shop/__init__.py": "", "shop/templates/suite.yaml": TEMPLATE}, ["promote"]),
        ({"shop/__init__.py": "", "shop/templates/suite.yaml": TEMPLATE}, ["demote", "greetings"]),
        ({"pytest.ini": "[pytest]\nnorecursedirs = data\n", "data/suite.yaml": TEMPLATE}, ["promote"]),
        ({"pytest.ini": "[pytest]\ntestpaths = evals\n", "data/suite.yaml": "name: data\n"}, ["promote"]),
        ({"pytest.ini": "[pytest]\ntestpaths = tests\n", "tests/test_a.py": ""}, ["promote"]),
        ({"data/suite.yaml": TEMPLATE}, ["promote", "greetings"]),
        ({"greetings/__init__.py": "", "greetings/templates/suite.yaml": TEMPLATE}, ["promote", "greetings"]),
        ({"greetings/__init__.py": ""}, ["demote", "greetings"]),
    ],
)
def test_suites_are_those_that_pytest_would_collect(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], files: dict[str, str], words: list[str]
) -> None:
    """A template in a package is no suite, nor what pytest passes over; a name still finds its suite."""
    greetings(pytester.path)
    write(pytester.path, files)

    lines = printed(capsys, *words).splitlines()

    assert lines
    assert all(line.startswith("greetings: ") for line in lines)


def test_a_broken_suite_is_a_problem_where_all_are_meant(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only below a Python package it is taken for data."""
    greetings(pytester.path)
    write(pytester.path, {"data/suite.yaml": TEMPLATE})

    assert "data/suite.yaml:1: name" in printed(capsys, "promote", status=2)
