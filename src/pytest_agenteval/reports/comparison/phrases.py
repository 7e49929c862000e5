"""How the figures of a comparison are put into words, the same on screens and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from pytest_agenteval.compare.comparison import Comparison, Sensitivity, SuiteComparison
from pytest_agenteval.compare.drift import RunDrift
from pytest_agenteval.compare.findings import share_of_look
from pytest_agenteval.compare.scoring.difference_interval import tasks_to_exclude
from pytest_agenteval.compare.sent import SentDifference
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.store.repetitions import Reading, SuiteLook
from pytest_agenteval.text.formatting import NOT_KNOWN, format_figure, one_line

MOST_NAME = 200
MOST_LINE, MOST_DIGEST = 80, 4
NO_BUCKET = "(no bucket)"
"""How the tasks that are in none are called beside buckets."""

MOST_LEFT, NOTHING_LEFT = 1 / 3, 0.05
"""Of all that buckets moved in a suite's direction, what all but the first moved: so little is said."""

BUCKETS_AGREE = 0.1
"""The p, with buckets as units, up to which a change counts as seen across buckets.

At 0.05 a third of true rises of a few tasks in 8 buckets would be doubted, at 0.1 one in 20.
"""


def format_change(change: float) -> str:
    """Write a change with its sign: ``+0.02``; one that is not 0 is never rounded to it."""
    if abs(change) < 1e-9:
        return "0.00"
    return f"{'+' if change > 0 else '-'}{format_figure(abs(change))}"


def format_p(p: float) -> str:
    """Write a p-value: ``0.19``, ``0.005``, ``<0.001``."""
    if p < 0.001:
        return "<0.001"
    return f"{p:.2f}" if p >= 0.1 else f"{p:.3f}"


def format_about(number: int) -> str:
    """Write a number that is an estimate, with two digits that count: ``about 140``."""
    digits = len(str(number))
    return f"about {round(number, 2 - digits):,}"


