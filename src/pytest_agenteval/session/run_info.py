"""What all processes of a run must agree on: chosen once, by the controller, and sent to every worker."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from pytest_agenteval.session.run_signals import RATE_FILES
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.session.stash import run_info_key
from pytest_agenteval.text.errors import UsageMistake

# The folder, inside the run's, through which its processes share model servers; it holds their logs.
SERVERS_FOLDER = "servers"


class RunInfo(NamedTuple):
    """Where and when a run is written down, and what it starts from.

    - ``folder`` is the run's own; ``is_saved``: it stays after the run; ``started_at`` is ISO 8601 in UTC.
    - ``refusal`` is the file in which a worker writes why it will not go on.
    - ``controller`` is the process that speaks for the run, ``mistake`` the usage mistake that it found.
    - ``earlier`` is the run that ``--agent-only`` chooses from; ``regraded``, ``reused`` and ``baseline`` are
      those of ``--agent-regrade``, ``--agent-reuse`` and ``--agent-baseline`` (a run or a file). All are
      found before this run becomes the latest.
    - ``baseline_name`` is how another machine finds the baseline of a shard, when all shards are merged.
    - ``resuming`` is the word, which no agent can guess, after which a runner of GitHub Actions obeys again.
    - ``resumed_at`` is when this pytest went on with the run in ``folder``; empty in a new run.
    """

    folder: Path
    refusal: Path
    started_at: str
    command: tuple[str, ...]
    is_saved: bool
    concurrency: int
    controller: int
    earlier: Path | None = None
    regraded: tuple[Path, ...] = ()
    baseline: Path | None = None
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
        """The file by which the processes of this very session share rate limits."""
        return self.folder / RATE_FILES.replace("*", f"{self.controller}-{self.started:.3f}")


def get_run_info(config: pytest.Config) -> RunInfo:
    """Give what this run's processes agree on; raises UsageMistake where a named run does not exist."""
    if run_info_key not in config.stash:
        worker = getattr(config, "workerinput", None)
        if worker is not None:
            import pickle

            config.stash[run_info_key] = pickle.loads(worker["agenteval"])
        else:
            _remember(config, _chosen_run(config, read_settings(config)))
    info: RunInfo = config.stash[run_info_key]
    return info


def worker_run_info(config: pytest.Config) -> RunInfo:
    """Give what workers receive.

    It carries a usage mistake along, which is raised by a worker that meets a task file.
    """
    # The mistake is not raised here: workers are half started by now, and a run without evals does not need
    # the settings.
    try:
        return get_run_info(config)
    except UsageMistake as mistake:
        info = _chosen_run(config, Settings())._replace(mistake=str(mistake))
        _remember(config, info)
        return info


def _remember(config: pytest.Config, info: RunInfo) -> None:
    config.stash[run_info_key] = info

    def remove_files() -> None:
        # The workers are gone when this runs, and each may have refused: no file of theirs stays behind.
        info.refusal.unlink(missing_ok=True)
        # Where no results could be written, there is no such file.
        with suppress(OSError):
            info.rates.unlink()

    config.add_cleanup(remove_files)


def _chosen_run(config: pytest.Config, settings: Settings) -> RunInfo:
    new = _new_run(config, settings)
    if not settings.resume:
        return new
    from pytest_agenteval.session.resume import baseline_before, run_to_resume

    folder, started_at = run_to_resume(config, settings)
    baseline = baseline_before(new.baseline, folder, started_at)
    return new._replace(
        folder=folder, started_at=started_at, resumed_at=new.started_at, is_saved=True, baseline=baseline
    )


