"""Contamination: which pieces of task texts, and which expected values, stand in prompts.

Texts are compared by their letters and digits alone: no case, width, accents, spaces or punctuation.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from msgspec.structs import replace

from pytest_agenteval.loop.todays_tasks import SuiteWithTasks
from pytest_agenteval.records.plan import Split
from pytest_agenteval.records.record import Document, FrozenValue, Record
from pytest_agenteval.tasks.task_spec import Task, Turn
from pytest_agenteval.tasks.workspace import snapshot

LeakKind = Literal["task_id", "expected_value", "reference_solution", "input", "workspace"]


# Metadata keys whose values are searched for; other values are labels.
OWN_METADATA = re.compile("needle|marker|canary|expected|answer|secret|gold")
# Keys of an input that name our own folders, which the agent does not see.
_PLACES = ("base_fixture", "fixture_dir")
_IS_TYPE = re.compile("(?:^t|_t|T)ype$")

# A piece is eight words in a row, or 16 signs of a script that sets no spaces between words, or sets them
# freely as Korean does: a sign counts for half a word. Fewer letters than these identify no text.
_PIECE, _LEAST_PIECE = 16, 10
# Thai, Lao, Burmese, Khmer; kana, Han and Hangul.
_SIGNS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"  # noqa: E501
_SIGN = re.compile(f"[{_SIGNS}]")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_UNIT = re.compile(rf"[{_SIGNS}]|(?:(?![{_SIGNS}_])\w)+")

# A value needs so many letters to be looked for, and so many to be found within a longer word.
_LEAST_VALUE, _SURE_VALUE = 5, 8
# A value is a leak by itself if it has three words with this many letters; or if an answer needs these very
# words, they have this many letters, and no other task has them; or if it is a number of this weight, where
# each digit counts as three letters.
_LETTERS_OF_WORDS, _LETTERS_ALONE, _LETTERS_OF_NUMBER = 10, 7, 9
# What so many tasks ask or expect is a category, and not specific to one of them.
_COMMON = 3
# An input that is too short for a piece is looked for as a whole if it has so many words.
_LEAST_INPUT_WORDS = 4
_WEEKDAY = re.compile("(?:mon|tues|wednes|thurs|fri|satur|sun)day")

# 2,386 is no part of 12,386; a short word begins where a word does, and is no mere part of a longer one.
_NUMBER_BEFORE, _NUMBER_AFTER = re.compile(r"[A-Za-z]$|\d[.,:'’]?$"), re.compile(r"[.,:'’]?\d")
_ENDING = re.compile(r"[^\W_]{0,2}(?:[\W_].*)?", re.DOTALL)

# Letters with a stroke, and letters of Cyrillic and Greek that look like Latin ones.
_LOOK_ALIKE = str.maketrans("łđøħŧıавекмнорстухіјѕαβεηικμνορτυχζ", "ldohtiabekmhopctyxijsabehikmnoptyxz")

_ESCAPE = re.compile(
    r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|([abfnrtv]))"
    r"|(&#?\w+;)|((?:%[0-9A-Fa-f]{2})+)"
)


class Leak(Record, frozen=True):
    """A text of a task that stands in a prompt: on which line of which file, and in whose words.

    ``text`` is what the file itself says there. ``task`` is empty for a held-out task, of which nobody is to
    learn more: then ``text`` is the whole line. ``added`` says that it did not stand in the old files.
    """

    file: str
    line: int
    kind: LeakKind
    text: str
    task: str
    split: Split
    added: bool


class LeaksDocument(Document, frozen=True):
    """What of suites' tasks stands in files: the leaks by file and line, and what was looked at.

    ``since`` is the commit that the files are compared with; empty where there is none, and all is added.
    """

    since: str
    files: tuple[str, ...]
    suites: tuple[str, ...]
    tasks: int
    leaks: tuple[Leak, ...]


@cache
def _fold(char: str) -> str:
    """Give the letters and digits that a character is for comparing; spaces and signs are none."""
    if unicodedata.category(char)[0] not in "LNM":
        return ""
    # Folded twice: compatibility forms may become capitals.
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char.casefold()).casefold())
    # Katakana reads as hiragana does.
    plain = (
        chr(ord(sign) - 0x60) if "\u30a1" <= sign <= "\u30f6" else sign
        for sign in folded.translate(_LOOK_ALIKE)
    )
    return "".join(str(unicodedata.digit(sign, sign)) for sign in plain if _counts(sign))


def _counts(sign: str) -> bool:
    """Whether a sign is compared: letters, digits, and vowel signs that tell words apart, as in India."""
    category = unicodedata.category(sign)
    # Those with a combining class change places in other forms of Unicode.
    is_vowel = category[0] == "M" and "\u0900" <= sign < "\u1ab0" and not unicodedata.combining(sign)
    return is_vowel or (category[0] in "LN" and category != "Lm")


def compact(text: str) -> str:
    """Give the letters and digits of a text as they are compared: ``Café 12`` is ``cafe12``."""
    return "".join(map(_fold, text))


class SearchedFile:
    """A file that is searched: its text with escapes written out, and in compact form."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = _without_escapes(text)
        folded = [(sign, place) for place, char in enumerate(self.text) for sign in _fold(char)]
        self.compact = "".join(sign for sign, _ in folded)
        self._places = [place for _, place in folded]

    def spans(self, value: str, *, is_piece: bool = False) -> Iterator[tuple[int, int]]:
        """Give where a compact text stands that is no mere part of a longer word or number."""
        for match in re.finditer(f"(?={value})", self.compact):
            if is_piece or self._stands_alone(value, match.start()):
                yield match.start(), match.start() + len(value)

    def _stands_alone(self, value: str, start: int) -> bool:
        first, behind = self._places[start], self._places[start + len(value) - 1] + 1
        before, after = self.text[max(0, first - 2) : first], self.text[behind : behind + 3]
        if value.isdigit():
            is_year = re.fullmatch("(?:19|20)..", self.text[first:behind])
            return not (is_year or _NUMBER_BEFORE.search(before) or _NUMBER_AFTER.match(after))
        if len(value) >= _SURE_VALUE or not value.isascii():
            return True
        return not before[-1:].isalnum() and _ENDING.fullmatch(after) is not None

    def is_word(self, start: int, end: int, text: str) -> bool:
        """Whether a text stands there in no more words than it has: overtime is not in "over time"."""
        return len(self.words(start, end).split()) <= len([*_units(text)])

    def line_of(self, start: int) -> int:
        return 1 + self.text.count("\n", 0, self._places[start])

    def words(self, start: int, end: int) -> str:
        return " ".join(self.text[self._places[start] : self._places[end - 1] + 1].split())

    def whole_line(self, start: int) -> str:
        return self.text.split("\n")[self.line_of(start) - 1].strip()


