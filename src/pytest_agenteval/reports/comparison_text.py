"""The figures of a comparison in words, and its verdict in one sentence, for screens and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from pytest_agenteval.compare.comparison import RunComparison, RunDrift, Sensitivity, SuiteComparison
from pytest_agenteval.compare.pairing import SentDifference
from pytest_agenteval.compare.scoring.intervals import tasks_to_exclude
from pytest_agenteval.compare.scoring.power import DifferenceNoise
from pytest_agenteval.compare.verdict import Change, share_of_look
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.reports.run_view import SuiteView, acting_model
from pytest_agenteval.store.run_documents import Reading, SuiteLook
from pytest_agenteval.text.formatting import NOT_KNOWN, first_few, format_figure, one_line, pluralize

MOST_NAME = 200
MOST_LINE, MOST_DIGEST = 80, 4
NO_BUCKET = "(no bucket)"
"""How the tasks that are in none are called beside buckets."""

MOST_LEFT, NOTHING_LEFT = 1 / 3, 0.05
"""Shares of a suite's change from other buckets than the first: up to these, that one makes most or all."""

BUCKETS_AGREE = 0.1
"""The p, with buckets as units, up to which a change counts as seen across buckets.

At 0.05 a third of true rises of a few tasks in 8 buckets would be doubted, at 0.1 one in 20.
"""


def format_change(change: float) -> str:
    """Write a change with its sign: ``+0.02``; one that is not 0 is never rounded to it."""
    if abs(change) < ROUNDING:
        return "0.00"
    return f"{'+' if change > 0 else '-'}{format_figure(abs(change))}"


def format_p(p: float) -> str:
    """Write a p-value: ``0.19``, ``0.005``, ``<0.001``."""
    if p < 0.001:
        return "<0.001"
    return f"{p:.2f}" if p >= 0.1 else f"{p:.3f}"


