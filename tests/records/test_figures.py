"""A figure that is unknown is None, never 0, and a sum keeps what is known of it."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.records.plan import ModelPrice, PriceTier
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    UNSEEN_USAGE,
    Figure,
    Usage,
    format_cost,
    format_tokens,
)
from pytest_agenteval.records.trial import part_paid
from pytest_agenteval.store.record_files import Line, UsageLine, read_line, usage_line
from pytest_agenteval.text.formatting import format_duration


def stored_usage(line: Line) -> Usage:
    """Read a usage as a journal does."""
    return from_builtins(UsageLine, line).usage


USAGES = st.builds(
    Usage,
    *[st.none() | st.integers(0, 9)] * 4,
    st.none() | st.sampled_from([0.0, 0.25]),
    st.integers(1, 3),
    st.none() | st.integers(1, 3),
)

PARTS = st.builds(
    Usage,
    *[st.none() | st.integers(0, 2)] * 4,
    st.none() | st.sampled_from([0.0, 0.25]),
    *[st.none() | st.integers(0, 2)] * 2,
)


TIERED = ModelPrice(1, 2, 0.5, tiers=(PriceTier(100, input=3), PriceTier(200, output=9)))


@given(st.lists(USAGES, max_size=5))
def test_a_sum_is_known_where_every_part_is(usages: list[Usage]) -> None:
    """Reckoned a second way: figure by figure, over all parts at once."""
    total = sum(usages, NO_USAGE)

    for name in ("input_tokens", "output_tokens", "cached_tokens", "cost_usd", "attempts"):
        parts = [getattr(usage, name) for usage in usages]
        assert getattr(total, name) == (None if None in parts else sum(parts))
    both = [(usage.input_tokens, usage.output_tokens) for usage in usages]
    assert total.known_tokens == sum(count for pair in both for count in pair if count is not None)
    assert total.known_cost_usd == sum(usage.cost_usd or 0.0 for usage in usages)
    assert {sum(order, NO_USAGE) for order in permutations(usages[:3])} == {sum(usages[:3], NO_USAGE)}


@given(st.lists(USAGES, max_size=5))
def test_a_journal_gives_a_usage_back(usages: list[Usage]) -> None:
    """Unknown figures are null there, and what is known of a sum stands beside them."""
    total = sum(usages, NO_USAGE)
    assert stored_usage(usage_line(total)) == Usage.from_json(total.to_json()) == total


@pytest.mark.parametrize("line", [b'{"asks":2,"cost_usd":null}', b'{"in":0,"asks":2,"cost_usd":null}'])
def test_replies_without_tokens_at_no_price_are_unknown_ones(line: bytes) -> None:
    """So earlier versions wrote what nobody knew: every reply has some tokens."""
    usage = stored_usage(read_line(line))
    assert (usage.tokens, usage.input_tokens, usage.cached_tokens, usage.asks) == (None, None, None, 2)
    assert stored_usage(read_line(b'{"asks":2}')).tokens == 0  # of an offline model, which costs nothing


def test_requests_that_a_line_does_not_name_are_unknown_beside_replies() -> None:
    """Earlier versions wrote none for messages that an agent returned; every reply takes a request."""
    assert stored_usage(read_line(b'{"cost_usd":null,"asks":1}')).attempts is None
    assert stored_usage(read_line(b'{"in":7,"out":2,"asks":1}')).attempts is None
    assert stored_usage(read_line(b'{"asks":2,"attempts":2}')).attempts == 2
    assert stored_usage(read_line(b"{}")).attempts == 0


@given(PARTS, PARTS, PARTS)
def test_a_sum_is_the_same_however_it_is_grouped(one: Usage, two: Usage, three: Usage) -> None:
    """Addition of usage is associative: workers and shards add up in different groups."""
    assert (one + two) + three == one + (two + three)


def test_a_part_that_was_paid_is_told_apart_where_sums_are_unknown() -> None:
    """Two sums with an unknown part are equal only where the known parts are, too."""
    used = Usage(70, 5, cost_usd=0.5, asks=1) + UNSEEN_USAGE
    assert part_paid(used, used) is None
    assert part_paid(used, UNSEEN_USAGE) == UNSEEN_USAGE


def test_figures_in_words() -> None:
    """One spelling everywhere."""
    figures = [Figure(), Figure(1234), Figure(1234, 2), Figure(0, 1)]
    assert [format_tokens(figure) for figure in figures] == [
        "0 tokens",
        "1,234 tokens",
        "1,234 tokens + unknown",
        "tokens unknown",
    ]
    assert [format_cost(figure) for figure in (Figure(0.25), Figure(1.239, 1), Figure(0, 1), Figure())] == [
        "$0.2500",
        "$1.24 + unknown",
        "cost unknown",
        "$0.00",
    ]
    assert [*map(format_duration, (1.25, 61, 3720))] == ["1.2 s", "1 min 01 s", "1 h 02 min"]


@pytest.mark.parametrize(
    ("tokens", "price"),
    [(100, TIERED), (101, ModelPrice(3, 2, 0.5)), (200, ModelPrice(3, 2, 0.5)), (201, ModelPrice(1, 9, 0.5))],
)
def test_a_request_costs_what_the_highest_tier_says_that_its_prompt_exceeds(
    tokens: int, price: ModelPrice
) -> None:
    """What the tier leaves open costs the same as below all tiers."""
    assert TIERED.at(tokens) == price