def _without_escapes(text: str) -> str:
    """Write out what a text spells by escapes of JSON, Python, HTML or addresses, line for line."""

    def unescaped(match: re.Match[str]) -> str:
        *codes, control, entity, address = match.groups()
        code = int(next(filter(None, codes), "0"), 16)
        if code >= 0x110000:
            return match[0]
        # An escaped line end or tab separates words, as the character itself does.
        if control:
            return " "
        plain = chr(code) if code else html.unescape(entity or "") or unquote(address or "")
        return plain.replace("\n", " ")

    # Two escapes of a surrogate pair are one character.
    units = _ESCAPE.sub(unescaped, text).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")


class TaskText(FrozenValue, frozen=True):
    """A text of the task of this number; ``is_needed`` where an answer has no other to choose from."""

    kind: LeakKind
    text: str
    task: int
    is_needed: bool = False


def _task_texts(task: Task, number: int) -> Iterator[TaskText]:
    """Give what the task's file says that must not stand in a prompt; its workspace is not read."""
    yield TaskText("task_id", task.id, number)
    own = {key: value for key, value in task.metadata.items() if OWN_METADATA.search(key)}
    for config in (*(spec.config for spec in task.graders), own):
        for fact in _facts(config):
            for text in fact:
                # Agents have to know folders: of a path only several words say enough.
                yield TaskText("expected_value", text, number, len(fact) == 1 and "/" not in text)
    solution = [[turn.text, *(call.args for call in turn.calls)] for turn in _turns(task)]
    if reference := task.reference_solution:
        solution.append([reference.expected_outcome, reference.sample_transcript])
    yield from (TaskText("reference_solution", text, number) for text in _leaves(solution))
    yield from (TaskText("input", text, number) for text in _input_texts(task))


