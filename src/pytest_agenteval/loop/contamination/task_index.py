"""The texts of a suite's tasks by their alphanumeric forms: whose each is, and whether anybody may write it.

An answer has to hold "phone" and "sewing": a prompt that says "phone" leaks nothing. One that says both near
each other does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path

from pytest_agenteval.loop.contamination.prompt_index import (
    MOST_ENDING,
    Passage,
    alphanumeric,
    fold,
    is_price,
    is_round,
    is_searched,
    is_short_number,
    known_pieces,
    passage,
)
from pytest_agenteval.loop.contamination.task_texts import (
    LeakKind,
    Spelling,
    SuiteWithTasks,
    input_texts,
    labels,
    protected_texts,
    schema_words,
    solution_texts,
    workspace_texts,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.task_spec import Task

# Two words with this many letters, or signs that say as much, do not count as ordinary. A single word may be
# as long in Russian or Finnish, and still be ordinary.
ENOUGH = 12

# A number or code is specific to its task from this many letters on, each digit counted as three: ``6 more``
# is not.
ENOUGH_WITH_DIGITS = 9

# A single word needs this many letters, if an answer must hold it and no other task mentions it.
ENOUGH_ALONE = 7

# Three words in a row with this many letters are no coincidence.
ENOUGH_WORDS, ENOUGH_OF_WORDS = 3, 10

# Common names that English writes with a capital although they belong to no one.
_CALENDAR = re.compile(
    "(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august"
    "|(?:septem|octo|novem|decem)ber"
)

# If more words within sentences than this share begin with a capital, capitals do not mark names, as in
# German.
_CAPITALS_OF_NOUNS = 0.2

# How many Latin letters a sign counts for: of Han and Hangul, of kana and of scripts that leave vowels out,
# of India and its neighbours.
_WORTH = (
    (re.compile("[\u3005-\u3007\u3400-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"), 1.5),
    (re.compile("[\u0590-\u08ff\u3040-\u30ff]"), 0.5),
    (re.compile("[\u0900-\u109f\u1780-\u17ff]"), 0.35),
)

_WORD = re.compile(r"\w+")
_BEGINNING = re.compile(r"""(?:^|[.!?:;…\n\r\-*#>•"'“”‘’(\[{/|])\s*$""")

# What this many tasks ask or expect is a category, and not specific to one of them.
COMMON = 3

# A path with this many words names a file, and not a folder that agents have to know.
LEAST_FILE_WORDS = 3

# An input that is too short for a piece of eight words is searched for as a whole if it has this many.
LEAST_INPUT_WORDS = 4

# How many tasks are read to learn how a suite uses capitals.
MOST_SAMPLED = 100

_KINDS: Sequence[LeakKind] = ("task_id", "expected_value", "reference_solution", "input", "workspace")


def says_enough(value: str, words: int, alone: bool) -> bool:
    """Whether a compact text of so many words is a leak wherever it stands, names apart.

    Two words are where an answer needs these very words, and has no others to choose from.
    """
    letters = letters_of(value)
    # A digit tells more than a letter: nobody else writes the same number by chance.
    digits = sum(char.isdigit() for char in value)
    if (digits > 1 or (digits and alone)) and letters + 2 * digits >= ENOUGH_WITH_DIGITS:
        return not is_short_number(value) and not is_round(value)
    if words >= ENOUGH_WORDS and letters >= ENOUGH_OF_WORDS:
        return True
    return letters >= ENOUGH and (letters > len(value) or (words > 1 and alone))


def letters_of(value: str) -> float:
    """Count how many Latin letters say as much as a compact text."""
    return len(value) + sum(more * len(signs.findall(value)) for signs, more in _WORTH)


class Prose(FrozenValue, frozen=True):
    """A text, and its words with their compact forms."""

    text: str
    words: tuple[tuple[re.Match[str], str], ...]


def prose(text: str) -> Prose:
    return Prose(text, tuple((match, alphanumeric(match[0])) for match in _WORD.finditer(text)))


def _is_day_or_month(value: str) -> bool:
    """Whether a compact text is a day or a month, which any prompt may have to name."""
    return _CALENDAR.fullmatch(value) is not None


def is_name(value: str, texts: Iterable[Prose]) -> bool:
    """Whether these texts write all words of a value with capitals, and not just where a sentence begins."""
    if _is_day_or_month(value):
        return False
    within = False
    for text in texts:
        for words in _mentions(value, text.words):
            # Written in lower case once, the word is no name.
            if not all(word[0][0].isupper() for word in words):
                return False
            before = text.text[max(0, words[0].start() - 8) : words[0].start()]
            # At the beginning of a sentence every word has a capital.
            within = within or len(words) > 1 or not _BEGINNING.search(before)
    return within


def _mentions(value: str, words: Sequence[tuple[re.Match[str], str]]) -> Iterator[list[re.Match[str]]]:
    """Give the words that spell a value together, the last of them perhaps with an ending of its own."""
    for number, (_, first) in enumerate(words):
        if not first or not (value.startswith(first) or first.startswith(value)):
            continue
        spelt, mention = "", list[re.Match[str]]()
        for match, word in words[number:]:
            spelt += word
            mention.append(match)
            if len(spelt) >= len(value) or not value.startswith(spelt):
                break
        if spelt.startswith(value) and len(spelt) - len(value) <= MOST_ENDING:
            yield mention


class AllTasksTexts:
    """The compact texts of all tasks, one behind the other: to look through one long text is quick."""

    def __init__(self, texts: Iterable[str]) -> None:
        every = list(texts)
        self._whole = "\n".join(every)
        self._starts = list(accumulate((len(text) + 1 for text in every[:-1]), initial=0))

    def is_shared(self, value: str, tasks: int) -> bool:
        """Whether so many tasks, or more, hold a compact text."""
        place, count = self._whole.find(value), 0
        while place >= 0:
            count += 1
            behind = bisect_right(self._starts, place)
            if count == tasks or behind == len(self._starts):
                break
            place = self._whole.find(value, self._starts[behind])
        return count == tasks


class TextOwner(FrozenValue, frozen=True):
    """What a text is, in the task of this number: which of its facts, of how many words, without another.

    It ``is_file`` where it has three words or more with slashes between, or is a file's name.
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

    def __init__(self, suites: Iterable[SuiteWithTasks], beginnings: Collection[str]) -> None:
        self.tasks: list[Task] = []
        self.values: defaultdict[str, list[TextOwner]] = defaultdict(list)
        self.pieces: defaultdict[str, list[TextOwner]] = defaultdict(list)
        self._beginnings = beginnings
        self._schema, self._labels = set[str](), set[str]()
        self._prose: dict[int, Sequence[Prose]] = {}
        self._inputs, self._texts = list[str](), list[str]()
        for suite in suites:
            trees: dict[Path, list[int]] = defaultdict(list)
            for loaded, layers in zip(suite.tasks, suite.layers, strict=True):
                for layer in layers:
                    trees[layer].append(len(self.tasks))
                self._add_task(loaded.task)
            # A base tree is shared by many tasks: it is read once.
            for layer, tasks in trees.items():
                # Tasks may share a tree: it counts for the first one that anybody may look at.
                first = min(tasks, key=lambda task: (self.tasks[task].split == "held_out", task))
                for text in workspace_texts(layer):
                    self._add_passage(passage(fold(text)), TextOwner("workspace", first))
        self._input_texts, self._all_texts = AllTasksTexts(self._inputs), AllTasksTexts(self._texts)

    def _add_task(self, task: Task) -> None:
        number = len(self.tasks)
        self.tasks.append(task)
        self._schema.update(map(alphanumeric, schema_words(task)))
        self._labels.update(map(alphanumeric, labels(task)))
        self._inputs.append(" ".join(alphanumeric(text) for text in input_texts(task)))
        texts = [alphanumeric(task.description)]
        for each in protected_texts(task):
            folded = fold(each.text)
            texts.append(folded.replace(" ", ""))
            words = len(folded.split())
            is_path = "/" in each.text
            is_folder = is_path and words < LEAST_FILE_WORDS
            owner = TextOwner(
                each.kind,
                number,
                each.fact,
                1 if is_folder else words,
                each.alone and not is_folder,
                is_file=(is_path and not is_folder) or each.spelling == "title",
                is_price=is_price(texts[-1], each.text),
                spelling=each.spelling,
            )
            text = passage(folded)
            # A long text is searched for piece by piece, since a prompt may copy a part of it.
            if text.is_long:
                self._add_passage(text, owner)
            elif self._is_searched(text, owner):
                self.values[text.compact].append(owner)
        self._texts.append(" ".join(texts))

    @staticmethod
    def _is_searched(text: Passage, owner: TextOwner) -> bool:
        # Three digits say too little, unless an answer needs them.
        if owner.kind == "expected_value" and is_short_number(text.compact):
            return True
        return is_searched(text.compact) and (owner.kind != "input" or text.words >= LEAST_INPUT_WORDS)

    def _add_passage(self, text: Passage, owner: TextOwner) -> None:
        for piece in known_pieces(text, self._beginnings):
            self.pieces[piece].append(owner)

    def owner_of(self, owners: Sequence[TextOwner]) -> TextOwner:
        """Choose the task for which a text is reported: one of split dev before a held-out one."""
        return min(owners, key=lambda each: (self.is_held_out(each), _KINDS.index(each.kind), each.task))

    def is_held_out(self, owner: TextOwner) -> bool:
        return self.tasks[owner.task].split == "held_out"

    def is_anybodys(self, value: str, owners: Sequence[TextOwner]) -> bool:
        """Whether a value belongs to what agents have to know: a tool's name, or what several tasks share.

        What several tasks only expect is a category of theirs, but for ids, numbers and paths of files.
        """
        own = any(owner.kind == "task_id" or owner.is_file for owner in owners)
        if value in self._schema or (not own and _is_category(value, owners)):
            return True
        return self._input_texts.is_shared(value, COMMON)

    def is_in_several_tasks(self, piece: str) -> bool:
        owners = self.pieces[piece]
        inputs = [owner for owner in owners if owner.kind == "input"]
        return len({owner.task for owner in inputs}) >= COMMON or _is_category(piece, owners)

    def says_enough(self, value: str, owners: Sequence[TextOwner]) -> bool:
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
        # Whether a capital within a sentence tells a name in these texts, or every noun has one.
        texts = (text for task in range(len(self.tasks))[:MOST_SAMPLED] for text in self._prose_of(task))
        count = capitals = 0
        for text in texts:
            for (before, _), (word, _) in pairwise(text.words):
                if word[0][0].isalpha() and text.text[before.end() : word.start()] == " ":
                    count += 1
                    capitals += word[0][0].isupper()
        return capitals <= _CAPITALS_OF_NOUNS * count

    def is_leak_as_spelt(self, value: str, owner: TextOwner) -> bool:
        """Whether a text leaks where it is written as it is spelt: most of an id, or the name of a file."""
        if owner.spelling == "joined":
            return value not in self._labels
        is_long = letters_of(value) >= ENOUGH_OF_WORDS
        return owner.spelling == "title" and is_long and (owner.words > 1 or letters_of(value) > len(value))

    def is_rare(self, value: str, owners: Sequence[TextOwner]) -> bool:
        """Whether a word is what an answer has to hold, no other task speaks of, and is no very short one."""
        needed = any(owner.kind == "expected_value" and owner.alone for owner in owners)
        if not needed or letters_of(value) < ENOUGH_ALONE or _is_day_or_month(value):
            return False
        return not self._all_texts.is_shared(value, 2)

    def _prose_of(self, number: int) -> Sequence[Prose]:
        if number not in self._prose:
            texts = [*input_texts(self.tasks[number]), *solution_texts(self.tasks[number])]
            sentences = [text for text in texts if len(text.split()) >= LEAST_INPUT_WORDS]
            self._prose[number] = [*map(prose, sentences)]
        return self._prose[number]


def _is_category(text: str, owners: Sequence[TextOwner]) -> bool:
    return len({owner.task for owner in owners}) >= COMMON and not any(char.isdigit() for char in text)
