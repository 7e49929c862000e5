"""How much of the noise between trials is the judge's: the same transcripts, graded again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import Comparison, SuiteComparison
from pytest_agenteval.compare.scoring.sensitivity import mean, sample_variance
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run

FEWEST_GRADINGS = 2


def with_judge_noise(comparison: Comparison, sides: Sequence[Run], regraded: Sequence[Run]) -> Comparison:
    """Say of each suite which share of its trial-to-trial variance is the judges' own.

    ``regraded`` are runs that graded a side's trials again; a side's own grades count where they are of the
    same graders and judges. The judges' variance is that of one trial's scores, 2 or more of them, as a mean
    over trials. A suite without such trials, or without variance between trials, keeps an unknown share.
    """
    gradings = [scores for side in sides for scores in _gradings(side, regraded)]
    return replace(comparison, suites=tuple(_with_share(suite, gradings) for suite in comparison.suites))


def _gradings(side: Run, regraded: Sequence[Run]) -> Iterator[tuple[TrialKey, list[float]]]:
    """Give the scores that graders of one kind gave to each trial of a run."""
    again = [run for run in regraded if side.folder.name in run.header.regraded]
    by_trial: dict[tuple[TrialKey, str], list[float]] = {}
    for entry in (entry for run in again for entry in run.entries):
        _add(by_trial, entry)
    for entry in side.entries:
        if (entry.key, entry.digests.ruler) in by_trial:
            _add(by_trial, entry)
    for (key, _), scores in by_trial.items():
        if len(scores) >= FEWEST_GRADINGS:
            yield key, scores


def _add(by_trial: dict[tuple[TrialKey, str], list[float]], entry: JournalEntry) -> None:
    if entry.averaged and entry.score is not None:
        by_trial.setdefault((entry.key, entry.digests.ruler), []).append(entry.score)


def _with_share(suite: SuiteComparison, gradings: Iterable[tuple[TrialKey, list[float]]]) -> SuiteComparison:
    within = suite.sensitivity.noise.trial_variance if suite.sensitivity else None
    spreads = [sample_variance(scores) or 0.0 for key, scores in gradings if _belongs(key, suite)]
    if not spreads or not within:
        return suite
    return replace(suite, judge_share=min(1.0, mean(spreads) / within))


def _belongs(key: TrialKey, suite: SuiteComparison) -> bool:
    return key.suite == suite.name and (key.model, key.variant) in (suite.old_who, suite.new_who)
