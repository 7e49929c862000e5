"""Cutting feedback to a budget: the worst keep most, nobody gets what he does not need, cuts are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from pytest_agenteval.loop.feedback.content import (
    BucketFeedback,
    BucketLine,
    Cut,
    EarlierRound,
    Section,
    SectionKind,
    TrialFeedback,
)
from pytest_agenteval.loop.feedback.tokens import cut_to_tokens, estimate_tokens
from pytest_agenteval.text.formatting import pluralize

T = TypeVar("T")

LEAST_BUCKET, LEAST_TRIAL, LEAST_LINE = 450, 220, 10
"""Tokens below which a bucket is told by its figures alone, a trial is left out, and a line is."""

TITLE, LINE = 6, 2
"""Tokens of what stands around: a title, and the mark before each line."""

END_SHARE = 0.7
"""How much of an input that is too long is its end."""

GAP = "(…)"

MOST_GRADERS = 6
"""Graders of a bucket, and of all of them, that are named in Markdown."""

SECTION_WEIGHTS: dict[SectionKind, float] = {
    "checks": 4, "input": 4, "calls": 3, "reasons": 2, "reference": 2, "files": 2, "answer": 1.5,
}  # fmt: skip
TRIAL_WEIGHTS = (4.0, 2.0, 1.5)
PASSING_WEIGHT = 1.5


def shares(needs: Sequence[float], weights: Sequence[float], total: float) -> list[float]:
    """Divide a total by weight, where nobody gets more than he needs and others get what he leaves."""
    given = [0.0] * len(needs)
    waiting = set(range(len(needs)))
    while waiting:
        unit = max(0.0, total) / sum(weights[at] for at in waiting)
        content = {at for at in waiting if needs[at] <= weights[at] * unit}
        for at in content or waiting:
            given[at] = needs[at] if content else weights[at] * unit
            total -= given[at]
        waiting -= content or set(waiting)
    return given


def fit_lines(lines: Sequence[str], tokens: float) -> tuple[str, ...]:
    """Give the first lines that so many tokens hold; the last may be cut."""
    kept: list[str] = []
    for line in lines:
        cost = estimate_tokens(line) + LINE
        if cost > tokens:
            if tokens >= LEAST_LINE:
                kept.append(cut_to_tokens(line, tokens - LINE))
            break
        kept.append(line)
        tokens -= cost
    return tuple(kept)


def fit_ends(lines: Sequence[str], tokens: float) -> tuple[str, ...]:
    """Give the first and the last lines that so many tokens hold: what is asked often stands at the end."""
    if lines_cost(lines) <= tokens or len(lines) < 2:
        return fit_lines(lines, tokens)
    last = fit_lines(lines[::-1], tokens * END_SHARE)[::-1]
    first = fit_lines(lines[: len(lines) - len(last)], tokens - lines_cost(last) - LINE - len(GAP) / 4)
    return (*first, GAP, *last) if len(first) + len(last) < len(lines) else (*first, *last)


def lines_cost(lines: Sequence[str]) -> float:
    """Give the tokens of lines with the marks before them."""
    return sum(estimate_tokens(line) + LINE for line in lines)


def _section_cost(section: Section) -> float:
    return TITLE + lines_cost(section.lines)


def _trial_head(trial: TrialFeedback) -> float:
    wrong = trial.first_wrong.text if trial.first_wrong else ""
    return estimate_tokens("".join((trial.name, trial.task, wrong, *trial.prompts_read))) + 8 * TITLE


def _trial_cost(trial: TrialFeedback) -> float:
    return _trial_head(trial) + sum(map(_section_cost, trial.sections))


def fit_trial(trial: TrialFeedback, tokens: float) -> TrialFeedback:
    """Give a trial with as much of each section as so many tokens hold; each says what is left out of it."""
    needs = [_section_cost(section) for section in trial.sections]
    weights = [SECTION_WEIGHTS[section.kind] for section in trial.sections]
    parts = shares(needs, weights, tokens - _trial_head(trial))
    return replace(trial, sections=tuple(map(_fit_section, trial.sections, parts)))


def _fit_section(section: Section, tokens: float) -> Section:
    fit = fit_ends if section.kind == "input" else fit_lines
    lines = fit(section.lines, tokens - TITLE)
    return replace(
        section,
        lines=lines,
        left_out=section.left_out + len(section.lines) - len([line for line in lines if line != GAP]),
    )


def _bucket_head(bucket: BucketFeedback) -> float:
    asks = "".join(f"{grader.grader}{grader.asks}" for grader in bucket.graders[:MOST_GRADERS])
    return (
        estimate_tokens(bucket.suite + bucket.bucket + bucket.rule + bucket.descriptions + asks)
        + 4 * TITLE
        + 12 * min(MOST_GRADERS, len(bucket.graders))
    )


def bucket_cost(bucket: BucketFeedback) -> float:
    """Give about how many tokens a bucket takes whole."""
    return _bucket_head(bucket) + sum(map(_trial_cost, _trials(bucket)))


def _trials(bucket: BucketFeedback) -> list[TrialFeedback]:
    return [*bucket.failing, *([bucket.passing] if bucket.passing else [])]


def fit_bucket(bucket: BucketFeedback, tokens: float) -> BucketFeedback:
    """Give a bucket with as many trials as so many tokens hold: one failing, one passing, then more."""
    room = tokens - _bucket_head(bucket)
    while True:
        trials = _trials(bucket)
        weights = [*TRIAL_WEIGHTS, *[1.0] * len(trials)][: len(bucket.failing)] + [PASSING_WEIGHT] * bool(
            bucket.passing
        )
        needs = [_trial_cost(trial) for trial in trials]
        parts = shares(needs, weights, room)
        least = [
            min(need, max(LEAST_TRIAL, _trial_head(trial) + LEAST_TRIAL / 2))
            for need, trial in zip(needs, trials, strict=True)
        ]
        if len(trials) == 1 or all(part >= low for part, low in zip(parts, least, strict=True)):
            break
        bucket = _with_fewer_trials(bucket)
    fitted = [fit_trial(trial, part) for trial, part in zip(trials, parts, strict=True)]
    count = len(bucket.failing)
    return replace(bucket, failing=tuple(fitted[:count]), passing=fitted[count] if bucket.passing else None)


def _with_fewer_trials(bucket: BucketFeedback) -> BucketFeedback:
    if len(bucket.failing) > 1:
        return replace(bucket, failing=bucket.failing[:-1], more=bucket.more + 1)
    return replace(bucket, passing=None)


def fit_buckets(buckets: Sequence[BucketFeedback], tokens: float) -> list[BucketFeedback]:
    """Give as many of the worst buckets as so many tokens hold, each with what its place in the order gives.

    The weight of a place is one through its number: the worst gets twice what the second gets, where it needs
    as much.
    """
    needs = [bucket_cost(bucket) for bucket in buckets]
    for many in range(len(buckets), 0, -1):
        parts = shares(needs[:many], [1 / place for place in range(1, many + 1)], tokens)
        if many == 1 or all(
            part >= min(need, LEAST_BUCKET + _bucket_head(bucket))
            for part, need, bucket in zip(parts, needs, buckets, strict=False)
        ):
            return [fit_bucket(bucket, part) for bucket, part in zip(buckets, parts, strict=False)]
    return []


def fit_rounds(rounds: Sequence[EarlierRound], tokens: float) -> list[EarlierRound]:
    """Give earlier rounds with as much of their diffs as so many tokens hold; the newest keep most."""
    newest = list(reversed(rounds))
    needs = [_round_cost(each) for each in newest]
    for many in range(len(newest), 0, -1):
        parts = shares(needs[:many], [1 / place for place in range(1, many + 1)], tokens)
        if all(
            part >= min(need, _round_head(each))
            for part, need, each in zip(parts, needs, newest, strict=False)
        ):
            return [_fit_round(each, part) for each, part in zip(newest, parts, strict=False)][::-1]
    return []


def _round_head(each: EarlierRound) -> float:
    return estimate_tokens(each.summary + each.decision + each.sentence) + 4 * TITLE


def _round_cost(each: EarlierRound) -> float:
    return _round_head(each) + lines_cost(each.diff.splitlines())


def _fit_round(each: EarlierRound, tokens: float) -> EarlierRound:
    return replace(each, diff="\n".join(fit_lines(each.diff.splitlines(), tokens - _round_head(each))))


def rounds_cost(rounds: Sequence[EarlierRound]) -> float:
    """Give about how many tokens earlier rounds take whole."""
    return sum(map(_round_cost, rounds))


def brief(bucket: BucketFeedback) -> BucketLine:
    """Give a bucket by its figures alone."""
    return BucketLine(bucket.suite, bucket.bucket, bucket.score, bucket.passed, bucket.trials)


def bucket_cuts(before: Sequence[BucketFeedback], after: Sequence[BucketFeedback]) -> Iterator[Cut]:
    """Say for each bucket what of it was left out, and of which trial."""
    for whole, part in zip(before, after, strict=False):
        lost = [*_lost_trials(whole, part), *_lost_lines(whole, part)]
        if lost:
            tokens = bucket_cost(whole) - bucket_cost(part)
            yield Cut(f"{part.suite}/{part.bucket}", "; ".join(lost), max(1, round(tokens)))
    rest = before[len(after) :]
    if rest:
        what = f"all but figures of {pluralize(len(rest), 'bucket')}"
        yield Cut("buckets that are less bad", what, round(sum(map(bucket_cost, rest))))


def _lost_trials(whole: BucketFeedback, part: BucketFeedback) -> Iterator[str]:
    if fewer := len(whole.failing) - len(part.failing):
        yield pluralize(fewer, "failing trial")
    if whole.passing and not part.passing:
        yield "the trial that passed"


def _lost_lines(whole: BucketFeedback, part: BucketFeedback) -> Iterator[str]:
    wholes = {trial.name: trial for trial in _trials(whole)}
    for trial in _trials(part):
        lost = [
            f"{after.left_out - before.left_out} of {after.kind}"
            for before, after in zip(wholes[trial.name].sections, trial.sections, strict=True)
            if after.left_out > before.left_out
        ]
        if lost:
            yield f"lines of {trial.name}: {', '.join(lost)}"
