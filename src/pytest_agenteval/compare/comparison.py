"""Two runs beside each other: the data of every screen, page and file about a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from statistics import fmean as mean

from msgspec.structs import replace

from pytest_agenteval.compare.pairing import (
    Compared,
    ComparedGroup,
    ComparedRun,
    ModelVariant,
    Obstacle,
    SentDifference,
    SuitePairs,
    TaskPair,
    pair_suites,
    unmatched_groups,
)
from pytest_agenteval.compare.resource_figures import ResourceFigures
from pytest_agenteval.compare.scoring.aggregates import expected_broken, is_broken
from pytest_agenteval.compare.scoring.exact_tests import ExactTest, PairedScores, label_test, tarone_holm
from pytest_agenteval.compare.scoring.power import (
    FEWEST_FOR_POWER,
    DifferenceNoise,
    RepetitionsNeeded,
    difference_noise,
    repetitions_needed,
    sample_variance,
    smallest_visible_change,
)
from pytest_agenteval.compare.verdict import (
    PLAIN,
    Change,
    SuiteScoreChange,
    at_look,
    shared_levels,
    suite_change,
)
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry, own_models_of
from pytest_agenteval.store.run_documents import Group, Reading, SuiteLook
from pytest_agenteval.store.run_folder import Levels, RepetitionRule
from pytest_agenteval.store.run_reader import Run


def _looks(
    group: ComparedGroup, old: ComparedRun, new: ComparedRun
) -> tuple[SuiteLook | None, tuple[SuiteLook, ...]]:
    """Give the look that decided about a suite of the new side, and the looks that were against other runs.

    The first is None where there was no look against this very old side. The others are looks of either side
    that decided something.
    """
    look = next((look for look in new.looks if look.group == (group.suite, *group.new)), None)
    was_against = look is not None and _was_against(look, group, old)
    elsewhere = [look] if look is not None and look.spent and not was_against else []
    if old.name != new.name:
        own = (group.suite, *group.old)
        elsewhere += [before for before in old.looks if before.group == own and before.spent]
    return look if was_against else None, tuple(elsewhere)


def _was_against(look: SuiteLook, group: ComparedGroup, old: ComparedRun) -> bool:
    if (look.old_model, look.old_variant) != group.old:
        return False
    own = (group.suite, *group.old)
    runs = (run for key, run in old.run_of.items() if (key.suite, key.model, key.variant) == own)
    if pooled := ", ".join(dict.fromkeys(runs)):
        return look.baseline == pooled
    # A side may be made of files of several suites: it has the names of all their runs.
    return look.baseline in (old.name, *old.name.split(", "))


# The share of comparisons of equal runs in which some run may be reported as different.
MOST_FALSE = 0.05


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
    tasks: list[list[PairedScores]] = []
    for run in runs:
        pairs: list[PairedScores] = []
        for by_run in scores.values():
            others = [score for other, own in by_run.items() if other != run for score in own]
            # A task that only one run has says nothing of drift.
            if others and run in by_run:
                pairs.append((others, by_run[run]))
        tasks.append(pairs)
    tests = [label_test(pairs) if pairs else ExactTest(1.0, 1.0) for pairs in tasks]
    # Of two runs the second test is the mirror image of the first: it must not take half of the level.
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


TOLERANCE = 0.05
NO_VARIANCE = 1e-12


class Pair(FrozenValue, frozen=True):
    """A figure of both sides; None where it is not known."""

    old: float | None
    new: float | None


class TaskChange(FrozenValue, frozen=True):
    """One task on both sides: scores by repetition, None for errored trials, and which others passed."""

    task: str
    bucket: str
    file: str
    old: tuple[float | None, ...]
    new: tuple[float | None, ...]
    old_passes: tuple[bool, ...]
    new_passes: tuple[bool, ...]

    @property
    def change(self) -> float | None:
        """New mean less old mean; None where a side has no score."""
        old = [score for score in self.old if score is not None]
        new = [score for score in self.new if score is not None]
        return mean(new) - mean(old) if old and new else None

    @property
    def broken(self) -> bool:
        """Whether all old trials passed and no new one did, with enough of both to say so."""
        return is_broken(self.old_passes, self.new_passes)

    @property
    def mended(self) -> bool:
        """Whether no old trial passed and all new ones did, with enough of both to say so."""
        return is_broken(self.new_passes, self.old_passes)


class GraderChange(FrozenValue, frozen=True):
    """The mean over tasks of one grader's scores; graders are described, and get no verdict."""

    grader: str
    tasks: int
    scores: Pair