def sent_text(sent: SentDifference) -> str:
    """Name the part of what was sent to models that differs, with the first line that does."""
    # A date or an id in a prompt is another one in each trial, and not what was changed between the runs.
    if sent.varies:
        return f"The {sent.part} that was sent varies from trial to trial; nothing else in it differs."
    digests = " -> ".join(digest[:MOST_DIGEST] or "none" for digest in (sent.old, sent.new))
    text = f"The {sent.part} that was sent differs ({digests})"
    if not (sent.old_line or sent.new_line):
        return f"{text}."
    pairs = zip(sent.old_line, sent.new_line, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    lines = []
    for line in (sent.old_line, sent.new_line):
        # Where a line is long, the beginning that is the same on both sides is left out.
        start = max(0, same - MOST_LINE // 3) if len(line) > MOST_LINE else 0
        lines.append(one_line(f"…{line[start:]}" if start else line, MOST_LINE))
    return f'{text}: "{lines[0]}" -> "{lines[1]}"'


def repetitions_text(suite: SuiteComparison) -> str:
    """Write how often tasks were repeated: ``x 3``; ``x 2-3, then x 3`` where the sides differ.

    Where an interim look at the old side decided it: ``x 3, then x 2 of 2..6: stopped after 2, …``.
    """
    old, new = (f"x {low}" if low == high else f"x {low}-{high}" for low, high in suite.repetitions)
    if suite.look is not None:
        return f"{old}, then {new}{look_text(suite.look)}"
    return old if old == new else f"{old}, then {new}"


READINGS: Mapping[Reading, str] = {
    "decided": "stopped after {low}, the verdict was clear",
    "hopeless": "stopped after {low}, more would not decide it",
    "no room": "--agent-max-trials allows no more",
}


def look_text(look: SuiteLook) -> str:
    """Say why tasks were not repeated more often; empty where they were, or where no look decided it."""
    words = READINGS.get(look.reading, "").format(low=look.low)
    return f" of {look.low}..{look.high}: {words}" if words else ""


def pooled_text(suite: SuiteComparison, *, names: bool = False) -> str:
    """Count the runs of a baseline that is of several; empty for a baseline of one."""
    runs = suite.baseline_runs
    named = f" ({', '.join(run.run for run in runs)})" if names else ""
    return f"baseline of {len(runs)} runs{named}" if runs else ""


def alike_text(runs: Sequence[RunDrift]) -> str:
    """Say whether the runs of a baseline are alike; where they are not, which differ and what to do."""
    if any(run.drifted for run in runs):
        return f"{apart_text(runs)}. Set the baseline again with runs that agree, or verdicts may be wrong"
    compared = [run for run in runs if run.mean is not None]
    if not compared:
        return f"the {len(runs)} runs share no task with a score, so they cannot be checked for differences"
    most = max(compared, key=lambda run: abs(run.difference))
    largest = f"largest difference {format_figure(abs(most.difference))}, p {format_p(most.p)}"
    return f"the {len(runs)} runs differ by no more than chance ({largest})"


def apart_text(runs: Sequence[RunDrift]) -> str:
    """Give the score of each run, for runs of which one or more has drifted."""
    scores = ", ".join(f"{run.run} {format_figure(run.mean)}" for run in runs if run.mean is not None)
    least = min(run.p for run in runs if run.drifted)
    return f"the runs differ by more than chance ({scores}; p {format_p(least)})"


def verdict_text(change: Change) -> str:
    """Write the verdict on a suite or bucket; a dash where none is possible."""
    if change.verdict in ("better", "worse"):
        these = "this task" if change.tasks == 1 else "these tasks"
        return f"{change.verdict} on {these}" if change.of_these_tasks else change.verdict
    if not change.testable:
        return NOT_KNOWN
    return "cannot tell, because of errored trials" if change.undone else change.verdict


def share_text(change: Change) -> str:
    """Say that one bucket makes most of a suite's change, or that buckets disagree; empty otherwise."""
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


def too_few_text(change: Change, tolerance: float, level: float) -> Iterator[str]:
    """Say how many tasks are needed to exclude a fall; nothing where there are enough.

    Fewer cannot exclude one even if all of them score as before.
    """
    needed = tasks_to_exclude(tolerance, level)
    if change.interval is not None and change.tasks < needed:
        yield (
            f"To rule out a fall of {tolerance:g} when no task rises, you need {needed} tasks or more: "
            "with fewer, a few broken tasks may not show."
        )


def drift_text(suite: SuiteComparison) -> Iterator[str]:
    if any(run.drifted for run in suite.baseline_runs):
        yield f"In the baseline {apart_text(suite.baseline_runs)}: the verdict may be wrong."


def change_sentences(
    suite: SuiteComparison, change: Change, comparison: RunComparison, *, basis: bool
) -> Iterator[str]:
    """Say what to know of a suite's verdict; ``basis`` adds p-values and how much of the change is noise."""
    if change.undone:
        errored = pluralize(sum(suite.errored), "errored trial")
        yield f"The verdict depends on how {errored} would have scored. Run them: pytest --agent-only=errored"
    if basis and change.testable:
        text = f"p {format_p(change.p)} on these tasks"
        if change.p_like_these is not None and change.interval is not None:
            text += f", {format_p(change.p_like_these)} for tasks like these; interval at level "
            text += f"{change.interval.level:.3f}"
        yield text
    if basis and change.share is not None and share_text(change) and change.share.p is not None:
        yield f"Tested by bucket: p {format_p(change.share.p)}."
    yield from drift_text(suite)
    for look in suite.looks_elsewhere:
        # Levels are corrected for looks at the side that is compared with, and not for looks at another.
        between = f"{look.low}..{look.high}"
        yield (
            f"How often tasks were repeated ({between}) was decided in a comparison with {look.baseline}. "
            "So a verdict here is somewhat more likely to be wrong."
        )
    # All looks share one level of 5 %, so each further one gets a smaller part of it.
    if look_number := suite.held_out_looks:
        yield (
            f"Comparison {look_number} on these held-out tasks: chance alone gives a verdict in at most "
            f"{5 * share_of_look(look_number):.2g} % of such comparisons, at most 5 % over all."
        )
    if suite.sensitivity is None or change.verdict == "identical":
        return
    if change.verdict == "not worse" or "cannot tell" in (change.verdict, change.like_these):
        yield from _sensitivity_text(suite.sensitivity, comparison.tolerance)
    # Where the sentence above names a number of tasks already, a second number would only confuse.
    needed = suite.sensitivity.needed
    if change.verdict == "cannot tell" and (needed is None or needed.repetitions is not None):
        yield from too_few_text(change, comparison.tolerance, suite.levels.suite)
    if basis:
        yield from _noise_text(suite, suite.sensitivity.noise, judged=bool(comparison.judges))


def _sensitivity_text(sensitivity: Sensitivity, tolerance: float) -> Iterator[str]:
    """Say how small a change would have been found, and what is needed to find one of the tolerance."""
    if sensitivity.visible is None:
        return
    # 4 times in 5 is the power of 80 % for which the change was computed.
    text = f"A change of {format_figure(sensitivity.visible)} or more would be found 4 times in 5."
    needed = sensitivity.needed
    if sensitivity.visible <= tolerance:
        yield text
    elif needed is None:
        yield f"{text} Run with --repetitions 3 to learn how much of this is noise."
    else:
        # An estimate: two digits count.
        number = needed.tasks if needed.repetitions is None else needed.repetitions
        about = f"about {round(number, 2 - len(str(number))):,}"
        if needed.repetitions is None:
            yield f"{text} To find {tolerance:g} you need {about} tasks; more repetitions do not help."
        else:
            yield f"{text} To find {tolerance:g} you need {about} repetitions."


def _noise_text(suite: SuiteComparison, noise: DifferenceNoise, *, judged: bool) -> Iterator[str]:
    """Say how much of the spread of the tasks' changes comes from repetitions, and how much from judges."""
    # Unknown where tasks were tried once: repetitions are what shows the noise.
    if noise.trial_share is None or not noise.variance:
        return
    share = round(100 * noise.trial_share)
    both = f"{share} % is noise between repetitions, {100 - share} % is tasks that really changed."
    text = f"Of the variance of the tasks' changes, {both}"
    if share in (0, 100):
        all_or_none = "None of the tasks' changes is" if share == 0 else "All of the tasks' changes may be"
        text = f"{all_or_none} noise between repetitions."
    if suite.judge_share is not None:
        text += f" The judge causes {round(100 * suite.judge_share)} % of that noise."
    elif judged:
        text += " To measure how much of it the judge causes, use --judge-noise."
    yield text


MOST_CHANGES = 5
"""Suites and buckets of one verdict that the sentence names."""

CANNOT_TELL = "cannot tell whether it changed"
NO_SCORES = "no task has scores on both sides"


def headline(comparison: RunComparison) -> str:
    """Say in one sentence what is worse, what is better, and what is undecided."""
    if not comparison.has_scores:
        return f"Nothing can be compared: {NO_SCORES}."
    sentence = "; ".join(_parts(comparison))
    drifted = [suite for suite in comparison.suites if any(run.drifted for run in suite.baseline_runs)]
    names = dict.fromkeys(_short(suite, comparison) for suite in drifted)
    where = f" in {', '.join(names)}" if len(comparison.suites) > 1 else ""
    unlike = f" (the baseline's runs differ{where})" if drifted else ""
    left_out, over = tasks_left_out(comparison), ""
    if left_out:
        compared = tasks_compared(comparison)
        every = pluralize(len(compared | left_out), "task")
        with_some = " with every model" if compared & left_out else ""
        over = f" (over {len(compared)} of {every}: {len(left_out)} cannot be compared{with_some})"
    return f"{sentence}{over}{unlike}."


def suite_label(suite: SuiteComparison) -> str:
    """Name a suite with its model, or with both where the sides have different ones."""
    sides = zip((suite.old_who, suite.new_who), suite.own_models, strict=True)
    old, new = (
        one_line("@".join(filter(None, (acting_model(model, own), variant))), MOST_NAME)
        for (model, variant), own in sides
    )
    name = one_line(suite.name, MOST_NAME)
    return f"{name} with {new}" if old == new else f"{name}, {old} -> {new}"


def suite_comparison(comparison: RunComparison | None, suite: SuiteView) -> SuiteComparison | None:
    """Give the part of a comparison that is about a suite with its model and variant; None without one."""
    of_suite = (suite.suite, (suite.model, suite.variant))
    parts = comparison.suites if comparison else ()
    return next((part for part in parts if (part.name, part.new_who) == of_suite), None)


def bucket_name(change: Change) -> str:
    """Name a bucket on one line; tasks that are in none have a name too."""
    return one_line(change.name, MOST_NAME) or NO_BUCKET


def tasks_compared(comparison: RunComparison) -> set[tuple[str, str]]:
    """Give the tasks that are compared, each with its suite; a task counts once for all models."""
    return {(suite.name, task.task) for suite in comparison.suites for task in suite.tasks}


def fallen_tasks(comparison: RunComparison | None) -> dict[tuple[str, str], float]:
    """Give how far each task fell, below 0, by suite and task; with several models the deepest fall."""
    fallen: dict[tuple[str, str], float] = {}
    for suite in comparison.suites if comparison is not None else ():
        for task in suite.tasks:
            if task.change is not None and task.change < 0:
                fallen[suite.name, task.task] = min(task.change, fallen.get((suite.name, task.task), 0.0))
    return fallen


def tasks_left_out(comparison: RunComparison) -> set[tuple[str, str]]:
    """Give the tasks that are not compared, each with its suite; a task counts once for all models."""
    return {(suite.name, obstacle.task) for suite in comparison.suites for obstacle in suite.obstacles}


def _parts(comparison: RunComparison) -> Iterator[str]:
    clauses = list(_verdict_clauses(comparison))
    worse, better = ([text for verdict, text in clauses if verdict == word] for word in ("worse", "better"))
    for texts, verdict in ((worse, "worse"), (better, "better")):
        yield from first_few(texts, MOST_CHANGES, f"{{}} more buckets or suites are {verdict}")
    if better and not worse:
        yield "no fall was found"
    # Suites with the same result are described together.
    names: dict[str, list[tuple[str, str]]] = {}
    for suite in comparison.suites:
        if suite.suite is None or not _has_verdict(suite.suite):
            words = _words(suite.suite, comparison) if suite.suite else NO_SCORES
            scores = f" ({scores_text(suite.suite)})" if suite.suite and words.startswith(CANNOT_TELL) else ""
            # A bucket may have a verdict where its suite has none: the name must not be taken for it.
            whole = " as a whole" if any(map(_has_verdict, suite.buckets)) else ""
            names.setdefault(words, []).append((f"{_short(suite, comparison)}{whole}", scores))
    for words, (first, *others) in names.items():
        if others and first[1]:
            several = [name + scores for name, scores in (first, *others)]
            yield f"{words.replace('it changed', 'these changed')}: {', '.join(several)}"
        else:
            suites = ", ".join(name for name, _ in (first, *others))
            yield f"{suites}: {words.replace(CANNOT_TELL, CANNOT_TELL + first[1])}"


def _verdict_clauses(comparison: RunComparison) -> Iterator[tuple[str, str]]:
    """Give the verdicts that are better or worse, each with its clause: whole suites, then buckets."""
    several = len(comparison.suites) > 1
    buckets: list[tuple[str, Change]] = []
    for suite in comparison.suites:
        whole = suite.suite
        if whole is not None and _has_verdict(whole):
            yield whole.verdict, _clause(_short(suite, comparison), whole, comparison)
        for change in filter(_has_verdict, suite.buckets):
            # A bucket that its suite's clause names already, as the one that makes most of the change, is
            # left out.
            share = whole.share if whole is not None and whole.verdict == change.verdict else None
            if share is None or share.bucket != change.name or share.rest > MOST_LEFT:
                name = bucket_name(change)
                buckets.append((f"{_short(suite, comparison)}: {name}" if several else name, change))
    for name, change in sorted(buckets, key=lambda pair: -abs(pair[1].change)):
        yield change.verdict, _clause(name, change, comparison)


def _has_verdict(change: Change) -> bool:
    return change.verdict in ("better", "worse")


def _clause(name: str, change: Change, comparison: RunComparison) -> str:
    tasks = "this task" if change.tasks == 1 else f"these {change.tasks} tasks"
    on_these = f" on {tasks}" if change.of_these_tasks else ""
    parts = [f"{name} is {change.verdict}{on_these} ({scores_text(change)})", share_text(change)]
    # A verdict on these very tasks may not hold for others: the clause says whether it does.
    if change.like_these == "not worse":
        parts.append(f"and tasks like these are not worse by more than {comparison.tolerance:g}")
    elif change.like_these is not None:
        parts.append("but cannot tell for tasks like these")
    return ", ".join(filter(None, parts))


def scores_text(change: Change) -> str:
    return f"{format_figure(change.old)} -> {format_figure(change.new)}"


def _words(change: Change, comparison: RunComparison) -> str:
    if change.verdict == "not worse":
        return f"not worse by more than {comparison.tolerance:g} ({scores_text(change)})"
    if change.verdict == "identical":
        more = f", and tasks like these are not worse by more than {comparison.tolerance:g}"
        return f"identical, every trial scored the same{more if change.like_these == 'not worse' else ''}"
    return f"{CANNOT_TELL}, because of trials that errored" if change.undone else CANNOT_TELL


def _short(suite: SuiteComparison, comparison: RunComparison) -> str:
    """Name a suite, with its model where several are compared with one suite."""
    times = [other.name for other in comparison.suites].count(suite.name)
    return suite_label(suite) if times > 1 else one_line(suite.name, MOST_NAME)
