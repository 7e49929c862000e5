"""``--repetitions=LOW..HIGH``: more trials only where the comparison with the baseline still needs them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.session.options import RawValue
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.store.run_documents import LOOKS
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake
from tests.journals import junit, latest_run
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CONFTEST = '''
import json
from pathlib import Path

MOODS = Path(__file__).with_name("moods.json")


def greet(task_input, ctx):
    """Greet Mina where the task's mood is among the good ones."""
    return "Hello, Mina!" if task_input["content"] in json.loads(MOODS.read_text()) else "Hello!"


def pytest_agenteval_register(registry):
    registry.agent("greeter", greet)
'''
SUITES = {"clear": 12, "alike": 9, "unclear": 12, "small": 3}
BEFORE = ["alike_0", "alike_1", "alike_2"]
AFTER = [*BEFORE, *(f"clear_{number}" for number in range(10)), "unclear_0", "unclear_1", "unclear_2"]
"""Of ``unclear`` three tasks of twelve rise: p is 0.25, neither a verdict nor hopeless."""


def write_suites(root: Path, names: tuple[str, ...] = tuple(SUITES), gate: str = "") -> None:
    """Write suites of which one becomes clearly better, one stays, and one is in between."""
    files: dict[str, Any] = {"conftest.py": CONFTEST, "moods.json": BEFORE}
    for name in names:
        files[f"evals/{name}/suite.yaml"] = f"name: {name}\nkind: capability\nagent: greeter\n{gate}"
        files[f"evals/{name}/tasks.yaml"] = [
            {
                "id": f"{name}_{number}",
                "input": {"content": f"{name}_{number}"},
                "graders": [{"name": "answer_contains", "config": {"text": "Mina"}}],
            }
            for number in range(SUITES[name])
        ]
    write(root, files)


def greet(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run the suites; where nothing else is said, with 2 to 4 repetitions against the run before."""
    own = args or ("--repetitions=2..4", "--agent-baseline=latest")
    return run(pytester, "evals", "--agent-model=nop", *own)


TRIED: list[Path] = []


def write_tried_suites(pytester: pytest.Pytester, names: tuple[str, ...] = tuple(SUITES)) -> None:
    """Write suites, and the run of all suites twice that came before: tried once, copied for other tests."""
    results = pytester.path / ".agenteval"
    if not TRIED:
        write_suites(pytester.path)
        greet(pytester, "--repetitions=2")
        TRIED.append(shutil.copytree(results, pytester.mkdir("tried") / "results", symlinks=True))
        shutil.rmtree(results)
        shutil.rmtree(pytester.path / "evals")
    shutil.copytree(TRIED[0], results, symlinks=True)
    write_suites(pytester.path, names)


def improve(pytester: pytest.Pytester) -> None:
    """Let the agent know more greetings."""
    (pytester.path / "moods.json").write_text(json.dumps(AFTER))


def trials(run: Run) -> dict[str, int]:
    """Count the trials of each suite."""
    counts = dict.fromkeys(SUITES, 0)
    for entry in run.entries:
        counts[entry.key.suite] += 1
    return counts


FIXTURES = """
import pytest


@pytest.fixture(scope="module", autouse=True)
def opened(request):
    with open("opened.txt", "a") as log:
        log.write(f"+{request.node.path.parent.name} ")
        yield
        log.write(f"-{request.node.path.parent.name} ")
"""
LOOKER = """

def pytest_terminal_summary(terminalreporter):
    for things in terminalreporter.stats.values():
        for thing in things:
            vars(thing), getattr(thing, "nodeid", "")  # as Hypothesis does, of everything that was counted
"""


def test_more_is_tried_only_where_it_may_change_a_verdict(pytester: pytest.Pytester) -> None:
    """Better stops, unchanged stops, unclear and small go on; every count says so.

    What stopped is judged at 99.6 %, what went on at 97.6 %. Wider fixtures of suites that end early are torn
    down once, before those of others are set up; other plugins find attributes on what was deselected.
    """
    write_tried_suites(pytester)
    improve(pytester)
    write(pytester.path, {"evals/conftest.py": FIXTURES, "conftest.py": CONFTEST + LOOKER})
    result = greet(pytester, "--repetitions=2..4", "--agent-baseline=latest", "--junitxml=j.xml")

    run = latest_run(pytester.path)
    assert trials(run) == {"clear": 24, "alike": 18, "unclear": 48, "small": 12}
    readings = {"clear": "decided", "alike": "hopeless", "unclear": "open", "small": "few tasks"}
    assert {look.suite: look.reading for look in run.looks} == readings
    assert sum(group.trials for group in run.planned) == len(junit(pytester.path / "j.xml")) == 102
    assert not run.begun
    assert result.parseoutcomes() == {"passed": 38, "xfailed": 64, "deselected": 42}
    out = " ".join(str(result.stdout).split())
    for text in ("[100%]", "repetitions: 42 of 2..4 not needed", "x 4"):
        assert text in out
    assert "x 2 of 2..4: stopped after 2, the verdict was clear" in out
    result.stdout.no_fnmatch_line("*Error*")
    result.stderr.no_fnmatch_line("*Error*")
    document = json.loads((run.folder / "comparison.json").read_text())
    suites = {suite["name"]: suite for suite in document["suites"]}
    assert suites["clear"]["suite"]["verdict"] == "better"
    assert {name: tuple(suite["levels"].values()) for name, suite in suites.items()} == {
        "clear": (0.996, 0.996),
        "alike": (0.996, 0.996),
        "unclear": (0.976, 0.979),
        "small": (0.975, 0.975),
    }
    assert suites["clear"]["suite"]["interval"]["level"] == 0.996
    assert suites["unclear"]["suite"]["interval"]["level"] == 0.976
    assert json.loads((run.folder / "run.json").read_text())["repetition_rule"]["futile"] == 0.3
    opened = (pytester.path / "opened.txt").read_text().split()
    up, down = (sorted(mark[1:] for mark in opened if mark[0] == sign) for sign in "+-")
    assert up == down
    assert all(up[1:] == down[1:] for up, down in zip(opened[::2], opened[1::2], strict=True))


def test_against_any_other_run_levels_are_plain_and_that_is_said(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was decided against one run says nothing of another; of its own, compare says the same."""
    write_suites(pytester.path, ("clear",))
    greet(pytester, "--repetitions=2", "--agent-results=runs/other")
    greet(pytester, "--repetitions=2")
    improve(pytester)
    greet(pytester)
    name = latest_run(pytester.path).looks[0].baseline
    other = next((pytester.path / "runs/other").glob("2*"))

    main(["compare", name, "latest"])
    own = " ".join(capsys.readouterr().out.split())
    main(["compare", str(other), "latest"])
    strange = " ".join(capsys.readouterr().out.split())
    main(["baseline", "set", "latest", "--to=base.json"])
    capsys.readouterr()
    main(["compare", "base.json", str(other)])
    turned = " ".join(capsys.readouterr().out.split())

    assert "x 2 of 2..4: stopped after 2, the verdict was clear" in own
    assert "was decided in a comparison with" not in own
    for text in (strange, turned):
        assert f"tasks were repeated (2..4) was decided in a comparison with {name}" in text


def test_the_most_trials_of_a_run_are_kept(pytester: pytest.Pytester) -> None:
    """Suites get more in the order of planning, while there is room; who gets none is named, and stays."""
    write_tried_suites(pytester, ("small", "unclear"))
    improve(pytester)

    args = ("--repetitions=2..4", "--agent-baseline=latest", "--agent-max-trials=50")
    result = greet(pytester, *args)

    run = latest_run(pytester.path)
    assert trials(run) == {"clear": 0, "alike": 0, "unclear": 24, "small": 12}
    out = " ".join(str(result.stdout).split())
    assert (
        "repetitions: unclear with nop stopped at 2: 24 trials more would exceed --agent-max-trials=50" in out
    )
    assert "x 2 of 2..4: --agent-max-trials allows no more" in out
    assert run.looks[1].levels.suite == 0.996


REFUSED = {
    "--repetitions=2..4": "--repetitions=2..4: expected a baseline",
    "--repetitions=2..4 --agent-baseline=latest --agent-gate=none --agent-baseline=none": "--agent-baseline",
    "--repetitions=4..2": "expected a whole number, 1 or more, or LOW..HIGH, as in 2..6; found '4..2'",
    "--repetitions=2 --agent-max-trials=9": "--agent-max-trials: expected --repetitions=LOW..HIGH",
}


def test_what_cannot_be_obeyed_is_refused(pytester: pytest.Pytester) -> None:
    """Exit status 4, and both places where a baseline may be named."""
    write_suites(pytester.path, ("small",))
    for args, says in REFUSED.items():
        result = greet(pytester, *args.split())
        text = str(result.stdout) + str(result.stderr)
        assert (result.ret, says in text) == (pytest.ExitCode.USAGE_ERROR, True), args
        if "expected a baseline" in text:
            assert "--agent-baseline=RUN, or baseline: in the gate: of a suite.yaml" in text
    assert not (pytester.path / ".agenteval/runs").exists()


def test_a_range_goes_upwards_from_one(tmp_path: Path) -> None:
    """With two dots between two numbers, of which the second is the larger."""
    for typed in ("4..2", "0..2", "2..2", "2..", "2-6"):
        with pytest.raises(UsageMistake, match=re.escape(f"or LOW..HIGH, as in 2..6; found {typed!r}")):
            Settings.repetitions.parse_value(RawValue(typed, "--repetitions", tmp_path))


def test_workers_are_refused(pytester: pytest.Pytester) -> None:
    """A look needs all trials in one process; a run without evals is shared out as it likes."""
    write_tried_suites(pytester, ("small",))
    write(pytester.path, {"pyproject.toml": "[tool.agenteval]\nrepetitions = '2..4'\nbaseline = 'latest'\n"})

    result = run(pytester, "evals", "--agent-model=nop", workers=1)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "expected no workers of xdist (-n 0) with 2..4" in str(result.stdout) + str(result.stderr)
    write(pytester.path, {"test_plain.py": "def test_plain(): pass"})
    assert run(pytester, "test_plain.py", workers=1).parseoutcomes() == {"passed": 1}


def test_a_gate_names_the_baseline_of_its_suite(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each suite is looked at against its own file; one that has none stays at LOW."""
    look_at_own_baselines(pytester, monkeypatch, "local")


def look_at_own_baselines(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, executor: str) -> None:
    """Run two suites, of which one names a baseline, and look at what was decided."""
    write_tried_suites(pytester, ("unclear", "clear"))
    main(["baseline", "set", "latest", "--to=evals/unclear/base.json"])
    path = pytester.path / "evals/unclear/suite.yaml"
    path.write_text(path.read_text() + "gate: {baseline: base.json}\n")
    improve(pytester)
    monkeypatch.setenv("AGENTEVAL_REPETITIONS", "2..4")

    greet(pytester, f"--agent-executor={executor}")

    looks = {look.suite: look.reading for look in latest_run(pytester.path).looks}
    assert looks == {"clear": "no counterpart", "unclear": "open"}
    assert trials(latest_run(pytester.path)) == {"clear": 24, "alike": 0, "unclear": 48, "small": 0}


def test_the_first_failure_ends_a_run_before_the_look(pytester: pytest.Pytester) -> None:
    """Nothing beyond the first repetitions is begun."""
    write_tried_suites(pytester, ("unclear",))
    improve(pytester)

    args = ("--repetitions=2..4", "--agent-baseline=latest", "--agent-strict", "-x")
    result = greet(pytester, *args)

    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert latest_run(pytester.path).looks == ()
    assert all(entry.key.repetition <= 2 for entry in latest_run(pytester.path).entries)
    assert sum(group.trials for group in latest_run(pytester.path).planned) == 24


def test_selected_trials_are_looked_at_whatever_their_numbers(pytester: pytest.Pytester) -> None:
    """Nobody is held back who stands among the first of those selected; --collect-only lists all of them."""
    write_tried_suites(pytester, ("unclear",))

    args = ("--repetitions=2..4", "--agent-baseline=latest")
    listed = greet(pytester, *args, "--collect-only", "-q")
    result = greet(pytester, *args, "-k", "nop-4")

    assert sum("[nop-" in line for line in listed.outlines) == 48
    assert result.parseoutcomes()["xfailed"] == 12
    assert {entry.key.repetition for entry in latest_run(pytester.path).entries} == {4}
    assert latest_run(pytester.path).looks == ()


RANGE = ("--repetitions=2..4", "--agent-baseline=latest")


def forget(folder: Path, *, above: int) -> int:
    """Take out of a run's journals its repetitions above a number; give how many ended are left."""
    left = 0
    for journal in folder.glob("journal-*"):
        lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if json.loads(line)["repetition"] <= above]
        journal.write_text("".join(kept), encoding="utf-8")
        left += sum('"finished"' in line for line in kept)
    return left


WHOLE: list[Path] = []
"""The project after a run that was not cut short: made once, and copied."""


def write_run(pytester: pytest.Pytester) -> Path:
    """Write the suites with a run of them, and give that run's folder."""
    if not WHOLE:
        write_tried_suites(pytester)
        write(pytester.path, {"moods.json": AFTER})
        greet(pytester, *RANGE, "--agent-run-name=new")
        WHOLE.append(
            shutil.copytree(pytester.path, pytester.mkdir("whole") / "copy", symlinks=True, ignore=_itself)
        )
    else:
        shutil.copytree(WHOLE[0], pytester.path, symlinks=True, dirs_exist_ok=True)
    return pytester.path / ".agenteval/runs/new"


def _itself(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "whole"]


@pytest.mark.parametrize("above", [1, 2, 3])
def test_there_is_one_look(pytester: pytest.Pytester, above: int) -> None:
    """Cut short before the look, at it, or behind it: the run ends with the trials that it would have had."""
    folder = write_run(pytester)
    whole = {entry.key for entry in load_run(folder).entries}
    left = forget(folder, above=above)
    looks = json.loads((folder / LOOKS).read_text(encoding="utf-8"))
    if above == 1:
        (folder / LOOKS).unlink()
    else:  # a mark that a second look would not make
        looks["looks"][0]["baseline"] = "marked"
        (folder / LOOKS).write_text(json.dumps(looks), encoding="utf-8")

    result = greet(pytester, *RANGE, "--agent-resume")

    assert {entry.key for entry in load_run(folder).entries} == whole
    assert json.loads((folder / LOOKS).read_text(encoding="utf-8")) == looks
    assert f"{left} had finished" in " ".join(result.outlines)
    assert ("more if needed" in " ".join(result.outlines)) is (above == 1)
    assert above == 1 or f"{left} had finished, {len(whole) - left} to run" in " ".join(result.outlines)
    assert result.parseoutcomes().get("deselected", 0) > 0