class Sensitivity(FrozenValue, frozen=True):
    """What the comparison could have seen: None where tasks are too few, or do not spread, to say so.

    ``visible`` is the change that would have been significant 4 times of 5, ``needed`` what it would take to
    see one as large as the tolerance.
    """

    noise: DifferenceNoise
    visible: float | None
    needed: RepetitionsNeeded | None


class SuiteComparison(FrozenValue, frozen=True):
    """One suite with its model and variant on both sides.

    ``suite`` is None where no task has scores on both sides. ``obstacles`` name the tasks that are not
    compared. ``repetitions`` are the fewest and most trials of a task, old and new. ``broken_by_chance``
    is how many broken tasks are to be expected if nothing changed. ``judge_share`` is the part of the
    trial-to-trial variance that comes from the judges; None where it is unknown. Costs are means over
    trials. ``look`` describes how the number of repetitions of the new side's tasks was decided, where
    that was against this old side. Verdicts then use its ``levels``. They are stricter where held-out
    tasks are compared: ``held_out_looks`` is the number of this comparison among all comparisons of these
    tasks. ``looks_elsewhere`` were against other runs and do not count. ``own_models`` are those that an
    agent called by itself, old and new. ``baseline_runs`` are the runs of the old side, where there are
    several, each beside the others. ``sent`` names the parts of ``differs`` that models received, and the
    parts that differ from trial to trial.
    """

    name: str
    old_who: ModelVariant
    new_who: ModelVariant
    suite: Change | None
    buckets: tuple[Change, ...]
    tasks: tuple[TaskChange, ...]
    graders: tuple[GraderChange, ...]
    sensitivity: Sensitivity | None
    obstacles: tuple[Obstacle, ...]
    differs: tuple[str, ...]
    repetitions: tuple[tuple[int, int], tuple[int, int]]
    errored: tuple[int, int]
    broken_by_chance: float
    tokens: Pair
    seconds: Pair
    cost_usd: Pair
    judge_share: float | None = None
    levels: Levels = PLAIN
    held_out_looks: int = 0
    look: SuiteLook | None = None
    looks_elsewhere: tuple[SuiteLook, ...] = ()
    own_models: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    baseline_runs: tuple[RunDrift, ...] = ()
    sent: tuple[SentDifference, ...] = ()

    @property
    def changes(self) -> Iterator[Change]:
        """The suite and its buckets, each of which gets a verdict."""
        if self.suite is not None:
            yield self.suite
        yield from self.buckets


class RunComparison(FrozenValue, frozen=True):
    """Two sides beside each other.

    ``same_run`` says that both are parts of one run: nothing else changed in between. ``unmatched`` names
    suites with models that have no counterpart, ``old`` and ``new`` the runs. ``old_resources`` and
    ``new_resources`` are what all trials of a side took, also those without a counterpart.
    """

    old: str
    new: str
    same_run: bool
    tolerance: float
    suites: tuple[SuiteComparison, ...]
    unmatched_old: tuple[str, ...] = ()
    unmatched_new: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()  # a key of published documents
    old_resources: ResourceFigures | None = None
    new_resources: ResourceFigures | None = None

    @property
    def has_scores(self) -> bool:
        """Whether any task has scores on both sides."""
        return any(suite.suite is not None for suite in self.suites)

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        return tuple(obstacle for suite in self.suites for obstacle in suite.obstacles)

    @property
    def worse(self) -> tuple[Change, ...]:
        """The suites and buckets that are worse."""
        return tuple(change for suite in self.suites for change in suite.changes if change.verdict == "worse")

    @property
    def better(self) -> tuple[Change, ...]:
        """The suites and buckets that are better."""
        return tuple(each for suite in self.suites for each in suite.changes if each.verdict == "better")


