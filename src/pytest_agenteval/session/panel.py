"""The lines below pytest's own that show what a run is at, counted from the journals of its processes."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock, get_ident
from typing import Any, NamedTuple

import pytest
from _pytest.terminal import TerminalReporter

from pytest_agenteval.processes.signals import is_in_foreground, is_terminal_with_escapes, on_ctrl_z
from pytest_agenteval.records.plan import TrialKey, trial_name
from pytest_agenteval.records.transcript import Figure, Usage, cost_figure, token_figure
from pytest_agenteval.reports.group_statistics import ResourceUse
from pytest_agenteval.reports.progress_panel import (
    FEWEST_ROWS,
    Piece,
    Progress,
    RunningScore,
    RunningTrial,
    panel_lines,
)
from pytest_agenteval.session.run_signals import DEAD_WORKERS
from pytest_agenteval.session.stash import eval_session_key, progress_key, run_info_key
from pytest_agenteval.store.journal_tail import JournalNews, JournalTail
from pytest_agenteval.store.run_documents import Group, planned_after, read_extra, read_looks
from pytest_agenteval.store.run_folder import PLANNED, PlannedGroup, read_header, read_json, read_planned
from pytest_agenteval.text.formatting import MOST_NAME, cell_width, model_label, one_line
from pytest_agenteval.text.redaction import KNOWN_SECRETS

NO_USE = ResourceUse(Figure(), Figure(), Figure())


def _with_usage(use: ResourceUse, usage: Usage) -> ResourceUse:
    return ResourceUse(use.tokens + token_figure(usage), use.cost + cost_figure(usage), use.seconds)


class RunningMean:
    """The mean of the tasks' mean scores, of one suite with one model and variant."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], tuple[float, int]] = {}
        self._sum = 0.0

    @property
    def mean(self) -> float | None:
        """The mean score; None before any trial has one."""
        return self._sum / len(self._tasks) if self._tasks else None

    def add(self, task: tuple[str, str], score: float, count: int = 1) -> None:
        """Count a trial's score; a ``count`` of -1 takes a score away again."""
        total, trials = self._tasks.pop(task, (0.0, 0))
        self._sum -= total / trials if trials else 0.0
        total, trials = total + count * score, trials + count
        if trials:
            self._tasks[task] = (total, trials)
            self._sum += total / trials


# The ended trials and seconds before which the remaining time is not estimated.
FEWEST_ENDED, FEWEST_SECONDS = 3, 3.0

# A trial that has lasted as long as others is expected to last this share of its time so far longer.
MORE_TO_COME = 0.25


class RunPlan(NamedTuple):
    """The plan of a run: groups in their order, the number of trials, and how many they may become."""

    groups: tuple[PlannedGroup, ...]
    trials: int
    most: int
    is_decided: bool

    @classmethod
    def read(cls, folder: Path) -> RunPlan:
        """Read the plan as the run's processes have written it so far."""
        planned, extra = read_planned(read_json(folder / PLANNED)), read_extra(folder)
        looks = read_looks(folder) if extra else None
        if extra and looks is not None:
            planned = planned_after(planned, extra, looks)
        trials = sum(group.trials for group in planned)
        more = sum(group.trials for group in extra.planned) if extra and looks is None else trials
        return cls(planned, trials, more, extra is None or looks is not None)


class EndedTrial(NamedTuple):
    """How the last attempt of a trial ended."""

    ending: str
    score: float | None


