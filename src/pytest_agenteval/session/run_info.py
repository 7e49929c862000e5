"""What all processes of a run must agree on: chosen once, by the controller, and sent to every worker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from pytest_agenteval.session.run_signals import RATE_FILES
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.session.stash import run_info_key
from pytest_agenteval.text.errors import UsageMistake

SERVERS_FOLDER = "servers"
"""The folder in a run's by which its processes share model servers; it keeps their logs."""


class RunInfo(NamedTuple):
    """Where and when a run is written down, and what it starts from.

    ``folder`` is the run's own, ``is_kept`` where it stays after the run; ``started_at`` is ISO 8601 in UTC;
    ``refusal`` is the file by which a worker says that it will not go on. ``earlier`` is the run that
    ``--agent-only`` chooses from, ``regraded`` are those of ``--agent-regrade``, ``baseline`` is the run, or
    the file, of ``--agent-baseline``: all found before this run becomes the latest. ``reports`` are the files
    of ``--agent-report``. ``controller`` is the process that speaks for the run, ``mistake`` what it refuses
    to do. ``resuming`` is the word, which no agent can guess, behind which a runner of GitHub Actions obeys
    commands again. ``baseline_name`` is how another machine finds the baseline of a shard, which is compared
    when all shards are merged. ``resumed_at`` is when the run is gone on with that ``folder`` holds already;
    empty in a new one. ``reused`` are the runs of ``--agent-reuse``.
    """

    folder: Path
    refusal: Path
    started_at: str
    command: tuple[str, ...]
    is_kept: bool
    concurrency: int
    controller: int
    earlier: Path | None = None
    regraded: tuple[Path, ...] = ()
    baseline: Path | None = None
    reports: tuple[Path, ...] = ()
    mistake: str = ""
    resuming: str = ""
    baseline_name: str = ""
    resumed_at: str = ""
    reused: tuple[Path, ...] = ()

    @property
    def started(self) -> float:
        """When the run began, in seconds since 1970."""
        return datetime.fromisoformat(self.started_at).timestamp()

    @property
    def rates(self) -> Path:
        """The file by which the processes of this very session share the places of models."""
        return self.folder / RATE_FILES.replace("*", f"{self.controller}-{self.started:.3f}")

    def to_worker(self) -> dict[str, Any]:
        """Give the record as xdist can send it: built-in types only."""
        return {
            **self._asdict(),
            "folder": str(self.folder),
            "refusal": str(self.refusal),
            "earlier": str(self.earlier) if self.earlier else None,
            "regraded": [str(run) for run in self.regraded],
            "baseline": str(self.baseline) if self.baseline else None,
            "reports": [str(file) for file in self.reports],
            "reused": [str(run) for run in self.reused],
        }

    @classmethod
    def from_controller(cls, sent: Mapping[str, Any]) -> RunInfo:
        """Read what ``to_worker`` gave in another process."""
        return cls(
            **{
                **sent,
                "folder": Path(sent["folder"]),
                "refusal": Path(sent["refusal"]),
                "earlier": Path(sent["earlier"]) if sent["earlier"] else None,
                "regraded": tuple(map(Path, sent["regraded"])),
                "baseline": Path(sent["baseline"]) if sent["baseline"] else None,
                "reports": tuple(map(Path, sent["reports"])),
                "reused": tuple(map(Path, sent["reused"])),
            }
        )


def get_run_info(config: pytest.Config) -> RunInfo:
    """Give what this run's processes agree on; raises UsageMistake for an earlier run that is not there."""
    if run_info_key not in config.stash:
        worker = getattr(config, "workerinput", None)
        if worker is not None:
            config.stash[run_info_key] = RunInfo.from_controller(worker["agenteval"])
        else:
            _remember(config, _chosen_run(config, read_settings(config)))
    info: RunInfo = config.stash[run_info_key]
    return info


def worker_run_info(config: pytest.Config) -> RunInfo:
    """Give what workers are told; a usage mistake goes along, for those who meet a task file.

    It is not raised here: workers are half started by now, and a run without evals has nothing to do with it.
    """
    try:
        return get_run_info(config)
    except UsageMistake as mistake:
        info = _chosen_run(config, Settings())._replace(mistake=str(mistake))
        _remember(config, info)
        return info


def _remember(config: pytest.Config, info: RunInfo) -> None:
    config.stash[run_info_key] = info
    # Workers are gone by then: each may have refused, and no file of theirs is left behind.
    config.add_cleanup(lambda: info.refusal.unlink(missing_ok=True))
    config.add_cleanup(lambda: _remove(info.rates))


def _remove(file: Path) -> None:
    with suppress(OSError):  # where results could be written nowhere, it is not there either
        file.unlink()


def _chosen_run(config: pytest.Config, settings: Settings) -> RunInfo:
    new = _new_run(config, settings)
    if not settings.resume:
        return new
    from pytest_agenteval.session.resumed_run import baseline_before, run_to_resume

    folder, started_at = run_to_resume(config, settings)
    baseline = baseline_before(new.baseline, folder, started_at)
    return new._replace(
        folder=folder, started_at=started_at, resumed_at=new.started_at, is_kept=True, baseline=baseline
    )


