"""Which stored runs may be removed: old ones that nobody named and that nothing refers to."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_agenteval.processes.files import read_pointer, replace_file
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.notes import read_notes
from pytest_agenteval.store.run_documents import COMPARISON
from pytest_agenteval.store.run_folder import HEADER, LATEST, RunFolder, list_runs, read_json

# The prefix of a folder that is being removed, so that a remainder of an interrupted removal does not look
# like a run.
GOING = ".going-"


class Pruning(FrozenValue, frozen=True):
    """Which runs may be removed, with their size in bytes, oldest first; and why each other run stays."""

    removable: Mapping[Path, int]
    retained: Mapping[Path, str]

    @property
    def size(self) -> int:
        """The bytes that removing them frees."""
        return sum(self.removable.values())


def plan_pruning(
    root: Path,
    *,
    young: timedelta,
    newest: int,
    blessed: Collection[str],
    is_held: Callable[[Path], bool],
    now: datetime | None = None,
) -> Pruning:
    """Decide which runs of a folder may be removed, and remove nothing.

    These stay: the ``newest`` runs and the latest, runs of the last ``young`` days, runs that somebody named
    or commented, ``blessed`` ones (baselines), those that are in use, and every run that one of these refers
    to.
    """
    runs, now = list_runs(root), now or datetime.now(UTC)
    latest = read_pointer(root / LATEST)
    retained: dict[Path, str] = {}
    for at, run in enumerate(runs):
        name = run.path.name
        if is_held(run.path):
            retained[run.path] = "going on"
        elif name in blessed or run.header.name in blessed:
            retained[run.path] = "a baseline"
        # A run that nobody named is called by its time.
        elif not re.match(r"\d{8}-\d{6}(?:-|$)", name):
            retained[run.path] = "named"
        elif any(note.comment for note in read_notes(run.path).values()):
            retained[run.path] = "with comments"
        elif at < newest or name == latest:
            retained[run.path] = "among the newest"
        # A run whose age is unknown stays.
        elif (when := _last_touched(run)) is None or now - when < young:
            retained[run.path] = "young"
    _retain_referenced_runs(runs, retained)
    removable = {}
    for run in reversed(runs):
        if run.path not in retained:
            files = (path for path in run.path.rglob("*") if not path.is_dir())
            removable[run.path] = sum(path.lstat().st_size for path in files)
    return Pruning(removable, retained)


def remove_run(folder: Path) -> None:
    """Remove a run; what an interrupted removal leaves is not taken for a run."""
    going = folder.with_name(f"{GOING}{folder.name}")
    replace_file(folder, going)
    # The header first: without it, a folder is not a run.
    (going / HEADER).unlink(missing_ok=True)
    shutil.rmtree(going)


def left_behind(root: Path) -> list[Path]:
    """Return the folders that interrupted removals have left."""
    return sorted(root.glob(f"{GOING}*"))


def _last_touched(run: RunFolder) -> datetime | None:
    """Return when a run last started, ended or was resumed; None if its header does not say."""
    header, moments = run.header, []
    for text in (header.started_at, header.ended_at, *(resumption.at for resumption in header.resumed)):
        with suppress(ValueError):
            moment = datetime.fromisoformat(text)
            moments.append(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return max(moments, default=None)


def _retain_referenced_runs(runs: Sequence[RunFolder], retained: dict[Path, str]) -> None:
    by_name = {name: run for run in runs for name in (run.path.name, run.header.name) if name}
    unseen = [run for run in runs if run.path in retained]
    while unseen:
        run = unseen.pop()
        for name in _references(run):
            other = by_name.get(Path(name).name)
            if other is not None and other.path not in retained:
                retained[other.path] = f"referred to by {run.path.name}"
                unseen.append(other)


def _references(run: RunFolder) -> Iterator[str]:
    """Yield the runs that a run was regraded from, took trials over from, or was compared with."""
    yield from (*run.header.regraded, *run.header.reused)
    with suppress(OSError, ValueError):
        comparison = read_json(run.path / COMPARISON)
        old = comparison.get("old")
        # A baseline of several runs, or of several suites, has the names of all of them.
        yield from (old, *old.split(", ")) if isinstance(old, str) and old else ()