def _new_run(config: pytest.Config, settings: Settings) -> RunInfo:
    between, way = settings.repetition_range, config.getoption("dist", "no")
    if between is not None and not settings.regrade and way != "no":
        raise UsageMistake(
            f"{settings.places['repetitions']}: expected no workers of xdist (-n 0) with {between}: trials "
            f"run side by side in one process (--agent-concurrency); found --dist={way}"
        )
    name, root = settings.run_name, config.rootpath
    is_taken = name and settings.results is not None and (settings.results / name).exists()
    if is_taken and not settings.resume:
        place = settings.places["run_name"]
        raise UsageMistake(f"{place}: expected a new name; found {name!r}, which is in {settings.results}")
    earlier, baseline_name = None, settings.baseline
    if settings.only:
        from pytest_agenteval.session.selection import earlier_run

        earlier = earlier_run(settings, root)
    if baseline_name and Path(baseline_name).resolve().is_relative_to(root):
        # A relative path, as the root differs between machines.
        baseline_name = Path(baseline_name).resolve().relative_to(root).as_posix()
    now = datetime.now(UTC)
    chance = os.urandom(2).hex()  # two runs may begin in one second
    who = ("regraded",) if settings.regrade else ("audit",) if settings.audit else settings.models[:3]
    dated = "-".join(part.replace("/", "_") for part in (now.strftime("%Y%m%d-%H%M%S"), *who, chance))
    own = Path(tempfile.gettempdir()) / f"agenteval-{os.getpid()}"
    runs = settings.results or own
    # An audit is no run of an agent, so it must never be the latest run.
    if settings.audit and not settings.run_name:
        runs /= "audits"
    return RunInfo(
        folder=runs / (name or dated),
        refusal=own.with_name(f"{own.name}-{chance}.refusal"),
        started_at=now.isoformat(timespec="milliseconds"),
        command=("pytest", *map(str, config.invocation_params.args)),
        is_saved=settings.results is not None,
        concurrency=settings.concurrency,
        controller=os.getpid(),
        earlier=earlier,
        regraded=_runs_named(settings, "regrade", root) if settings.regrade else (),
        baseline=_baseline(settings, root) if settings.baseline else None,
        baseline_name=baseline_name,
        reused=_runs_named(settings, "reuse", root) if settings.reuse else (),
        resuming=os.urandom(16).hex(),
    )


def _runs_named(settings: Settings, option: Literal["regrade", "reuse"], root: Path) -> tuple[Path, ...]:
    from pytest_agenteval.store.run_folder import find_run

    with settings.naming_place(option):
        return tuple(find_run(settings.results or root / RESULTS, name) for name in getattr(settings, option))


def _baseline(settings: Settings, root: Path) -> Path:
    """Find the baseline of ``--agent-baseline``; raises UsageMistake where there is none."""
    from pytest_agenteval.compare.baseline_file import find_baseline, read_baseline
    from pytest_agenteval.store.run_folder import read_header_or_name

    with settings.naming_place("baseline"):
        path = find_baseline(settings.results or root / RESULTS, settings.baseline)
        if path.is_file():
            read_baseline(path)
        else:
            read_header_or_name(path)
    return path.resolve()


def report_refusal(config: pytest.Config, text: str) -> None:
    """Write down why this worker will not go on, for the controller to report."""
    get_run_info(config).refusal.write_text(text, encoding="utf-8", newline="\n")


def read_refusal(config: pytest.Config) -> str:
    """Give why a worker will not go on; empty where none has refused."""
    info = config.stash.get(run_info_key, None)
    return info.refusal.read_text(encoding="utf-8") if info and info.refusal.exists() else ""


def has_plan(config: pytest.Config) -> bool:
    """Whether a process of this run has met task files, and written its plan down."""
    from pytest_agenteval.store.run_folder import PLANNED

    info = config.stash.get(run_info_key, None)
    if info is None or not (info.folder / PLANNED).exists():
        return False
    # A resumed run has its plan from the start, so the plan alone does not show that this pytest met task
    # files.
    return not info.resumed_at or was_started(info)


def was_started(info: RunInfo) -> bool:
    """Whether a process of this pytest has started or resumed the run."""
    header = info.folder / "run.json"
    return header.exists() and (not info.resumed_at or info.resumed_at in header.read_text(encoding="utf-8"))