def _new_run(config: pytest.Config, settings: Settings) -> RunInfo:
    _refuse_sharing(config, settings)
    now = datetime.now(UTC)
    # Four digits of chance: two runs may begin in one second.
    chance = os.urandom(2).hex()
    who = ("regraded",) if settings.regrade else ("audit",) if settings.audit else settings.models[:3]
    dated = "-".join(part.replace("/", "_") for part in (now.strftime("%Y%m%d-%H%M%S"), *who, chance))
    own = Path(tempfile.gettempdir()) / f"agenteval-{os.getpid()}"
    return RunInfo(
        folder=_folder_of_runs(settings, own) / (_checked_run_name(settings) or dated),
        refusal=own.with_name(f"{own.name}-{chance}.refusal"),
        started_at=now.isoformat(timespec="milliseconds"),
        command=("pytest", *map(str, config.invocation_params.args)),
        is_kept=settings.results is not None,
        concurrency=settings.concurrency,
        controller=os.getpid(),
        earlier=_earlier_run(config, settings) if settings.only else None,
        regraded=runs_to_regrade(settings, config.rootpath),
        baseline=_baseline(settings, config.rootpath),
        reports=settings.reports,
        baseline_name=_portable_baseline_name(settings.baseline, config.rootpath),
        reused=_runs_named(settings, "reuse", config.rootpath),
        resuming=os.urandom(16).hex(),
    )


def _checked_run_name(settings: Settings) -> str:
    """Give the name that the user has for the run; raises UsageMistake where a run has it."""
    name = settings.run_name
    taken = name and settings.results is not None and (settings.results / name).exists()
    if taken and not settings.resume:
        place = settings.places["run_name"]
        raise UsageMistake(f"{place}: expected a new name; found {name!r}, which is in {settings.results}")
    return name


def _folder_of_runs(settings: Settings, own: Path) -> Path:
    """Give where this run lies; an audit lies apart: it is no run of an agent, and never the latest."""
    runs = settings.results or own
    return runs / "audits" if settings.audit and not settings.run_name else runs


def _refuse_sharing(config: pytest.Config, settings: Settings) -> None:
    """Refuse ways of sharing tests out in which nobody can hold back what may not be needed."""
    way = config.getoption("dist", "no")
    if settings.repetition_range is not None and not settings.regrade and way not in ("no", "load"):
        raise UsageMistake(
            f"{settings.places['repetitions']}: expected xdist's --dist=load, or no workers, with "
            f"{settings.repetition_range}; found --dist={way}"
        )


def runs_to_regrade(settings: Settings, root: Path) -> tuple[Path, ...]:
    """Find the runs that ``--agent-regrade`` names; raises UsageMistake for one that is not there."""
    return _runs_named(settings, "regrade", root)


def _runs_named(settings: Settings, option: Literal["regrade", "reuse"], root: Path) -> tuple[Path, ...]:
    runs: tuple[str, ...] = getattr(settings, option)
    if not runs:
        return ()
    from pytest_agenteval.store.run_folder import find_run

    with settings.naming_place(option):
        return tuple(find_run(settings.results or root / RESULTS, name) for name in runs)


def _baseline(settings: Settings, root: Path) -> Path | None:
    """Find what ``--agent-baseline`` names; raises UsageMistake where it is not there, or is no baseline."""
    if not settings.baseline:
        return None
    from pytest_agenteval.compare.baseline_file import find_baseline, read_baseline
    from pytest_agenteval.store.run_folder import read_header_or_name

    with settings.naming_place("baseline"):
        path = find_baseline(settings.results or root / RESULTS, settings.baseline)
        if path.is_file():
            read_baseline(path)
        else:
            read_header_or_name(path)
    return path.resolve()


def _portable_baseline_name(baseline: str, root: Path) -> str:
    """Give a baseline's path as it is from pytest's rootdir, or the name that it is."""
    path = Path(baseline).resolve()
    return path.relative_to(root).as_posix() if baseline and path.is_relative_to(root) else baseline


def _earlier_run(config: pytest.Config, settings: Settings) -> Path:
    from pytest_agenteval.session.selection import earlier_run

    return earlier_run(settings, config.rootpath)


def report_refusal(config: pytest.Config, text: str) -> None:
    """Leave word that this worker will not go on, for the controller to say."""
    get_run_info(config).refusal.write_text(text, encoding="utf-8", newline="\n")


def read_refusal(config: pytest.Config) -> str:
    """Give what the workers refuse to do; empty when nothing."""
    info = config.stash.get(run_info_key, None)
    return info.refusal.read_text(encoding="utf-8") if info and info.refusal.exists() else ""


def has_plan(config: pytest.Config) -> bool:
    """Whether a process of this run has met task files, and written down what it sets out to do."""
    from pytest_agenteval.store.run_folder import PLANNED

    info = config.stash.get(run_info_key, None)
    if info is None or not (info.folder / PLANNED).exists():
        return False
    return not info.resumed_at or is_begun(info)  # the plan of a run that goes on is there from the first


def is_begun(info: RunInfo) -> bool:
    """Whether a process of this pytest has begun the run, or gone on with it."""
    header = info.folder / "run.json"
    return header.exists() and (not info.resumed_at or info.resumed_at in header.read_text(encoding="utf-8"))
