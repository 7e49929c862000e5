"""The ways to spoil a reference, by name; which of them a task knows follows from its reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pytest_agenteval.chat.offline.spoilers.action_spoilers import (
    act_on_nothing,
    neighbour_overwritten,
    stray_file,
)
from pytest_agenteval.chat.offline.spoilers.call_spoilers import skip_call, wrong_argument
from pytest_agenteval.chat.offline.spoilers.solution import FileWriter, Solution, Spoilt
from pytest_agenteval.chat.offline.spoilers.text_spoilers import (
    answer_everything,
    date_off_by_a_day,
    fact_dropped,
    number_plus_one,
    verbatim_paste,
)
from pytest_agenteval.records.plan import PlannedTask


def _everything(solution: Solution) -> Iterator[Spoilt]:
    yield from answer_everything(solution)
    yield from act_on_nothing(solution)


SPOILERS: Mapping[str, Callable[[Solution], Iterator[Spoilt]]] = {
    "skip_call": skip_call,
    "wrong_argument": wrong_argument,
    "number_plus_one": number_plus_one,
    "date_off_by_a_day": date_off_by_a_day,
    "fact_dropped": fact_dropped,
    "stray_file": stray_file,
    "neighbour_overwritten": neighbour_overwritten,
    "verbatim_paste": verbatim_paste,
    "answer_everything": _everything,
}
"""Each gives every spoilt form that it has for a task: none where it does not apply."""


MOST_FORMS = 20
"""Forms of one spoiler that are tried of one task: not each word of a reference as long as a book."""


def spoilt_references(task: PlannedTask, writer: FileWriter | None) -> Mapping[str, tuple[Spoilt, ...]]:
    """Give the spoilt forms of a task's reference by the spoiler's name, the same ones every time.

    ``writer`` is how the agent writes a file, where a benchmark says so. Forms that come to the same turns
    are given once.
    """
    solution = Solution(task, writer)
    forms: dict[str, tuple[Spoilt, ...]] = {}
    for name, spoil in SPOILERS.items():
        distinct = [each for each in spoil(solution) if each.turns != solution.turns]
        forms[name] = tuple({str(each.turns): each for each in reversed(distinct)}.values())[::-1][
            :MOST_FORMS
        ]
    return forms
