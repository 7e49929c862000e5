"""Whether what was kept is confirmed: what held-out tasks say of it, once.

There are two tests in all: of all held-out tasks, and of the focus's. Both are compare/'s test of a suite:
would tasks like these get better, and where there are too few to say so, did these very ones change more than
trying them again would? Both share 5 % one-sided over all looks at the split, of which this is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.compare.comparison import Comparison, SuiteComparison, TaskChange
from pytest_agenteval.compare.findings import (
    FEWEST_FOR_SIGNS,
    PLAIN,
    Finding,
    share_of_look,
    suite_findings,
)
from pytest_agenteval.compare.scoring.exact_tests import PairedScores, label_test
from pytest_agenteval.compare.verdict import AT_WORST
from pytest_agenteval.loop.improve.compared_tasks import (
    MOST_NAME,
    FocusBuckets,
    listed,
    new_mean,
    obstacle_of,
    old_mean,
    paired_scores,
    suite_name,
    with_model,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison_text import NO_BUCKET, format_p
from pytest_agenteval.store.run_folder import Levels
from pytest_agenteval.text.formatting import format_figure, one_line

LEVEL = 0.05
"""How often, one-sided, something that is no better may be confirmed: at all looks at the held-out split."""


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
    """What held-out tasks say of all that was kept: ``level`` is that of each test's two-sided p."""

    confirmed: bool
    reason: str
    looks: int
    level: float
    tests: tuple[HeldOutTest, ...]
    worse: tuple[str, ...] = ()


def confirm(comparison: Comparison, focus: FocusBuckets, looks: int) -> Confirmation:
    """Decide on held-out tasks, at the look of that number (1 or more): the kept prompts against the first.

    Each test is confirmed if its mean rose and its two-sided p is at most the look's share of 0.05, whose
    half is the one-sided level of each of the two; where several models are compared they share it. One is
    enough, if no suite and no testable bucket is worse, which no further look makes harder to see. Errored
    trials, at their worst for the change, must not undo it.
    """
    level = LEVEL * share_of_look(looks) / max(len(comparison.suites), 1)
    tests = tuple(
        test for suite in comparison.suites for test in _held_out_tests(comparison, suite, focus, level)
    )
    worse = tuple(
        with_model(comparison, suite, fall) for suite in comparison.suites for fall in _fallen(suite)
    )
    return Confirmation(
        confirmed=any(test.confirmed for test in tests) and not worse and not obstacle_of(comparison),
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

    ``focus_tasks`` and ``buckets`` count held-out tasks: of the focus, and of each bucket. As often as it
    takes for the focus's test to reach its level, and for the smallest bucket to be called worse among so
    many: a prompt that moves tasks at random lifts the focus's few as often as it spoils others, and would be
    confirmed wherever nobody could see those (``tests/extended/simulations/prompt_loops.py``).
    At least ``least``, and
    at most ``most`` even where that is not enough; ``least`` where the focus has no held-out task, for then
    no number helps.
    """
    needed = [(focus_tasks, LEVEL * share_of_look(looks))] if focus_tasks else []
    if needed and len(buckets) > 1:
        needed.append((min(buckets), (1 - PLAIN.buckets) / len(buckets)))
    for repetitions in range(least, most + 1) if needed else ():
        if all(_smallest_p(tasks, repetitions) <= level for tasks, level in needed):
            return repetitions
    return max(least, most) if needed else least


def _smallest_p(tasks: int, repetitions: int) -> float:
    """Give the least p of a bucket of so many tasks: each from nothing to everything."""
    return label_test([([0.0] * repetitions, [1.0] * repetitions)] * tasks).smallest_p


def _held_out_tests(
    comparison: Comparison, suite: SuiteComparison, focus: FocusBuckets, level: float
) -> Iterator[HeldOutTest]:
    """Test all of a suite's tasks, then those of the focus."""
    whole = f"{suite_name(suite)} as a whole"
    yield _held_out_test(with_model(comparison, suite, whole), suite.tasks, level)
    names = listed([one_line(bucket, MOST_NAME) or NO_BUCKET for bucket in focus])
    of_focus = [task for task in suite.tasks if task.bucket in focus]
    yield _held_out_test(with_model(comparison, suite, names), of_focus, level)


def _held_out_test(name: str, tasks: Sequence[TaskChange], level: float) -> HeldOutTest:
    """Make a test: what errored is in no figure, and must not undo what is confirmed."""
    pairs = paired_scores(tasks)
    if not pairs:
        return HeldOutTest(name, 0, None, None, 1.0, testable=False, confirmed=False)
    findings = [_finding(side, level) for side in (pairs, paired_scores(tasks, *AT_WORST))]
    confirmed = all(finding.direction > 0 for finding in findings)
    p, testable = findings[0].p, findings[0].testable
    return HeldOutTest(name, len(pairs), old_mean(pairs), new_mean(pairs), p, testable, confirmed)


def _finding(pairs: Sequence[PairedScores], level: float) -> Finding:
    """Test tasks for what they stand for; by their own trials alone only where they are few.

    An agent that always does the same makes every change of theirs significant.
    """
    return suite_findings({"": pairs}, Levels(1 - level, 1 - level)).suite


def _fallen(suite: SuiteComparison) -> Iterator[str]:
    """Name what is worse by its scores at the plain levels, whatever those of the comparison are."""
    buckets: dict[str, list[TaskChange]] = {}
    for task in suite.tasks:
        buckets.setdefault(task.bucket, []).append(task)
    scores = {name: pairs for name, of_bucket in buckets.items() if (pairs := paired_scores(of_bucket))}
    if not scores:
        return
    findings = suite_findings(scores)
    if findings.these.direction < 0:
        everything = [pair for pairs in scores.values() for pair in pairs]
        yield f"{suite_name(suite)} as a whole ({_both(everything)})"
    for name, finding in findings.buckets.items():
        if finding.direction < 0:
            yield f"{one_line(name, MOST_NAME) or NO_BUCKET} ({_both(scores[name])})"


def _both(pairs: Sequence[PairedScores]) -> str:
    return f"{format_figure(old_mean(pairs))} -> {format_figure(new_mean(pairs))}"


def _confirmation_reason(
    comparison: Comparison, tests: Sequence[HeldOutTest], worse: Sequence[str], level: float
) -> str:
    """Say in a sentence what decided."""
    if obstacle := obstacle_of(comparison):
        return obstacle
    if worse:
        return f"worse on held-out tasks: {listed(worse)}"
    figures = listed([_figures(test) for test in tests if test.confirmed or not _any_confirmed(tests)])
    return f"{figures}; needed: a rise with p {format_p(level)} or less"


def _any_confirmed(tests: Sequence[HeldOutTest]) -> bool:
    return any(test.confirmed for test in tests)


def _figures(test: HeldOutTest) -> str:
    if not test.tasks:
        return f"{test.name}: no held-out task"
    change = f"{format_figure(test.old)} -> {format_figure(test.new)}"
    small = "" if test.testable else ", too little moved for any verdict"
    return f"{test.name} {change} {_on_tasks(test.tasks)} (p {format_p(test.p)}{small})"


def _on_tasks(count: int) -> str:
    """Say whose change it is: of fewer tasks than signs can be flipped of, nothing follows for others."""
    if count >= FEWEST_FOR_SIGNS:
        return f"over {count} held-out tasks"
    return "on this held-out task" if count == 1 else f"on these {count} held-out tasks"
