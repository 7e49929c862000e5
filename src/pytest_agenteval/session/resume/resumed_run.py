"""Going on with a run in its own folder: found, free of whoever made it, and written down as gone on with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_agenteval.session.held_runs import DEAD_WORKERS, LEDGERS, RATES, claim_run
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.session.stop_signal import STOP
from pytest_agenteval.store.run_audit import AUDIT
from pytest_agenteval.store.run_metadata import RunHeader
from pytest_agenteval.store.runs import LATEST, find_run, list_runs, read_header
from pytest_agenteval.text.errors import UsageMistake


def run_to_resume(config: pytest.Config, settings: Settings) -> tuple[Path, str]:
    """Give the folder of the run that is to go on, taken over by this process, and when it began.

    Raises UsageMistake where it cannot go on.
    """
    _refuse_beside(settings)
    folder = _find(config, settings)
    header = read_header(folder)
    _refuse_kind(folder, header)
    if not (config.getoption("collectonly", False) or settings.dry_run):
        _claim(config, folder)
    return folder, header.started_at


def _refuse_beside(settings: Settings) -> None:
    for attribute, why in (
        ("regrade", "grading again costs no agent: begin it anew"),
        ("reuse", "one goes on with a run, the other begins a new one"),
        ("audit", "an audit costs nothing: begin it anew"),
    ):
        if getattr(settings, attribute):
            raise UsageMistake(f"--agent-resume: expected no --agent-{attribute} beside it: {why}")


def _find(config: pytest.Config, settings: Settings) -> Path:
    """Find the run: the one that is named, be it as the name that a new run would have, else the latest."""
    name = settings.resume
    if settings.run_name and name == LATEST:
        name = settings.run_name
    place = settings.places.get("resume", "--agent-resume")
    try:
        folder = find_run(settings.results or config.rootpath / RESULTS, name)
    except UsageMistake as mistake:
        if (config.invocation_params.dir / name.partition("::")[0]).exists():
            hint = f"to try {name}, say {place}=latest {name}"
            raise UsageMistake(f"{place}: expected a run; found {name!r}, which is none; {hint}") from None
        raise UsageMistake(f"{place}: {mistake}") from None
    # Where the link leads, as in a folder that somebody names; otherwise as it was found.
    folder = folder.resolve() if folder.is_symlink() else Path(os.path.abspath(folder))
    if settings.run_name not in ("", folder.name):
        raise UsageMistake(f"{settings.places['run_name']}: a run that goes on keeps its name, {folder.name}")
    return folder


def _refuse_kind(folder: Path, header: RunHeader) -> None:
    if header.regraded:
        again = ",".join(header.regraded)
        raise UsageMistake(
            f"--agent-resume: {folder.name} graded trials again, which costs no agent: "
            f"begin it anew with --agent-regrade={again}"
        )
    if (folder / AUDIT).exists():
        raise UsageMistake(f"--agent-resume: {folder.name} is an audit: begin it anew with --agent-audit")


def _claim(config: pytest.Config, folder: Path) -> None:
    """Take the run over from whoever made it; raises UsageMistake while that one is at work."""
    try:
        holder = claim_run(config, folder)
        if not holder:
            # Of a controller that was killed, for workers gone: in a container numbers come again.
            for name in (STOP, DEAD_WORKERS, LEDGERS, RATES):
                for file in folder.glob(name):
                    file.unlink(missing_ok=True)
    except OSError as failed:
        why = failed.strerror or type(failed).__name__
        raise UsageMistake(f"--agent-resume: nothing can be written to {folder}: {why}") from None
    if holder:
        raise UsageMistake(
            f"--agent-resume: {folder.name} is still going on, in process {holder}: "
            "wait for its end, or end it"
        )


def baseline_before(baseline: Path | None, folder: Path, started_at: str) -> Path | None:
    """Give the run that is compared with; where that is this run itself, as ``latest`` is, the one before."""
    if baseline is None or baseline != folder.resolve():
        return baseline
    for run in list_runs(folder.parent):
        if run.header.started_at < started_at and run.path.resolve() != baseline:
            return run.path.resolve()
    raise UsageMistake(f"--agent-baseline: there is no run before {folder.name}, which goes on")
