"""What is decided about changed prompts: whether a round is accepted, and whether the result is confirmed.

The dev split only ranks. The best of many rounds looks better than it is, so a round that does well there
earns ``kept for now`` and no more. Held-out tasks confirm the result, once. They make two tests: one of all
held-out tasks, one of the held-out tasks of the focus. Both use the test that ``compare/`` makes of a suite:
would tasks like these get better? Where there are too few tasks to tell: did these very tasks change more
than a repetition would change them? Both tests share 5 %, one-sided, over all looks at the split.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from statistics import fmean as mean
from typing import Literal, NamedTuple, TypeAlias

from pytest_agenteval.compare.comparison import RunComparison, SuiteComparison, TaskChange
from pytest_agenteval.compare.scoring.exact_tests import PairedScores, label_test
from pytest_agenteval.compare.verdict import (
    AT_WORST,
    FEWEST_FOR_SIGNS,
    PLAIN,
    Change,
    share_of_look,
    suite_findings,
)
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison_text import NO_BUCKET, bucket_name, format_p
from pytest_agenteval.store.run_folder import Levels
from pytest_agenteval.text.formatting import first_few, format_figure, one_line, pluralize

MOST_NAMES = 5
MOST_NAME = 200

# The names of the buckets that should rise.
FocusBuckets: TypeAlias = Collection[str]

# The one-sided probability with which a change that improves nothing may be confirmed, over all looks at the
# held-out split.
LEVEL = 0.05


def paired_scores(
    tasks: Sequence[TaskChange], errored_old: float | None = None, errored_new: float | None = None
) -> list[PairedScores]:
    """Give the scores of tasks that have some on both sides.

    Errored trials count as the given values; where that is None they are left out.
    """
    pairs = [(_filled_scores(task.old, errored_old), _filled_scores(task.new, errored_new)) for task in tasks]
    return [(old, new) for old, new in pairs if old and new]


def _filled_scores(scores: Sequence[float | None], errored: float | None) -> list[float]:
    filled = (errored if score is None else score for score in scores)
    return [score for score in filled if score is not None]


def _means(pairs: Sequence[PairedScores]) -> tuple[float, float]:
    """Give the means over tasks, old and new."""
    return mean([mean(old) for old, _ in pairs]), mean([mean(new) for _, new in pairs])


def _figures(old: float | None, new: float | None) -> str:
    return f"{format_figure(old)} -> {format_figure(new)}"


def _obstacle_of(comparison: RunComparison) -> str:
    """Say what keeps a comparison from deciding anything; empty where nothing does."""
    obstacles = comparison.obstacles
    if not comparison.has_scores:
        return "no task has scores on both sides"
    # A task that only one side has is not "as good as before": the change may have broken it.
    if lost := (*comparison.unmatched_old, *comparison.unmatched_new):
        return f"{_listed_names([one_line(name, MOST_NAME) for name in lost])}: ran on one side only"
    if not obstacles:
        return ""
    what = f"{one_line(obstacles[0].task, MOST_NAME)}: {one_line(obstacles[0].problem, MOST_NAME)}"
    return f"{pluralize(len(obstacles), 'task')} cannot be compared: {what}"


def with_model(comparison: RunComparison, suite: SuiteComparison, what: str) -> str:
    """Add the name of the model where several are compared."""
    model = one_line(suite.new_who[0], MOST_NAME)
    # Another model may have stayed as it was, or be worse: nobody is to take one for both.
    return f"{what} with {model}" if len(comparison.suites) > 1 and model else what


def _suite_name(suite: SuiteComparison) -> str:
    return one_line(suite.name, MOST_NAME)


def _listed_names(names: Sequence[str]) -> str:
    return ", ".join(first_few(names, MOST_NAMES))


class FocusChange(FrozenValue, frozen=True):
    """What became of the mean over the focus's tasks: of mean scores, and with errored trials at their worst.

    None where no task of the focus has scores on both sides. ``errored`` counts its trials of both sides.
    """

    old: float | None
    new: float | None
    change_at_worst: float
    errored: int


class RoundDecision(NamedTuple):
    """Whether the next round begins from a changed prompt, and why."""

    decision: Literal["kept for now", "discarded"]
    reason: str

    @property
    def accepted(self) -> bool:
        return self.decision == "kept for now"


def focus_change(comparison: RunComparison, focus: FocusBuckets) -> FocusChange:
    """Give what became of the tasks of these buckets, over all models that are compared."""
    tasks = [task for suite in comparison.suites for task in suite.tasks if task.bucket in focus]
    pairs = paired_scores(tasks)
    errored = sum(score is None for task in tasks for score in (*task.old, *task.new))
    if not pairs:
        return FocusChange(None, None, 0.0, errored)
    # A change that makes the worst trials error would raise the mean of the others. With errored trials at
    # their worst that is no rise.
    old_at_worst, new_at_worst = _means(paired_scores(tasks, *AT_WORST))
    return FocusChange(*_means(pairs), new_at_worst - old_at_worst, errored)


def decide_screen(comparison: RunComparison, focus: FocusBuckets) -> RoundDecision:
    """Decide after the focus alone was tried: what is not better there in the mean is discarded."""
    change = focus_change(comparison, focus)
    if obstacle := _obstacle_of(comparison):
        return RoundDecision("discarded", obstacle)
    if change.old is None or change.new is None:
        return RoundDecision("discarded", "no task of the focus has scores on both sides")
    figures = _figures(change.old, change.new)
    # Means of floats: a difference of less than this is rounding, and equal has not risen.
    if change.new - change.old <= ROUNDING:
        return RoundDecision("discarded", f"the focus did not rise ({figures})")
    if change.change_at_worst <= ROUNDING:
        trials = f"{pluralize(change.errored, 'trial')} of the focus errored"
        return RoundDecision("discarded", f"{trials}: it is unknown whether it rose ({figures} without)")
    return RoundDecision("kept for now", f"the focus rose ({figures})")


def decide_round(comparison: RunComparison, focus: FocusBuckets) -> RoundDecision:
    """Decide after the whole dev split was tried, old and new.

    The round is ``kept for now`` if the focus rose in the mean over its tasks and neither a suite nor a
    testable bucket is worse. Errored trials count as in the verdicts of a comparison: a change that they
    could undo does not count. Tasks that cannot be compared discard the round, since only the change can have
    made them so.
    """
    screen = decide_screen(comparison, focus)
    if not screen.accepted:
        return screen
    # Buckets without a verdict discard nothing: untestable buckets move by chance all the time.
    changes: list[tuple[Change, str]] = []
    for suite in comparison.suites:
        for change in suite.changes:
            name = f"{_suite_name(suite)} as a whole" if change is suite.suite else bucket_name(change)
            changes.append((change, with_model(comparison, suite, name)))
    # A better focus does not pay for another bucket.
    if worse := [(change, name) for change, name in changes if change.verdict == "worse"]:
        names = [f"{name} ({_figures(change.old, change.new)})" for change, name in worse]
        return RoundDecision("discarded", f"worse: {_listed_names(names)}")
    # Worse by its scores, but errored trials leave the verdict open.
    if doubtful := [name for change, name in changes if change.undone and change.change < 0]:
        reason = f"{_listed_names(doubtful)} may be worse: trials errored, so it is open"
        return RoundDecision("discarded", reason)
    return RoundDecision("kept for now", f"{screen.reason}, no fall was found")


class HeldOutTest(FrozenValue, frozen=True):
    """One of the tests on held-out tasks: ``p`` is two-sided, and 1 where there is no task.

    ``testable`` says whether any outcome could have been significant.
    """

    name: str
    tasks: int
    old: float | None
    new: float | None
    p: float
    testable: bool
    confirmed: bool


class Confirmation(FrozenValue, frozen=True):
    """The result of held-out tasks for all accepted changes: ``level`` is that of each test's two-sided p."""

    confirmed: bool
    reason: str
    looks: int
    level: float
    tests: tuple[HeldOutTest, ...]
    worse: tuple[str, ...] = ()


