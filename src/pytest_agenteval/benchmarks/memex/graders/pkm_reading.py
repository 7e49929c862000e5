"""Were files read before they were changed?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from pytest_agenteval import Check, Evidence, Grade, ToolCall
from pytest_agenteval.benchmarks.memex.graders.end_state import undecided_where_unreadable
from pytest_agenteval.benchmarks.memex.graders.pkm_changes import changed_below, clean_path, files_below
from pytest_agenteval.benchmarks.memex.graders.settings import Mode, check_mode
from pytest_agenteval.tasks.workspace.globs import select


@dataclass(slots=True)
class FileAccess:
    """Follows the calls of a trial and keeps, for each file that was there before, the turns that matter.

    ``read`` and ``changed`` give the turn of a file's first read and first change, by the path that the file
    had before the trial. A file made in the trial is in neither.
    """

    read: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    _were: dict[str, str | None] = field(default_factory=dict)
    """Each present path, and the path before the trial of the file that lies there now."""

    @classmethod
    def of(cls, seeded: Iterable[ToolCall], calls: Iterable[ToolCall], before: Iterable[str]) -> FileAccess:
        """Follow the calls that a task gave, of which only reads count, and then those that were made."""
        handling = cls(_were={path: path for path in before})
        for call in seeded:
            handling._look(call)
        for call in calls:
            if call.error is None:
                handling._look(call)
                handling._change(call)
        return handling

    def _look(self, call: ToolCall) -> None:
        if call.tool == "Read":
            self._note(self.read, [clean_path(path_of(call) or "")], call.turn)
        elif call.tool == "BatchRead":
            for pattern in _patterns(call):
                paths = [pattern] if pattern in self._were else select(pattern, self._were)
                self._note(self.read, paths, call.turn)

    def _change(self, call: ToolCall) -> None:
        match call.tool:
            case "Write" | "Edit":
                self._write(path_of(call), call.turn)
            case "Move":
                self._move(_text(call, "source_path"), _text(call, "destination_path"), call.turn)
            case "Remove":
                self._remove(_text(call, "path"), call.turn)

    def _write(self, raw_path: str | None, turn: int) -> None:
        path = clean_path(raw_path or "")
        if path:
            self._note(self.changed, [path], turn)
            # Made in the trial: changing it again needs no read.
            self._were.setdefault(path, None)

    def _remove(self, raw_path: str | None, turn: int) -> None:
        gone = [] if raw_path is None else self._below(clean_path(raw_path))
        self._note(self.changed, gone, turn)
        for path in gone:
            del self._were[path]

    def _move(self, raw_source: str | None, raw_destination: str | None, turn: int) -> None:
        source, destination = clean_path(raw_source or ""), clean_path(raw_destination or "")
        if not source or raw_destination is None:
            return
        moved = self._below(source)
        # As the tool does it: what is moved to a folder that is there goes into it.
        if destination not in self._were and self._below(destination):
            destination = f"{destination}/{source.rpartition('/')[2]}".lstrip("/")
        moved_files = {destination + path[len(source) :]: self._were.pop(path) for path in moved}
        self._note(self.changed, moved_files, turn)
        self._were.update(moved_files)

    def _note(self, turns: dict[str, int], paths: Iterable[str], turn: int) -> None:
        for path in paths:
            was = self._were.get(path)
            if was is not None:
                turns.setdefault(was, turn)

    def _below(self, path: str) -> list[str]:
        """Give the file of this path, or all files below it; the root is an empty path."""
        if path in self._were:
            return [path]
        return [file for file in self._were if not path or file.startswith(f"{path}/")]


def path_of(call: ToolCall) -> str | None:
    """Give the path of the file that a call names, None where it names none."""
    return _text(call, "path" if call.args.get("file_path") is None else "file_path")


def _text(call: ToolCall, name: str) -> str | None:
    value = call.args.get(name)
    return value if isinstance(value, str) else None


def _patterns(call: ToolCall) -> list[str]:
    value = call.args.get("file_patterns")
    patterns = value if isinstance(value, list | tuple) else [value]
    return [clean_path(pattern) for pattern in patterns if isinstance(pattern, str)]


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
    version: ClassVar[str] = "3"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)
        path = self.required_read_path
        if path is not None and not (isinstance(path, str) and clean_path(path)):
            raise ValueError(f"required_read_path must be the path of a file, not {path!r}")
        if path is None and self.mode == "upstream":
            raise ValueError("required_read_path: mode upstream asks for one")

    @undecided_where_unreadable(NAME)
    def grade(self, evidence: Evidence) -> Grade:
        """Compare the turns of reads and changes."""
        if _has_unseen_changes(evidence):
            return Grade(NAME, None, UNSEEN)
        if self.mode == "upstream":
            return Grade.from_checks(NAME, [_read_first(self.required_read_path or "", evidence.calls)])
        handling = FileAccess.of(_seeded_calls(evidence), evidence.calls, files_below(evidence.before))
        checks = [_read_in_time_check(path, handling) for path in sorted(handling.changed)]
        required = clean_path(self.required_read_path or "")
        if required and required not in handling.changed:
            read = required in handling.read
            checks.append(Check(f"{required} was read", read, "a read", "a read" if read else "no read"))
        if not checks:
            return Grade(NAME, None, "no call changed a file that was there before")
        return Grade.from_checks(NAME, checks)


def _has_unseen_changes(evidence: Evidence) -> bool:
    """Whether files were changed past the tool box: there, what was read before is not known either."""
    changes = changed_below(evidence)
    return bool(changes.modified or changes.deleted) and not evidence.calls


def _seeded_calls(evidence: Evidence) -> Iterable[ToolCall]:
    """Give the calls of the conversation that the task began with."""
    return (call for message in evidence.messages if message.seeded for call in message.calls)


def _read_in_time_check(path: str, handling: FileAccess) -> Check:
    changed, read = handling.changed[path], handling.read.get(path)
    finding = "no read" if read is None else f"a read in turn {read}"
    passed = read is not None and read < changed
    return Check(f"{path} was read before it was changed", passed, f"a read before turn {changed}", finding)


def _read_first(required: str, calls: Iterable[ToolCall]) -> Check:
    done = [call for call in calls if call.error is None]
    read = _first(n for n, call in enumerate(done) if call.tool == "Read" and _same(path_of(call), required))
    write = _first(n for n, call in enumerate(done) if call.tool in ("Write", "Edit"))
    # By their places in the list: of one reply, calls are listed as the model wrote them, and a read that
    # stands before an edit counts, though the agent had not seen its result.
    passed = read is not None and (write is None or read <= write)
    finding = "no read" if read is None else "a write before it" if not passed else "a read first"
    return Check(f"{required} was read before anything was written", passed, "a read first", finding)


def _first(numbers: Iterable[int]) -> int | None:
    return next(iter(numbers), None)


def _same(path: str | None, required: str) -> bool:
    return path is not None and path.removeprefix("/").lower() == required.removeprefix("/").lower()