def sent_text(sent: SentDifference) -> str:
    """Say which part of what models are told is another, and show the first line that is."""
    if sent.varies:
        return f"The {sent.part} that was sent varies from trial to trial; nothing else in it differs."
    digests = " -> ".join(digest[:MOST_DIGEST] or "none" for digest in (sent.old, sent.new))
    text = f"The {sent.part} that was sent differs ({digests})"
    if not (sent.old_line or sent.new_line):
        return f"{text}."
    pairs = zip(sent.old_line, sent.new_line, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    old, new = (_from(line, same) for line in (sent.old_line, sent.new_line))
    return f'{text}: "{old}" -> "{new}"'


def _from(line: str, same: int) -> str:
    """Give a line, of which the beginning is left out where it is long and the same on both sides."""
    cut = max(0, same - MOST_LINE // 3) if len(line) > MOST_LINE else 0
    return one_line(f"…{line[cut:]}" if cut else line, MOST_LINE)


def repetitions_text(suite: SuiteComparison) -> str:
    """Write how often tasks were tried: ``x 3``; ``x 2-3, then x 3`` where the sides are not alike.

    Where that was decided by a look against the old side: ``x 3, then x 2 of 2..6: stopped after 2, …``.
    """
    old, new = (f"x {low}" if low == high else f"x {low}-{high}" for low, high in suite.repetitions)
    if suite.look is not None:
        return f"{old}, then {new}{look_text(suite.look)}"
    return old if old == new else f"{old}, then {new}"


READINGS: Mapping[Reading, str] = {
    "decided": "stopped after {low}, the verdict was clear",
    "hopeless": "stopped after {low}, more would not decide it",
    "no room": "--agent-max-trials left no room for more",
}


def look_text(look: SuiteLook) -> str:
    """Say why tasks were not repeated more often; nothing where they were, or where nobody looked."""
    words = READINGS.get(look.reading, "").format(low=look.low)
    return f" of {look.low}..{look.high}: {words}" if words else ""


def elsewhere_text(suite: SuiteComparison) -> Iterator[str]:
    """Say that repetitions were decided against another run than the one that is compared with."""
    for look in suite.looks_elsewhere:
        between = f"{look.low}..{look.high}"
        yield (
            f"How often tasks were repeated ({between}) was decided in a comparison with {look.baseline}. "
            "So a verdict here is somewhat more likely to be wrong."
        )


def pooled_text(suite: SuiteComparison, *, names: bool = False) -> str:
    """Count the runs that the baseline is of, where there are several."""
    runs = suite.baseline_runs
    named = f" ({', '.join(run.run for run in runs)})" if names else ""
    return f"baseline of {len(runs)} runs{named}" if runs else ""


def alike_text(runs: Sequence[RunDrift]) -> str:
    """Say whether the runs of a baseline are alike; where they are not, which differ and what follows."""
    if any(run.drifted for run in runs):
        return f"{apart_text(runs)}. Set the baseline again with runs that agree, or verdicts may be wrong"
    compared = [run for run in runs if run.mean is not None]
    if not compared:
        return f"the {len(runs)} runs share no task with a score, so whether they are alike is unknown"
    most = max(compared, key=lambda run: abs(run.difference))
    largest = f"largest difference {format_figure(abs(most.difference))}, p {format_p(most.p)}"
    return f"the {len(runs)} runs differ by no more than chance ({largest})"


def drift_text(suite: SuiteComparison) -> Iterator[str]:
    """Say that the runs of the baseline differ, where they do."""
    if any(run.drifted for run in suite.baseline_runs):
        yield f"In the baseline {apart_text(suite.baseline_runs)}: the verdict may be wrong."


def apart_text(runs: Sequence[RunDrift]) -> str:
    """Say what each run scored, where they are more apart than chance makes them."""
    scores = ", ".join(f"{run.run} {format_figure(run.mean)}" for run in runs if run.mean is not None)
    least = min(run.p for run in runs if run.drifted)
    return f"the runs differ by more than chance ({scores}; p {format_p(least)})"


def held_out_text(suite: SuiteComparison) -> Iterator[str]:
    """Say the how-manieth look at these held-out tasks it is: verdicts become rarer with each."""
    if look := suite.held_out_looks:
        yield (
            f"Look {look} at these held-out tasks: chance alone gives a verdict in at most "
            f"{5 * share_of_look(look):.2g} % of such looks, and over all looks in at most 5 %."
        )


def verdict_text(change: Change) -> str:
    """Write the verdict on a suite or bucket; nothing where none is possible."""
    if change.verdict in ("better", "worse"):
        these = "this task" if change.tasks == 1 else "these tasks"
        return f"{change.verdict} on {these}" if change.of_these_tasks else change.verdict
    if not change.testable:
        return NOT_KNOWN
    return "cannot tell, because of errored trials" if change.undone else change.verdict


def share_text(change: Change) -> str:
    """Say that one bucket makes most of a suite's change, or that buckets do not agree; else nothing."""
    share = change.share
    if share is None:
        return ""
    name = one_line(share.bucket, MOST_NAME) or NO_BUCKET
    scores = f"({format_figure(share.old)} -> {format_figure(share.new)})"
    if share.rest <= MOST_LEFT:
        part = "all" if share.rest < NOTHING_LEFT else "most"
        return f"one bucket accounts for {part} of it: {name} {scores}"
    if share.p is not None and share.p > BUCKETS_AGREE and not change.of_these_tasks:
        return f"but only some buckets changed, {name} the most {scores}"
    return ""


def sensitivity_text(sensitivity: Sensitivity, tolerance: float) -> Iterator[str]:
    """Say what could have been seen, and what it would take to see as little as the tolerance."""
    if sensitivity.visible is None:
        return
    text = f"A change of {format_figure(sensitivity.visible)} or more would be found 4 times in 5."
    if sensitivity.visible <= tolerance:
        yield text
    elif sensitivity.needed is None:
        yield f"{text} Run with --repetitions 3 to learn how much of this is noise."
    elif sensitivity.needed.repetitions is None:
        needed = f"{format_about(sensitivity.needed.tasks)} tasks"
        yield f"{text} To find {tolerance:g} you need {needed}; more repetitions do not help."
    else:
        needed = f"{format_about(sensitivity.needed.repetitions)} repetitions"
        yield f"{text} To find {tolerance:g} you need {needed}."


def too_few_text(change: Change, tolerance: float, level: float) -> Iterator[str]:
    """Say how many tasks it takes to exclude a fall, where so few cannot even if all score as before."""
    needed = tasks_to_exclude(tolerance, level)
    if change.interval is not None and change.tasks < needed:
        yield (
            f"To exclude a fall of {tolerance:g} where nothing rises you need {needed} tasks or more: "
            "fewer may not show that a few break."
        )


def noise_text(suite: SuiteComparison, comparison: Comparison) -> Iterator[str]:
    """Say whose noise the spread of the tasks' differences is."""
    noise = suite.sensitivity.noise if suite.sensitivity else None
    if noise is None or noise.trial_share is None or not noise.variance:
        return
    share = round(100 * noise.trial_share)
    parts = {
        0: "None of the tasks' changes is chance between repetitions.",
        100: "All of the tasks' changes may be chance between repetitions.",
    }
    both = f"{share} % is chance between repetitions, {100 - share} % is tasks that really changed."
    text = parts.get(share, f"Of the variance of the tasks' changes {both}")
    yield " ".join([text, *_judge_text(suite, comparison)])


def _judge_text(suite: SuiteComparison, comparison: Comparison) -> Iterator[str]:
    if suite.judge_share is not None:
        yield f"The judge makes {round(100 * suite.judge_share)} % of that chance."
    elif comparison.judges:
        yield "How much of that chance is the judge's is not known; --judge-noise measures it."
