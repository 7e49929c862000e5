"""The folder that an import writes into: one where pytest finds the evals without being told."""

from __future__ import annotations

from pathlib import Path

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


def make_project(folder: Path) -> None:
    """Write a pytest.ini where the folder has no settings for pytest yet."""
    if not any((folder / name).exists() for name in CONFIGS):
        (folder / "pytest.ini").write_text(PYTEST_INI, encoding="utf-8", newline="\n")
