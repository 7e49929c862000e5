"""Baselines: a run written into a file says in every comparison what the run itself says."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_agenteval.compare.baseline_file import (
    baseline_text,
    find_baseline,
    read_baseline,
    write_baseline,
)
from pytest_agenteval.compare.comparison import Pair, RunComparison, compare_runs
from pytest_agenteval.compare.pairing import ComparedRun, pool_runs
from pytest_agenteval.compare.resource_figures import TurnTimes
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import UNSEEN_USAGE, Figure, Usage
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation
from pytest_agenteval.store.run_folder import RunHeader, RunModel, RunSuite
from pytest_agenteval.text.errors import UsageMistake

HEADER = RunHeader(
    "2026-11-22T01:25:12.000+00:00",
    name="20261122-012512-6d11",
    package="1.0",
    models=(RunModel("claude", "anthropic/claude"),),
    judges=(RunModel("gpt", "openai/gpt"),),
    suites=(RunSuite("s", agent="a"),),
)


SEEDS = st.integers(0, 10**9)
"""Runs are made up by random numbers: hypothesis would draw the thousand parts of two runs one by one."""


def any_digests(chance: Random) -> Digests:
    """Make up what a trial was made of."""
    return Digests(
        input=chance.choice(("", "i1", "i2")),
        prompt=chance.choice(("p1", "p2")),
        ruler=chance.choice(("r1", "r2")),
        model=chance.choice(("", "m1")),
        graders=dict.fromkeys(chance.sample(("exact", "near"), chance.randrange(3)), "1:abc"),
    )


def any_trial(key: TrialKey, chance: Random) -> JournalEntry:
    """Make up how one trial ended."""
    errored = chance.random() < 1 / 7
    scores = (0.0, 1 / 3, 0.5, 0.7, 1.0, chance.random())
    return JournalEntry(
        key=key,
        attempt=1,
        ending="errored" if errored else chance.choice(("passed", "missed", "failed")),
        score=None if errored else chance.choice(scores),
        grades=tuple(Grade(label, chance.choice((*scores, None)), "why") for label in ("exact", "near")),
        location=TranscriptLocation("transcripts-main-1.jsonl", 10, 20),
        digests=Digests() if errored and chance.random() < 0.5 else any_digests(chance),
        usage=Usage(chance.randrange(10**6), 7, cost_usd=chance.choice((None, 0.0, chance.random()))),
        bucket=key.task[:1],
        file=f"evals/{key.task}.json",
        seconds=chance.uniform(0, 1000),
    )


def any_trials(chance: Random) -> tuple[JournalEntry, ...]:
    """Make up a run of a few tasks with one model or two."""
    models = chance.choice((("claude",), ("claude", "gpt")))
    names = ("a1", "a2", "b1", "b2", "b3", "한글")
    keys = [
        TrialKey("s", task, "a", model, variant, repetition)
        for task in sorted(chance.sample(names, chance.randint(1, len(names))))
        for model in models
        for variant in ("", "short")[: chance.randint(1, 2)]
        for repetition in chance.sample(range(1, 5), chance.randint(1, 4))
    ]
    return tuple(any_trial(key, chance) for key in sorted(keys))


def without_times(comparison: RunComparison) -> RunComparison:
    """Leave out when trials ran and how long turns took, which a baseline's file does not hold."""
    took = [comparison.old_resources, comparison.new_resources]
    old, new = (each and replace(each, wall=Figure(), turns=TurnTimes()) for each in took)
    return replace(comparison, old_resources=old, new_resources=new)


@settings(max_examples=15)
@given(SEEDS)
def test_what_is_read_back_compares_like_the_run(seed: int) -> None:
    """Every figure is the same: scores, graders, what it took, obstacles, differences; either way round."""
    old, new = (any_trials(Random(f"{seed}{which}")) for which in ("old", "new"))
    run = ComparedRun(HEADER.name, old, ("openai/gpt",))
    other = ComparedRun("other", new, ("openai/gpt",))
    with TemporaryDirectory() as folder:
        path = Path(folder, "s.json")
        write_baseline(path, baseline_text(HEADER, old))
        baseline = read_baseline(path)

    assert [each.key for each in baseline.entries] == [each.key for each in old]
    assert without_times(compare_runs(baseline, other)) == without_times(compare_runs(run, other))
    assert without_times(compare_runs(other, baseline)) == without_times(compare_runs(other, run))


def test_seconds_that_nobody_measured_are_unknown(tmp_path: Path) -> None:
    """A trial whose process died took no 0 seconds, in a run as in a baseline's file."""
    died, *others = (replace(each, seconds=9.0) for each in entry("a", None, 1.0, 1.0))
    trials = (replace(died, seconds=0.0, usage=UNSEEN_USAGE), *others)
    write_baseline(tmp_path / "s.json", baseline_text(HEADER, trials))

    (suite,) = compare_runs(read_baseline(tmp_path / "s.json"), ComparedRun("new", trials)).suites
    assert suite.seconds == Pair(None, None)
    (suite,) = compare_runs(ComparedRun("old", tuple(others)), ComparedRun("new", trials)).suites
    assert suite.seconds == Pair(9.0, None)


