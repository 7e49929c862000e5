"""What tasks ask and expect, as texts that must not stand in a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import PurePosixPath
from typing import Any, Literal

from pytest_agenteval.loop.leaks.leak import LeakKind
from pytest_agenteval.loop.leaks.pattern_literals import is_pattern, literals
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.task_spec import Task, Turn

OWN_METADATA = re.compile("needle|marker|canary|expected|answer|secret|gold")
"""Keys of metadata whose values are no labels, but something that is looked for."""

_PLACES = ("base_fixture", "fixture_dir")
"""Keys of an input that name folders of ours: the agent is not given them."""


_ID_WORD = re.compile(r"[^\W_]+")
_LEAST_ID_WORDS = 3
_DAY = re.compile(r"(\d{4})\D(\d\d)\D(\d\d)")
_IS_TYPE = re.compile("(?:^t|_t|T)ype$")
LEAST_STEM = 5
"""Letters that all forms of a word begin with."""

_FILE_NAME = re.compile(r"[^*?{}\[\]]+\.\w{1,5}")

Spelling = Literal["any", "title", "joined"]
"""How a prompt has to write a text for it to be this one: in any way; with capitals, or as one word; as one
word, with hyphens or the like."""


class TaskText(FrozenValue, frozen=True):
    """A text of a task, as its author wrote it, and what it is there.

    Texts of one ``fact`` are alternatives: an answer needs one of them. One that is ``alone`` has none, or
    only its own forms.
    """

    kind: LeakKind
    text: str
    fact: int
    alone: bool
    spelling: Spelling = "any"


def texts_of(task: Task) -> Iterator[TaskText]:
    """Give what the task's file says that must not stand in a prompt; its workspace is not read."""
    facts: list[tuple[LeakKind, list[str]]] = [("task_id", [task.id])]
    facts += (("expected_value", fact) for spec in task.graders for fact in _facts(spec.config))
    own = {key: value for key, value in task.metadata.items() if OWN_METADATA.search(key)}
    facts += (("expected_value", fact) for fact in _facts(own))
    facts += (("reference_solution", [text]) for text in solution_texts(task))
    facts += (("input", [text]) for text in input_texts(task))
    for number, (kind, texts) in enumerate(facts):
        alone = _is_one_word(texts)
        yield from (TaskText(kind, text, number, alone) for text in texts)
        if kind == "expected_value":
            yield from (part for text in texts for part in _file_names(text, number))
            dates = (date for text in texts for date in _dates(text))
            yield from (TaskText(kind, date, number, False) for date in dates)
    yield from (TaskText("task_id", part, 0, False, "joined") for part in _id_endings(task.id))


def _is_one_word(texts: Sequence[str]) -> bool:
    """Whether alternatives are forms of the same, as they are where words have endings, or there are none."""
    return len(texts) == 1 or len({text.casefold()[:LEAST_STEM] for text in texts}) == 1


def _file_names(path: str, fact: int) -> Iterator[TaskText]:
    """Give the name of a file that is expected, with and without its ending."""
    name = PurePosixPath(path).name
    if name != path and _FILE_NAME.fullmatch(name):
        yield TaskText("expected_value", name, fact, False)
        yield TaskText("expected_value", PurePosixPath(name).stem, fact, False, "title")


def _dates(text: str) -> Iterator[str]:
    """Give a day with its parts in the other orders that people write."""
    if match := _DAY.fullmatch(text.strip()):
        year, month, day = match.groups()
        yield from (f"{day}.{month}.{year}", f"{month}/{day}/{year}")


def _id_endings(id: str) -> Iterator[str]:
    """Give an id without its first words, which are the suite's, as long as three are left."""
    words = [*_ID_WORD.finditer(id)]
    yield from (id[word.start() :] for word in words[1 : 1 - _LEAST_ID_WORDS])


def labels(task: Task) -> Iterator[str]:
    """Give what sorts a task in with others: its tags, and what its metadata say about it."""
    yield from task.tags
    yield from (text for key, text in _leaves(task.metadata) if not OWN_METADATA.search(key))


def input_texts(task: Task) -> Iterator[str]:
    """Give the texts of a task's input."""
    for _, text in _leaves({key: task.input[key] for key in task.input if key not in _PLACES}):
        yield text


def schema_words(task: Task) -> Iterator[str]:
    """Give names of tools, of their arguments and of what they answer, and what may be chosen from.

    Every agent has to be told: they are no task's own.
    """
    described: list[Any] = [task.input, *(spec.config for spec in task.graders)]
    described += [call.args for turn in _turns(task) for call in turn.calls]
    yield from _names_and_choices(described)
    for turn in _turns(task):
        yield from (call.tool for call in turn.calls)
    yield from (fault.tool for fault in task.faults)
    for _, text in _leaves(task.settings):
        yield text


def _names_and_choices(value: Any, key: str = "") -> Iterator[str]:
    """Give the keys that are names, the values of an ``enum`` that leaves a choice, and types."""
    if isinstance(value, Mapping):
        yield from (name for name in value if _is_name(name))
        for name, inner in value.items():
            yield from _names_and_choices(inner, name)
    elif isinstance(value, list | tuple):
        if key == "enum" and len(value) > 1:
            yield from (text for _, text in _leaves(value))
        for inner in value:
            yield from _names_and_choices(inner)
    elif isinstance(value, str) and _IS_TYPE.search(key) and _is_name(value):
        yield value


def _facts(config: Mapping[str, Any]) -> Iterator[list[str]]:
    """Give what a grader expects, with its alternatives: a list within a list, or the parts of a pattern."""
    for value, key in _alternatives(config):
        texts = [_plain(own or key, text) for own, text in _leaves(value)]
        yield [text for several in texts for text in several]


def _alternatives(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[Any, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _alternatives(inner, name)
            yield from ((text, "") for text in [name] if not _is_name(name))
    elif isinstance(value, list | tuple) and not depth:
        for inner in value:
            yield from _alternatives(inner, key, 1)
    else:
        yield value, key


def _plain(key: str, text: str) -> list[str]:
    return [*literals(text)] if is_pattern(key, text) else [text]


def solution_texts(task: Task) -> Iterator[str]:
    """Give the texts of a task's reference solution, and of the replies that it has scripted."""
    reference = task.reference_solution
    for turn in _turns(task):
        yield turn.text
        for call in turn.calls:
            yield from (text for _, text in _leaves(call.args))
    if reference:
        for _, text in _leaves([reference.expected_outcome, reference.sample_transcript]):
            yield text


def _turns(task: Task) -> tuple[Turn, ...]:
    reference = task.reference_solution
    return (*(reference.turns if reference else ()), *(task.script or ()))


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Give all texts and numbers within a value, each with the nearest key above it.

    Keys are names that the graders or tools chose, unless they could be no name in any code.
    """
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, bool):
        return
    elif isinstance(value, int | float):
        yield key, _number_text(value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if not _is_name(name):
                yield key, name
            yield from _leaves(inner, name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, key)


def _is_name(key: str) -> bool:
    return key.isascii() and key.isidentifier()


def _number_text(value: float) -> str:
    """Write a number as people do: 1250000.0 is 1250000."""
    whole = isfinite(value) and value == int(value)
    return str(int(value)) if whole else str(value)
