"""Feedback within its budget of tokens: cut step by step, the least bad buckets first, until it fits."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval.loop.feedback.content import (
    BucketFeedback,
    BucketLine,
    Cut,
    EarlierRound,
    Feedback,
    Section,
    TrialFeedback,
    feedback_markdown,
    trial_block,
)
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize

# ASCII characters for each token, as offline models count too.
ASCII_CHARACTERS = 4

_ALPHABETS = re.compile("[\x80-\u0dff\u10a0-\u10ff\u1e00-\u2e7f]")
_WIDE = re.compile("[\u0e00-\u109f\u1100-\u1dff\u2e80-\uffff]")
_RARE = re.compile("[\U00010000-\U0010ffff]")

# Tokens of a character that is not ASCII: half a token for a letter of other alphabets (accents, Greek,
# Cyrillic, Arabic, Devanagari) and for signs, one for a character of Chinese, Japanese, Korean, Thai or
# Ethiopic, two for others, such as emoji. Today's tokenizers need fewer for all of them.
TOKENS_OF_CHARACTERS = ((_ALPHABETS, 0.5), (_WIDE, 1.0), (_RARE, 2.0))


class _Level(NamedTuple):
    """What a bucket keeps at most: failing trials, lines of each section, and tokens of each line."""

    trials: int
    lines: int
    line: int = 100
    passing: bool = True


# From all that there is to the least that says something; behind the last level a bucket is named in brief.
LEVELS = (
    _Level(1_000, 1_000, 1_000), _Level(3, 45), _Level(3, 32), _Level(3, 24), _Level(2, 24), _Level(2, 18),
    _Level(2, 13), _Level(1, 18), _Level(1, 13), _Level(1, 10, 80), _Level(1, 7, 80), _Level(1, 5, 60),
    _Level(1, 5, 60, passing=False), _Level(1, 3, 40, passing=False), _Level(1, 2, 25, passing=False),
)  # fmt: skip
# How many levels each further bucket is ahead of the one before it, and at most: so the worst keeps most.
AHEAD, MOST_AHEAD = 2, 2 * len(LEVELS)

# Lines of the guide, and of the diff of the newest round: a share of what there is, by steps of cutting.
SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0)

# A round is left out once its age and the steps of cutting add up to this.
MOST_ROUNDS = 18

# The share of a shortened input that is taken from its end, where the question often stands.
END_SHARE = 0.7
GAP = "(…)"

# For each of this many tokens of the budget, one more bucket, prompt or grader is named.
TOKENS_OF_A_NAME, LEAST_NAMES = 120, 5
TOKENS_OF_A_GRADER, LEAST_GRADERS = 700, 2
TOKENS_OF_A_CAUSE, LEAST_CAUSES = 1500, 2


def estimate_tokens(text: str) -> int:
    """Give about how many tokens a text is: a quarter for each ASCII character, more for others."""
    return math.ceil(_exact_tokens(text))


def _exact_tokens(text: str) -> float:
    if text.isascii():
        return len(text) / ASCII_CHARACTERS
    others = [(len(pattern.findall(text)), weight) for pattern, weight in TOKENS_OF_CHARACTERS]
    plain = len(text) - sum(number for number, _ in others)
    return plain / ASCII_CHARACTERS + sum(number * weight for number, weight in others)


def cut_to_tokens(text: str, most: float) -> str:
    """Give a text's beginning of at most so many tokens, with ``…`` where it was cut."""
    if _exact_tokens(text) <= most:
        return text
    ends = accumulate(map(_exact_tokens, text))
    # Half a token is for the ellipsis.
    fits = sum(1 for end in ends if end <= most - 0.5)
    return text[:fits] + "…" if fits else ""


def fit_to_budget(whole: Feedback) -> Feedback:
    """Cut feedback until its Markdown fits the budget; raises UsageMistake where nothing would remain."""
    last = _step_of_least_lines(whole) + max(0, len(whole.buckets) - 1)

    def tokens(step: int, budget: int) -> int:
        return estimate_tokens(feedback_markdown(cut_by(replace(whole, budget=budget), step)))

    step = bisect_left(range(last), True, key=lambda step: tokens(step, whole.budget) <= whole.budget)
    if (enough := tokens(step, whole.budget)) <= whole.budget:
        return cut_by(whole, step)
    # The lists of names grow with the budget, so a larger one may again be too small.
    while (size := tokens(last, enough)) > enough:
        enough = 50 * math.ceil(size / 50)
    raise UsageMistake(f"--budget {whole.budget}: too small; use {enough:,} tokens or more")


def _step_of_least_lines(whole: Feedback) -> int:
    """Give the step at which every bucket that is left has the fewest lines; from there on, buckets go."""
    return len(LEVELS) - 1 + min(MOST_AHEAD, AHEAD * max(0, len(whole.buckets) - 1))


