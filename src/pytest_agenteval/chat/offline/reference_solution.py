"""A reference solution as spoilers read it: its calls, values and texts, and the files it starts from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agenteval.chat.offline.scripted import RESULT_REFERENCE
from pytest_agenteval.chat.offline.text_changes import TextSpans, is_prose, new_spans, words_of
from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import compact_json

# A copy of the turns of a task's file, each with ``text`` and ``calls``, that may be changed.
Turns = list[dict[str, Any]]


class ValuePlace(NamedTuple):
    """The place of one value in a reference: its turn, its call there, and the keys that lead to it.

    ``call`` is None, and ``keys`` are empty, if the value is the turn's text.
    """

    turn: int
    call: int | None
    keys: tuple[str | int, ...] = ()


def reference_turns(reference: Mapping[str, Any] | None) -> Turns:
    """Give a copy of a reference's turns; empty without a reference."""
    turns = (reference or {}).get("turns") or ()
    copied: Turns = []
    for turn in turns:
        calls = []
        for call in turn.get("calls") or ():
            args = deepcopy(_plain_turn_value(call.get("args") or {}))
            calls.append({"tool": call["tool"], "args": args})
        copied.append({"text": turn.get("text") or "", "calls": calls})
    return copied


def _plain_turn_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain_turn_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_turn_value(inner) for inner in value]
    return value


def values_in(turns: Turns) -> Iterator[tuple[ValuePlace, Any]]:
    """Give every value that is no map and no list, in the order of the conversation."""
    for at, turn in enumerate(turns):
        for number, call in enumerate(turn["calls"]):
            for keys, value in leaf_values(call["args"]):
                yield ValuePlace(at, number, keys), value
        if turn["text"]:
            yield ValuePlace(at, None), turn["text"]


