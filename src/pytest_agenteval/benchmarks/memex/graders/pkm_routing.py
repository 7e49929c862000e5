"""Whether notes were filed in the right place, and files were read before they were written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pytest_agenteval import Check, Evidence, Grade, ToolCall
from pytest_agenteval.benchmarks.memex.graders.end_state import (
    Mode,
    changed_below,
    check_flag,
    check_mode,
    clean_path,
    enriched_below,
    files_below,
    lies_in,
    pkm_path,
    texts,
    undecided_where_unreadable,
    upstream_path,
)
from pytest_agenteval.tasks.globs import select

ROUTED_CORRECTLY = "pkm_routed_correctly"


@dataclass(frozen=True, slots=True)
class PkmRoutedCorrectly:
    """Did a change land in an expected file, or at least in an expected bucket?

    The score is 1 where one of ``expected_files`` was changed, or an expected bucket where no file is
    expected; 0.5, which passes, for the right bucket and another file; else 0. It is undecided where the
    entry was skipped: ``pkm_completion`` says whether that was right. ``upstream`` compares paths by their
    first letters, as Memex does.

    ``default`` compares whole names: ``Areas/Health/`` is a folder, ``Areas/Health`` may also be a file
    ``Areas/Health.md``, and neither is ``Areas/Healthcare.md``. Only created and changed files that hold
    something new count: white space, deletions and a new order do not.

    With ``every_bucket``, for a task whose entry belongs in several places, each bucket needs a change. The
    score is the mean of what each bucket gets by the rule above, where the files expected of a bucket are
    those that lie in it. Wrong extra files are named (``elsewhere`` in the details) and cost nothing, unless
    ``only`` is set: then one of them halves the score. With ``every_bucket`` or ``only``, half credit does
    not pass: the threshold is 1.
    """

    expected_buckets: Sequence[str]
    expected_files: Sequence[str] = ()
    every_bucket: bool = False
    only: bool = False
    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        check_mode(self.mode)
        for name in ("expected_buckets", "expected_files"):
            object.__setattr__(self, name, texts(name, getattr(self, name)))
        for name in ("every_bucket", "only"):
            check_flag(name, getattr(self, name), self.mode)
        if self.mode != "default":
            return
        # Settings that can never be met, or always are, are mistakes of the task.
        buckets, files = self.expected_buckets, self.expected_files
        if not buckets and (self.every_bucket or not files):
            raise ValueError("expected_buckets must name at least one bucket")
        for name, paths in (("expected_buckets", buckets), ("expected_files", files)):
            if not all(map(clean_path, paths)):
                raise ValueError(f"{name}: the root is no place to aim at; name a folder or a file")
        outside = [file for file in files if not any(lies_in(pkm_path(file), bucket) for bucket in buckets)]
        if self.every_bucket and outside:
            raise ValueError(f"expected_files: {outside[0]!r} lies in none of the expected buckets")

    @property
    def threshold(self) -> float:
        # As in Memex, half credit passes. A task that asks for more wants all of it.
        return 1.0 if self.every_bucket or self.only else 0.5

    @undecided_where_unreadable(ROUTED_CORRECTLY)
    def grade(self, evidence: Evidence) -> Grade:
        if evidence.state.get("skipped_pkm") is True:
            return Grade(ROUTED_CORRECTLY, None, "the entry was skipped: there is nothing to place")
        upstream = self.mode == "upstream"
        changes = changed_below(evidence)
        changed = (*changes.created, *changes.modified) if upstream else enriched_below(evidence)
        # Buckets are prefixes in Memex: Areas/Health also fits Areas/Healthcare.md.
        placed, inside = (upstream_path, _begins) if upstream else (pkm_path, lies_in)
        paths = list(dict.fromkeys(map(placed, changed)))

        def hits(files: Sequence[str], buckets: Sequence[str]) -> tuple[float, bool, bool]:
            at_file = any(placed(file) in paths for file in files)
            in_bucket = any(inside(path, bucket) for path in paths for bucket in buckets)
            return 1.0 if at_file or (in_bucket and not files) else in_bucket / 2, at_file, in_bucket

        checks, scores, found = [], [], _path_list(paths)
        for bucket in self.expected_buckets if self.every_bucket else ():
            files = [file for file in self.expected_files if lies_in(pkm_path(file), bucket)]
            scores.append(hits(files, [bucket])[0])
            target = " or ".join(files) or bucket
            checks.append(Check(f"a change landed in {target}", scores[-1] == 1.0, target, found))
        if not self.every_bucket:
            score, at_file, in_bucket = hits(self.expected_files, self.expected_buckets)
            scores.append(score)
            if self.expected_files:
                files_text = " or ".join(self.expected_files)
                checks.append(Check("a change landed in an expected file", at_file, files_text, found))
            landed = at_file or in_bucket
            checks.append(Check("a change landed in an expected bucket", landed, self._buckets(), found))
        return self._grade(sum(scores) / len(scores), checks, paths)

    def _grade(self, score: float, checks: list[Check], paths: list[str]) -> Grade:
        elsewhere: list[str] = []
        if self.mode != "upstream":
            expected = set(map(pkm_path, self.expected_files))
            inside = {path for path in paths for bucket in self.expected_buckets if lies_in(path, bucket)}
            elsewhere = [path for path in paths if path not in expected | inside]
        if self.only:
            claim = "nothing changed elsewhere"
            checks.append(Check(claim, not elsewhere, "no file", _path_list(elsewhere)))
            score = score / 2 if elsewhere else score
        missed = "; ".join(str(check) for check in checks if not check.passed)
        landed = ", ".join(path for path in paths if path not in elsewhere)
        also = f"; also changed: {', '.join(elsewhere)}" if elsewhere else ""
        why = missed or f"changed as expected: {landed}{also}"
        if not paths:
            target = " or ".join(self.expected_files) or self._buckets()
            why = f"nothing new was written; expected {target}"
        details = {"full": score == 1.0, "changed": paths, "elsewhere": elsewhere}
        return Grade(ROUTED_CORRECTLY, score, why, tuple(checks), details)

    def _buckets(self) -> str:
        between = " and " if self.every_bucket else " or "
        return between.join(self.expected_buckets) or "no bucket"


def _begins(path: str, bucket: str) -> bool:
    return path.startswith(upstream_path(bucket))


def _path_list(paths: Sequence[str]) -> str:
    return ", ".join(paths) or "no file"


@dataclass(slots=True)
class FileAccess:
    """Follows the calls of a trial and records the turns that matter for each file that was there before.

    ``read`` and ``changed`` give the turn of a file's first read and first change, by the path that the file
    had before the trial. A file made in the trial is in neither.
    """

    read: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    # By the path of each present file, the path that the file had before the trial; None if it is new.
    _were: dict[str, str | None] = field(default_factory=dict)

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
            value = call.args.get("file_patterns")
            patterns = value if isinstance(value, list | tuple) else [value]
            for pattern in (clean_path(pattern) for pattern in patterns if isinstance(pattern, str)):
                # Brackets are a part of many names: a path that is there is not read as a glob.
                paths = [pattern] if pattern in self._were else select(pattern, self._were)
                self._note(self.read, paths, call.turn)

    def _change(self, call: ToolCall) -> None:
        match call.tool:
            case "Write" | "Edit":
                path = clean_path(path_of(call) or "")
                if path:
                    self._note(self.changed, [path], call.turn)
                    # Made in this trial: the agent knows what it wrote, so changing it again needs no read.
                    self._were.setdefault(path, None)
            case "Move":
                self._move(_text(call, "source_path"), _text(call, "destination_path"), call.turn)
            case "Remove":
                raw_path = _text(call, "path")
                gone = [] if raw_path is None else self._below(clean_path(raw_path))
                self._note(self.changed, gone, call.turn)
                for path in gone:
                    del self._were[path]

    def _move(self, raw_source: str | None, raw_destination: str | None, turn: int) -> None:
        source, destination = clean_path(raw_source or ""), clean_path(raw_destination or "")
        if not source or raw_destination is None:
            return
        moved = self._below(source)
        # As the tool does it: what is moved to an existing folder goes into it.
        if destination not in self._were and self._below(destination):
            destination = f"{destination}/{source.rpartition('/')[2]}".lstrip("/")
        moved_files = {destination + path[len(source) :]: self._were.pop(path) for path in moved}
        self._note(self.changed, moved_files, turn)
        self._were.update(moved_files)

    def _note(self, turns: dict[str, int], paths: Iterable[str], turn: int) -> None:
        for path in paths:
            was = self._were.get(path)
            if was is not None:
                # The first read and the first change of a file count.
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


READ_BEFORE_WRITE = "pkm_read_before_write"
UNSEEN = "files were changed without a tool call: what was read before is unknown"


@dataclass(frozen=True, slots=True)
class PkmReadBeforeWrite:
    """Did the agent read what it was about to change?

    ``upstream`` looks whether ``required_read_path`` was read, with Read, before the first Write or Edit of
    any file in the list of calls; an agent that writes nothing has only to read it.

    ``default`` looks at each file that was there before the trial and was edited, overwritten, moved over or
    removed: was it read, with Read or BatchRead and without an error, in an earlier turn than its first
    change? Reading and changing in one turn is too late, because the agent saw no text in between. Reading a
    part of a file is enough, and calls in messages that the task gave count. A file that was moved is still
    the same file; moving it is no change.

    The score is the share of such files, and of ``required_read_path`` where one is given: it must have been
    read, changed or not. Without either there is nothing to judge, and the grade is undecided. It is
    undecided in both modes where files were changed and no tool was called: the calls of an agent with its
    own tools are not seen.
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

    @undecided_where_unreadable(READ_BEFORE_WRITE)
    def grade(self, evidence: Evidence) -> Grade:
        changes = changed_below(evidence)
        if bool(changes.modified or changes.deleted) and not evidence.calls:
            return Grade(READ_BEFORE_WRITE, None, UNSEEN)
        if self.mode == "upstream":
            check = _read_first(self.required_read_path or "", evidence.calls)
            return Grade.from_checks(READ_BEFORE_WRITE, [check])
        # Calls of the conversation that the task began with count as reads.
        seeded = (call for message in evidence.messages if message.seeded for call in message.calls)
        access = FileAccess.of(seeded, evidence.calls, files_below(evidence.before))
        checks = []
        for path, changed in sorted(access.changed.items()):
            read = access.read.get(path)
            passed = read is not None and read < changed
            finding = "no read" if read is None else f"a read in turn {read}"
            claim = f"{path} was read before it was changed"
            checks.append(Check(claim, passed, f"a read before turn {changed}", finding))
        required = clean_path(self.required_read_path or "")
        if required and required not in access.changed:
            finding = "a read" if required in access.read else "no read"
            checks.append(Check(f"{required} was read", required in access.read, "a read", finding))
        if not checks:
            return Grade(READ_BEFORE_WRITE, None, "no call changed a file that was there before")
        return Grade.from_checks(READ_BEFORE_WRITE, checks)


def _read_first(required: str, calls: Iterable[ToolCall]) -> Check:
    # As in Memex: one leading slash is dropped, and case does not matter.
    wanted = required.removeprefix("/").lower()
    done = list(enumerate(call for call in calls if call.error is None))
    reads = ((n, path_of(call) or "") for n, call in done if call.tool == "Read")
    read = next((n for n, path in reads if path.removeprefix("/").lower() == wanted), None)
    write = next((n for n, call in done if call.tool in ("Write", "Edit")), None)
    # By their places in the list: the calls of one reply stand as the model wrote them, so a read that stands
    # before an edit counts, though the agent had not seen its result.
    passed = read is not None and (write is None or read <= write)
    finding = "no read" if read is None else "a write before it" if not passed else "a read first"
    return Check(f"{required} was read before anything was written", passed, "a read first", finding)