def _input_texts(task: Task) -> Iterator[str]:
    yield from _leaves({key: value for key, value in task.input_map.items() if key not in _PLACES})


def _turns(task: Task) -> tuple[Turn, ...]:
    reference = task.reference_solution
    return (*(reference.turns if reference else ()), *(task.script or ()))


def _facts(value: Any, key: str = "", *, in_list: bool = False) -> Iterator[list[str]]:
    """Give what a grader expects, with its alternatives: a list within a list, or the parts of a pattern."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            # A key that can be no name in code, such as a file's path, is something that is expected.
            yield from [] if _is_name(name) else [[name]]
            # Types, and the choices of a schema, are what every agent has to know.
            if name != "enum" and not _IS_TYPE.search(name):
                yield from _facts(inner, name)
    elif isinstance(value, list | tuple) and not in_list:
        for inner in value:
            yield from _facts(inner, key, in_list=True)
    else:
        yield [piece for text in _leaves(value) for piece in _literals(text, key)]


def _literals(text: str, key: str) -> list[str]:
    r"""Give a setting's text, or of a pattern the pieces that stand in whatever it finds.

    >>> _literals(r"pier\s*(?:nine|9)[^,]*until\s+half past", "pattern")
    ['pier', 'nine', '9', 'until half past']
    """
    if "pattern" not in key and "regex" not in key and not re.search(r"\\[a-zA-Z.]|\(\?", text):
        return [text]
    # What must not be there goes; what only separates words is a space; what may be missing is no letter.
    text = re.sub(r"\(\?<?![^()]*(?:\([^()]*\)[^()]*)*\)", "|", text)
    text = re.sub(r"\\s[*+?]*|\[[^\w\]\\]*\][*+?]*", " ", text)
    text = re.sub(r"([^\w\s()\]\\])\?", r"\1", text)
    pieces = re.split(
        r"\w[?*]|\(\?(?:P?<\w+>|[^:)]*:|=|[a-zA-Z]+\))?|\[[^\]]*\]|\{[\d,]*\}|\\\w|(?<!\\)[()|.*+?^$]", text
    )
    return [re.sub(r"\\(.)", r"\1", piece).strip() for piece in pieces if piece.strip()]


def _leaves(value: Any) -> Iterator[str]:
    """Give all texts and numbers within a value, and the keys that could be no name in any code."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        # As people write it: 1250000.0 is 1250000.
        yield str(int(value)) if isfinite(value) and value == int(value) else str(value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from [] if _is_name(name) else [name]
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)


def _is_name(key: str) -> bool:
    return key.isascii() and key.isidentifier()


def _pieces(text: str, heads: Collection[str]) -> Iterator[str]:
    """Give the pieces of a text whose first letters are in ``heads``, which are those of the prompts."""
    units = [*_units(text)]
    starts = [*accumulate((len(unit) for unit, _ in units), initial=0)]
    whole = "".join(unit for unit, _ in units)
    for first, start in enumerate(starts):
        if whole[start : start + _LEAST_PIECE] in heads:
            weights = accumulate(weight for _, weight in units[first : first + _PIECE])
            enough = next((count for count, weight in enumerate(weights, 1) if weight >= _PIECE), None)
            if enough and starts[first + enough] - start >= _LEAST_PIECE:
                yield whole[start : starts[first + enough]]


