"""Were files read before they were changed?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.benchmarks.memex.graders.pkm_changes import changed_below, files_below
from pytest_agenteval.benchmarks.memex.graders.pkm_handling import Handling, path_of
from pytest_agenteval.benchmarks.memex.graders.pkm_paths import cleaned
from pytest_agenteval.benchmarks.memex.graders.settings import Mode, check_mode
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade
from pytest_agenteval.records.transcript import ToolCall

NAME = "pkm_read_before_write"
UNSEEN = "files were changed without a tool call: what was read before cannot be told"


@dataclass(frozen=True, slots=True)
class PkmReadBeforeWrite:
    """Did the agent read what it was about to change?

    ``upstream`` asks whether ``required_read_path`` was read, with Read, before the first Write or Edit of
    any file in the list of calls; who writes nothing has only to read. ``default`` asks of each file that was
    there before the trial and was edited, overwritten, moved over or removed: was it read, with Read or
    BatchRead and without an error, in an earlier turn than its first change? Reading and changing in one turn
    is too late: the agent saw no text in between. Reading a part of a file is enough, calls in messages that
    the task gave count, and a file that was moved is still the same file; moving it is no change. The score
    is the share of such files, and of ``required_read_path`` where one is given: it must have been read,
    changed or not. Without either there is nothing to judge, and the grade is undecided; so it is, in both
    modes, where files were changed and no tool was called: an agent with tools of its own is not seen at it.
    """

    required_read_path: str | None = None
    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)
        path = self.required_read_path
        if path is not None and not (isinstance(path, str) and cleaned(path)):
            raise ValueError(f"required_read_path must be the path of a file, not {path!r}")
        if path is None and self.mode == "upstream":
            raise ValueError("required_read_path: mode upstream asks for one")

    def grade(self, evidence: Evidence) -> Grade:
        """Compare the turns of reads and changes."""
        if _unseen(evidence):
            return Grade(NAME, None, UNSEEN)
        if self.mode == "upstream":
            return Grade.from_checks(NAME, [_read_first(self.required_read_path or "", evidence.calls)])
        handling = Handling.of(_given(evidence), evidence.calls, files_below(evidence.before))
        checks = [_in_time(path, handling) for path in sorted(handling.changed)]
        required = cleaned(self.required_read_path or "")
        if required and required not in handling.changed:
            read = required in handling.read
            checks.append(Check(f"{required} was read", read, "a read", "a read" if read else "no read"))
        if not checks:
            return Grade(NAME, None, "no call changed a file that was there before")
        return Grade.from_checks(NAME, checks)


def _unseen(evidence: Evidence) -> bool:
    """Whether files were changed past the tool box: there, what was read before is not known either."""
    changes = changed_below(evidence)
    return bool(changes.modified or changes.deleted) and not evidence.calls


def _given(evidence: Evidence) -> Iterable[ToolCall]:
    """Give the calls of the conversation that the task began with."""
    return (call for message in evidence.messages if message.seeded for call in message.calls)


def _in_time(path: str, handling: Handling) -> Check:
    changed, read = handling.changed[path], handling.read.get(path)
    found = "no read" if read is None else f"a read in turn {read}"
    passed = read is not None and read < changed
    return Check(f"{path} was read before it was changed", passed, f"a read before turn {changed}", found)


def _read_first(required: str, calls: Iterable[ToolCall]) -> Check:
    done = [call for call in calls if call.error is None]
    read = _first(n for n, call in enumerate(done) if call.tool == "Read" and _same(path_of(call), required))
    write = _first(n for n, call in enumerate(done) if call.tool in ("Write", "Edit"))
    passed = read is not None and (write is None or read <= write)
    found = "no read" if read is None else "a write before it" if not passed else "a read first"
    return Check(f"{required} was read before anything was written", passed, "a read first", found)


def _first(numbers: Iterable[int]) -> int | None:
    return next(iter(numbers), None)


def _same(path: str | None, required: str) -> bool:
    return path is not None and path.removeprefix("/").lower() == required.removeprefix("/").lower()
