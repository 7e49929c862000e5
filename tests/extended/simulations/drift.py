"""How often the runs of a baseline are said to differ: where none does, and where one is better by 0.1."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from pytest_agenteval.compare.comparison import run_drifts
from pytest_agenteval.compare.pairing import ComparedRun, pool_runs
from pytest_agenteval.compare.verdict import suite_findings
from tests.compare.samples import side
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.rows import Row, share_row
from tests.extended.simulations.score_model import MODELS, Suite, compared, diffuse, trials

BASELINES, PARTS = 4_000, 4
QUARTERS, PASS_FAIL = "quarters", "pass/fail, p ~ Beta(.3, .3)"
TASKS, DRIFT = 41, 0.1

FALSE = 0.06
"""The level, 5 %, which exact tests of quarters nearly use up, and three errors of so many draws."""

SEEN = {(3, 3): (0.7, 0.5), (3, 1): (0.2, 0.15), (2, 3): (0.7, 0.5)}
"""By runs of a baseline and repetitions of each: how often it is seen, in quarters and pass or fail."""

FOUND = {3: (0.49, 0.36), 9: (0.74, 0.61)}
"""By the baseline's repetitions: how often a rise is found, in quarters and in pass/fail tasks."""


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give false alarms, how often drift of 0.1 is seen, and what a baseline of three runs finds more.

    The rise is one by 0.1 in 41 tasks that are tried three times, every miss mended with the same chance. It
    is found where the suite is better on these tasks; the note says how often it is for tasks like these.
    """
    number = max(10, round(BASELINES * scale / PARTS))
    for at, model in enumerate((QUARTERS, PASS_FAIL)):
        for (runs, repetitions), goals in SEEN.items():
            what = f"{runs} runs of {TASKS}x{repetitions}, {model}"
            shape = (model, runs, repetitions)
            alarms, seen = (
                sum(in_parallel(drifted, [(*shape, by, number, seed + part) for part in range(PARTS)]))
                for by in (0.0, DRIFT)
            )
            yield share_row(f"a run said to differ, {what}", alarms, number * PARTS, "<=", FALSE)
            yield share_row(
                f"one run better by {DRIFT:g} seen, {what}", seen, number * PARTS, ">=", goals[at]
            )
        for old, goals in FOUND.items():
            hits = in_parallel(rises_found, [(model, old, number, seed + part) for part in range(PARTS)])
            these, like_these = (sum(counts) for counts in zip(*hits, strict=True))
            what = f"+.1 found, {TASKS} tasks x{old} -> x3, {model}"
            note = f"for tasks like these {like_these / number / PARTS:.3f}"
            yield share_row(what, these, number * PARTS, ">=", goals[at], note)


def drifted(model: str, runs: int, repetitions: int, by: float, baselines: int, seed: int) -> int:
    """Count baselines of which any run is said to differ; the last run's agent is better by so much."""
    random = Random(f"drift {model} {runs} {repetitions} {by} {seed}")
    alarms = 0
    for _ in range(baselines):
        suite = MODELS[model].suite(TASKS, random)
        agents = [*[suite] * (runs - 1), diffuse(suite, by) if by else suite]
        pooled = pool_runs([_tried(str(at), agent, repetitions, random) for at, agent in enumerate(agents)])
        alarms += any(drift.drifted for drift in run_drifts(pooled.entries, pooled.run_of))
    return alarms


def _tried(name: str, suite: Suite, repetitions: int, random: Random) -> ComparedRun:
    tasks = {f"bucket/{at}": trials(task, repetitions, random) for at, task in enumerate(suite)}
    return side(name, tasks)


def rises_found(model: str, old: int, comparisons: int, seed: int) -> tuple[int, int]:
    """Count rises by 0.1 that are found in these tasks, and in tasks like these, with so many old trials."""
    random = Random(f"pooled {model} {old} {seed}")
    these = like_these = 0
    for _ in range(comparisons):
        before = MODELS[model].suite(TASKS, random)
        findings = suite_findings({"": compared(before, diffuse(before, DRIFT), old, 3, random)})
        these += findings.these.direction == 1
        like_these += findings.like_these.direction == 1
    return these, like_these
