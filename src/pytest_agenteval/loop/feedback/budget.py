"""Feedback within its budget: as much of it as its Markdown may hold, and what was cut."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from pytest_agenteval.loop.feedback.content import Cut, Feedback
from pytest_agenteval.loop.feedback.fitting import (
    brief,
    bucket_cost,
    bucket_cuts,
    fit_buckets,
    fit_lines,
    fit_rounds,
    lines_cost,
    rounds_cost,
    shares,
)
from pytest_agenteval.loop.feedback.markdown import feedback_markdown
from pytest_agenteval.loop.feedback.tokens import estimate_tokens
from pytest_agenteval.text.errors import UsageMistake

LEAST_ROOM = 250
"""Tokens for buckets below which feedback says nothing."""

TOKENS_OF_A_NAME = 120
"""One bucket more is named for so many tokens of the budget."""

LEAST_NAMES = 5
TOKENS_OF_A_GRADER, LEAST_GRADERS = 700, 2
PARTS = (10.0, 2.0, 2.0)
"""How buckets, guide and earlier rounds share what is left of the budget."""

TRIES = 7
"""How often half of the room that is left in doubt is looked at."""


def fitted(whole: Feedback) -> Feedback:
    """Cut feedback until its Markdown is within the budget; raises UsageMistake where that leaves nothing."""
    least = min(LEAST_ROOM, sum(map(bucket_cost, whole.buckets)))
    low, high = least, 1.5 * whole.budget
    best = _cut_to(whole, low)
    if _size(best) > whole.budget:
        enough = _enough(whole, least)
        raise UsageMistake(f"--budget {whole.budget}: too small to say anything; {enough:,} tokens would do")
    for _ in range(TRIES):
        cut = _cut_to(whole, (low + high) / 2)
        if _size(cut) <= whole.budget:
            best, low = cut, (low + high) / 2
        else:
            high = (low + high) / 2
    return best


def _enough(whole: Feedback, room: float) -> int:
    """Give a budget that holds so many tokens for buckets; with the budget grow the lists of names."""
    budget = whole.budget
    while (size := _size(_cut_to(replace(whole, budget=budget), room))) > budget:
        budget = 50 * math.ceil(size / 50)
    return budget


def _size(feedback: Feedback) -> int:
    return estimate_tokens(feedback_markdown(feedback))


def _cut_to(whole: Feedback, room: float) -> Feedback:
    """Give feedback whose buckets, guide and earlier rounds take about so many tokens."""
    guide = whole.guide.splitlines()
    needs = (sum(map(bucket_cost, whole.buckets)), lines_cost(guide), rounds_cost(whole.earlier_rounds))
    for_buckets, for_guide, for_rounds = shares(needs, PARTS, room)
    buckets = fit_buckets(whole.buckets, for_buckets)
    rounds = fit_rounds(whole.earlier_rounds, for_rounds)
    short_guide = fit_lines(guide, for_guide)
    names = max(LEAST_NAMES, whole.budget // TOKENS_OF_A_NAME)
    in_brief = [brief(bucket) for bucket in whole.buckets[len(buckets) :]]
    cut = replace(
        whole,
        buckets=tuple(buckets),
        in_brief=tuple(in_brief[:names]),
        passed=whole.passed[:names],
        graders=whole.graders[: max(LEAST_GRADERS, whole.budget // TOKENS_OF_A_GRADER)],
        prompts=whole.prompts[: max(LEAST_NAMES, whole.budget // TOKENS_OF_A_NAME)],
        earlier_rounds=tuple(rounds),
        guide="\n".join(short_guide).strip(),
    )
    return replace(cut, cuts=tuple(_cuts(whole, cut)))


def _cuts(whole: Feedback, cut: Feedback) -> Iterator[Cut]:
    yield from bucket_cuts(whole.buckets, cut.buckets)
    unnamed = len(whole.buckets) - len(cut.buckets) - len(cut.in_brief)
    if unnamed:
        yield Cut("buckets that are less bad", f"names of {unnamed}")
    if fewer := len(whole.passed) - len(cut.passed):
        yield Cut("buckets that passed", f"names of {fewer}")
    for where, before, after in (
        ("prompts", whole.prompts, cut.prompts),
        ("graders", whole.graders, cut.graders),
    ):
        if fewer := len(before) - len(after):
            yield Cut(where, f"{fewer} of {len(before)}")
    if lost := rounds_cost(whole.earlier_rounds) - rounds_cost(cut.earlier_rounds):
        gone = len(whole.earlier_rounds) - len(cut.earlier_rounds)
        what = (
            f"{gone} of {len(whole.earlier_rounds)} rounds, and lines of diffs" if gone else "lines of diffs"
        )
        yield Cut("earlier rounds", what, round(lost))
    if whole.guide != cut.guide:
        lines = len(whole.guide.splitlines()) - len(cut.guide.splitlines())
        yield Cut(
            "guide", f"{lines} lines at its end", estimate_tokens(whole.guide) - estimate_tokens(cut.guide)
        )
