"""How feedback is cut: the worst bucket keeps most, and what was cut is listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval.loop.feedback.budget import GAP, cut_by, estimate_tokens, fit_ends, fit_to_budget
from pytest_agenteval.loop.feedback.content import (
    BucketFeedback,
    Feedback,
    Section,
    TrialFeedback,
    feedback_markdown,
)
from pytest_agenteval.text.errors import UsageMistake
from tests.loop.feedback.feedback_runs import failing, feedback_on


@pytest.fixture
def whole(tmp_path: Path) -> Feedback:
    """Six buckets of two trials that could each fill pages."""
    lines = tuple(f"line {at} of what was called and came of it" for at in range(60))
    sections = (Section("input", lines), Section("calls", lines))

    def bucket(place: int) -> BucketFeedback:
        trials = (
            TrialFeedback(f"s/t{place}[m-{at}]", "", "missed", 0.0, None, (), sections) for at in (1, 2)
        )
        return BucketFeedback("s", f"b{place}", 0.1 * place, 0, 1, 1, "", (), tuple(trials))

    made, _ = feedback_on(tmp_path, failing("a"))
    return replace(made, buckets=tuple(map(bucket, range(6))))


def lines_of(bucket: BucketFeedback) -> int:
    """Count the lines of a bucket's trials."""
    return sum(len(section.lines) for trial in bucket.failing for section in trial.sections)


def test_each_step_keeps_less_and_the_worst_bucket_most(whole: Feedback) -> None:
    """Of the least bad first; an input keeps its end; buckets without room are named with their figures."""
    sizes = [estimate_tokens(feedback_markdown(cut_by(whole, step))) for step in range(25)]
    assert sizes == sorted(sizes, reverse=True)

    cut = cut_by(whole, 17)
    counts = [lines_of(each) for each in cut.buckets]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 1.5 * counts[1]
    assert [each.bucket for each in (*cut.buckets, *cut.in_brief)] == [f"b{at}" for at in range(6)]
    given, calls = cut.buckets[1].failing[0].sections
    assert given.lines[-1] == whole.buckets[1].failing[0].sections[0].lines[-1]
    assert calls.left_out == 60 - len(calls.lines) > 0
    places = [f"s/b{at}" for at in range(len(cut.buckets))]
    assert [each.where for each in cut.cuts][: len(places) + 1] == [*places, "buckets with higher scores"]
    assert cut.cuts[0].tokens > 0


@pytest.mark.parametrize("budget", [2_000, 3_000, 6_000, 12_000, 40_000])
def test_markdown_never_has_more_tokens_than_its_budget(whole: Feedback, budget: int) -> None:
    """And not much less than it may have, where there is more to say."""
    cut = fit_to_budget(replace(whole, budget=budget))
    tokens = estimate_tokens(feedback_markdown(cut))

    assert tokens <= budget
    assert tokens > 0.75 * budget or not cut.cuts


@pytest.mark.parametrize("budget", [2_000, 4_000, 12_000])
def test_many_buckets_fit_a_small_budget(whole: Feedback, budget: int) -> None:
    """The worst are shown, and the others go one by one: many failing buckets need no larger budget."""
    many = replace(whole, buckets=tuple(replace(whole.buckets[0], bucket=f"b{at}") for at in range(40)))

    cut = fit_to_budget(replace(many, budget=budget))

    assert 0.75 * budget < estimate_tokens(feedback_markdown(cut)) <= budget
    assert cut.buckets[0].bucket == "b0"


def test_a_budget_that_would_do_is_named(whole: Feedback) -> None:
    """With it there is feedback."""
    with pytest.raises(UsageMistake, match=r"--budget 300: too small; use [\d,]+ tokens") as small:
        fit_to_budget(replace(whole, budget=300))
    enough = int(str(small.value).split("; ")[1].split()[1].replace(",", ""))
    assert fit_to_budget(replace(whole, budget=enough)).buckets


def test_an_input_keeps_its_end() -> None:
    """What is asked stands there more often than at its beginning; that something is gone is shown."""
    lines = [f"line {at}" for at in range(50)]
    kept = fit_ends(lines, 10)

    assert kept == (*lines[:3], GAP, *lines[-7:])
    assert fit_ends(lines, 50) == tuple(lines)
