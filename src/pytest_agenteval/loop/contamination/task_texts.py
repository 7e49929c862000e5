"""What tasks ask and expect, as texts that must not stand in a prompt, and what a leak of one is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pytest_agenteval.records.plan import Split
from pytest_agenteval.records.record import Document, FrozenValue, Record
from pytest_agenteval.session.planning.suites import Suites, SuiteSearch, read_suite, tasks_of_suite
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES, find_suite
from pytest_agenteval.tasks.load import LoadedTask, load_suite
from pytest_agenteval.tasks.referenced_files import workspace_layers
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.tasks.task_spec import Task, Turn
from pytest_agenteval.text.errors import UsageMistake

LeakKind = Literal["task_id", "expected_value", "reference_solution", "input", "workspace"]

_PART = re.compile(
    r"(?P<never>\(\?<?!)|(?P<open>\((?:\?(?:P?<\w+>|P=\w+|[a-zA-Z-]*:|<?=|>|[a-zA-Z]+(?=\))))?)|(?P<close>\))"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<times>[*+?][?+]?|\{\d*,?\d*\}[?+]?)"
    r"|(?P<kind>\\(?:[dDwWSbBAZzGXRKN]|[pP]\{[^}]*\}|\d+))|(?P<other>[|.])|(?P<between>\\[snrtfv]|[\^$])"
    r"|\\?(?P<sign>.)",
    re.DOTALL,
)
_MAY_BE_MISSING = re.compile(r"[*?]|\{0?,")
_HOLDS_LETTERS = re.compile(r"\\[wWdDS]|[^\W_]")
_MARKS = re.compile(r"\\[a-zA-Z.]|\(\?")

# Files of a starting workspace with more bytes than this are not read: nobody copies from them.
MOST_WORKSPACE_TEXT = 200_000

_ROOT_MARKS = (".git", "pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg")

# Metadata keys whose values are searched for; other values are labels.
OWN_METADATA = re.compile("needle|marker|canary|expected|answer|secret|gold")

# Keys of an input that name our own folders, which the agent does not see.
_PLACES = ("base_fixture", "fixture_dir")

_ID_WORD = re.compile(r"[^\W_]+")
_LEAST_ID_WORDS = 3
_DAY = re.compile(r"(\d{4})\D(\d\d)\D(\d\d)")
_IS_TYPE = re.compile("(?:^t|_t|T)ype$")
# How many letters all forms of a word have in common at their beginning.
LEAST_STEM = 5

_FILE_NAME = re.compile(r"[^*?{}\[\]]+\.\w{1,5}")

# How a prompt must write a text for it to be this one: in any way; with capitals, or as one word; as one
# word, with hyphens or the like.
Spelling = Literal["any", "title", "joined"]


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


def _is_pattern(key: str, text: str) -> bool:
    """Whether a setting is a pattern, by its name or because its text can be nothing else."""
    return "pattern" in key or "regex" in key or _MARKS.search(text) is not None


def pattern_literals(pattern: str) -> Iterator[str]:
    r"""Give the longest pieces that stand in whatever a pattern finds, or in one of its alternatives.

    What only separates words, such as ``\s*`` or ``[- ]?``, stays within a piece, as a space. What must not
    be there (``(?!...)``) is left out.

    >>> list(pattern_literals(r"pier\s*(?:nine|9)[^,]*until\s+half past"))
    ['pier ', 'nine', '9', 'until half past']
    """
    piece, never = list[str](), 0
    for match in _PART.finditer(pattern):
        kind, part = str(match.lastgroup), match[0]
        # How many brackets are open within one that says what must not be there.
        if kind == "never" or (never and kind == "open"):
            never += 1
        elif never and kind == "close":
            never -= 1
        if never:
            continue
        if kind == "sign":
            piece.append(match["sign"])
        elif kind == "between" or (
            kind == "set"
            and not part.startswith("[^")
            and not _HOLDS_LETTERS.search(part.replace(r"\s", " "))
        ):
            piece.append(" ")
        # A sign that may be missing ends the piece; one that is only repeated does not.
        elif kind == "times" and not (piece and piece[-1].isalnum() and _MAY_BE_MISSING.match(part)):
            continue
        else:
            yield from _joined_piece(piece[:-1] if kind == "times" else piece)
            piece = []
    yield from _joined_piece(piece)


def _joined_piece(piece: list[str]) -> Iterator[str]:
    if piece:
        yield "".join(piece)


class SuiteWithTasks(FrozenValue, frozen=True):
    """A suite, its file, and all of its tasks, each with the folders that make its starting workspace."""

    file: Path
    suite: Suite
    tasks: tuple[LoadedTask, ...]
    layers: tuple[tuple[Path, ...], ...]


def read_suites(place: Path) -> list[SuiteWithTasks]:
    """Read the suites below a folder, or the one in whose folder it lies, or that of a suite's file.

    A suite is read as a whole, whatever part of it is named.

    Raises UsageMistake where there is none, and ProblemsFound for a file with problems.
    """
    place = Path(os.path.abspath(place))
    root = _project_root(place)
    if place.name in SUITE_NAMES and place.is_file():
        files_and_suites = [(place, load_suite(place))]
    else:
        every = ((file, read_suite(file, root)) for file in SuiteSearch(place).collected)
        files_and_suites = [(file, suite) for file, suite in every if suite is not None]
    # A part of a suite was named: its suite lies above.
    if not files_and_suites and place.is_dir() and (above := find_suite(place, root)):
        files_and_suites = [(above, load_suite(above))]
    if not files_and_suites:
        raise UsageMistake(f"there is no suite.yaml below {short_path(place)}")
    suites, loaded = Suites(root), []
    for file, suite in files_and_suites:
        tasks = tuple(tasks_of_suite(suites, file, suite))
        layers = (workspace_layers(each.task, file.parent, each.file, root) for each in tasks)
        loaded.append(SuiteWithTasks(file, suite, tasks, tuple(layers)))
    return loaded


def workspace_texts(folder: Path) -> Iterator[str]:
    """Give the texts of the files of a starting tree; what is no text in UTF-8, or very long, is left out."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            try:
                if path.stat().st_size <= MOST_WORKSPACE_TEXT:
                    yield path.read_bytes().decode("utf-8")
            except (OSError, UnicodeDecodeError):
                continue