def _units(text: str) -> Iterator[tuple[str, int]]:
    """Give the words of a text, or its signs, in compact form with their weights in a piece."""
    if text.isascii():  # as most files of workspaces are, which would take twice as long
        yield from ((word, 2) for word in _ASCII_WORD.findall(text.lower()))
        return
    for match in _UNIT.finditer(unicodedata.normalize("NFC", text)):
        if unit := compact(match[0]):
            yield unit, 1 if _SIGN.match(match[0]) else 2


class _TaskIndex:
    """The texts of all tasks: short ones whole, by their compact form, long ones by their pieces."""

    def __init__(self, suites: Iterable[SuiteWithTasks], heads: Collection[str]) -> None:
        self.tasks: list[Task] = []
        self.values: defaultdict[str, list[TaskText]] = defaultdict(list)
        self.pieces: defaultdict[str, list[TaskText]] = defaultdict(list)
        self._heads, self._tools = heads, set[str]()
        # What each task asks, and all that it says, in compact form.
        self._inputs, self._texts = list[str](), list[str]()
        for suite in suites:
            trees: dict[Path, list[int]] = defaultdict(list)
            for loaded, layers in zip(suite.tasks, suite.layers, strict=True):
                for layer in layers:
                    trees[layer].append(len(self.tasks))
                self._add(loaded.task)
            # A base tree of many tasks is read once, for the first one that anybody may look at.
            for layer, tasks in trees.items():
                first = min(tasks, key=lambda task: (self.tasks[task].split == "held_out", task))
                for file in snapshot(layer).files.values():
                    self._add_pieces(TaskText("workspace", file.text or "", first))

    def _add(self, task: Task) -> None:
        number = len(self.tasks)
        self.tasks.append(task)
        # Every agent has to know the names of tools, and what its settings say.
        tools = (call.tool for turn in _turns(task) for call in turn.calls)
        self._tools.update(
            map(compact, (*tools, *(fault.tool for fault in task.faults), *_leaves(task.settings)))
        )
        self._inputs.append("\n".join(map(compact, _input_texts(task))))
        texts = [*_task_texts(task, number)]
        self._texts.append("\n".join(map(compact, (task.description, *(each.text for each in texts)))))
        for each in texts:
            weight, value = sum(weight for _, weight in _units(each.text)), compact(each.text)
            is_short_input = each.kind == "input" and weight < 2 * _LEAST_INPUT_WORDS
            # A long text is searched for piece by piece, since a prompt may copy a part of it.
            if weight >= _PIECE:
                self._add_pieces(each)
            elif (_letters(value) >= _LEAST_VALUE or value.isdigit()) and not is_short_input:
                self.values[value].append(each)

    def _add_pieces(self, text: TaskText) -> None:
        for piece in _pieces(text.text, self._heads):
            self.pieces[piece].append(text)

    def is_common(self, value: str, texts: Sequence[TaskText]) -> bool:
        """Whether agents have to know a text: the name of a tool, or what several tasks ask or expect."""
        of_tasks = {each.task for each in texts}
        is_category = len(of_tasks) >= _COMMON and not any(map(str.isdigit, value))
        return value in self._tools or is_category or sum(value in text for text in self._inputs) >= _COMMON

    def says_enough(self, value: str, texts: Sequence[TaskText]) -> bool:
        """Whether a text is a leak wherever it stands: nobody writes it by chance."""
        digits, is_needed = sum(map(str.isdigit, value)), any(each.is_needed for each in texts)
        if any(each.kind == "task_id" and not each.text.isalnum() for each in texts):
            return True
        # Anybody may choose a round number for a limit.
        if value.isdigit() and len(value.strip("0")) < 3:
            return False
        if (digits > 1 or (digits and is_needed)) and _letters(value) + 2 * digits >= _LETTERS_OF_NUMBER:
            return len(value) > 3
        words = max(len([*_units(each.text)]) for each in texts)
        return words >= 3 and _letters(value) >= _LETTERS_OF_WORDS

    def is_rare(self, value: str, texts: Sequence[TaskText]) -> bool:
        """Whether an answer needs a word that no other task has."""
        needed = any(each.kind == "expected_value" and each.is_needed for each in texts)
        if not needed or _letters(value) < _LETTERS_ALONE or _WEEKDAY.fullmatch(value):
            return False
        return sum(value in text for text in self._texts) < 2


