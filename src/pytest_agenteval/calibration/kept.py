"""Calibrations in the folder of a run: a JSON file and a page for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.redaction import KNOWN
from pytest_agenteval.store.file_writing import replace_json, replace_text

VERSION = 1
PREFIX = "calibration-"


def keep(folder: Path, data: Mapping[str, Any], page: str) -> None:
    """Write a calibration and its page into the run's folder; what was there under its id is replaced."""
    replace_text(page_of(folder, data["id"]), KNOWN.text(page))
    replace_json(folder / f"{PREFIX}{data['id']}.json", KNOWN.value(data))


def read_all(folder: Path) -> list[dict[str, Any]]:
    """Read the calibrations of a run, by name; those of another version are left out."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"{PREFIX}*.json")))
    return [data for data in found if data.get("v") == VERSION]


def page_of(folder: Path, id: str) -> Path:
    """Give where the page of a calibration lies."""
    return folder / f"{PREFIX}{id}.html"