def _project_root(place: Path) -> Path:
    folder = place if place.is_dir() else place.parent
    for above in (folder, *folder.parents):
        if any((above / mark).exists() for mark in _ROOT_MARKS):
            return above
    return Path.cwd() if folder.is_relative_to(Path.cwd()) else folder


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


def protected_texts(task: Task) -> Iterator[TaskText]:
    """Give what the task's file says that must not stand in a prompt; its workspace is not read."""
    facts: list[tuple[LeakKind, list[str]]] = [("task_id", [task.id])]
    facts += (("expected_value", fact) for spec in task.graders for fact in _facts(spec.config))
    # Other metadata are labels, which sort the task in with others.
    own = {key: value for key, value in task.metadata.items() if OWN_METADATA.search(key)}
    facts += (("expected_value", fact) for fact in _facts(own))
    facts += (("reference_solution", [text]) for text in solution_texts(task))
    facts += (("input", [text]) for text in input_texts(task))
    for number, (kind, texts) in enumerate(facts):
        # Where words have endings, an author may give the forms of one word as alternatives.
        alone = len(texts) == 1 or len({text.casefold()[:LEAST_STEM] for text in texts}) == 1
        yield from (TaskText(kind, text, number, alone) for text in texts)
        if kind == "expected_value":
            yield from (part for text in texts for part in _other_forms(text, number))
    # An id without its first words, which are the suite's, as long as three are left.
    for word in [*_ID_WORD.finditer(task.id)][1 : 1 - _LEAST_ID_WORDS]:
        yield TaskText("task_id", task.id[word.start() :], 0, False, "joined")


def _other_forms(text: str, fact: int) -> Iterator[TaskText]:
    """Give the name of an expected file, with and without its ending, or a day as others write it."""
    name = PurePosixPath(text).name
    if name != text and _FILE_NAME.fullmatch(name):
        yield TaskText("expected_value", name, fact, False)
        yield TaskText("expected_value", PurePosixPath(name).stem, fact, False, "title")
    if match := _DAY.fullmatch(text.strip()):
        year, month, day = match.groups()
        for date in (f"{day}.{month}.{year}", f"{month}/{day}/{year}"):
            yield TaskText("expected_value", date, fact, False)


def labels(task: Task) -> Iterator[str]:
    """Give the texts that group a task with others: its tags, and labels in its metadata."""
    yield from task.tags
    yield from (text for key, text in _leaves(task.metadata) if not OWN_METADATA.search(key))


def input_texts(task: Task) -> Iterator[str]:
    for _, text in _leaves({key: task.input[key] for key in task.input if key not in _PLACES}):
        yield text


def schema_words(task: Task) -> Iterator[str]:
    """Give names of tools, arguments and fields, and the choices of enums.

    Every agent has to know them, so they are no leak.
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
        texts = [
            [*pattern_literals(text)] if _is_pattern(own or key, text) else [text]
            for own, text in _leaves(value)
        ]
        yield [text for several in texts for text in several]


def _alternatives(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[Any, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _alternatives(inner, name)
            # A key that can be no name in code, such as a file's path, is something that is expected.
            yield from ((text, "") for text in [name] if not _is_name(name))
    elif isinstance(value, list | tuple) and not depth:
        for inner in value:
            yield from _alternatives(inner, key, 1)
    else:
        yield value, key


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
    # bool is an int in Python, and True is no number that an answer needs.
    elif isinstance(value, bool):
        return
    elif isinstance(value, int | float):
        # As people write it: 1250000.0 is 1250000.
        whole = isfinite(value) and value == int(value)
        yield key, str(int(value)) if whole else str(value)
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
