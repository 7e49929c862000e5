"""What a grader looks at, and what it finds: the evidence of a trial, its checks and its grades."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.transcript import Message, ToolCall, Transcript, Usage
from pytest_agenteval.text.formatting import one_line
from pytest_agenteval.text.json_values import json_digest, normal_keys, normal_text, normal_texts


# ``dict`` gives each object a dict of its own, for ``notes``, which is no field.
class Evidence(Record, frozen=True, dict=True):
    """What graders read: the task's input, the transcript and the outcome."""

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
        """Give the same evidence with every text in one form, so that equal texts compare as equal."""
        normal: Evidence | None = self.notes.get(_NORMAL)
        if normal is None:
            answer, outcome = self.outcome.answer, self.outcome
            before = _normal_tree(outcome.before)
            # Most trials change no file: the two trees stay one object, which a comparison sees at once.
            after = before if outcome.after is outcome.before else _normal_tree(outcome.after)
            messages = []
            for message in self.messages:
                calls = tuple(map(_normal_call, message.calls))
                messages.append(replace(message, content=normal_text(message.content), calls=calls))
            answer = replace(answer, text=normal_text(answer.text), state=normal_texts(answer.state))
            calls = tuple(map(_normal_call, self.calls))
            normal = self.notes[_NORMAL] = Evidence(
                normal_texts(self.task_input),
                replace(self.transcript, messages=tuple(messages), calls=calls),
                replace(outcome, answer=answer, before=before, after=after),
            )
        return normal

    def own_copy(self) -> Evidence:
        """Give the same evidence with maps and lists of its own; the frozen trees are shared."""
        # deepcopy takes what is in its memo for copied. Trees are frozen, and may hold megabytes.
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
        """The end state that the agent itself reports."""
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
        """Which files were created, changed and deleted."""
        return self.outcome.diff


_NORMAL = "in normal form"


def _normal_call(call: ToolCall) -> ToolCall:
    args, result = normal_texts(call.args), normal_texts(call.result)
    return replace(call, tool=normal_text(call.tool), args=args, result=result)


def _normal_tree(tree: Tree) -> Tree:
    files = normal_keys(tree.files)
    for path, file in files.items():
        text = file.text and normal_text(file.text)
        if text != file.text:
            files[path] = replace(file, text=text)
    return Tree(files)


class Answer(Record, frozen=True):
    """What an agent returns: its last text and, if it has one, its end state.

    ``transcript`` is for agents whose requests cannot be read: messages as OpenAI or Anthropic have them, an
    ATIF trajectory, or a ``Transcript``. It becomes part of the trial's own transcript, and is not stored
    with the answer. Without a text, the last words in it are the answer.
    """

    text: str = ""
    state: Mapping[str, Any] = NOTHING
    transcript: Any = None


# Why the text of a file is missing; empty where it is there.
Why: TypeAlias = Literal["", "binary", "too large", "link", "unreadable", "too deep", "too many"]


class FileText(Record, frozen=True):
    """One file as graders see it.

    ``text`` is None when the file is not UTF-8 (``why`` is ``binary``), larger than a snapshot may hold
    (``too large``), may not be read (``unreadable``) or is a symbolic link (``link``). The digest is that of
    the whole content all the same; beyond 64 MiB it is that of the size and both ends.

    Where a snapshot stops, a folder stands in place of the files in it (``too deep``, ``unreadable``), and an
    entry named ``…`` in place of further files (``too many``).
    """

    digest: str
    size: int
    text: str | None
    why: Why = ""


class Tree(Record, frozen=True):
    """A workspace at one moment: paths with ``/``, and texts."""

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
        return json_digest({path: file.digest for path, file in self.files.items()})


class TreeDiff(Record, frozen=True):
    """The files that were added, changed and removed, sorted."""

    created: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.modified or self.deleted)


def diff(before: Tree, after: Tree) -> TreeDiff:
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
    """Write the change of one file as a unified diff; a file that is not text gives one line about it."""
    old, new = before.files.get(path), after.files.get(path)
    for file in (old, new):
        if file is not None and file.text is None:
            return [f"{path}: {file.why} ({file.size} bytes)"]
    was = (old.text or "").splitlines() if old else []
    now = (new.text or "").splitlines() if new else []
    name_old, name_new = (path if old else "/dev/null"), (path if new else "/dev/null")
    return list(difflib.unified_diff(was, now, name_old, name_new, lineterm=""))


class Outcome(Record, frozen=True):
    """What a trial left behind, except its transcript; also after a crash."""

    answer: Answer = Answer()
    before: Tree = Tree()
    after: Tree = Tree()

    @property
    def diff(self) -> TreeDiff:
        """Which files of the workspace were created, changed and deleted."""
        return diff(self.before, self.after)


UNDECIDED: Mapping[str, str] = {
    "no_judge": "the grade needs a judge, and none is configured or can be reached",
    "limit": "the trial's tokens or money for judges are used up",
    "not_applicable": "the metric does not apply to this task or trial",
    "unreadable": "the grader cannot read what the agent wrote",
    "not_defined": "the original program has no such metric",
}
"""The reasons why a grade may have no score, with their meanings."""

# The reason for a missing score where a grader raised an error, or returned something that is no grade.
CRASH = "grader_crash"