def _letters(value: str) -> int:
    """Count the letters of a compact text; a sign of Han or kana says as much as two."""
    return len(value) + sum(sign >= "\u2e80" for sign in value)


class _Hit(FrozenValue, frozen=True):
    """A text of a task that stands in a new file, from here to there in the compact text."""

    prompt: int
    start: int
    end: int
    owner: TaskText
    added: bool


def prompt_leaks(
    old: Mapping[str, str],
    new: Mapping[str, str],
    suites: Iterable[SuiteWithTasks],
    code: Collection[str] = (),
) -> tuple[Leak, ...]:
    """Give the texts of these suites' tasks that stand in the new files, in the order of files and lines.

    ``old`` and ``new`` are the texts of all files that are looked at, by their paths; a file may have moved
    from one path to another. ``code`` names the files that are no prompts: ordinary words are no leak there.
    """
    prompts = [SearchedFile(file, text) for file, text in new.items()]
    whole = "\n".join(prompt.compact for prompt in prompts)
    before = "\n".join(compact(_without_escapes(text)) for text in old.values())
    tasks = _TaskIndex(suites, {whole[place : place + _LEAST_PIECE] for place in range(len(whole))})
    hits = list[_Hit]()
    for value, texts in (*tasks.pieces.items(), *tasks.values.items()):
        if value not in whole or tasks.is_common(value, texts):
            continue
        # A text that several tasks have is reported for one of split dev, if there is one.
        owner = min(texts, key=lambda each: tasks.tasks[each.task].split == "held_out")
        is_piece = value in tasks.pieces
        is_sure = is_piece or tasks.says_enough(value, texts)
        if is_sure or tasks.is_rare(value, texts):
            for number, prompt in enumerate(prompts):
                if is_sure or prompt.file not in code:
                    # By text and not by place: a line that only moved is not new.
                    hits += (
                        _Hit(number, start, end, owner, value not in before)
                        for start, end in prompt.spans(value, is_piece=is_piece)
                        if is_sure or prompt.is_word(start, end, owner.text)
                    )
    files = [*new]
    leaks = {_leak(hit, tasks, prompts[hit.prompt]) for hit in _outermost(hits)}
    return tuple(sorted(leaks, key=lambda leak: (files.index(leak.file), leak.line, leak.text)))


def _outermost(hits: Iterable[_Hit]) -> list[_Hit]:
    """Join the pieces of one copy, and leave out what stands within a longer text that is reported anyway."""
    found = list[_Hit]()
    for hit in sorted(hits, key=lambda hit: (hit.prompt, hit.start, -hit.end)):
        last = found[-1] if found and found[-1].prompt == hit.prompt else None
        if last and hit.start < last.end and hit.owner == last.owner:
            found[-1] = replace(last, end=max(hit.end, last.end), added=last.added or hit.added)
        elif not (last and hit.end <= last.end):
            found.append(hit)
    return found


def _leak(hit: _Hit, tasks: _TaskIndex, prompt: SearchedFile) -> Leak:
    task = tasks.tasks[hit.owner.task]
    # Of a held-out task nobody may learn the id, or which words matched: the whole line is quoted.
    held_out = task.split == "held_out"
    return Leak(
        file=prompt.file,
        line=prompt.line_of(hit.start),
        kind=hit.owner.kind,
        text=prompt.whole_line(hit.start) if held_out else prompt.words(hit.start, hit.end),
        task="" if held_out else task.id,
        split=task.split,
        added=hit.added,
    )
