"""All cassettes of a process: each file is loaded once, however many trials play it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pytest_agenteval.cassettes.cassette import Cassette, Kind, Mode
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.tape import Tape
from pytest_agenteval.errors import Problem, ProblemsFound, UsageMistake


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
        self._lock = threading.Lock()

    @property
    def cassettes(self) -> tuple[Cassette, ...]:
        """All cassettes opened so far."""
        with self._lock:
            return tuple(self._open.values())

    def open(self, path: Path, mode: Mode, kind: Kind, *, allow_repeats: bool | None = None) -> Tape:
        """Give a trial its own tape of a file; a file has one mode and one kind in a run.

        ``allow_repeats`` is true for tools and false for chats unless it is said.
        """
        cassette = self._cassette(path, mode, kind)
        return Tape(cassette, kind == "tool" if allow_repeats is None else allow_repeats)

    def save(self) -> tuple[Path, ...]:
        """Save every cassette that holds something new, and say which; problems are raised after all."""
        saved: list[Path] = []
        problems: list[Problem] = []
        for cassette in self.cassettes:
            try:
                if cassette.save():
                    saved.append(cassette.path)
            except ProblemsFound as found:
                problems += found.problems
        if problems:
            raise ProblemsFound(problems)
        return tuple(saved)

    def _cassette(self, path: Path, mode: Mode, kind: Kind) -> Cassette:
        whole = (self._root / path).resolve()
        with self._lock:
            held = self._open.get(whole)
            if held is None:
                name = self._name(whole)
                held = Cassette(whole, mode, kind, name=name, redactor=self._redactor, started=self._started)
                self._open[whole] = held
        if (held.mode, held.kind) != (mode, kind):
            was, now = f"{held.kind} cassette in mode {held.mode}", f"{kind} cassette in mode {mode}"
            raise UsageMistake(f"{held.name} is open as a {was}; it cannot be a {now} too")
        return held

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else str(path)