def compare_runs(
    old: ComparedRun,
    new: ComparedRun,
    *,
    compared: Compared = "",
    tolerance: float = TOLERANCE,
    levels: Levels | None = None,
    pairs: int = 1,
) -> RunComparison:
    """Compare two sides suite by suite, over the tasks that are the same on both.

    All verdicts are at these ``levels``. None takes the levels of the look that decided how often a suite of
    the new side is repeated, or the plain ones where nothing like that was decided against the old side.
    ``pairs`` is the number of comparisons that share these levels, and the time of one, where more than two
    sides are compared.
    """
    suite_pairs = pair_suites(old, new, compared)
    groups = [suite.group for suite in suite_pairs]
    return RunComparison(
        old=old.name,
        new=new.name,
        same_run=old.name == new.name,
        tolerance=tolerance,
        suites=tuple(_compare_suite(suite, tolerance, old, new, levels, pairs) for suite in suite_pairs),
        unmatched_old=tuple(unmatched_groups(old, {(group.suite, *group.old) for group in groups})),
        unmatched_new=tuple(unmatched_groups(new, {(group.suite, *group.new) for group in groups})),
        judges=tuple(dict.fromkeys((*old.judges, *new.judges))),
        odd=tuple(dict.fromkeys((*old.unreadable, *new.unreadable))),
        old_resources=old.resources,
        new_resources=new.resources,
    )


def _compare_suite(
    suite: SuitePairs,
    tolerance: float,
    old_side: ComparedRun,
    new_side: ComparedRun,
    all_levels: Levels | None,
    compared_pairs: int,
) -> SuiteComparison:
    group, pairs = suite.group, suite.pairs
    look, looks_elsewhere = _looks(group, old_side, new_side)
    old = [entry for pair in pairs for entry in pair.old]
    new = [entry for pair in pairs for entry in pair.new]
    held_out_looks = 0
    if any(entry.split == "held_out" for entry in new):
        # The first run that tried the held-out tasks was compared with nothing, and is no look. Two sides
        # that were tried together both have the number of the same look.
        count = new_side.held_out_looks.get(group.suite, 1)
        held_out_looks = max(1, count - (old_side.held_out_looks.get(group.suite, 0) < count))
    levels = all_levels or at_look(look.levels if look else PLAIN, held_out_looks)
    levels = shared_levels(levels, compared_pairs)
    change = suite_change(group.suite, pairs, tolerance, levels, compared_pairs)
    tasks = tuple(map(_task_change, pairs))
    return SuiteComparison(
        name=group.suite,
        old_who=group.old,
        new_who=group.new,
        suite=change.suite if change else None,
        buckets=change.buckets if change else (),
        tasks=tasks,
        graders=tuple(_grader_changes(pairs)),
        sensitivity=_sensitivity(change, tolerance, levels.suite) if change else None,
        obstacles=suite.obstacles,
        differs=suite.differs,
        sent=suite.sent,
        repetitions=(_repetitions([pair.old for pair in pairs]), _repetitions([pair.new for pair in pairs])),
        errored=(sum(not entry.averaged for entry in old), sum(not entry.averaged for entry in new)),
        broken_by_chance=expected_broken((task.old_passes, task.new_passes) for task in tasks),
        tokens=Pair(*(_mean([entry.usage.tokens for entry in side]) for side in (old, new))),
        seconds=Pair(*(_mean([entry.elapsed_seconds for entry in side]) for side in (old, new))),
        cost_usd=Pair(*(_mean([entry.usage.cost_usd for entry in side]) for side in (old, new))),
        levels=levels,
        held_out_looks=held_out_looks,
        look=look,
        looks_elsewhere=looks_elsewhere,
        own_models=(own_models_of(old), own_models_of(new)),
        baseline_runs=run_drifts(old, old_side.run_of),
    )


