"""Two lines below pytest's own that show what a run is at, counted from the journals of its processes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import create_terminal_writer
from _pytest.terminal import TerminalReporter

from pytest_agenteval.processes.signals import is_terminal_with_escapes
from pytest_agenteval.records.plan import TrialKey, trial_name
from pytest_agenteval.records.transcript import Figure, cost_figure, format_cost, format_tokens, token_figure
from pytest_agenteval.session.pytest_output import hide_on_terminal
from pytest_agenteval.session.run_signals import DEAD_WORKERS
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.session.stash import progress_key, run_info_key
from pytest_agenteval.store.journal_entry import FinishedLine, StartedLine
from pytest_agenteval.store.run_folder import PLANNED, read_header, read_json, read_planned
from pytest_agenteval.store.run_follower import JournalTail
from pytest_agenteval.text.formatting import cell_width, format_figure, model_label, pluralize, shorten_middle
from pytest_agenteval.text.redaction import KNOWN_SECRETS

FIRST_S, REDRAW_S = 0.5, 1.0  # quick runs show nothing; then the figures change once a second
FEWEST_ENDED = 3  # trials before which the remaining time is not estimated
NAME_ROOM, LEAST_COLUMNS = 40, 60

# DEC's index moves down in the same column, and scrolls on the last row. A line feed would also go to the
# first column, and a saved cursor would not scroll along.
DRAW, ERASE = "\x1bD\x1bD\x1b[2A\x1b7\r\n\x1b[K{}\r\n\x1b[K{}\x1b8", "\x1b[J"


def begin_progress(config: pytest.Config) -> None:
    """Show the run's progress from now on, in the process that speaks for it, on a terminal."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    # Other classes than pytest's own draw below their lines themselves.
    if progress_key in config.stash or type(reporter) is not TerminalReporter:
        return
    option, info = config.option, config.stash.get(run_info_key, None)
    # Nothing runs under --collect-only, nor where something could not be collected.
    if info is None or not (info.folder / PLANNED).exists():
        return
    # pytest itself recognizes a CI server by these variables.
    is_unseen = hasattr(config, "workerinput") or os.environ.get("CI") or os.environ.get("BUILD_NUMBER")
    is_plain = option.verbose < 0 or option.capture == "no" or option.usepdb or option.trace
    if is_unseen or is_plain or read_settings(config).progress == "no":
        return
    with suppress(AttributeError, OSError, ValueError):  # an object that is no file
        if is_terminal_with_escapes(reporter._tw._file.fileno()):
            panel = config.stash[progress_key] = ProgressLines(config, reporter, info.folder)
            config.pluginmanager.register(panel, "agenteval-progress")


