"""Where settings are said: command line over environment over pyproject.toml over what is built in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.errors import UsageMistake, nearest
from pytest_agenteval.session.options import PROJECT, Option, RawValue
from pytest_agenteval.session.settings import RESULTS, Settings


def read_settings(config: pytest.Config) -> Settings:
    """Work out the settings of a run.

    Raises UsageMistake, naming the place, for a value that cannot be obeyed.
    """
    project = _project_table(config.rootpath / "pyproject.toml")
    values: dict[str, object] = {"results": config.rootpath / RESULTS}
    for row in Settings.rows():
        raw = _raw_value(row, config, project)
        if raw is not None:
            values[row.attribute] = row.parsed(raw)
    if values.get("keep_workspaces") and values["results"] is None:
        raise UsageMistake(
            "--agent-keep-workspaces: workspaces are kept in the run's folder; found results none"
        )
    values |= _by_pytests_own_options(config)
    return Settings(values)


def _raw_value(row: Option[Any], config: pytest.Config, project: Mapping[str, Any]) -> RawValue | None:
    """Give what was said first by rank; an empty variable says nothing."""
    here = config.invocation_params.dir
    typed = row.on_command_line(config)
    if typed is not None:
        raw = RawValue(typed, str(row.flag), here)
        # Only here: an empty variable, or key, has always meant that nothing was said.
        row.refuse_blank(raw)
        return raw
    if row.flag and os.environ.get(row.variable):
        return RawValue(os.environ[row.variable], row.variable, here)
    if row.name in project:
        return RawValue(project[row.name], f"{PROJECT}.{row.name}", config.rootpath)
    return None


def _by_pytests_own_options(config: pytest.Config) -> Iterator[tuple[str, object]]:
    if config.getoption("runxfail", False):
        yield "strict", True
    # A debugger and -s want one thing at a time.
    if config.getoption("usepdb", False) or config.getoption("capture", "") == "no":
        yield "concurrency", 1


def _project_table(path: Path) -> Mapping[str, Any]:
    """Read ``[tool.agenteval]``; a key that means nothing there is a mistake."""
    if not path.is_file():
        return {}
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise UsageMistake(f"{path}: not TOML: {broken}") from None
    tools = document.get("tool", {})
    table = tools.get("agenteval", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise UsageMistake(f"{PROJECT}: expected a table; found {table!r}")
    known = [row.name for row in Settings.rows()]
    for key in table:
        if key not in known:
            parts = [f"{PROJECT}.{key}: unknown", f"one of {', '.join(known)}", nearest(key, known)]
            raise UsageMistake("; ".join(part for part in parts if part))
    return table