def _task_change(pair: TaskPair) -> TaskChange:
    return TaskChange(
        task=pair.task,
        bucket=pair.bucket,
        file=pair.file,
        old=_scores(pair.old),
        new=_scores(pair.new),
        old_passes=_passes(pair.old),
        new_passes=_passes(pair.new),
    )


def _scores(entries: Sequence[JournalEntry]) -> tuple[float | None, ...]:
    return tuple([None if entry.ending == "errored" else entry.score for entry in entries])


def _passes(entries: Sequence[JournalEntry]) -> tuple[bool, ...]:
    return tuple([entry.ending == "passed" for entry in entries if entry.averaged])


def _sensitivity(change: SuiteScoreChange, tolerance: float, level: float) -> Sensitivity:
    tasks = [pair for of_bucket in change.scores.values() for pair in of_bucket]
    noise = difference_noise(tasks)
    # The formula promises too much for few tasks, and says nothing where tasks do not spread.
    if not change.suite.testable or noise.variance < NO_VARIANCE or len(tasks) < FEWEST_FOR_POWER:
        return Sensitivity(noise, None, None)
    visible = smallest_visible_change(noise.variance, len(tasks), level)
    needed = repetitions_needed(noise, len(tasks), tolerance, level) if visible > tolerance else None
    return Sensitivity(noise, visible, needed)


def _grader_changes(pairs: Sequence[TaskPair]) -> Iterator[GraderChange]:
    """Give the mean of each grader over the tasks that it graded on both sides."""
    means: dict[str, list[tuple[float, float]]] = {}
    for pair in pairs:
        old, new = _grader_means(pair.old), _grader_means(pair.new)
        for label in old:
            if label in new:
                means.setdefault(label, []).append((old[label], new[label]))
    for label, both in means.items():
        old_mean, new_mean = (mean(side) for side in zip(*both, strict=True))
        yield GraderChange(label, len(both), Pair(old_mean, new_mean))


def _grader_means(entries: Sequence[JournalEntry]) -> dict[str, float]:
    scores: dict[str, list[float]] = {}
    for entry in entries:
        for grade in entry.grades if entry.averaged else ():
            if grade.score is not None:
                scores.setdefault(grade.grader, []).append(grade.score)
    return {label: mean(of_label) for label, of_label in scores.items()}


def _repetitions(tasks: Sequence[Sequence[JournalEntry]]) -> tuple[int, int]:
    counts = [len(entries) for entries in tasks]
    return min(counts, default=0), max(counts, default=0)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    # A mean over some trials only would look like that of all.
    return mean(known) if known and len(known) == len(values) else None


def with_judge_noise(
    comparison: RunComparison, sides: Sequence[Run], regraded: Sequence[Run]
) -> RunComparison:
    """Say of each suite which share of its trial-to-trial variance is the judges' own.

    ``regraded`` are runs that graded a side's trials again; a side's own grades count if they are of the same
    graders and judges. The judges' variance is that of the scores of one trial, 2 or more of them, as a mean
    over trials. The share stays unknown for a suite without such trials, or without variance between trials.
    """
    gradings = [scores for side in sides for scores in _gradings(side, regraded)]
    return replace(comparison, suites=tuple(_with_share(suite, gradings) for suite in comparison.suites))


