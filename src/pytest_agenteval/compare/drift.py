"""Whether the runs of a baseline are alike: each of them is tested against the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle

from pytest_agenteval.compare.scoring.exact_tests import ExactTest, PairedScores, label_test
from pytest_agenteval.compare.scoring.multiple_tests import tarone_holm
from pytest_agenteval.compare.scoring.sensitivity import mean
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry

MOST_FALSE = 0.05
"""How often any run may be said to differ where all of them are alike."""


class RunDrift(FrozenValue, frozen=True):
    """One run of a baseline beside the others, over the tasks that it shares with them.

    ``mean`` and ``others_mean`` are over tasks of their mean scores; None, with a ``p`` of 1, where no task
    has scores in both. ``drifted`` says that the difference is more than chance, all runs considered.
    """

    run: str
    mean: float | None
    others_mean: float | None
    p: float
    drifted: bool

    @property
    def difference(self) -> float:
        """How far the run's mean is above that of the others; 0 where nothing can be compared."""
        return 0.0 if self.mean is None or self.others_mean is None else self.mean - self.others_mean


def run_drifts(entries: Iterable[JournalEntry], run_of: Mapping[TrialKey, str]) -> tuple[RunDrift, ...]:
    """Test each run's trials of a suite with one model against the others'; empty for fewer than two runs.

    ``run_of`` names each trial's run. Errored trials are left out.
    """
    scores: dict[tuple[str, str], dict[str, list[float]]] = {}
    present = set()
    for entry in entries:
        if run := run_of.get(entry.key):
            present.add(run)
            if entry.averaged and entry.score is not None:
                of_task = scores.setdefault((entry.key.task, entry.key.agent), {})
                of_task.setdefault(run, []).append(entry.score)
    runs = [run for run in dict.fromkeys(run_of.values()) if run in present]
    if len(runs) < 2:
        return ()
    tasks = [_against_others(run, scores.values()) for run in runs]
    tests = [label_test(pairs) if pairs else ExactTest(1.0, 1.0) for pairs in tasks]
    # Of two runs the second test is the first one turned round.
    family = tarone_holm(tests[:1] if len(tests) == 2 else tests, MOST_FALSE)
    return tuple(
        RunDrift(
            run,
            mean([mean(own) for _, own in pairs]) if pairs else None,
            mean([mean(others) for others, _ in pairs]) if pairs else None,
            test.p,
            member.significant,
        )
        for run, pairs, test, member in zip(runs, tasks, tests, cycle(family))
    )


def _against_others(run: str, scores: Iterable[Mapping[str, list[float]]]) -> list[PairedScores]:
    """Give each task's scores in the other runs, and in this one."""
    pairs: list[PairedScores] = []
    for of_task in scores:
        others = [score for other, own in of_task.items() if other != run for score in own]
        if others and run in of_task:
            pairs.append((others, of_task[run]))
    return pairs
