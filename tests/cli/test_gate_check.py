"""``agenteval gate-check``: how often floors fail a run in which nothing changed, by stored trials."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.compare.scoring.power import null_mean
from pytest_agenteval.records.trial import Digests, Origin
from pytest_agenteval.store.run_documents import RunGates, SuiteGate
from tests.cli.documents import valid_document
from tests.reports.runs import store_run, trial

Scores = Mapping[str, Sequence[float]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and suites are looked up here."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scores(tasks: int, repetitions: int, seed: int) -> Scores:
    """Draw trials of which 4 in 5 pass."""
    random = Random(seed)
    return {f"t{at}": [float(random.random() < 0.8) for _ in range(repetitions)] for at in range(tasks)}


def store(of: Scores, *, prompt: str = "p", kind: str = "capability", **fields: Any) -> Path:
    """Store a run with these scores; the first 6 tasks are of the bucket ``x``, others of ``y``."""
    trials = [
        trial(
            task, number, score, "x" if at < 6 else "y", kind=kind, digests=Digests(prompt=prompt), **fields
        )
        for at, (task, own) in enumerate(of.items())
        for number, score in enumerate(own, 1)
    ]
    return store_run(Path(".agenteval/runs"), trials, [(each.key, each.bucket) for each in trials]).folder


def suite_file(gate: str = "") -> None:
    """Write the suite's file, with this gate."""
    Path("evals").mkdir(exist_ok=True)
    Path("evals/suite.yaml").write_text(f"name: s\nkind: capability\n{gate}")


def checked(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    """Give what the verb's document says of its only suite."""
    capsys.readouterr()
    assert main(["gate-check", "--json", "-", *args]) == 0
    (suite,) = valid_document("gate-check", capsys.readouterr().out)["suites"]
    return dict(suite)


def chance_below(floor: float, runs: Iterable[Scores], repetitions: int, tasks: slice = slice(None)) -> float:
    """Predict by all trials of these runs together."""
    runs = list(runs)
    pooled = [[score for run in runs for score in run[task]] for task in list(runs[0])[tasks]]
    null = null_mean(pooled, repetitions)
    assert null is not None
    return null.chance_below(floor)


def test_each_floor_has_its_chance_by_all_trials_that_are_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs with another prompt do not count, and neither do trials that were only taken over."""
    suite_file("gate: {score: 0.75, buckets: {x: 0.6}, pass_hat_k: 0.3, errored: 0.05}\n")
    store(scores(12, 3, 1), prompt="older")
    oldest, middle, newest = scores(12, 3, 2), scores(12, 3, 2), scores(12, 2, 4)
    carried_out = store(oldest)
    store(middle, origin=Origin(carried_out.name, 1))
    store(newest)

    suite = checked(capsys)

    floors = {floor["name"]: floor for floor in suite["floors"]}
    assert list(floors) == ["score", "pass^2", "x"]
    assert floors["score"]["chance"] == pytest.approx(chance_below(0.75, [newest, oldest], 2))
    assert floors["x"]["chance"] == pytest.approx(chance_below(0.6, [newest, oldest], 2, slice(6)))
    assert floors["score"]["today"] == pytest.approx(sum(map(sum, newest.values())) / 24)
    assert (suite["gate"], suite["trials"], suite["misses"]) == ("evals/suite.yaml", 60, None)
    assert [(run["trials"], run["others"], run["differ"]) for run in suite["runs"]] == [
        (24, 0, []),
        (36, 0, []),
        (0, 36, ["prompt"]),
    ]
    assert main(["gate-check"]) == 0
    screen = capsys.readouterr().out
    assert "s with rules: 12 tasks x 2, from 60 trials of 2 runs\n" in screen
    assert f"{100 * floors['score']['chance']:.0f} %" in screen
    assert "not counted: another prompt" in screen


def test_the_floor_of_1_in_100_is_that_of_runs_with_as_many_repetitions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """More repetitions bear a higher floor; without a floor in any gate, floors are suggested."""
    store(scores(30, 3, 5))

    once, often = checked(capsys, "--repetitions=1"), checked(capsys, "--repetitions=10")

    assert (once["gate"], once["repetitions"], often["repetitions"]) == ("", 1, 10)
    assert [floor["name"] for floor in often["floors"]] == ["score", "pass^10", "x", "y"]
    assert once["floors"][0]["chance"] is None
    assert once["floors"][0]["one_in_100"] < often["floors"][0]["one_in_100"] < 0.8
    main(["gate-check", "--repetitions=1"])
    assert f"--agent-gate=score={once['floors'][0]['one_in_100']:g}\n" in capsys.readouterr().out


def test_one_trial_of_each_task_tells_nothing_and_a_second_run_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No figure is made up; the run's own gate stands where suite.yaml has no floor."""
    suite_file()
    folder = store(scores(20, 1, 6))
    RunGates((SuiteGate("s", {"score": 0.8}, {}),)).write(folder)

    alone = checked(capsys)

    assert [(floor["chance"], floor["one_in_100"]) for floor in alone["floors"]] == [(None, None)]
    main(["gate-check"])
    assert "run the suite twice, or with --repetitions 3" in " ".join(capsys.readouterr().out.split())
    again = store(scores(20, 1, 7))
    RunGates((SuiteGate("s", {"score": 0.8}, {}),)).write(again)
    two = checked(capsys)
    assert two["gate"] == again.name
    assert two["floors"][0]["chance"] > 0
    assert checked(capsys, again.name)["floors"][0]["chance"] is None


def test_tasks_in_which_no_trial_may_miss_have_a_chance_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a regression suite that passed 5 times of 5 a miss is still to be expected now and then."""
    store({f"t{at}": [1.0] * 5 for at in range(8)}, kind="regression")

    suite = checked(capsys, "--repetitions=1")

    assert suite["misses"]["tasks"] == 8
    assert 0.05 < suite["misses"]["chance"] < 0.2
    main(["gate-check", "--repetitions=1"])
    screen = " ".join(capsys.readouterr().out.split())
    assert "each trial of 8 tasks has to pass: where nothing changed, about" in screen
    assert "the trials of each task are all alike: such an agent has the same figures" in screen


def test_a_promotion_counts_before_the_next_run(capsys: pytest.CaptureFixture[str]) -> None:
    """What suite.yaml says today decides, whatever the kind of the stored trials was."""
    store({f"t{at}": [1.0] * 5 for at in range(8)})
    suite_file("regression: {buckets: [x]}\n")

    assert checked(capsys)["misses"]["tasks"] == 6


def test_a_run_that_drifted_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Its trials count, and the screen says that they are not alike by more than chance."""
    low, high = ({f"t{at}": [score] * 3 for at in range(12)} for score in (0.0, 1.0))
    store(high)
    store(low)
    store(high)

    suite = checked(capsys)

    differ = r"the runs differ by more than chance \(\S+ 1\.00, \S+-2 0\.00, \S+ 1\.00; p <0\.001\)"
    assert re.fullmatch(differ, suite["drifted"])
    main(["gate-check"])
    assert re.search(f"{differ}: these figures leave that out", " ".join(capsys.readouterr().out.split()))


def test_no_run_is_a_mistake_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and the exit status 2."""
    assert main(["gate-check"]) == 2
    assert "agenteval: there are no runs in .agenteval/runs yet\n" in capsys.readouterr().err
