"""Spoilers of calls: one left out, one with another argument."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pytest_agenteval.chat.offline.spoilers.solution import Solution, Spoilt
from pytest_agenteval.chat.offline.spoilers.texts import days_in, is_prose, short
from pytest_agenteval.chat.offline.spoilers.turns import Spot, replaced, without_call

LEAST_NAME = 3
"""Letters from which on a value is a name that the task may have said, and no word by chance."""


def skip_call(solution: Solution) -> Iterator[Spoilt]:
    """Leave out each call that changes something, or that the answer rests on."""
    for place in (*solution.acting, *solution.looking):
        tool = solution.call(place)["tool"]
        turns = without_call(solution.turns, place, len(solution.given_calls))
        yield Spoilt(f"{tool} not called", (tool,), turns)


def wrong_argument(solution: Solution) -> Iterator[Spoilt]:
    """Put another name in the place of each argument that has one right value.

    Of calls that look something up these are all texts of one word: free text has no single right form, and
    how much is looked up is the agent's to choose. Of calls that change something they are the files, and
    what the task names itself, wherever the reference writes it: the rest may be right in another form.
    """
    for spot, value in solution.values((*solution.writing, *solution.looking)):
        acts = (spot.turn, spot.call) in solution.writing
        wrong = _wrong(solution, value) if not acts or _is_named(solution, value) else None
        if wrong is not None:
            place = solution.place(spot)
            elsewhere = _renamed(solution, value, wrong) if acts else {}
            done = f"{place}: {short(value)} -> {short(wrong)}"
            yield Spoilt(done, (place,), replaced(solution.turns, {**elsewhere, spot: wrong}))


def _renamed(solution: Solution, name: str, other: str) -> dict[Spot, Any]:
    """Give every text that is written with the one name, with the other in its place; of a file none."""
    if solution.tree.is_file_name(name):
        return {}
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    texts = [(spot, value) for spot, value in solution.values(solution.writing) if isinstance(value, str)]
    return {spot: word.sub(lambda _: other, text) for spot, text in texts if word.search(text)}


def _is_named(solution: Solution, value: Any) -> bool:
    if not isinstance(value, str) or is_prose(value) or days_in(value):
        return False
    named = len(value) >= LEAST_NAME and value.casefold() in solution.task_text
    return named or solution.tree.is_file_name(value)


def _wrong(solution: Solution, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if not isinstance(value, str) or "$" in value or is_prose(value):
        return None
    return solution.tree.other_file(value) if solution.tree.is_file_name(value) else _other_name(value)


def _other_name(value: str) -> str | None:
    """Give the name with the next letter or digit in the place of its last."""
    for at in range(len(value) - 1, -1, -1):
        letter = value[at]
        if letter.isalnum():
            other = {"9": "0", "z": "a", "Z": "A", "힣": "가"}.get(letter, chr(ord(letter) + 1))
            return value[:at] + other + value[at + 1 :]
    return None