class RunProgress:
    """Counts what a run's processes write into their journals; ``now`` is in seconds of a monotonic clock."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._tail = folder, JournalTail(folder)
        self._plan = RunPlan.read(folder)
        self._is_regraded = bool(read_header(folder).regraded)
        self._in_flight: dict[TrialKey, tuple[str, float]] = {}
        self._ended: dict[TrialKey, EndedTrial] = {}
        self._endings: dict[str, int] = {}
        self._means: dict[Group, RunningMean] = {
            (group.suite, group.model, group.variant): RunningMean() for group in self._plan.groups
        }
        self._spent = self._judging = NO_USE
        self._began: float | None = None
        self._finished_seconds = 0.0
        self._attempts_ended = 0
        # Trials that ended before the run was resumed count as ended, but not for the pace.
        if read_header(folder).resumed:
            while lines := [news for _, fresh in self._tail.news() for news in fresh]:
                for news in lines:
                    if news.kind == "finished":
                        self._count(news.key, EndedTrial(news.ending, news.score))

    @property
    def is_going_on(self) -> bool:
        """Whether trials are in flight or still to come, once the first has started."""
        coming = not self._plan.is_decided or len(self._ended) < self._plan.trials
        return self._began is not None and (bool(self._in_flight) or coming)

    def update(self, now: float) -> None:
        """Read what has been written down since the last time."""
        for worker, lines in self._tail.news():
            for news in lines:
                self._take(worker, news, now)
        if not self._plan.is_decided:
            self._plan = RunPlan.read(self._folder)
        word = self._folder / DEAD_WORKERS
        if word.exists():
            dead = frozenset(word.read_text(encoding="utf-8").split())
            self._in_flight = {key: value for key, value in self._in_flight.items() if value[0] not in dead}

    def _take(self, worker: str, news: JournalNews, now: float) -> None:
        key = news.key
        if news.kind == "started":
            self._began = now if self._began is None else self._began
            self._in_flight[key] = (worker, now)
            return
        _, began = self._in_flight.pop(key, ("", now))
        self._finished_seconds += now - began
        self._attempts_ended += 1
        self._spent = _with_usage(self._spent, news.usage.usage)
        if news.judging.asks:
            self._judging = _with_usage(self._judging, news.judging.usage)
        self._count(key, EndedTrial(news.ending, news.score))

    def _count(self, key: TrialKey, trial: EndedTrial) -> None:
        before = self._ended.get(key)
        if before is not None:
            self._add(key, before, -1)
        self._ended[key] = trial
        self._add(key, trial, 1)

    def _add(self, key: TrialKey, trial: EndedTrial, count: int) -> None:
        self._endings[trial.ending] = self._endings.get(trial.ending, 0) + count
        # The same trials are averaged as in ``JournalEntry.averaged``.
        if trial.ending != "errored" and trial.score is not None:
            mean = self._means.setdefault((key.suite, key.model, key.variant), RunningMean())
            mean.add((key.task, key.agent), trial.score, count)

    def progress(self, now: float) -> Progress:
        return Progress(
            planned=max(self._plan.trials, len(self._ended)),
            most=self._plan.most,
            ended=len(self._ended),
            in_flight=len(self._in_flight),
            passed=self._endings.get("passed", 0),
            missed=self._endings.get("missed", 0),
            failed=self._endings.get("failed", 0),
            errored=self._endings.get("errored", 0),
            scores=tuple(self._scores()),
            spent=self._spent,
            judging=self._judging,
            seconds_left=self._seconds_left(now),
            slowest=self._slowest(now),
            is_regraded=self._is_regraded,
        )

    def _scores(self) -> Iterable[RunningScore]:
        several = len({group[1:] for group in self._means}) > 1
        for (suite, model, variant), mean in self._means.items():
            label = f"{suite}[{model_label(model, variant)}]" if several else suite
            yield RunningScore(one_line(KNOWN_SECRETS.text(label), MOST_NAME), mean.mean)

    def _slowest(self, now: float) -> RunningTrial | None:
        # The dictionary is in the order in which trials began, so the first has lasted longest.
        for key, (_, began) in self._in_flight.items():
            return RunningTrial(KNOWN_SECRETS.text(trial_name(key)), now - began)
        return None

    def _seconds_left(self, now: float) -> float | None:
        """Estimate the remaining seconds at the pace so far; None where it is too early."""
        # A trial in flight counts as the part of an average trial that it has done.
        if self._began is None or self._attempts_ended < FEWEST_ENDED or not self._plan.is_decided:
            return None
        elapsed = now - self._began
        if elapsed < FEWEST_SECONDS:
            return None
        average = self._finished_seconds / self._attempts_ended
        times = [(now - began) / average if average else 1.0 for _, began in self._in_flight.values()]
        parts = [max(1 - lasted, lasted * MORE_TO_COME) for lasted in times]
        left = sum(min(part, 1.0) for part in parts)
        pace = elapsed / (self._attempts_ended + len(parts) - left)
        known_trials = len(self._ended) + sum(key not in self._ended for key in self._in_flight)
        waiting = max(0, self._plan.trials - known_trials)
        return max((waiting + left) * pace, max(parts, default=0.0) * average)


# Escape sequences of colours, and those that set the terminal's title.
_WITHOUT_WIDTH = re.compile(r"\x1b\[[0-9;]*m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")

_MOVES_CURSOR = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class CurrentLine:
    """Follows the cursor's column on a terminal.

    ``is_known`` is False until the end of a line in which something moves the cursor, as ``\\r`` does, or a
    wide letter may have been put on the next row. A terminal in a container may have 0 columns.
    """

    def __init__(self, column: int) -> None:
        self._column = column
        self.is_known = True

    def is_left_by(self, text: str, columns: int) -> bool:
        """Whether the cursor leaves its row, or its column becomes unknown, when this is written."""
        if "\n" in text:
            return True
        width = _width(text)
        return width is None or columns < 1 or width >= columns - self._column % columns

    def take(self, text: str, columns: int) -> None:
        _, newline, rest = text.rpartition("\n")
        if newline:
            self._column, self.is_known = 0, True
        width = _width(rest)
        may_jump = not rest.isascii() and self.is_left_by(rest, columns)
        self.is_known = self.is_known and width is not None and not may_jump
        self._column += width or 0

    def has_room(self, columns: int) -> bool:
        """Whether the cursor is within a row, and not behind its last column, where terminals differ."""
        return self.is_known and columns > 0 and (self._column == 0 or self._column % columns != 0)


def _width(text: str) -> int | None:
    # The columns of a text within a line; None where it moves the cursor elsewhere.
    if text.isascii() and text.isprintable():
        return len(text)
    plain = _WITHOUT_WIDTH.sub("", text)
    return None if _MOVES_CURSOR.search(plain) else cell_width(plain)


# DEC's index moves a row down in the same column, and scrolls on the last row. A line feed would also go to
# the first column, and a saved cursor would not scroll along.
DOWN, UP = "\x1bD", "\x1b[{}A"
SAVE, RESTORE, ERASE_LINE, ERASE_BELOW = "\x1b7", "\x1b8", "\x1b[K", "\x1b[J"


class RowsBelow:
    """Shows lines below the cursor and erases them before anything else needs their rows.

    The methods that write are replaced on the streams themselves, so that it does not matter who writes:
    pytest, another plugin, a hook that prints. Dots that stay on their line leave the panel alone. A text
    that ends the line erases it; it is drawn again when pytest's thread flushes the stream, or by ``show``.
    """

    def __init__(self, terminal: Any, others: Iterable[Any], column: int) -> None:
        # A descriptor of its own: while a test runs, pytest captures what is written to the stream's.
        self._fd = os.dup(terminal.fileno())
        self._encoding = getattr(terminal, "encoding", None) or "utf-8"
        self._lock, self._process, self._thread = RLock(), os.getpid(), get_ident()
        self._line = CurrentLine(column)
        self._lines: tuple[str, ...] = ()
        self._terminal_size = os.get_terminal_size(self._fd)
        self._is_drawn = self._is_unflushed = self._is_paused = self._is_closed = False
        streams = {id(stream): stream for stream in (terminal, *others)}
        self._undo = [undo for stream in streams.values() for undo in self._guard(stream)]

    def size(self) -> os.terminal_size:
        """Give the terminal's size as it is now."""
        return os.get_terminal_size(self._fd)

    def show(self, lines: Sequence[str], size: os.terminal_size) -> None:
        """Show these lines from now on; ``size`` is the terminal's size that they were made for."""
        # The lines are written even if they are shown already: a key may have moved the cursor meanwhile.
        with self._lock:
            if len(lines) < len(self._lines) or size != self._terminal_size:
                self._erase()
            self._lines, self._terminal_size = tuple(lines), size
            self._draw()

    def step_aside(self, stop: Callable[[], None]) -> None:
        """Erase the lines and call ``stop``, during which nothing is written."""
        with self._lock:
            self._erase()
            stop()

    def pause(self) -> None:
        """Erase the lines until ``go_on``: a debugger has the terminal."""
        with self._lock:
            self._erase()
            self._is_paused = True

    def go_on(self) -> None:
        self._is_paused = False

    def close(self) -> None:
        """Erase the lines for good, and restore the streams; may be called twice."""
        with self._lock:
            if not self._is_closed:
                with suppress(OSError):  # a terminal that is gone shows nothing
                    self._erase()
                self._is_closed = True
                os.close(self._fd)
                for undo in self._undo:
                    undo()

    def _guard(self, stream: Any) -> list[Callable[[], None]]:
        write, flush = stream.write, stream.flush

        def write_above(text: str) -> Any:
            # After a fork the child may have a copy of the lock that stays locked for ever.
            if self._is_closed or os.getpid() != self._process:
                return write(text)
            with self._lock:
                columns = self._terminal_size.columns
                if self._is_drawn and self._line.is_left_by(text, columns):
                    self._erase()
                self._line.take(text, columns)
                self._is_unflushed = not text.endswith("\n")
                return write(text)

        def flush_and_draw() -> None:
            flush()
            if not self._is_closed and os.getpid() == self._process:
                with self._lock:
                    self._is_unflushed = False
                    # Only pytest's own thread draws: another one may be about to end the process, as
                    # pytest-timeout's does.
                    if not self._is_drawn and get_ident() == self._thread:
                        self._draw()

        try:
            return [_replace(stream, "write", write_above), _replace(stream, "flush", flush_and_draw)]
        except AttributeError:  # a stream that takes no attributes is left as it is
            return []

    def _draw(self) -> None:
        # Drawn only where the place of the cursor is known and the lines fit the terminal.
        size = self._terminal_size
        if self._is_closed or self._is_paused or self._is_unflushed or not self._lines:
            return
        if size != self.size() or not self._line.has_room(size.columns) or not is_in_foreground(self._fd):
            return
        rows = "".join(f"\r\n{line}{ERASE_LINE}" for line in self._lines)
        count = len(self._lines)
        self._is_drawn = True
        # Right of the cursor there may be a line of the panel, where the user pressed Enter.
        self._send(f"{ERASE_LINE}{DOWN * count}{UP.format(count)}{SAVE}{rows}{RESTORE}")

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._send(ERASE_BELOW)

    def _send(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        while data:
            data = data[os.write(self._fd, data) :]


def _replace(stream: Any, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Replace a stream's method; give the undoing, which leaves a later replacement alone."""
    before = vars(stream).get(name)
    setattr(stream, name, function)

    def undo() -> None:
        if vars(stream).get(name) is not function:
            return
        if before is None:
            delattr(stream, name)
        else:
            setattr(stream, name, before)

    return undo


TICK_S = 0.25  # seconds between two updates
PATIENCE_S = 0.5  # seconds before the panel is shown: quick runs need none

# Options of pytest under which no trial begins, or the user looks at one test at a time.
PLAIN = ("collectonly", "setuponly", "setupplan", "setupshow", "usepdb", "trace")

COLOURS = {"": "", "dim": "\x1b[2m", "green": "\x1b[32m", "yellow": "\x1b[33m", "red": "\x1b[31m"}
NO_COLOUR = "\x1b[0m"


def begin_progress(config: pytest.Config) -> None:
    """Show the run's progress from now on, on a terminal that can show it."""
    # Called once for each run, in the process that speaks for it, after the run's plan is written down.
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if progress_key in config.stash or not _is_shown(config, reporter):
        return
    panel = config.stash[progress_key] = ProgressPanel(reporter, config.stash[run_info_key].folder)
    config.pluginmanager.register(panel, "agenteval-progress")
    config.add_cleanup(panel.close)
    panel.start()


def _is_shown(config: pytest.Config, reporter: Any) -> bool:
    # Only pytest's own class: other reporters draw below their lines themselves.
    if type(reporter) is not TerminalReporter or hasattr(config, "workerinput"):
        return False
    option = config.option
    if option.verbose < 0 or option.capture == "no" or any(getattr(option, name, False) for name in PLAIN):
        return False
    # pytest itself recognizes a CI server by these variables.
    if os.environ.get("CI") or os.environ.get("BUILD_NUMBER"):
        return False
    if not _is_capable(reporter._tw._file):
        return False
    evals = config.stash.get(eval_session_key, None)
    if evals is not None:
        return bool(evals.settings.progress != "no")
    from pytest_agenteval.session.settings_reading import read_settings

    return read_settings(config).progress != "no"


def _is_capable(stream: Any) -> bool:
    try:
        return is_terminal_with_escapes(stream.fileno()) and hasattr(stream, "__dict__")
    except (AttributeError, OSError, ValueError):  # an object that is no file
        return False


class ProgressPanel:
    """Draws the run's progress, in a thread of its own that ends with the run."""

    def __init__(self, reporter: Any, folder: Path) -> None:
        writer = reporter._tw
        self._colours = bool(writer.hasmarkup)
        self._ascii_only = "utf" not in str(getattr(writer._file, "encoding", "")).lower()
        self._progress = RunProgress(folder)
        streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        others = [stream for stream in streams if stream is not None and _is_capable(stream)]
        self._rows = RowsBelow(writer._file, others, writer.width_of_current_line)
        self._leave_stops = on_ctrl_z(self._rows.step_aside)
        self._first_display_at = time.monotonic() + PATIENCE_S
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="agenteval-progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Erase the panel for good; nobody waits for its thread."""
        self._over.set()
        self._rows.close()
        self._leave_stops()

    def pytest_enter_pdb(self) -> None:
        """Leave the terminal to the debugger."""
        self._rows.pause()

    def pytest_leave_pdb(self) -> None:
        self._rows.go_on()

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        """Leave the terminal to what pytest has to say."""
        self.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Leave the terminal to what pytest has to say."""
        self.close()

    def _watch(self) -> None:
        try:
            while not self._over.wait(TICK_S):
                now = time.monotonic()
                self._progress.update(now)
                size = self._rows.size()
                is_shown = now >= self._first_display_at and self._progress.is_going_on
                self._rows.show(self._lines(now, size) if is_shown else [], size)
        except OSError:  # the terminal is gone, or the run's folder: the run goes on without a panel
            pass
        # This also runs after an exception of ours, which pytest shows as a warning.
        finally:
            self._rows.close()

    def _lines(self, now: float, size: os.terminal_size) -> list[str]:
        if size.lines < FEWEST_ROWS:
            return []
        lines = panel_lines(self._progress.progress(now), size.columns, ascii_only=self._ascii_only)
        return ["".join(map(self._painted, line)) for line in lines]

    def _painted(self, piece: Piece) -> str:
        is_coloured = self._colours and piece.look
        return f"{COLOURS[piece.look]}{piece.text}{NO_COLOUR}" if is_coloured else piece.text