_QUOTED = r"""(?:'[^']*'|"[^"]*")"""
_TEXT_CLAIM = re.compile(rf"([^'\"]+) (contains|matches) ({_QUOTED}(?: or \1 \2 {_QUOTED})*)", re.DOTALL)
"""A claim about what a text holds, as ours are: ``answer contains 'x'``."""
_DENIALS = {"contains": ("lacks", "has none of"), "matches": ("does not match", "matches none of")}
_CALL_CLAIM = re.compile(r"(\S+) was (not )?called")
_CALL_COUNTS = ("once or more", "never")
"""What was expected and found of a call, where its claim or the denial of it says so."""


class Check(Record, frozen=True, gc=False):
    """One yes-or-no question, with what was expected and found."""

    claim: str
    passed: bool
    expected: str = ""
    found: str = ""

    def __str__(self) -> str:
        return f"ok: {self.claim}" if self.passed else self.failure()

    def failure(self, most: tuple[int, int] = (sys.maxsize, sys.maxsize)) -> str:
        """Say what went wrong where the check failed: ``answer lacks 'x': 'I am sorry'``.

        ``most`` are the characters of the claim and of each side; with them, it is one line. What was
        expected is left out where the claim says it, and a plain yes and no everywhere.
        """
        claim, side = most
        if denial := _text_denial(self.claim):
            return f"{_shortened(denial, claim)}: {_shortened(self.found, side)}"
        sides = [("expected", expected_beyond_claim(self)), ("found", self.found)]
        if (self.expected, self.found) == ("yes", "no"):
            sides = []
        if denial := _call_denial(self.claim):
            sides = [(label, text) for label, text in sides if text not in _CALL_COUNTS]
        head = _shortened(denial, claim) if denial else f"not met: {_shortened(self.claim, claim)}"
        parts = [f"{label} {_shortened(text, side)}" for label, text in sides if text]
        return head + (f" ({', '.join(parts)})" if parts else "")


def expected_beyond_claim(check: Check) -> str:
    """Give what was expected, where the claim does not say it."""
    has_it = _text_denial(check.claim) or _says(check.claim, check.expected)
    return "" if has_it else check.expected


def denied(claim: str) -> str:
    """Say that a claim does not hold: ``answer lacks 'x'``; one of another form stands after ``not met:``."""
    return _text_denial(claim) or _call_denial(claim) or f"not met: {claim}"


def _text_denial(claim: str) -> str:
    match = _TEXT_CLAIM.fullmatch(claim)
    if match is None:
        return ""
    subject, verb, texts = match.groups()
    every = texts.split(f" or {subject} {verb} ")
    return f"{subject} {_DENIALS[verb][len(every) > 1]} {', '.join(every)}"


def _call_denial(claim: str) -> str:
    """Deny that a tool was called, or was not: ``not met: x was not called`` takes a second look."""
    match = _CALL_CLAIM.fullmatch(claim)
    return f"{match[1]} was {'' if match[2] else 'not '}called" if match else ""


def _shortened(text: str, most: int) -> str:
    return text if most == sys.maxsize else one_line(text, most)


def _says(claim: str, expected: str) -> bool:
    """Whether a claim begins or ends with what is expected; a number alone stands there by chance."""
    bare = claim.rstrip("'\"")
    return re.search(r"[^\W\d_]", expected) is not None and (
        bare.endswith((f" {expected}", f"'{expected}", f'"{expected}')) or claim.startswith(f"{expected} ")
    )


# By how much scores or means that are equal may differ: as floats, the mean of 0, 0 and 0.3 is
# 0.09999999999999999.
ROUNDING = 1e-9


class Grade(Record, frozen=True, gc=False):
    """One grader's result for one trial.

    ``score`` runs from 0 to 1. ``None`` says that the grader could not tell: such a grade is shown, and left
    out of every average. A grader fills in the first four fields and, where it has more to say, ``details``
    (JSON); ``threshold``, ``weight`` and ``required`` come from the task. A measure that runs past 0..1 gives
    the nearer end as ``score`` and what it came to as ``unclamped``. ``undecided`` says why there is no
    score: one word of ``UNDECIDED``, or the cause for which the grader broke. It is empty where there is a
    score, and where the grader says no more than its rationale.
    """

    grader: str
    score: float | None
    rationale: str
    checks: tuple[Check, ...] = ()
    details: Mapping[str, Any] = NOTHING
    threshold: float = 1.0
    weight: float = 1.0
    required: bool = False
    unclamped: float | None = None
    undecided: str = ""

    @classmethod
    def from_checks(cls, grader: str, checks: Iterable[Check]) -> Grade:
        """Give partial credit: the share of checks that passed; undecided when there is none."""
        counted = tuple(checks)
        if not counted:
            return cls(grader, None, "nothing to check")
        missed = [check for check in counted if not check.passed]
        rationale = "; ".join(map(str, missed)) or f"all {len(counted)} checks passed"
        return cls(grader, 1 - len(missed) / len(counted), rationale, counted)

    @property
    def value(self) -> float | None:
        """The measured value: the score or, where that is only the nearer end of 0..1, the value beyond."""
        return self.score if self.score is None or self.unclamped is None else self.unclamped

    @property
    def passed(self) -> bool | None:
        """Whether the score reached the threshold; None when the grade is undecided."""
        # A mean that rounding lowers in its last digits still reaches its threshold.
        return None if self.score is None else self.score >= self.threshold - ROUNDING

    @property
    def crashed(self) -> bool:
        """Whether the grader itself broke, which is not the same as being unable to decide."""
        return self.undecided == CRASH

    @property
    def full(self) -> bool:
        """Whether the score is 1."""
        return self.score is not None and self.score >= 1.0 - ROUNDING