def _gradings(side: Run, regraded: Sequence[Run]) -> Iterator[tuple[TrialKey, list[float]]]:
    """Give the scores that graders of one kind gave to each trial of a run."""
    again = [entry for run in regraded if side.folder.name in run.header.regraded for entry in run.entries]
    # Grades of another ruler differ for another reason than the noise of a judge.
    rulers = {(each.key, each.digests.ruler) for each in again if each.averaged and each.score is not None}
    by_trial: dict[tuple[TrialKey, str], list[float]] = {}
    for entry in (*again, *side.entries):
        trial = (entry.key, entry.digests.ruler)
        if trial in rulers and entry.averaged and entry.score is not None:
            by_trial.setdefault(trial, []).append(entry.score)
    for (key, _), scores in by_trial.items():
        # One grading of a trial shows no noise.
        if len(scores) > 1:
            yield key, scores


def _with_share(suite: SuiteComparison, gradings: Iterable[tuple[TrialKey, list[float]]]) -> SuiteComparison:
    within = suite.sensitivity.noise.trial_variance if suite.sensitivity else None
    spreads = [
        sample_variance(scores) or 0.0
        for key, scores in gradings
        if key.suite == suite.name and (key.model, key.variant) in (suite.old_who, suite.new_who)
    ]
    if not spreads or not within:
        return suite
    # Both are estimates, so that their quotient may be above 1.
    return replace(suite, judge_share=min(1.0, mean(spreads) / within))


# The interim analysis: after the first repetitions of a run, which suites get more, and at which levels. Two
# looks together may spend what one look may: ``docs/guides/gates.md`` has how often their verdicts are wrong.


def _reading(suite: Change | None, buckets: Iterable[Change], rule: RepetitionRule) -> Reading:
    """Decide about a suite that was judged at the first look's levels; it is None without any scores."""
    if suite is None:
        return "no counterpart"
    if suite.tasks < rule.fewest_tasks:
        return "few tasks"
    # Only a verdict on tasks like these ends a suite: one on these tasks alone may become such a verdict with
    # more trials. A verdict that errored trials undo is none.
    if suite.verdict in ("better", "worse") and not suite.of_these_tasks:
        return "decided"
    # A bucket may still show something where the whole suite has no hope.
    promising = any(bucket.p <= rule.promising for bucket in buckets)
    return "hopeless" if suite.p > rule.futile and not promising else "open"


def interim_look(
    group: Group, part: SuiteComparison | None, baseline: str, rule: RepetitionRule
) -> SuiteLook:
    """Look at a suite that was compared at the first look's levels; None is one without a counterpart.

    ``baseline`` is the name of the run that it was compared with.
    """
    reading = _reading(part.suite, part.buckets, rule) if part else "no counterpart"
    levels = rule.second_look if reading == "open" else rule.first_look
    return SuiteLook(
        *group,
        reading,
        rule.high if reading in ("open", "few tasks") else rule.low,
        rule.low,
        rule.high,
        # Nothing was tested, so nothing is spent: the plain levels hold at the end.
        Levels() if reading in ("few tasks", "no counterpart") else levels,
        baseline,
        *(part.old_who if part else ("", "")),
    )


def within_trial_limit(
    looks: Sequence[SuiteLook], trials: int, extra: Mapping[Group, int], rule: RepetitionRule
) -> tuple[SuiteLook, ...]:
    """Leave suites at the first look, in their order, if their extra trials are more than a run may have.

    ``trials`` is what the run has without any of them, ``extra`` what each suite would add.
    """
    fitting: list[SuiteLook] = []
    for look in looks:
        more = extra.get(look.group, 0)
        if look.goes_on and rule.most_trials is not None and trials + more > rule.most_trials:
            # What a look has spent stays spent, also without more trials.
            levels = Levels() if look.reading == "few tasks" else rule.first_look
            fitting.append(replace(look, reading="no room", repetitions=look.low, levels=levels))
            continue
        trials += more if look.goes_on else 0
        fitting.append(look)
    return tuple(fitting)
