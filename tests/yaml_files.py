"""YAML files as Python values, for tests that look at many or long ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

# libyaml, where PyYAML has it, is ten times as quick: some files are read whenever tests are collected.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> Any:
    """Read a file with PyYAML's safe loader."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