def leaf_values(value: Any, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Give every value below one that is no map and no list, with the keys that lead to it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaf_values(inner, (*keys, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaf_values(inner, (*keys, index))
    else:
        yield keys, value


def with_values(turns: Turns, changes: Mapping[ValuePlace, Any]) -> Turns:
    changed = deepcopy(turns)
    for spot, value in changes.items():
        if spot.call is None:
            changed[spot.turn]["text"] = value
            continue
        holder = changed[spot.turn]["calls"][spot.call]
        *above, last = ("args", *spot.keys)
        for key in above:
            holder = holder[key]
        holder[last] = value
    return changed


def without_call(turns: Turns, left_out: tuple[int, int], given: int) -> Turns:
    """Give the turns without one call: a turn, and a place in it.

    ``given`` results precede the first of the reference. Later references such as ``$2`` keep their meaning;
    those to the left-out result become empty.
    """
    changed = deepcopy(turns)
    places = [(at, place) for at, turn in enumerate(turns) for place, _ in enumerate(turn["calls"])]
    gone = given + places.index(left_out) + 1
    del changed[left_out[0]]["calls"][left_out[1]]
    changed = [turn for turn in changed if turn["calls"] or turn["text"]] or [{"text": "", "calls": []}]

    def renumbered(match: re.Match[str]) -> str:
        number = int(match[1] or 0)
        if number == gone:
            return ""
        return match[0] if number < gone else f"${number - 1}{match[2]}"

    in_calls = ((spot, value) for spot, value in values_in(changed) if spot.call is not None)
    texts = {spot: value for spot, value in in_calls if isinstance(value, str) and "$" in value}
    changes = {spot: RESULT_REFERENCE.sub(renumbered, value) for spot, value in texts.items()}
    return with_values(changed, changes)


# The text of a larger file, in bytes, is not looked at.
MOST_READ = 200_000


class StartingTree:
    """The texts that a workspace starts with, by path; empty for a file that is no text.

    ``layers`` are folders, later ones over earlier ones; ``texts`` are written over them.
    """

    def __init__(self, layers: Sequence[str], texts: Mapping[str, str]) -> None:
        self.texts = {**_texts_in(tuple(map(str, layers))), **texts}

    def named_file(self, value: str) -> str | None:
        """Give the file that a value names, relative to any folder; None without one."""
        path = value.strip("/")
        return next((known for known in self.texts if known == path or known.endswith(f"/{path}")), None)

    def is_file_name(self, value: str) -> bool:
        """Whether a value names an existing file, or a new one in an existing folder."""
        path = value.strip("/")
        if not path or re.search(r"[\n*#?]|://", path):
            return False
        if self.named_file(value) is not None:
            return True
        folder, slash, name = path.rpartition("/")
        return bool(slash and "." in name and any(f"/{folder}/" in f"/{known}" for known in self.texts))

    def other_file(self, value: str) -> str | None:
        """Give a value that names another file; None without one.

        For an existing file it is another with the same suffix, for a new one that name in another folder.
        """
        path, mark = self.named_file(value), "/" if value.startswith("/") else ""
        if path is None:
            folder, _, name = value.strip("/").rpartition("/")
            inside = next(known for known in self.texts if f"/{folder}/" in f"/{known}")
            above = inside[: f"/{inside}".index(f"/{folder}/")]
            below = (known.removeprefix(above) for known in self.texts if known.startswith(above))
            folders = sorted({known.rpartition("/")[0] for known in below} - {folder, ""})
            return f"{mark}{folders[0]}/{name}" if folders else None
        root = path.removesuffix(value.strip("/"))
        kind = path.rpartition(".")[2]
        others = (known for known in self.texts if known != path and known.startswith(root))
        other = next((known for known in others if known.rpartition(".")[2] == kind), None)
        return None if other is None else f"{mark}{other.removeprefix(root)}"


@lru_cache(64)
def _texts_in(layers: tuple[str, ...]) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for layer in layers:
        for folder, folders, files in os.walk(layer):
            folders.sort()
            for name in sorted(files):
                path = Path(folder, name)
                text = ""
                with suppress(OSError, UnicodeDecodeError):
                    text = path.read_bytes()[:MOST_READ].decode("utf-8")
                texts[path.relative_to(layer).as_posix()] = text
    return texts


# The index of a turn, and of a call in it.
CallPlace = tuple[int, int]


class FileWriter(FrozenValue, frozen=True):
    """How a tool writes a whole file: its two arguments, and the folder that its paths are relative to."""

    tool: str
    path: str
    text: str
    root: str = ""

    def call(self, file: str, content: str) -> dict[str, Any]:
        path = f"/{file.removeprefix(f'{self.root}/')}" if self.root else file
        return {"tool": self.tool, "args": {self.path: path, self.text: content}}


class Spoilt(FrozenValue, frozen=True):
    """A reference spoilt in one way: the change, its places, and the turns to act out.

    A place is ``answer``, a tool, or a tool's argument, as in ``Write.content``.
    """

    done: str
    places: tuple[str, ...]
    turns: Turns


class ReferenceTurns:
    """One task's reference, with the files that the task starts from.

    ``writer`` is how the agent's tools write a file, where a benchmark says so.
    """

    def __init__(self, task: PlannedTask, writer: FileWriter | None = None) -> None:
        self.task = task
        self.turns: Turns = reference_turns(task.reference)
        self._registered_writer = writer

    @cached_property
    def tree(self) -> StartingTree:
        return StartingTree(self.task.layers, self.task.texts)

    # What the task says.

    @cached_property
    def given_calls(self) -> tuple[Mapping[str, Any], ...]:
        """The calls in the conversation before the reference begins."""
        return tuple(call for turn in self._given_turns for call in turn.get("calls") or ())

    @property
    def _given_turns(self) -> list[Mapping[str, Any]]:
        return [turn for turn in self.task.input.get("turns") or () if isinstance(turn, Mapping)]

    @cached_property
    def question(self) -> str:
        """The user's last message; of an input in another form its longest text."""
        if self._given_turns:
            return str(self._given_turns[-1].get("content") or "").strip()
        content = self.task.input.get("content")
        texts = [value for _, value in leaf_values(self.task.input) if is_prose(value)]
        return (content if isinstance(content, str) else max(texts, key=len, default="")).strip()

    @cached_property
    def user_words(self) -> str:
        """All of the user's messages in one text; of an input in another form all of its texts."""
        if self._given_turns:
            from_user = (turn for turn in self._given_turns if turn.get("role") == "user")
            return "\n".join(str(turn.get("content") or "") for turn in from_user)
        return "\n".join(value for _, value in leaf_values(self.task.input) if isinstance(value, str))

    @cached_property
    def task_text(self) -> str:
        """The task's input and expected outcome in one text."""
        outcome = (self.task.reference or {}).get("expected_outcome")
        return f"{compact_json(self.task.input)} {compact_json(outcome)}".casefold()

    @cached_property
    def named_words(self) -> frozenset[str]:
        """The words and numbers of the task's input and expected outcome."""
        return words_of(self.task_text)

    # What the reference does.

    @property
    def has_answer(self) -> bool:
        """Whether the reference ends with an answer."""
        return bool(self.turns and self.turns[-1]["text"])

    @cached_property
    def calls(self) -> tuple[CallPlace, ...]:
        return tuple((at, n) for at, turn in enumerate(self.turns) for n, _ in enumerate(turn["calls"]))

    def call(self, place: CallPlace) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.turns[place[0]]["calls"][place[1]]
        return found

    @cached_property
    def acting(self) -> tuple[CallPlace, ...]:
        """The calls that change something.

        They are those of the suite's acting tools, and of tools that get a file and a text, or two files. A
        reference that ends without an answer acts in its last calls: these count, too, and earlier calls of
        the same tools.
        """
        tools = set(self.task.acting_tools)
        tools |= {self.call(place)["tool"] for place in self.calls if self._writes(self.call(place))}
        if not self.has_answer and self.calls:
            tools |= {self.call(place)["tool"] for place in self.calls if place[0] == self.calls[-1][0]}
        return tuple(place for place in self.calls if self.call(place)["tool"] in tools)

    @cached_property
    def writing(self) -> tuple[CallPlace, ...]:
        """The acting calls whose arguments the task wants; none if nothing is to be done."""
        return () if self.task.label == "negative" else self.acting

    @cached_property
    def looking(self) -> tuple[CallPlace, ...]:
        """The calls that an answer rests on: the last ones, and others of the same tools."""
        others = [place for place in self.calls if place not in self.acting]
        if not self.has_answer or not others:
            return ()
        # Earlier calls only find the arguments of the last ones, and there may be other ways to find them.
        tools = {self.call(place)["tool"] for place in others if place[0] == others[-1][0]}
        return tuple(place for place in others if self.call(place)["tool"] in tools)

    def _writes(self, call: Mapping[str, Any]) -> bool:
        strings = [value for _, value in leaf_values(call["args"]) if isinstance(value, str)]
        files = [value for value in strings if self.tree.is_file_name(value)]
        return len(files) > 1 or bool(files and any(is_prose(each) for each in strings if each not in files))

    @cached_property
    def written_files(self) -> tuple[str, ...]:
        """The paths, in the workspace, of the files that acting calls name."""
        values = self.values(self.writing)
        names = (value for spot, value in values if isinstance(value, str) and self._is_path(spot, value))
        root = f"{self.writer.root}/" if self.writer and self.writer.root else ""
        return tuple(self.tree.named_file(name) or f"{root}{name.strip('/')}" for name in names)

    @cached_property
    def writer(self) -> FileWriter | None:
        """How a whole file is written: by the benchmark's writer, else as a call of the reference does it.

        Such a call has two texts: the name of a new file, and its content.
        """
        if self._registered_writer is not None:
            return self._registered_writer
        for call in map(self.call, self.acting):
            texts = {key: value for key, value in call["args"].items() if isinstance(value, str)}
            names = [key for key, value in texts.items() if self.tree.is_file_name(value)]
            if len(texts) == 2 and len(names) == 1 and self.tree.named_file(texts[names[0]]) is None:
                (text,) = set(texts) - set(names)
                return FileWriter(call["tool"], names[0], text)
        return None

    # The values in it.

    def values(self, places: tuple[CallPlace, ...]) -> Iterator[tuple[ValuePlace, Any]]:
        return ((spot, value) for spot, value in values_in(self.turns) if (spot.turn, spot.call) in places)

    @cached_property
    def texts(self) -> tuple[tuple[ValuePlace, str, TextSpans], ...]:
        """The answers and the texts of acting calls, each with the spans that are new.

        A span that a starting file holds is not new if the call names that file.
        """
        texts = []
        for spot, value in values_in(self.turns):
            is_own = spot.call is None or (spot.turn, spot.call) in self.writing
            if is_own and isinstance(value, str) and (spans := self._new(spot, value)):
                texts.append((spot, value, spans))
        return tuple(texts)

    def _new(self, spot: ValuePlace, text: str) -> TextSpans:
        if spot.call is None:
            return ((0, len(text)),)
        if self._is_path(spot, text):
            return ()
        # Text from the files that the call names is not new, nor are arguments that these files hold.
        values = [value for _, value in leaf_values(self.turns[spot.turn]["calls"][spot.call]["args"])]
        strings = [value for value in values if isinstance(value, str)]
        named = (self.tree.named_file(value) for value in strings if self.tree.is_file_name(value))
        files = [self.tree.texts[file] for file in named if file is not None]
        known = (*files, *(value for value in strings if any(value in text for text in files)))
        return tuple(new_spans(text, known))

    def _is_path(self, spot: ValuePlace, text: str) -> bool:
        # In an empty workspace no file shows what a path is; the argument of the benchmark's writer does.
        writer = self._registered_writer
        return self.tree.is_file_name(text) or (writer is not None and spot.keys[-1:] == (writer.path,))

    def place(self, spot: ValuePlace) -> str:
        """Name a value's place: ``answer``, or the tool and the argument, without list indexes."""
        if spot.call is None:
            return "answer"
        tool = self.turns[spot.turn]["calls"][spot.call]["tool"]
        return ".".join((tool, *(key for key in spot.keys if isinstance(key, str))))