def confirm(comparison: RunComparison, focus: FocusBuckets, looks: int) -> Confirmation:
    """Decide on held-out tasks whether the improved prompts are better than the first ones.

    ``looks`` is the number of this look at the split, 1 or more. A test is confirmed if its mean rose and its
    two-sided p is at most the share of 0.05 that this look has; half of that is the one-sided level of each
    of the two tests. Where several models are compared they share the level. One confirmed test is enough, if
    no suite and no testable bucket is worse. Falls are tested at the plain levels, so further looks make them
    no harder to see. The result must also hold with errored trials at their worst for the change.
    """
    # Several models are as many chances to be confirmed by luck.
    level = LEVEL * share_of_look(looks) / max(len(comparison.suites), 1)
    tests = tuple(
        test for suite in comparison.suites for test in _held_out_tests(comparison, suite, focus, level)
    )
    worse = tuple(
        with_model(comparison, suite, fall) for suite in comparison.suites for fall in _falls(suite)
    )
    return Confirmation(
        confirmed=any(test.confirmed for test in tests) and not worse and not _obstacle_of(comparison),
        reason=_confirmation_reason(comparison, tests, worse, level),
        looks=looks,
        level=level,
        tests=tests,
        worse=worse,
    )


def repetitions_to_confirm(
    focus_tasks: int, looks: int, least: int, most: int, buckets: Sequence[int] = ()
) -> int:
    """Give how often held-out tasks are tried, so that a rise of the focus and a fall elsewhere can be seen.

    ``focus_tasks`` and ``buckets`` count held-out tasks: those of the focus, and those of each bucket. The
    number is large enough for the test of the focus to reach its level, and for the smallest bucket to be
    called worse among so many. It is at least ``least`` and at most ``most``, even where that is not enough.
    It is ``least`` where the focus has no held-out task, for then no number helps.
    """
    needed = [(focus_tasks, LEVEL * share_of_look(looks))] if focus_tasks else []
    if needed and len(buckets) > 1:
        # A prompt that moves tasks at random lifts the few tasks of the focus as often as it spoils others.
        # It would be confirmed where nobody could see the spoilt ones
        # (tests/extended/simulations/prompt_loops.py).
        needed.append((min(buckets), (1 - PLAIN.buckets) / len(buckets)))
    # The most extreme outcome, all old trials 0 and all new ones 1, has the smallest p that these repetitions
    # allow.
    for repetitions in range(least, most + 1) if needed else ():
        if all(
            label_test([([0.0] * repetitions, [1.0] * repetitions)] * tasks).smallest_p <= level
            for tasks, level in needed
        ):
            return repetitions
    return max(least, most) if needed else least


