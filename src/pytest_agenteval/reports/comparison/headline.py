"""The verdict of a comparison in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.compare.comparison import Comparison, SuiteComparison
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.reports.comparison.phrases import MOST_LEFT, MOST_NAME, NO_BUCKET, share_text
from pytest_agenteval.reports.view import acting_model
from pytest_agenteval.text.formatting import format_figure, one_line, pluralize

MOST_CHANGES = 5
"""Suites and buckets of one verdict that the sentence names."""

NO_SCORES = "no task has scores on both sides"


def headline(comparison: Comparison) -> str:
    """Say what is worse, what is better, and what cannot be told, in one sentence."""
    if not comparison.has_scores:
        return f"Nothing can be compared: {NO_SCORES}."
    sentence = "; ".join(_parts(comparison))
    return f"{sentence}{_left_out(comparison)}{_drifted(comparison)}."


def suite_label(suite: SuiteComparison) -> str:
    """Name a suite with its model, and both models where they are what is compared."""
    sides = zip((suite.old_who, suite.new_who), suite.own_models, strict=True)
    old, new = (one_line(_who(model, variant, own), MOST_NAME) for (model, variant), own in sides)
    name = one_line(suite.name, MOST_NAME)
    return f"{name} with {new}" if old == new else f"{name}, {old} -> {new}"


def _who(model: str, variant: str, own_models: Sequence[str]) -> str:
    return "@".join(filter(None, (acting_model(model, own_models), variant)))


def bucket_name(change: Change) -> str:
    """Name a bucket on one line, also that of the tasks that are in none."""
    return one_line(change.name, MOST_NAME) or NO_BUCKET


def tasks_compared(comparison: Comparison) -> set[tuple[str, str]]:
    """Give the tasks that are compared, each with its suite; models share tasks."""
    return {(suite.name, task.task) for suite in comparison.suites for task in suite.tasks}


def fallen_tasks(comparison: Comparison | None) -> dict[tuple[str, str], float]:
    """Give by how much each task fell that scored less than before, by suite and task, over all models."""
    fallen: dict[tuple[str, str], float] = {}
    for suite in comparison.suites if comparison is not None else ():
        for task in suite.tasks:
            if task.change is not None and task.change < 0:
                fallen[suite.name, task.task] = min(task.change, fallen.get((suite.name, task.task), 0.0))
    return fallen


def tasks_left_out(comparison: Comparison) -> set[tuple[str, str]]:
    """Give the tasks that are not compared, each with its suite; models share tasks."""
    return {(suite.name, obstacle.task) for suite in comparison.suites for obstacle in suite.obstacles}


def _parts(comparison: Comparison) -> Iterator[str]:
    changes = list(_verdict_clauses(comparison))
    worse = [text for verdict, text in changes if verdict == "worse"]
    better = [text for verdict, text in changes if verdict == "better"]
    yield from _first(worse, "worse")
    yield from _first(better, "better")
    if better and not worse:
        yield "no fall was shown"
    yield from _undecided(comparison)


def _verdict_clauses(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Give the verdicts that are better or worse, with the words for them: whole suites, then buckets.

    The bucket that a suite's own words name is not named again.
    """
    several = len(comparison.suites) > 1
    whole = [suite for suite in comparison.suites if suite.suite and _has_verdict(suite.suite)]
    for suite in whole:
        assert suite.suite is not None
        yield suite.suite.verdict, _clause(_short(suite, comparison), suite.suite, comparison)
    buckets = [
        (f"{_short(suite, comparison)}: {bucket_name(change)}" if several else bucket_name(change), change)
        for suite in comparison.suites
        for change in suite.buckets
        if _has_verdict(change) and not _is_named_by(suite.suite, change)
    ]
    for name, change in sorted(buckets, key=lambda pair: -abs(pair[1].change)):
        yield change.verdict, _clause(name, change, comparison)


def _has_verdict(change: Change) -> bool:
    return change.verdict in ("better", "worse")


