"""Spoilers of what is written or answered: numbers, days, facts, and the question itself in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from pytest_agenteval.chat.offline.spoilers.solution import Solution, Spoilt
from pytest_agenteval.chat.offline.spoilers.texts import (
    a_day_later,
    days_in,
    facts_in,
    is_prose,
    numbers_in,
    plus_one,
    short,
    with_number,
    with_parts,
    words_of,
)
from pytest_agenteval.chat.offline.spoilers.turns import EVERYTHING, Spot, replaced

LEAST_WORDS = 3
"""Words from which on a question is told from what is to be written of it."""


def number_plus_one(solution: Solution) -> Iterator[Spoilt]:
    """Make each number greater by one, wherever the reference writes or answers it.

    A number that is written counts where the task says it, one that is answered where the user has not.
    """
    for number, spots in _numbers(solution).items():
        said = number in numbers_in(solution.user_words)
        answered = any(spot.call is None for spot in spots)
        if said != answered or (not answered and number in numbers_in(solution.task_text)):
            other = plus_one(number)
            changes = _new_texts(solution, lambda text: with_number(text, number, other))  # noqa: B023
            changes |= {spot: value + 1 for spot, value in _amounts(solution) if str(value) == number}
            yield _spoilt(solution, f"{number} -> {other}", changes)


def _numbers(solution: Solution) -> Mapping[str, list[Spot]]:
    """Give every number with the spots where it stands."""
    numbers: dict[str, list[Spot]] = {}
    for spot, text, spans in solution.texts:
        for number in numbers_in("\n".join(text[start:end] for start, end in spans)):
            numbers.setdefault(number, []).append(spot)
    for spot, value in _amounts(solution):
        numbers.setdefault(str(value), []).append(spot)
    return numbers


def _amounts(solution: Solution) -> Iterator[tuple[Spot, int | float]]:
    return ((spot, value) for spot, value in solution.values(solution.writing) if _is_amount(value))


def _is_amount(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def date_off_by_a_day(solution: Solution) -> Iterator[Spoilt]:
    """Move every day that is written or answered by one."""
    changes = _new_texts(solution, a_day_later)
    if changes:
        days = (day for spot, text, _ in solution.texts if spot in changes for day in days_in(text))
        yield _spoilt(solution, f"{', '.join(dict.fromkeys(days))}: a day later", changes)


def _new_texts(solution: Solution, change: Callable[[str], str]) -> dict[Spot, Any]:
    """Give the texts whose new parts the change makes others of."""
    changes: dict[Spot, Any] = {}
    for spot, text, spans in solution.texts:
        changed = with_parts(text, spans, [change(text[start:end]) for start, end in spans])
        if changed != text:
            changes[spot] = changed
    return changes


def fact_dropped(solution: Solution) -> Iterator[Spoilt]:
    """Leave out each fact: a sentence of what is written or answered; where there is but one, a clause."""
    for spot, text, spans in solution.texts:
        for start, end in spans:
            for fact in facts_in(text[start:end]):
                left = text[:start] + text[start:end].replace(fact, "", 1) + text[end:]
                if _is_needed(solution, spot, fact, left):
                    done = f"{solution.place(spot)}: without {short(fact)}"
                    yield _spoilt(solution, done, {spot: left})


def _is_needed(solution: Solution, spot: Spot, fact: str, left: str) -> bool:
    """Whether a part of a text says what has to be said, and what stands nowhere else.

    Of an answer that is what the user has not said himself; of what is written, what the task says.
    """
    words = words_of(fact)
    if spot.call is None:
        return 2 * len(words & words_of(solution.user_words)) < len(words)
    named = words & solution.named_words
    others = [left if other == spot else text for other, text, _ in solution.texts]
    others += [str(amount) for _, amount in _amounts(solution)]
    return len(named) > 1 and 2 * len(named) >= len(words) and not named <= words_of("\n".join(others))


def verbatim_paste(solution: Solution) -> Iterator[Spoilt]:
    """Write or answer the question itself in the place of all that the reference says in its own words."""
    question = solution.question
    if len(words_of(question)) < LEAST_WORDS:
        return
    changes = {
        spot: with_parts(text, spans, [f"{question}\n", *[""] * (len(spans) - 1)])
        for spot, text, spans in solution.texts
        if is_prose(text) and text.strip() not in question
    }
    if changes:
        yield _spoilt(solution, "the question itself in the place of each text", changes)


def answer_everything(solution: Solution) -> Iterator[Spoilt]:
    """Say, or write beside what is to be written, all that was given and all that was found."""
    texts = [each for each in solution.texts if is_prose(each[1])]
    if solution.has_answer:
        spot = Spot(len(solution.turns) - 1, None)
        yield _spoilt(solution, "all that was given and found as the answer", {spot: EVERYTHING})
    elif texts:
        spot, text, spans = texts[0]
        end = spans[-1][1]
        changed = f"{text[:end]}\n{EVERYTHING}\n{text[end:]}"
        yield _spoilt(solution, "all that was given and found written too", {spot: changed})


def _spoilt(solution: Solution, done: str, changes: Mapping[Spot, Any]) -> Spoilt:
    places: Sequence[str] = [solution.place(spot) for spot in changes]
    return Spoilt(done, tuple(dict.fromkeys(places)), replaced(solution.turns, changes))