def _held_out_tests(
    comparison: RunComparison, suite: SuiteComparison, focus: FocusBuckets, level: float
) -> Iterator[HeldOutTest]:
    whole = f"{_suite_name(suite)} as a whole"
    yield _held_out_test(with_model(comparison, suite, whole), suite.tasks, level)
    names = _listed_names([one_line(bucket, MOST_NAME) or NO_BUCKET for bucket in focus])
    of_focus = [task for task in suite.tasks if task.bucket in focus]
    yield _held_out_test(with_model(comparison, suite, names), of_focus, level)


def _held_out_test(name: str, tasks: Sequence[TaskChange], level: float) -> HeldOutTest:
    """Make a test: what errored is in no figure, and must not undo what is confirmed."""
    pairs = paired_scores(tasks)
    if not pairs:
        return HeldOutTest(name, 0, None, None, 1.0, testable=False, confirmed=False)
    # Tasks are tested for what they stand for; by their own trials alone only where they are few, since an
    # agent that always does the same makes every change of theirs significant.
    findings = [
        suite_findings({"": side}, Levels(1 - level, 1 - level)).suite
        for side in (pairs, paired_scores(tasks, *AT_WORST))
    ]
    # The test has two sides, and only a rise is a reason to accept anything.
    confirmed = all(finding.direction > 0 for finding in findings)
    p, testable = findings[0].p, findings[0].testable
    return HeldOutTest(name, len(pairs), *_means(pairs), p, testable, confirmed)


def _falls(suite: SuiteComparison) -> Iterator[str]:
    """Name what is worse by its scores at the plain levels, whatever those of the comparison are."""
    buckets: dict[str, list[TaskChange]] = {}
    for task in suite.tasks:
        buckets.setdefault(task.bucket, []).append(task)
    scores = {name: pairs for name, of_bucket in buckets.items() if (pairs := paired_scores(of_bucket))}
    if not scores:
        return
    # At the plain levels: further looks must make a fall no harder to see.
    findings = suite_findings(scores)
    if findings.these.direction < 0:
        everything = [pair for pairs in scores.values() for pair in pairs]
        yield f"{_suite_name(suite)} as a whole ({_figures(*_means(everything))})"
    for name, finding in findings.buckets.items():
        if finding.direction < 0:
            yield f"{one_line(name, MOST_NAME) or NO_BUCKET} ({_figures(*_means(scores[name]))})"


def _confirmation_reason(
    comparison: RunComparison, tests: Sequence[HeldOutTest], worse: Sequence[str], level: float
) -> str:
    if obstacle := _obstacle_of(comparison):
        return obstacle
    if worse:
        return f"worse on held-out tasks: {_listed_names(worse)}"
    telling = [test for test in tests if test.confirmed] or tests
    figures = _listed_names([_test_figures(test) for test in telling])
    return f"{figures}; needed: a rise with p {format_p(level)} or less"


def _test_figures(test: HeldOutTest) -> str:
    if not test.tasks:
        return f"{test.name}: no held-out task"
    # Of fewer tasks than signs can be flipped of, nothing follows for others.
    tasks = f"on these {test.tasks} held-out tasks" if test.tasks > 1 else "on this held-out task"
    if test.tasks >= FEWEST_FOR_SIGNS:
        tasks = f"over {test.tasks} held-out tasks"
    small = "" if test.testable else ", too few changes for a verdict"
    return f"{test.name} {_figures(test.old, test.new)} {tasks} (p {format_p(test.p)}{small})"
