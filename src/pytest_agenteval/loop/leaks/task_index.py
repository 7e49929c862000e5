"""The texts of a suite's tasks by their compact forms: whose each is, and whether it is anybody's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from pytest_agenteval.loop.leaks.folded_text import compact, fold
from pytest_agenteval.loop.leaks.leak import LeakKind
from pytest_agenteval.loop.leaks.ordinary_words import (
    ENOUGH_ALONE,
    ENOUGH_OF_WORDS,
    AllTasksTexts,
    Prose,
    capitals_tell_names,
    is_day_or_month,
    is_name,
    letters_of,
    prose,
    says_enough,
)
from pytest_agenteval.loop.leaks.passages import Passage, passage, pieces
from pytest_agenteval.loop.leaks.prompt_index import is_searched
from pytest_agenteval.loop.leaks.short_numbers import is_price, is_short_number
from pytest_agenteval.loop.leaks.suite_tasks import SuiteTasks, workspace_texts
from pytest_agenteval.loop.leaks.task_texts import (
    Spelling,
    input_texts,
    labels,
    schema_words,
    solution_texts,
    texts_of,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.task_spec import Task

COMMON = 3
"""What so many tasks ask or expect is a category, and no case."""

LEAST_FILE_WORDS = 3
"""Words from which on a path names a file, and no folder that agents have to know."""

LEAST_INPUT_WORDS = 4
"""Words of an input that is too short for a piece of eight: from so many on it is looked for as a whole."""

MOST_SAMPLED = 100
"""Tasks whose texts tell how a suite uses capitals."""

_KINDS: Sequence[LeakKind] = ("task_id", "expected_value", "reference_solution", "input", "workspace")


class Owner(FrozenValue, frozen=True):
    """What a text is, in the task of this number: which of its facts, of how many words, without another.

    Whether it ``is_file`` is told by its own words: three or more, with slashes between, or by its name's.
    ``is_price`` is a number of four digits that is written as a price, a time or a measure.
    """

    kind: LeakKind
    task: int
    fact: int = 0
    words: int = 0
    alone: bool = False
    is_file: bool = False
    is_price: bool = False
    spelling: Spelling = "any"


class TaskIndex:
    """All tasks of some suites; of long texts only the pieces whose ``beginnings`` stand in the prompts."""

    def __init__(self, suites: Iterable[SuiteTasks], beginnings: Collection[str]) -> None:
        self.tasks: list[Task] = []
        self.values: defaultdict[str, list[Owner]] = defaultdict(list)
        self.pieces: defaultdict[str, list[Owner]] = defaultdict(list)
        self._beginnings = beginnings
        self._schema, self._labels = set[str](), set[str]()
        self._prose: dict[int, Sequence[Prose]] = {}
        self._inputs, self._texts = list[str](), list[str]()
        for suite in suites:
            self._add_suite(suite)
        self._input_texts, self._all_texts = AllTasksTexts(self._inputs), AllTasksTexts(self._texts)

    def _add_suite(self, suite: SuiteTasks) -> None:
        trees: dict[Path, list[int]] = defaultdict(list)
        for loaded, layers in zip(suite.tasks, suite.layers, strict=True):
            for layer in layers:
                trees[layer].append(len(self.tasks))
            self._add_task(loaded.task)
        for layer, tasks in trees.items():
            first = min(tasks, key=lambda task: (self.tasks[task].split == "held_out", task))
            for text in workspace_texts(layer):
                self._add_passage(passage(fold(text)), Owner("workspace", first))

    def _add_task(self, task: Task) -> None:
        number = len(self.tasks)
        self.tasks.append(task)
        self._schema.update(map(compact, schema_words(task)))
        self._labels.update(map(compact, labels(task)))
        self._inputs.append(" ".join(compact(text) for text in input_texts(task)))
        texts = [compact(task.description)]
        for each in texts_of(task):
            folded = fold(each.text)
            texts.append(folded.replace(" ", ""))
            words = len(folded.split())
            is_path = "/" in each.text
            is_folder = is_path and words < LEAST_FILE_WORDS
            owner = Owner(
                each.kind,
                number,
                each.fact,
                1 if is_folder else words,
                each.alone and not is_folder,
                is_file=(is_path and not is_folder) or each.spelling == "title",
                is_price=is_price(texts[-1], each.text),
                spelling=each.spelling,
            )
            self._add_text(passage(folded), owner)
        self._texts.append(" ".join(texts))

    def _add_text(self, text: Passage, owner: Owner) -> None:
        if text.is_long:
            self._add_passage(text, owner)
        elif self._is_searched(text, owner):
            self.values[text.compact].append(owner)

    @staticmethod
    def _is_searched(text: Passage, owner: Owner) -> bool:
        if owner.kind == "expected_value" and is_short_number(text.compact):
            return True
        return is_searched(text.compact) and (owner.kind != "input" or text.words >= LEAST_INPUT_WORDS)

    def _add_passage(self, text: Passage, owner: Owner) -> None:
        for piece in pieces(text, self._beginnings):
            self.pieces[piece].append(owner)

    def owner_of(self, owners: Sequence[Owner]) -> Owner:
        """Choose whom a text is said to be of: a task that anybody may look at before a held-out one."""
        return min(owners, key=lambda each: (self.is_held_out(each), _KINDS.index(each.kind), each.task))

    def is_held_out(self, owner: Owner) -> bool:
        """Whether the text is of a task that nobody is to learn of."""
        return self.tasks[owner.task].split == "held_out"

    def is_anybodys(self, value: str, owners: Sequence[Owner]) -> bool:
        """Whether a value belongs to what agents have to know: a tool's name, or what several tasks share.

        What several tasks only expect is a category of theirs, but for ids, numbers and paths of files.
        """
        own = any(owner.kind == "task_id" or owner.is_file for owner in owners)
        if value in self._schema or (not own and _is_category(value, owners)):
            return True
        return self._input_texts.is_shared(value, COMMON)

    def is_asked_by_several(self, piece: str) -> bool:
        """Whether several tasks' texts hold a piece of eight words."""
        owners = self.pieces[piece]
        asked = [owner for owner in owners if owner.kind == "input"]
        return len({owner.task for owner in asked}) >= COMMON or _is_category(piece, owners)

    def says_enough(self, value: str, owners: Sequence[Owner]) -> bool:
        """Whether a text is a leak by itself: long, with digits, or a name."""
        words = max(owner.words for owner in owners)
        if says_enough(value, words, any(owner.alone for owner in owners)):
            return True
        if any(owner.is_price or (owner.kind == "task_id" and owner.words > 1) for owner in owners):
            return True
        name = self._capitals_tell and any(is_name(value, self._prose_of(owner.task)) for owner in owners)
        return name and not self._all_texts.is_shared(value, COMMON)

    @cached_property
    def _capitals_tell(self) -> bool:
        return capitals_tell_names(
            text for task in range(len(self.tasks))[:MOST_SAMPLED] for text in self._prose_of(task)
        )

    def is_leak_as_spelt(self, value: str, owner: Owner) -> bool:
        """Whether a text leaks where it is written as it is spelt: most of an id, or the name of a file."""
        if owner.spelling == "joined":
            return value not in self._labels
        is_long = letters_of(value) >= ENOUGH_OF_WORDS
        return owner.spelling == "title" and is_long and (owner.words > 1 or letters_of(value) > len(value))

    def is_rare(self, value: str, owners: Sequence[Owner]) -> bool:
        """Whether a word is what an answer has to hold, no other task speaks of, and is no very short one."""
        needed = any(owner.kind == "expected_value" and owner.alone for owner in owners)
        if not needed or letters_of(value) < ENOUGH_ALONE or is_day_or_month(value):
            return False
        return not self._all_texts.is_shared(value, 2)

    def _prose_of(self, number: int) -> Sequence[Prose]:
        if number not in self._prose:
            texts = [*input_texts(self.tasks[number]), *solution_texts(self.tasks[number])]
            sentences = [text for text in texts if len(text.split()) >= LEAST_INPUT_WORDS]
            self._prose[number] = [*map(prose, sentences)]
        return self._prose[number]


def _is_category(text: str, owners: Sequence[Owner]) -> bool:
    return len({owner.task for owner in owners}) >= COMMON and not any(char.isdigit() for char in text)
