"""Where and when this run is written down: chosen once, and told to every worker."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.session.settings import Settings, settings_of
from pytest_agenteval.stash import place_key

REFUSAL = "refusal.txt"


def place_of(config: pytest.Config) -> Mapping[str, Any]:
    """Give the run's ``folder``, when it ``started_at``, its ``command``, and whether it is to be ``kept``."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        told: Mapping[str, Any] = worker["agenteval"]
        return told
    if place_key not in config.stash:
        config.stash[place_key] = _chosen(config, settings_of(config))
    return config.stash[place_key]


def _chosen(config: pytest.Config, settings: Settings) -> Mapping[str, Any]:
    now = datetime.now(timezone.utc)
    # Four digits of chance: two runs may begin in one second.
    parts = [now.strftime("%Y%m%d-%H%M%S"), *settings.models[:3], os.urandom(2).hex()]
    root = settings.results or Path(tempfile.gettempdir()) / f"agenteval-{os.getpid()}"
    return {
        "folder": str(root / "-".join(part.replace("/", "_") for part in parts)),
        "started_at": now.isoformat(timespec="milliseconds"),
        "command": ["pytest", *map(str, config.invocation_params.args)],
        "kept": settings.results is not None,
    }


def refuse(folder: Path, text: str) -> None:
    """Leave word that this worker will not go on, for the controller to say."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / REFUSAL).write_text(text, encoding="utf-8")


def refusal_of(config: pytest.Config) -> str:
    """Give what the workers refuse to do, and take it away; empty when nothing."""
    place = config.stash.get(place_key, None)
    if place is None or not (Path(place["folder"]) / REFUSAL).exists():
        return ""
    text = (Path(place["folder"]) / REFUSAL).read_text(encoding="utf-8")
    shutil.rmtree(place["folder"], ignore_errors=True)
    return text