@settings(max_examples=10)
@given(SEEDS)
def test_several_runs_in_a_file_compare_like_all_of_their_trials(seed: int) -> None:
    """Repetitions are counted over the runs in their order, and each trial's run is known."""
    first, second, new = (any_trials(Random(f"{seed}{which}")) for which in ("first", "second", "new"))
    pooled = pool_runs([ComparedRun("b", first, ("openai/gpt",)), ComparedRun("a", second)])
    other = ComparedRun("other", new, ("openai/gpt",))
    with TemporaryDirectory() as folder:
        path = Path(folder, "s.json")
        write_baseline(path, baseline_text(HEADER, pooled.entries, (), pooled.run_of))
        baseline = read_baseline(path)

    assert baseline.name == "b, a"
    assert list(dict.fromkeys(baseline.run_of.values())) == ["b", "a"]
    assert len(baseline.entries) == len(first) + len(second)
    assert without_times(compare_runs(baseline, other)) == without_times(compare_runs(pooled, other))
    of_second = [entry.score for entry in baseline.entries if baseline.run_of[entry.key] == "a"]
    assert of_second == [entry.score for entry in second]


def entry(task: str, *scores: float | None) -> list[JournalEntry]:
    """Give trials of one task with these scores, None for one that errored before it had digests."""
    return [
        JournalEntry(
            key=TrialKey("s", task, "a", "claude", "", number),
            attempt=1,
            ending="errored" if score is None else "passed" if score == 1 else "missed",
            score=score,
            grades=(),
            location=TranscriptLocation("t", 0, 0),
            digests=Digests() if score is None else Digests(input="i", prompt="p"),
            bucket="easy",
            file=f"evals/{task}.json",
        )
        for number, score in enumerate(scores, start=1)
    ]


def test_the_file_has_one_line_for_each_task() -> None:
    """A person can review it: sorted, scores in full, what is common said once, seconds apart."""
    lines = baseline_text(HEADER, (*entry("b", 1.0, None), *entry("a", 0.5, 1 / 3))).splitlines()

    tasks = [json.loads(line.rstrip(",")) for line in lines[lines.index('"tasks": [') + 1 :][:2]]
    assert [task["task"] for task in tasks] == ["a", "b"]
    assert tasks[0] == {
        "suite": "s",
        "task": "a",
        "agent": "a",
        "model": "claude",
        "bucket": "easy",
        "file": "evals/a.json",
        "scores": [0.5, 1 / 3],
        "endings": ["missed", "missed"],
        "grades": {},
        "digests": [{"input": "i"}],
    }
    assert tasks[1]["scores"] == [1, None]
    assert tasks[1]["endings"] == ["passed", "errored"]
    assert '"run": "20261122-012512-6d11",' in lines
    assert '  {"name": "claude", "id": "anthropic/claude", "offline": false, "note": ""}' in lines
    assert sum("prompt" in line for line in lines) == 1


def change(**changes: Any) -> str:
    """Give a baseline's file with a change of its only task."""
    data = json.loads(baseline_text(HEADER, tuple(entry("a", 1.0, 0.5))))
    data["tasks"][0] |= changes
    return json.dumps(data)


def twice() -> str:
    """Give a baseline's file in which somebody has kept both sides of a merge."""
    data = json.loads(baseline_text(HEADER, tuple(entry("a", 1.0, 0.5))))
    data["tasks"].append(data["tasks"][0] | {"scores": [0, 0]})
    return json.dumps(data)


MERGED = "tasks: a: its lists have different lengths, or it is listed twice"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (twice(), MERGED),
        (change(repetitions=[2, 2]), MERGED),
        ("{", "expected a baseline's file, as `agenteval baseline set` writes it; it cannot be read"),
        ("[]", "found no key 'agenteval_baseline'"),
        ('{"agenteval_baseline": 2}', "baseline format 2: this pytest-agenteval reads format 1"),
        ('{"agenteval_baseline": 1, "tasks": {}}', "common: expected a list; found NoneType"),
        (change(endings=["passed"]), MERGED),
        (change(scores=[1, 7]), "tasks[1]: TaskLine: Expected `float` <= 1.0 - at `$.scores[1]`"),
        (change(scors=[1]), "tasks[1]: TaskLine: Object contains unknown field `scors`"),
        (change(runs_of=[0, 0]), MERGED),
        (change(digests_of=[0, 3]), MERGED),
        (change(task="b"), MERGED.replace("a:", "b:")),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """It may have been edited by hand: file and line are named."""
    path = tmp_path / "s.json"
    path.write_text(text)

    with pytest.raises(UsageMistake) as refused:
        read_baseline(path)

    assert str(refused.value).startswith(f"{path}: ")
    assert says in str(refused.value)


def test_a_file_that_is_not_there_says_how_it_is_written(tmp_path: Path) -> None:
    """What ends with .json is meant as a file, not as a run's name."""
    with pytest.raises(UsageMistake, match=r"agenteval baseline set RUN --to evals/baselines/pkm.json"):
        find_baseline(tmp_path, "evals/baselines/pkm.json")
