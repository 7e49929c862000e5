"""The runs and baselines that ``agenteval view`` shows: found by name, followed while they go on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

from pytest_agenteval.compare.baseline_file import baseline_files, read_baseline
from pytest_agenteval.processes.files import PresenceLock
from pytest_agenteval.records.record import same_fields
from pytest_agenteval.records.transcript import Figure
from pytest_agenteval.reports.resource_text import wall_cell
from pytest_agenteval.reports.run_list import ListedRun, listed_run, verdict_text
from pytest_agenteval.reports.sides import Baseline
from pytest_agenteval.store.run_documents import COMPARISON
from pytest_agenteval.store.run_folder import HEADER, HOLD_FILE, RunHeader, latest_first, list_runs
from pytest_agenteval.store.run_follower import RunFollower
from pytest_agenteval.store.run_reader import JOURNALS, Run, load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import NOT_KNOWN, format_moment

RunState = Literal["running", "not ended", "ended"]

BUDGET_S = 0.3
"""Seconds that one look at the list may spend on figures; the page asks for the rest at once."""

MOST_FOLLOWED = 12
"""Runs that stay in memory."""

BASELINES_S = 30.0
"""Seconds for which it stays known which baselines there are: to find them, the project is walked through."""

Fields = dict[str, Any]


def as_text(name: str) -> str:
    """Give the name of a file as a text that an address can hold: bytes that are no UTF-8 are written out."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def run_state(folder: Path, header: RunHeader) -> RunState:
    """Say whether a pytest is at work on a run; one that is not, and has not ended, was killed."""
    if PresenceLock(folder / HOLD_FILE).is_held():
        return "running"
    return "ended" if header.ended_at else "not ended"


class RunProgress(NamedTuple):
    """How far a run is: trials that ended, of how many planned, and since when it is worked on.

    ``since`` is when it was started or last resumed, and ``ended_since`` what ended after that by itself:
    a trial that was taken over from another run took no time.
    """

    ended: int
    planned: int
    errored: int
    in_flight: int | None
    since: str
    ended_since: int


def run_progress(run: Run) -> RunProgress:
    header = run.header
    since = header.resumed[-1].at if header.resumed else header.started_at
    acted = [entry for entry in run.entries if entry.origin is None]
    if header.resumed and (from_then := _moment(since)):
        moments = (_moment(entry.started_at) for entry in acted)
        ended_since = sum(moment is not None and moment >= from_then for moment in moments)
    else:
        ended_since = len(acted)
    ended = len(run.entries)
    return RunProgress(
        ended=ended,
        # More may end, where repetitions are added.
        planned=max(ended, sum(group.trials for group in run.planned)),
        errored=sum(entry.ending == "errored" for entry in run.entries),
        # In a resumed run, what was interrupted before looks like what is under way.
        in_flight=None if header.resumed else len(run.begun) - len(run.lost),
        since=since,
        ended_since=ended_since,
    )


def _moment(text: str) -> float | None:
    try:
        # Without fractions, which not every moment has.
        return datetime.fromisoformat(text).timestamp() // 1
    except ValueError:
        return None


