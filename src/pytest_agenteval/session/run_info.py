"""Where and when this run is written down: chosen once, and told to every worker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.session.settings import RESULTS, Settings, settings_of
from pytest_agenteval.stash import run_info_key


def get_run_info(config: pytest.Config) -> Mapping[str, Any]:
    """Give the run's ``folder``, when it ``started_at``, its ``command``, and whether it is to be ``kept``.

    ``refusal`` is the file by which a worker says that it will not go on. ``earlier`` is the run that
    ``--agent-only`` chooses from, ``regraded`` those of ``--agent-regrade``: found before this run becomes
    the latest; raises UsageMistake when there is none.
    """
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        told: Mapping[str, Any] = worker["agenteval"]
        return told
    if run_info_key not in config.stash:
        _keep(config, _chosen(config, settings_of(config)))
    return config.stash[run_info_key]


def worker_run_info(config: pytest.Config) -> dict[str, Any]:
    """Give the place as workers are told it; a usage mistake goes along, for those who meet a task file.

    It is not raised here: workers are half started by now, and a run without evals has nothing to do with it.
    """
    try:
        return dict(get_run_info(config))
    except UsageMistake as mistake:
        place = {**_chosen(config, Settings()), "mistake": str(mistake)}
        _keep(config, place)
        return place


def _keep(config: pytest.Config, place: Mapping[str, Any]) -> None:
    config.stash[run_info_key] = place
    # Workers are gone by then: each may leave word, and none is left behind.
    config.add_cleanup(lambda: Path(place["refusal"]).unlink(missing_ok=True))


def _chosen(config: pytest.Config, settings: Settings) -> Mapping[str, Any]:
    now = datetime.now(UTC)
    # Four digits of chance: two runs may begin in one second.
    who = ("regraded",) if settings.regrade else settings.models[:3]
    parts = [now.strftime("%Y%m%d-%H%M%S"), *who, os.urandom(2).hex()]
    name = "-".join(part.replace("/", "_") for part in parts)
    own = Path(tempfile.gettempdir()) / f"agenteval-{os.getpid()}"
    return {
        "folder": str((settings.results or own) / name),
        "refusal": f"{own}-{parts[-1]}.refusal",
        "earlier": _earlier(config, settings) if settings.only else "",
        "regraded": [str(run) for run in runs_to_regrade(settings, config.rootpath)],
        "started_at": now.isoformat(timespec="milliseconds"),
        "command": ["pytest", *map(str, config.invocation_params.args)],
        "kept": settings.results is not None,
        "concurrency": settings.concurrency,
        "controller": os.getpid(),
    }


def runs_to_regrade(settings: Settings, root: Path) -> tuple[Path, ...]:
    """Find the runs that ``--agent-regrade`` names; raises UsageMistake for one that is not there."""
    if not settings.regrade:
        return ()
    from pytest_agenteval.store.runs import find_run

    return tuple(find_run(settings.results or root / RESULTS, name) for name in settings.regrade)


def _earlier(config: pytest.Config, settings: Settings) -> str:
    from pytest_agenteval.session.selection import earlier_run

    return str(earlier_run(settings, config.rootpath))


def report_refusal(config: pytest.Config, text: str) -> None:
    """Leave word that this worker will not go on, for the controller to say."""
    Path(get_run_info(config)["refusal"]).write_text(text, encoding="utf-8")


def read_refusal(config: pytest.Config) -> str:
    """Give what the workers refuse to do; empty when nothing."""
    place = config.stash.get(run_info_key, None)
    word = None if place is None else Path(place["refusal"])
    return word.read_text(encoding="utf-8") if word and word.exists() else ""
