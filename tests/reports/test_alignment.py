"""What is equal in two sequences is found, in bounded time."""

from __future__ import annotations

from difflib import SequenceMatcher
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.reports import file_changes
from pytest_agenteval.reports.file_changes import Alignment

SEQUENCES = st.lists(st.sampled_from("abcdef"), max_size=20)


def check(old: list[str], new: list[str]) -> int:
    """Give how many items are equal, after a check that the steps from old to new lead there."""
    matched, made = 0, []
    for tag, low, high, new_low, new_high in Alignment(old, new).get_opcodes():
        assert (tag == "equal") == (old[low:high] == new[new_low:new_high])
        made += old[low:high] if tag == "equal" else new[new_low:new_high]
        matched += high - low if tag == "equal" else 0
    assert made == new
    return matched


@given(SEQUENCES, SEQUENCES)
def test_steps_lead_from_old_to_new(old: list[str], new: list[str]) -> None:
    """Whatever is equal in them; items that stand in one order on both sides are never all different."""
    assert check(old, new) >= bool(set(old) & set(new))


@given(SEQUENCES, SEQUENCES)
def test_steps_lead_there_without_difflib_too(old: list[str], new: list[str]) -> None:
    """Where the search would take too long, unique items alone are matched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_changes, "MOST_WORK", 60)
        check(old, new)


def test_short_sequences_are_matched_as_difflib_does() -> None:
    """What comes again is no reason to call it different."""
    old, new = list("a-b-c-d-e"), list("x-b-y-d-e-f")
    assert check(old, new) == sum(
        block.size for block in SequenceMatcher(None, old, new).get_matching_blocks()
    )


MANY = range(8_000)
DASHES = ["-"] * 20_000
PARAGRAPHS = [f"{at}" if at % 2 else "" for at in MANY]
REWRITTEN = [f"{line}!" if at % 40 == 1 else line for at, line in enumerate(PARAGRAPHS)]


@pytest.mark.parametrize(
    ("old", "new", "least"),
    [
        (DASHES, [f"{at}" if at % 2 else "-" for at in MANY], 1),
        (DASHES, [*DASHES[:10_000], "+", *DASHES[10_000:]], 20_000),
        (PARAGRAPHS, REWRITTEN, 7_800),
        ([f"{at % 50}" for at in MANY], [f"{at * 7 % 50}" for at in MANY], 1),
    ],
    ids=["other lines", "one line more", "paragraphs", "fifty lines"],
)
def test_items_that_come_again_take_no_time(old: list[str], new: list[str], least: int) -> None:
    """A file of two thousand lines, half of them empty, took ``difflib`` minutes; here it is a blink."""
    started = process_time()

    assert check(old, new) >= least

    assert process_time() - started < 5
