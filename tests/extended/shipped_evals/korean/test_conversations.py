"""The Korean tasks that begin in the midst of a conversation: what it holds is so, and is not the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.extended.shipped_evals.korean.playing import (
    names,
    recorded_result,
    says_the_facts,
    tape,
    task,
    texts_before_last_question,
)

NAMES = names(["L5", "L6", "L7"])
NUMBERS = " ".join(map(str, range(100)))


def _calls_of_conversation(name: str) -> Iterator[dict[str, Any]]:
    """Give the calls that the conversation holds already."""
    yield from (call for turn in task(name)["input"].get("turns", ()) for call in turn.get("calls", ()))


@pytest.mark.parametrize("name", [name for name in NAMES if any(_calls_of_conversation(name))])
def test_what_a_conversation_holds_is_what_its_tools_say(name: str) -> None:
    """Asking again gives the very same: who trusts the conversation, and who asks, know one thing."""
    box = tape(name)
    for given in _calls_of_conversation(name):
        result = recorded_result(box, given["tool"], given["args"])
        assert result is not None, given
        assert result.value == given["result"]


@pytest.mark.parametrize("name", [name for name in NAMES if any(texts_before_last_question(name))])
def test_who_repeats_all_that_was_said_has_not_answered(name: str) -> None:
    """All that was heard, with every small number beside it, chooses nothing."""
    everything = [*texts_before_last_question(name), NUMBERS]
    assert not says_the_facts(name, "\n".join(everything))
    assert not says_the_facts(name, " ".join(reversed(everything)))
