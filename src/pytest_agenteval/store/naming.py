"""Which run a name means: a path, a name or the beginning of one, the latest, a model's run of a day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.store.runs import HEADER, LATEST, StoredRun, list_runs

MOST_LISTED = 10
NEAR = 0.5


def find_run(root: Path, named: str) -> Path:
    """Give the folder of the run that is meant.

    ``named`` is a path to a run's folder, its name in ``root``, the beginning of a single one's name,
    ``latest``, ``MODEL@YYYYMMDD`` (the newest run of that day with that model) or ``MODEL@latest``. A full
    name beats a beginning. A UsageMistake lists the runs that could be meant, else the nearest, else all.
    """
    if named and (Path(named) / HEADER).is_file():
        return Path(named)
    runs = list_runs(root)
    found = _meant(root, runs, named)
    if len(found) == 1:
        return found[0].path
    problem = f"several runs begin with {named!r}" if found else f"there is no run {named!r} in {root}"
    raise UsageMistake(f"{problem}; {_listed(found, runs, named)}")


def _meant(root: Path, runs: Sequence[StoredRun], named: str) -> Sequence[StoredRun]:
    name = _latest(root) if named == LATEST else named
    if not name:
        return ()
    by_name = [run for run in runs if run.path.name == name]
    return by_name or _of_model(runs, name) or [run for run in runs if run.path.name.startswith(name)]


def _of_model(runs: Sequence[StoredRun], named: str) -> Sequence[StoredRun]:
    """Give the newest run of a model, of the day that is named; a model's own name may hold an ``@``."""
    model, at, day = named.rpartition("@")
    if not at:
        return ()
    return [run for run in runs if _has(run, model) and day in (_day(run), LATEST)][:1]


def _has(run: StoredRun, model: str) -> bool:
    return any(model == known.name for known in run.header.models)


def _day(run: StoredRun) -> str:
    return run.header.started_at[:10].replace("-", "")


def _latest(root: Path) -> str:
    pointer = root / LATEST
    if pointer.is_symlink():
        return Path(pointer.readlink()).name
    return pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else ""


def _listed(found: Sequence[StoredRun], runs: Sequence[StoredRun], named: str) -> str:
    if not runs:
        return "there are no runs yet"
    if not found and (near := list(_nearest(runs, named))):
        return f"the nearest: {', '.join(near[:MOST_LISTED])}"
    shown = found or runs
    more = f" and {len(shown) - MOST_LISTED} more" if len(shown) > MOST_LISTED else ""
    return "runs there, newest first: " + ", ".join(run.path.name for run in shown[:MOST_LISTED]) + more


def _nearest(runs: Sequence[StoredRun], named: str) -> Iterator[str]:
    """Give the days of the model that is meant; else names like the one that was written."""
    import difflib

    model, at, _ = named.rpartition("@")
    if at:
        known = dict.fromkeys(each.name for run in runs for each in run.header.models)
        meant = difflib.get_close_matches(model, list(known), n=1, cutoff=NEAR)
        days = dict.fromkeys(f"{name}@{_day(run)}" for name in meant for run in runs if _has(run, name))
        yield from days
    else:
        names = [run.path.name for run in runs]
        yield from difflib.get_close_matches(named, names, n=MOST_LISTED, cutoff=NEAR)