class ViewedRuns:
    """The runs of a folder, and those that the user has named; several threads may use it.

    A run or a baseline is found by its name among those that are listed, and in no other way.
    """

    def __init__(self, results: Path, named: Sequence[Path], project: Path) -> None:
        self.results, self._project = results, project
        inside = results.resolve()
        outside = (path for path in named if path.resolve().parent != inside)
        self._outside = {as_text(str(path)): path for path in outside}
        self._lock = Lock()
        self._followers: dict[str, RunFollower] = {}
        self._listed: dict[str, tuple[object, ListedRun]] = {}
        self._baselines: tuple[float, Mapping[str, Path]] = (-inf, {})
        self._read_baselines: dict[str, tuple[Baseline, object]] = {}

    def name_of(self, folder: Path) -> str:
        """Give the name that a run has here: that of its folder, or its path where it is elsewhere."""
        path = as_text(str(folder))
        return path if path in self._outside else as_text(folder.name)

    def folders(self) -> dict[str, tuple[Path, RunHeader]]:
        """Give all runs by name, the newest first."""
        found = [(as_text(run.path.name), run) for run in list_runs(self.results)]
        for name, path in self._outside.items():
            found += [(name, run) for run in list_runs(path.parent) if run.path.name == path.name]
        named = {id(run): name for name, run in found}
        return {named[id(run)]: (run.path, run.header) for run in latest_first([run for _, run in found])}

    def follower(self, name: str, folder: Path | None = None) -> RunFollower:
        """Give what follows a run; raises UsageMistake where no run of the list has this name.

        ``folder`` is where the list has it, where that is known.
        """
        with self._lock:
            known = self._followers.get(name)
        if known is None or not known.is_there:
            known = RunFollower(folder or self._folder(name))
        with self._lock:
            known = self._followers.setdefault(name, known)
            # The one that was requested last is the last one to be forgotten.
            self._followers[name] = self._followers.pop(name)
            while len(self._followers) > MOST_FOLLOWED:
                self._followers.pop(next(iter(self._followers)))
        return known

    def _folder(self, name: str) -> Path:
        listed = self.folders()
        if name not in listed:
            raise UsageMistake(f"there is no run {name!r} in {self.results}, or no longer")
        return listed[name][0]

    def read(self, name: str) -> Run:
        """Read a run as it is now; raises UsageMistake where no run of the list has this name."""
        with self._lock:
            known = self._followers.get(name)
        return known.run() if known else load_run(self._folder(name))

    def baselines(self) -> Mapping[str, Path]:
        """Give the files of baselines below the project, by their paths there."""
        at, found = self._baselines
        if time.monotonic() - at > BASELINES_S:
            paths = sorted(baseline_files(self._project))
            found = {as_text(path.relative_to(self._project).as_posix()): path for path in paths}
            self._baselines = time.monotonic(), found
        return found

    def baseline(self, name: str) -> tuple[Baseline, object]:
        """Give a baseline with its version; raises UsageMistake where none that is listed has this name."""
        path = self.baselines().get(name)
        if path is None:
            raise UsageMistake(f"there is no baseline {name!r} below {self._project}, or no longer")
        version = _states_of([path])
        known = self._read_baselines.get(name)
        if known is None or known[1] != version:
            known = self._read_baselines[name] = Baseline(path, read_baseline(path)), version
        return known

    def list_document(self, budget: float = BUDGET_S) -> Fields:
        """Give all runs, the newest first; ``pending`` counts those whose figures are not known yet.

        Figures are those of ``agenteval runs``. The budget is in seconds.
        """
        until, rows = time.monotonic() + budget, []
        for name, (folder, header) in self.folders().items():
            state = run_state(folder, header)
            rows.append(_head(name, header, state))
            # A run that cannot be read hides no other.
            try:
                listed = self._figures(name, folder, state, until)
                rows[-1] |= _figures(listed) if listed else {}
                if state == "running":
                    rows[-1]["progress"] = run_progress(self.follower(name, folder).run())._asdict()
            except (UsageMistake, OSError) as broken:
                rows[-1] |= {"suites": [], "problems": [], "problem": str(broken)}
        return {
            "results": str(self.results),
            "runs": rows,
            "pending": sum("suites" not in row for row in rows),
        }

    def _figures(self, name: str, folder: Path, state: RunState, until: float) -> ListedRun | None:
        """Give the figures of a run that are known, or can be worked out in time."""
        version = _states(folder)
        known = self._listed.get(name)
        if known and known[0] == version:
            return known[1]
        if time.monotonic() > until and state != "running":
            return None
        # One that has not ended may go on: of it only what is new is read.
        run = self.follower(name, folder).run() if state != "ended" else None
        listed = listed_run(folder, run, store=False)
        self._listed[name] = version, listed
        return listed


def _states(folder: Path) -> object:
    """Give what changes when a file does that the figures of a run are made from."""
    return _states_of([folder / HEADER, folder / COMPARISON, *sorted(folder.glob(JOURNALS))])


def _states_of(paths: Sequence[Path]) -> object:
    states = []
    for path in paths:
        try:
            state = path.stat()
        except FileNotFoundError:
            continue
        states.append((path.name, state.st_ino, state.st_size, state.st_mtime_ns))
    return tuple(states)


def _head(name: str, header: RunHeader, state: RunState) -> Fields:
    return {
        "name": name,
        "started_at": header.started_at,
        "started": format_moment(header.started_at),
        "state": state,
        "exit_status": header.exit_status,
        "models": [model.name for model in header.models],
        "variants": [variant for variant in header.variants if variant],
        "suite_names": [suite.name for suite in header.suites],
    }


def _figures(listed: ListedRun) -> Fields:
    figures = listed.figures
    rows = zip(figures.suites, listed.suites, strict=True)
    return {
        "headline": figures.headline,
        "wall": wall_cell(Figure(figures.wall_seconds or 0, figures.wall_untimed)),
        "problems": list(figures.odd),
        "suites": [
            {
                **same_fields(suite, ("suite", "model", "variant")),
                **same_fields(cells, ("who", "score", "interval", "averaged")),
                **same_fields(suite, ("planned", "errored")),
                "cost": cells.cost,
                "turns": "" if cells.turns == NOT_KNOWN else cells.turns,
                "verdict": verdict_text(suite.verdict) if suite.verdict else "",
            }
            for suite, cells in rows
        ],
    }
