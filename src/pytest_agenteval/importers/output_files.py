"""Writes what an import makes: YAML that people read, in a folder where pytest finds the evals.

Any script stands unescaped, keys in our order, and nothing is referred to twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

WIDTH = 110
PYTEST_INI = "[pytest]\ntestpaths = evals\n"
CONFIGS = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)


def write_yaml(path: Path, content: Mapping[str, Any]) -> Path:
    """Write one file, and the folders above it; give its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml_text(content), encoding="utf-8", newline="\n")
    return path


def yaml_text(content: Mapping[str, Any]) -> str:
    """Write a map as YAML."""
    import yaml

    return yaml.dump(content, Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=WIDTH)


@cache
def _dumper() -> Any:
    """Give PyYAML's safe dumper without anchors, which are hard to read and to edit."""
    import yaml

    base: Any = yaml.SafeDumper
    return type("PlainDumper", (base,), {"ignore_aliases": lambda *_: True})


def make_project(folder: Path) -> None:
    """Write a pytest.ini where the folder has no settings for pytest yet."""
    if not any((folder / name).exists() for name in CONFIGS):
        (folder / "pytest.ini").write_text(PYTEST_INI, encoding="utf-8", newline="\n")