class RunCounts:
    """What a run's processes have written into their journals; times are seconds of a monotonic clock."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._tail, header = folder, JournalTail(folder), read_header(folder)
        self._planned = sum(group.trials for group in read_planned(read_json(folder / PLANNED)))
        self._is_regraded, self._began = bool(header.regraded), time.monotonic()
        self._ended: dict[TrialKey, FinishedLine] = {}
        self._in_flight: dict[TrialKey, tuple[str, float]] = {}
        self._tokens = self._cost = Figure()
        # What ended before the run was resumed counts as ended, but costs nothing now and sets no pace.
        while header.resumed and (lines := [line for _, lines in self._tail.news() for line in lines]):
            self._ended |= {line.key: line for line in lines if isinstance(line, FinishedLine)}
        self._before = len(self._ended)

    def update(self, now: float) -> None:
        """Read what has been written down since the last time."""
        for worker, lines in self._tail.news():
            for news in lines:
                if isinstance(news, StartedLine):
                    self._in_flight[news.key] = worker, now
                if not isinstance(news, FinishedLine):
                    continue
                self._in_flight.pop(news.key, None)
                self._ended[news.key] = news
                # What an agent took is not spent again where its trials are only graded again.
                for use in (news.judging,) if self._is_regraded else (news.usage, news.judging):
                    self._tokens += token_figure(use.usage)
                    self._cost += cost_figure(use.usage)
        if (names := self._folder / DEAD_WORKERS).exists():
            dead = names.read_text(encoding="utf-8").split()
            self._in_flight = {key: at for key, at in self._in_flight.items() if at[0] not in dead}

    def lines(self, now: float, width: int) -> tuple[str, str]:
        """Give one line about trials, and one about scores, costs and the trial that began first."""
        ended = len(self._ended)
        planned = max(self._planned, ended)  # more may end, where repetitions are added
        endings = Counter[str](news.ending for news in self._ended.values())
        trials = [f"{ended:,} of {pluralize(planned, 'trial')}", f"{len(self._in_flight):,} in flight"]
        shown = ("passed", "missed", "failed", "errored")
        trials += [f"{endings[word]:,} {word}" for word in shown if endings[word]]
        if ended - self._before >= FEWEST_ENDED and ended < planned:
            minutes = (now - self._began) / (ended - self._before) * (planned - ended) / 60
            trials.append("under a minute left" if minutes < 1 else f"about {minutes:.0f} min left")
        figures = list(self._scores())
        figures += [format_tokens(self._tokens), format_cost(self._cost)] if self._tokens else []
        for key, (_, began) in [*self._in_flight.items()][:1]:  # in the order in which they began
            name = shorten_middle(KNOWN_SECRETS.text(trial_name(key)), NAME_ROOM)
            figures.append(f"{name} {now - began:.0f} s")
        return _fitted(trials, width), _fitted(figures, width)

    def _scores(self) -> Iterator[str]:
        """Give the mean of the tasks' means of each suite, as the end screen does."""
        scores: dict[tuple[str, str, str], dict[str, list[float]]] = {}
        for key, news in self._ended.items():
            if news.ending != "errored" and news.score is not None:
                tasks = scores.setdefault((key.suite, key.model, key.variant), {})
                tasks.setdefault(key.task, []).append(news.score)
        several = len({group[1:] for group in scores}) > 1
        for (suite, model, variant), tasks in scores.items():
            means = [sum(task) / len(task) for task in tasks.values()]
            label = KNOWN_SECRETS.text(f"{suite}[{model_label(model, variant)}]" if several else suite)
            yield f"{shorten_middle(label, NAME_ROOM)} {format_figure(sum(means) / len(means))}"


def _fitted(parts: Iterable[str], width: int) -> str:
    """Join the parts that fit: a line that wraps would break the panel."""
    line = ""
    for part in parts:
        if cell_width(line) + 3 + cell_width(part) < width:
            line += f"   {part}"
    return line


class ProgressLines:
    """Draws the lines when pytest reports and while it waits; whatever pytest writes erases them first."""

    def __init__(self, config: pytest.Config, reporter: Any, folder: Path) -> None:
        hide_on_terminal(reporter)
        self._writer, self._write = reporter._tw, reporter._tw.write
        # A descriptor of its own: while a test runs, pytest captures what is written to the other one.
        self._fd = os.dup(self._writer._file.fileno())
        self._below = create_terminal_writer(config, os.fdopen(self._fd, "w", encoding="utf-8"))
        self._counts, self._lines = RunCounts(folder), ("", "")
        self._due, self._is_drawn = time.monotonic() + FIRST_S, False
        self._writer.write = self._write_above

    def _write_above(self, message: str, **markup: Any) -> None:
        self.pytest_enter_pdb()
        self._write(message, **markup)

    def show(self) -> None:
        """Draw the lines where they are missing or out of date."""
        now = time.monotonic()
        if now < self._due and (self._is_drawn or not self._lines[0]):
            return
        with suppress(OSError):  # the terminal is gone, or the run's folder: the run goes on
            width, column = os.get_terminal_size(self._fd).columns, self._writer.width_of_current_line
            if now >= self._due:
                self._due = now + REDRAW_S
                self._counts.update(now)
                self._lines = self._counts.lines(now, width)
            # Behind the last column terminals differ.
            if width >= LEAST_COLUMNS and (column == 0 or column % width):
                self._is_drawn = True
                self._below.write(DRAW.format(*self._lines), flush=True)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self) -> None:
        self._writer.flush()
        self.show()

    def pytest_enter_pdb(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._below.write(ERASE, flush=True)

    def close(self) -> None:
        """Erase the lines for good."""
        self._writer.write, self._due, self._lines = self._write, float("inf"), ("", "")
        with suppress(OSError):  # the terminal is gone
            self.pytest_enter_pdb()
            self._below._file.close()
