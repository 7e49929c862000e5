"""What was sent is read back into arguments, in a time that goes with its length."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.tools.request_values import TextTemplate

PIECES = ("{a}", "{b}", "${S}", "-", "/", "-/", "x", "--", "x/")
TEXTS = st.text("-/x", max_size=3)


def _plainly(template: str, inner: str, text: str) -> dict[str, str] | None:
    """Read by the one pattern that says what is meant, and goes back as often as it likes."""
    parts = re.split(r"(\$?\{\w\})", template)
    written = [
        ".*?" if part.startswith("$") else f"({inner})" if part.startswith("{") else re.escape(part)
        for part in parts
    ]
    found = re.fullmatch("".join(written), text, re.S)
    names = re.findall(r"(?<!\$)\{(\w)\}", template)
    return dict(zip(names, found.groups(), strict=True)) if found else None


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=6),
    st.lists(TEXTS, min_size=6, max_size=6),
    st.sampled_from([".*?", "[^/]*?"]),
)
def test_a_text_is_read_as_short_as_can_be_from_the_left(
    pieces: list[str], texts: list[str], inner: str
) -> None:
    """Whether it fits or not, and whatever is in the way: arguments are what the plain pattern gives."""
    template = "".join(pieces)
    sent = "".join(text if "{" in piece else piece for piece, text in zip(pieces, texts, strict=False))
    for given_text in (sent, "".join(texts)):
        assert TextTemplate(template, inner=inner).read(given_text) == _plainly(template, inner, given_text)


@pytest.mark.parametrize("inner", [".*?", "[^/]*?"])
@pytest.mark.parametrize("template", ["{a}-{b}-{c}-{d}-{e}-{f}!", "{a}{b}{c}{d}{e}{f}!"])
def test_a_text_that_fits_nowhere_costs_no_more_than_one_that_fits(template: str, inner: str) -> None:
    """A hundred thousand marks are no reason to try every way to share them out."""
    began = time.process_time()

    assert TextTemplate(template, inner=inner).read("-" * 100_000) is None
    assert time.process_time() - began < 5
