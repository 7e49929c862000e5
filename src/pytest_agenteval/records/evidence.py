"""All that a grader may look at: what a trial left behind, the workspace before and after."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.transcript import Message, ToolCall, Transcript, Usage
from pytest_agenteval.text.canonical import digest
from pytest_agenteval.text.json_values import normal_keys, normal_text, normal_texts


class Evidence(Record, frozen=True, dict=True):
    """What a trial left behind: the task's input, the transcript and the outcome."""

    task_input: Mapping[str, Any]
    transcript: Transcript
    outcome: Outcome

    @property
    def notes(self) -> dict[str, Any]:
        """What graders of one trial leave for each other, such as a judgement under way.

        It is no part of the evidence: no copy, file or comparison has it.
        """
        return self.__dict__

    def in_normal_form(self) -> Evidence:
        """Give the same evidence with every text in one form, so that equal ones compare as equal."""
        normal: Evidence | None = self.notes.get(_NORMAL)
        if normal is None:
            answer, outcome = self.outcome.answer, self.outcome
            before = _normal_tree(outcome.before)
            after = before if outcome.after is outcome.before else _normal_tree(outcome.after)
            normal = self.notes[_NORMAL] = Evidence(
                normal_texts(self.task_input),
                replace(
                    self.transcript,
                    messages=tuple(map(_normal_message, self.messages)),
                    calls=tuple(map(_normal_call, self.calls)),
                ),
                replace(
                    outcome,
                    answer=replace(answer, text=normal_text(answer.text), state=normal_texts(answer.state)),
                    before=before,
                    after=after,
                ),
            )
        return normal

    def own_copy(self) -> Evidence:
        """Give the same evidence with maps and lists of its own; the trees, which are frozen, are shared."""
        # deepcopy takes what stands in its memo for copied: trees are frozen, and may hold megabytes.
        trees = {id(tree): tree for tree in (self.before, self.after)}
        return deepcopy(self, trees)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every message, in order."""
        return self.transcript.messages

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Every tool call with its result, in the order the model listed them."""
        return self.transcript.calls

    @property
    def usage(self) -> Usage:
        """Tokens, money and attempts of the whole trial."""
        return self.transcript.usage

    @property
    def answer(self) -> str:
        """The agent's last words."""
        return self.outcome.answer.text

    @property
    def state(self) -> Mapping[str, Any]:
        """What the agent says of its own end state."""
        return self.outcome.answer.state

    @property
    def before(self) -> Tree:
        """The workspace as the trial found it."""
        return self.outcome.before

    @property
    def after(self) -> Tree:
        """The workspace as the trial left it."""
        return self.outcome.after

    @property
    def diff(self) -> TreeDiff:
        """Which files came, changed and went."""
        return self.outcome.diff


_NORMAL = "in normal form"


def _normal_message(message: Message) -> Message:
    calls = tuple(map(_normal_call, message.calls))
    return replace(message, content=normal_text(message.content), calls=calls)


def _normal_call(call: ToolCall) -> ToolCall:
    return replace(
        call, tool=normal_text(call.tool), args=normal_texts(call.args), result=normal_texts(call.result)
    )


def _normal_tree(tree: Tree) -> Tree:
    return Tree({path: _normal_file(file) for path, file in normal_keys(tree.files).items()})


def _normal_file(file: FileText) -> FileText:
    normal = file.text and normal_text(file.text)
    return file if normal == file.text else replace(file, text=normal)


class Answer(Record, frozen=True):
    """What an agent gives back: its last words and, where it keeps one, its state.

    ``transcript`` tells its course where nobody saw that: messages as OpenAI or Anthropic have them, an ATIF
    trajectory, or a ``Transcript``. It goes into the trial's own transcript; no answer that is stored has it.
    Without a text, the last words in it are the answer.
    """

    text: str = ""
    state: Mapping[str, Any] = NOTHING
    transcript: Any = None


Why: TypeAlias = Literal["", "binary", "too large", "link", "unreadable", "too deep", "too many"]
"""Why a file's text is not there; empty where it is."""


class FileText(Record, frozen=True):
    """One file as graders see it.

    ``text`` is None when the file is not UTF-8 (``why`` is ``binary``) or larger than a snapshot may
    hold (``too large``), may not be read (``unreadable``) or is a symbolic link (``link``); the digest is of
    the whole content all the same, of more than 64 MiB of the size and both ends. Where a snapshot stops, a
    folder stands in place of what is in it (``too deep``, ``unreadable``), and an entry named ``…`` in place
    of further files (``too many``).
    """

    digest: str
    size: int
    text: str | None
    why: Why = ""


class Tree(Record, frozen=True):
    """A workspace at one moment: each file's path from its root, with ``/``, to its text."""

    files: Mapping[str, FileText] = NOTHING

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __contains__(self, path: object) -> bool:
        return path in self.files

    def text(self, path: str) -> str | None:
        """Give a file's text, or None when it is not there or not text."""
        file = self.files.get(path)
        return None if file is None else file.text

    def digest(self) -> str:
        """Give a digest of all paths and contents."""
        return digest({path: file.digest for path, file in self.files.items()})


class TreeDiff(Record, frozen=True):
    """Which files came, changed and went, each list sorted; a move is one gone and one come."""

    created: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.modified or self.deleted)


def diff(before: Tree, after: Tree) -> TreeDiff:
    """Compare two trees by content."""
    if before is after:
        return TreeDiff()
    old, new = before.files, after.files
    both = old.keys() & new.keys()
    return TreeDiff(
        created=tuple(sorted(new.keys() - old.keys())),
        modified=tuple(sorted(path for path in both if old[path].digest != new[path].digest)),
        deleted=tuple(sorted(old.keys() - new.keys())),
    )


def unified(before: Tree, after: Tree, path: str) -> list[str]:
    """Write one file's change as a unified diff; a file that is not text gives one line that says so."""
    old, new = before.files.get(path), after.files.get(path)
    for file in (old, new):
        if file is not None and file.text is None:
            return [f"{path}: {file.why} ({file.size} bytes)"]
    was = (old.text or "").splitlines() if old else []
    now = (new.text or "").splitlines() if new else []
    name_old, name_new = (path if old else "/dev/null"), (path if new else "/dev/null")
    return list(difflib.unified_diff(was, now, name_old, name_new, lineterm=""))


class Outcome(Record, frozen=True):
    """What a trial left behind, beside its transcript; built also after a crash."""

    answer: Answer = Answer()
    before: Tree = Tree()
    after: Tree = Tree()

    @property
    def diff(self) -> TreeDiff:
        """Which files of the workspace came, changed and went."""
        return diff(self.before, self.after)
