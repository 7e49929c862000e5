"""All cassettes of a process: each file is loaded once, however many trials play it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from pytest_agenteval.cassettes.cassette import Cassette, RecordMode, TapeKind
from pytest_agenteval.cassettes.files import JSON, YAML
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.tape import Tape
from pytest_agenteval.text.errors import Problem, ProblemsFound, UsageMistake


class Library:
    """Opens tapes and saves what they recorded.

    ``root`` is the folder that names in messages are relative to. ``started`` is when the whole run began, in
    seconds since 1970; workers are given the controller's, and so tell each other's recordings from old ones.
    """

    def __init__(
        self, root: Path | None = None, *, redactor: Redactor | None = None, started: float | None = None
    ) -> None:
        self._root = (root or Path.cwd()).resolve()
        self._redactor = redactor or Redactor.from_environ()
        self._started = time.time() if started is None else started
        self._open: dict[Path, Cassette] = {}
        self._shared: dict[Path, Cassette] = {}
        self._places: dict[tuple[Path, str], Path | None] = {}
        self._folders: dict[str, str] = {}
        self._named: dict[Path, Cassette] = {}
        self._lock = threading.Lock()

    @property
    def cassettes(self) -> tuple[Cassette, ...]:
        """All cassettes opened so far, without the shared ones."""
        with self._lock:
            return tuple(self._open.values())

    def open(
        self, path: Path, mode: RecordMode, kind: TapeKind, *, allow_repeats: bool | None = None
    ) -> Tape:
        """Give a trial its own tape of a file; a file has one mode and one kind in a run.

        ``allow_repeats`` is true for tools and false for chats unless it is said.
        """
        cassette = self._cassette(path, mode, kind)
        return Tape(cassette, kind == "tool" if allow_repeats is None else allow_repeats)

    def open_shared(self, path: Path, tool: str) -> Tape | None:
        """Give a trial its own tape of what tasks share; nothing is ever recorded into it.

        The path is a file, or a folder that holds a file for each tool, ``TOOL.json`` or ``TOOL.yaml``: then
        None says that it holds none for this tool. A file is read when it is first asked for.
        """
        whole = self._place(path, tool)
        if whole is None:
            return None
        with self._lock:
            held = self._shared.get(whole)
            if held is None:
                name = self._name(whole)
                held = Cassette(whole, "none", "tool", name=name, redactor=self._redactor)
                self._shared[whole] = held
        return Tape(held, allow_repeats=True)

    def save(self, paths: Iterable[Path] | None = None) -> tuple[Path, ...]:
        """Save what holds something new, of all cassettes or of these, and say which; problems come last."""
        saved: list[Path] = []
        problems: list[Problem] = []
        for cassette in self.cassettes if paths is None else self.cassettes_at(paths):
            try:
                if cassette.save():
                    saved.append(cassette.path)
            except ProblemsFound as error:
                problems += error.problems
        if problems:
            raise ProblemsFound(problems)
        return tuple(saved)

    def note_trial(self, paths: Iterable[Path], trial: str, *, broken: bool) -> None:
        """Remember how a trial ended that may have recorded into these files."""
        for cassette in self.cassettes_at(paths):
            cassette.note_trial(trial, broken=broken)

    def cassettes_at(self, paths: Iterable[Path]) -> list[Cassette]:
        """Give the cassettes that were opened by these names."""
        return [self._named[path] for path in paths if path in self._named]

    def _cassette(self, path: Path, mode: RecordMode, kind: TapeKind) -> Cassette:
        whole = self._whole(path)
        with self._lock:
            held = self._open.get(whole)
            if held is None:
                name = self._name(whole)
                held = Cassette(whole, mode, kind, name=name, redactor=self._redactor, started=self._started)
                self._open[whole] = held
            self._named[path] = held
        if (held.mode, held.kind) != (mode, kind):
            was, now = f"{held.kind} cassette in mode {held.mode}", f"{kind} cassette in mode {mode}"
            raise UsageMistake(f"{held.name} is open as a {was}; it cannot be a {now} too")
        return held

    def _whole(self, path: Path) -> Path:
        """Give where a file lies, links followed; those on the way to its folder are followed once."""
        folder, name = os.path.split(self._root / path)
        followed = self._folders.get(folder)
        if followed is None:
            followed = self._folders[folder] = os.path.realpath(folder)
        whole = os.path.join(followed, name)
        return Path(os.path.realpath(whole) if os.path.islink(whole) else whole)

    def _place(self, path: Path, tool: str) -> Path | None:
        """Find the file in which a shared path holds a tool's calls; looked for once."""
        key = (path, tool)
        if key not in self._places:
            whole = (self._root / path).resolve()
            if not whole.exists():
                raise UsageMistake(
                    f"there is no shared cassette {self._name(whole)}: a file, or a folder of them"
                )
            named = [whole / f"{tool.replace('/', '_')}{ending}" for ending in (*JSON, *YAML)]
            there = [whole] if whole.is_file() else [path for path in named if path.is_file()]
            self._places[key] = there[0] if there else None
        return self._places[key]

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else str(path)