def cut_by(whole: Feedback, step: int) -> Feedback:
    """Give feedback after so many steps of cutting; each keeps less of everything than the one before."""
    # The last bucket is cut first, and each one before it later.
    behind = [min(MOST_AHEAD, AHEAD * place) for place in reversed(range(len(whole.buckets)))]
    least = _step_of_least_lines(whole)
    levels = [max(0, min(step, least) - late) for late in behind]
    shown = sum(level < len(LEVELS) for level in levels) - max(0, step - least)
    many = max(min(1, len(whole.buckets)), shown)
    buckets = tuple(map(_cut_bucket, whole.buckets[:many], levels))
    guide = whole.guide.splitlines()
    names = max(LEAST_NAMES, whole.budget // TOKENS_OF_A_NAME)
    cut = replace(
        whole,
        buckets=buckets,
        in_brief=tuple(
            BucketLine(bucket.suite, bucket.bucket, bucket.score, bucket.passed, bucket.trials)
            for bucket in whole.buckets[many : many + names]
        ),
        passed=whole.passed[:names],
        graders=whole.graders[: max(LEAST_GRADERS, whole.budget // TOKENS_OF_A_GRADER)],
        causes=whole.causes[: max(LEAST_CAUSES, whole.budget // TOKENS_OF_A_CAUSE)],
        prompts=whole.prompts[:names],
        earlier_rounds=_cut_rounds(whole.earlier_rounds, step),
        guide="\n".join(guide[: math.ceil(len(guide) * _share(step))]).strip(),
    )
    return replace(cut, cuts=tuple(_cuts(whole, cut)))


def _share(step: int) -> float:
    return SHARES[min(step, len(SHARES) - 1)]


def _cut_bucket(bucket: BucketFeedback, level: int) -> BucketFeedback:
    kept = LEVELS[level]
    failing = tuple(_cut_trial(trial, kept) for trial in bucket.failing[: kept.trials])
    return replace(
        bucket,
        failing=failing,
        passing=_cut_trial(bucket.passing, kept) if bucket.passing and kept.passing else None,
        more=bucket.more + len(bucket.failing) - len(failing),
    )


def _cut_trial(trial: TrialFeedback, kept: _Level) -> TrialFeedback:
    return replace(trial, sections=tuple(_cut_section(section, kept) for section in trial.sections))


def _cut_section(section: Section, kept: _Level) -> Section:
    # An input is most of what a trial is about, and its end says what is wanted.
    is_input = section.kind == "input"
    lines = fit_ends(section.lines, kept.lines) if is_input else section.lines[: kept.lines]
    # The gap is a line of ours, and none of the section.
    left_out = section.left_out + len(section.lines) - len([line for line in lines if line != GAP])
    return replace(section, lines=tuple(cut_to_tokens(line, kept.line) for line in lines), left_out=left_out)


def fit_ends(lines: Sequence[str], most: int) -> tuple[str, ...]:
    """Give so many lines of the beginning and the end, with a mark between them."""
    if len(lines) <= most:
        return tuple(lines)
    last = max(1, round(most * END_SHARE))
    return (*lines[: most - last], GAP, *lines[len(lines) - last :])


def _cut_rounds(rounds: Sequence[EarlierRound], step: int) -> tuple[EarlierRound, ...]:
    """Cut the diffs, those of old rounds first: what was tried last is what must not be tried again."""
    fitted = []
    for age, each in enumerate(reversed(rounds)):
        late = step + age if step else 0
        # A round is shown with its decision or not at all.
        if late < MOST_ROUNDS or not age:
            diff = each.diff.splitlines()
            fitted.append(replace(each, diff="\n".join(diff[: math.ceil(len(diff) * _share(late))])))
    return tuple(reversed(fitted))


def _cuts(whole: Feedback, cut: Feedback) -> Iterator[Cut]:
    """Say what was left out: where, what, and about how many tokens."""
    for before, after in zip(whole.buckets, cut.buckets, strict=False):
        if lost_tokens := _bucket_tokens(before) - _bucket_tokens(after):
            yield Cut(f"{after.suite}/{after.bucket}", "trials, or lines of them", lost_tokens)
    if rest := whole.buckets[len(cut.buckets) :]:
        what = f"everything but the figures of {pluralize(len(rest), 'bucket')}"
        yield Cut("buckets with higher scores", what, sum(map(_bucket_tokens, rest)))
    if unnamed := len(rest) - len(cut.in_brief):
        yield Cut("buckets with higher scores", f"names of {unnamed}")
    if fewer := len(whole.passed) - len(cut.passed):
        yield Cut("buckets that passed", f"names of {fewer}")
    for name in ("causes", "prompts", "graders"):
        count = len(getattr(whole, name))
        if fewer := count - len(getattr(cut, name)):
            yield Cut(name, f"{fewer} of {count}")
    if lost_tokens := _rounds_tokens(whole.earlier_rounds) - _rounds_tokens(cut.earlier_rounds):
        gone = len(whole.earlier_rounds) - len(cut.earlier_rounds)
        rounds = f"{gone} of {len(whole.earlier_rounds)} rounds, and " if gone else ""
        yield Cut("earlier rounds", f"{rounds}lines of diffs", lost_tokens)
    if whole.guide != cut.guide:
        lines = len(whole.guide.splitlines()) - len(cut.guide.splitlines())
        tokens = estimate_tokens(whole.guide) - estimate_tokens(cut.guide)
        yield Cut("guide", f"{lines} lines at its end", tokens)


def _bucket_tokens(bucket: BucketFeedback) -> int:
    return sum(estimate_tokens(trial_block(trial)) for trial in (*bucket.failing, bucket.passing) if trial)


def _rounds_tokens(rounds: Sequence[EarlierRound]) -> int:
    return sum(estimate_tokens(each.summary + each.decision + each.sentence + each.diff) for each in rounds)