def _is_named_by(suite: Change | None, bucket: Change) -> bool:
    """Whether a suite's verdict is that of one bucket, and says so."""
    return (
        suite is not None
        and suite.verdict == bucket.verdict
        and suite.share is not None
        and suite.share.bucket == bucket.name
        and suite.share.rest <= MOST_LEFT
    )


def _clause(name: str, change: Change, comparison: Comparison) -> str:
    verdict = f"{name} is {change.verdict}{_on_these(change)} ({_scores(change)})"
    return ", ".join([verdict, *_limits_of(change, comparison)])


def _on_these(change: Change) -> str:
    if not change.of_these_tasks:
        return ""
    return " on this task" if change.tasks == 1 else f" on these {change.tasks} tasks"


def _limits_of(change: Change, comparison: Comparison) -> Iterator[str]:
    """Say how far a verdict on a suite carries: to tasks like these, and beyond one bucket."""
    if share := share_text(change):
        yield share
    if change.like_these == "not worse":
        yield f"and tasks like these are not worse by more than {comparison.tolerance:g}"
    elif change.like_these is not None:
        yield "but cannot tell for tasks like these"


def _scores(change: Change) -> str:
    return f"{format_figure(change.old)} -> {format_figure(change.new)}"


def _first(texts: list[str], verdict: str) -> Iterator[str]:
    yield from texts[:MOST_CHANGES]
    if len(texts) > MOST_CHANGES:
        yield f"{len(texts) - MOST_CHANGES} more buckets or suites are {verdict}"


def _undecided(comparison: Comparison) -> Iterator[str]:
    """Say of the suites without a verdict what can be said of them, those alike together."""
    names: dict[str, list[str]] = {}
    for suite in comparison.suites:
        if suite.suite is None or not _has_verdict(suite.suite):
            words = _words(suite.suite, comparison) if suite.suite else NO_SCORES
            names.setdefault(words, []).append(_whole(suite, comparison))
    for words, suites in names.items():
        yield f"{', '.join(suites)}: {words}"


def _whole(suite: SuiteComparison, comparison: Comparison) -> str:
    """Name a suite so that it cannot be taken for a bucket of its that has a verdict, too."""
    bucket_verdicts = any(map(_has_verdict, suite.buckets))
    return f"{_short(suite, comparison)} as a whole" if bucket_verdicts else _short(suite, comparison)


def _words(change: Change, comparison: Comparison) -> str:
    if change.verdict == "not worse":
        return f"not worse by more than {comparison.tolerance:g} ({_scores(change)})"
    if change.verdict == "identical":
        more = f", and tasks like these are not worse by more than {comparison.tolerance:g}"
        return f"identical, every trial scored as before{more if change.like_these == 'not worse' else ''}"
    unknown = f"cannot tell whether it changed ({_scores(change)})"
    return f"{unknown}, because of trials that errored" if change.undone else unknown


def _short(suite: SuiteComparison, comparison: Comparison) -> str:
    """Name a suite, with its model where several are compared with one suite."""
    times = [other.name for other in comparison.suites].count(suite.name)
    return suite_label(suite) if times > 1 else one_line(suite.name, MOST_NAME)


def _left_out(comparison: Comparison) -> str:
    """Say over how many tasks the verdict is, where some cannot be compared."""
    left_out = tasks_left_out(comparison)
    if not left_out:
        return ""
    compared = tasks_compared(comparison)
    every = pluralize(len(compared | left_out), "task")
    with_some = " with every model" if compared & left_out else ""
    return f" (over {len(compared)} of {every}: {len(left_out)} cannot be compared{with_some})"


def _drifted(comparison: Comparison) -> str:
    """Say that the runs of a baseline are not alike, of which suites where there are several."""
    drifted = [suite for suite in comparison.suites if any(run.drifted for run in suite.baseline_runs)]
    if not drifted:
        return ""
    names = dict.fromkeys(_short(suite, comparison) for suite in drifted)
    where = f" in {', '.join(names)}" if len(comparison.suites) > 1 else ""
    return f" (the baseline's runs differ{where})"
