"""How often a run in which nothing changed misses the floors of a gate, by the trials that are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pytest_agenteval.compare.gate import GatedSuite
from pytest_agenteval.compare.scoring.null_runs import null_mean, null_pass_hat_k
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.statistics import group_by_task
from pytest_agenteval.reports.view import SuiteView, entries_by_group
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.gate_spec import Gate

UNDER, OVER = 0.005, 0.995
"""Chances beyond which no digit is shown."""

WORTH_A_LINE = 0.05
"""The chance of a miss where nothing changed, from which on a run says so."""


class Floor(FrozenValue, frozen=True):
    """A figure of a suite, and the least that its gate wants of it: None where it wants nothing."""

    figure: Literal["score", "pass_hat_k", "bucket"]
    least: float | None = None
    bucket: str = ""

    def name(self, k: int) -> str:
        """Name the figure as the gate's line does."""
        return self.bucket or ("score" if self.figure == "score" else f"pass^{k}")


class FloorRisk(FrozenValue, frozen=True):
    """How often a run in which nothing changed misses a floor, and the floor that 1 in 100 of them miss.

    Both are None where too few tasks have two trials to know how these scatter.
    """

    floor: Floor
    chance: float | None
    one_in_100: float | None


def floors_of(gate: Gate) -> Iterator[Floor]:
    """Give the floors of a gate."""
    if gate.score is not None:
        yield Floor("score", gate.score)
    if gate.pass_hat_k is not None:
        yield Floor("pass_hat_k", gate.pass_hat_k)
    for bucket, least in gate.buckets.items():
        yield Floor("bucket", least, bucket)


def floor_risk(floor: Floor, entries: Iterable[JournalEntry], k: int) -> FloorRisk:
    """Work out the risk of a run with ``k`` repetitions, from stored trials of the suite with one model."""
    averaged = [entry for entry in entries if entry.averaged and floor.bucket in ("", entry.bucket)]
    tasks = group_by_task(averaged).values()
    if floor.figure == "pass_hat_k":
        null = null_pass_hat_k([[entry.ending == "passed" for entry in trials] for trials in tasks], k)
    else:
        null = null_mean([[entry.score or 0.0 for entry in trials] for trials in tasks], k)
    if null is None:
        return FloorRisk(floor, None, None)
    chance = None if floor.least is None else null.chance_below(floor.least)
    return FloorRisk(floor, chance, null.highest_floor())


def risk_line(run: Run, suites: Sequence[SuiteView], gated: Sequence[GatedSuite]) -> str:
    """Say which floors a run like this one often misses where nothing changed, by its own trials.

    Empty where there is none, where each task was tried once, and where no task's trials differ.
    """
    entries = entries_by_group(run)
    missed = [
        text
        for suite, judged in zip(suites, gated, strict=True)
        for text in _often_missed(judged, entries[suite.suite, suite.model, suite.variant])
    ]
    if not missed:
        return ""
    return f"noise: a run in which nothing changed misses {', '.join(missed)} (agenteval gate-check)"


def _often_missed(suite: GatedSuite, entries: Sequence[JournalEntry]) -> Iterator[str]:
    tasks = group_by_task(entry for entry in entries if entry.averaged).values()
    varies = any(len({entry.score for entry in trials}) > 1 for trials in tasks)
    for floor in floors_of(suite.gate) if varies and suite.k > 1 else ():
        narrowed = suite.narrowed_in(floor.bucket) if floor.bucket else suite.narrowed
        chance = None if narrowed else floor_risk(floor, entries, suite.k).chance
        if chance is not None and chance >= WORTH_A_LINE:
            name = suite.name_of(f"{floor.name(suite.k)} {floor.least:.2f}")
            about = "" if chance > OVER else "about "
            yield f'"{name}" in {about}{percent_text(chance)} of runs'


def percent_text(chance: float) -> str:
    """Write a chance without digits that nobody can rely on: ``24 %``, ``under 1 %``."""
    if chance < UNDER:
        return "under 1 %"
    return "over 99 %" if chance > OVER else f"{100 * chance:.0f} %"
