"""Authors' patterns mean what they mean to ``re``, and none holds anything up."""

from __future__ import annotations

import re
import threading
import warnings

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_agenteval.text import patterns
from pytest_agenteval.text.patterns import Pattern, PatternTooSlow, read_pattern

PIECES = (
    r"a b . { } {e} {e<=1} {1} {1,} {,2} [ab] [^a] [[:alpha:]] []a] [a[] \{ \[ \d \w \b \S ^ $ | ( ) (?: "
    r"(?P<n> (?= (?! ? * + *? ++ - && 가 # \N{SPACE}"
)
pieces = st.sampled_from([*PIECES.split(), " ", "\n"])


@settings(max_examples=60)
@given(st.lists(pieces, max_size=8).map("".join), st.text("ab1{}e[]:<= -가\n", max_size=8))
def test_a_pattern_finds_what_re_finds(pattern: str, text: str) -> None:
    """At the same place, with the same flags: what is read with ``re`` is searched for as ``re`` would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            meant = re.search(pattern, text, re.MULTILINE)
        except (re.error, RecursionError, OverflowError):
            assume(False)
        found = read_pattern(pattern, re.MULTILINE).search(text)
    assert (found and found.span()) == (meant and meant.span())


def test_a_pattern_that_re_refuses_is_refused() -> None:
    """What only the other package knows is no pattern of a task: tasks mean one thing wherever they run."""
    for pattern in (r"\p{Hangul}", "(?<name>a)", "(", r"\X", "(?|a|b)"):
        with pytest.raises(re.error):
            read_pattern(pattern)


@pytest.mark.parametrize("pattern", [r"(a|a)+$", r"^(?:\w|\w)*$"])
def test_a_pattern_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    """It names itself and its time; others of the process go on meanwhile."""
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    passed = []
    stop = threading.Event()
    other = threading.Thread(target=lambda: passed.extend(iter(lambda: stop.wait(0.005), True)))
    other.start()
    try:
        with pytest.raises(PatternTooSlow) as slow:
            Pattern(pattern).search("a" * 60 + "!")
    finally:
        stop.set()
        other.join()
    message = f"the pattern {pattern!r} took too long: more than 0.05 s on 61 characters"
    assert str(slow.value).startswith(message)
    assert slow.value.cause == "pattern_too_slow"
    assert passed
