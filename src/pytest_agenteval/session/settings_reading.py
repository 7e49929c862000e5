"""Reading the settings of a run: the command line, then the environment, then pyproject.toml."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.session.options import PROJECT, Option, RawValue
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.session.stash import settings_key
from pytest_agenteval.text.errors import UsageMistake, did_you_mean

LATEST = "latest"


def read_settings(config: pytest.Config) -> Settings:
    """Give a run's settings, read once; raises UsageMistake, naming the place, for a value that is wrong."""
    if settings_key not in config.stash:
        config.stash[settings_key] = _settings_of_run(config)
    settings: Settings = config.stash[settings_key]
    return settings


def project_settings(root: Path) -> Settings:
    """Work out the settings of a script: the environment's, then those of pyproject.toml."""
    return Settings({row.attribute: row.parse_value(raw) for row, raw in _raw_values(root, Path.cwd())})


def _settings_of_run(config: pytest.Config) -> Settings:
    raw_values = dict(_raw_values(config.rootpath, config.invocation_params.dir, config))
    values: dict[str, Any] = {"results": config.rootpath / RESULTS}
    values |= {row.attribute: row.parse_value(raw) for row, raw in raw_values.items()}
    places = {row.attribute: raw.place for row, raw in raw_values.items()}
    if values.get("keep_workspaces") and values["results"] is None:
        raise UsageMistake(
            "--agent-keep-workspaces: workspaces are stored in the run's folder, but --agent-results is none"
        )
    # pytest's own options override all others: they are about this one run, and no default of a project.
    if config.getoption("runxfail", False):
        values["strict"] = True
    before, mark, _ = (config.getoption("markexpr", "") or "").partition("agenteval_audit")
    if mark and "not" not in before.replace("(", " ").split():
        values["audit"] = True
    # A debugger and -s want one trial at a time.
    if config.getoption("usepdb", False) or config.getoption("capture", "") == "no":
        values["concurrency"] = 1
    if values.get("audit"):
        # An audit looks at every task with models of its own, and judges no run of an agent.
        for attribute in ("models", "variants", "repetitions", "regrade", "only"):
            values.pop(attribute, None)
            place = places.get(attribute, "")
            if place.startswith("--"):
                expected = "cannot be combined with an audit, which has its own models"
                raise UsageMistake(f"{place}: {expected}")
        values |= {"split": values.get("split", "all"), "gate": None, "baseline": ""}
    settings = Settings(values, places)
    if settings.shard is not None:
        _check_shard(settings)
    return settings


def _raw_values(
    root: Path, here: Path, config: pytest.Config | None = None
) -> Iterator[tuple[Option[Any], RawValue]]:
    """Give each option that is set: on the command line, else in the environment, else in pyproject.toml."""
    project = _project_table(root / "pyproject.toml")
    for row in Settings.rows():
        typed = row.on_command_line(config) if config is not None else None
        if typed is not None:
            yield row, RawValue(typed, str(row.flag), here)
        elif row.flag and (value := os.environ.get(row.variable)):
            yield row, RawValue(value, row.variable, here)
        elif row.name in project:
            yield row, RawValue(project[row.name], f"{PROJECT}.{row.name}", root)


# Our variables that are no options: those that agents, coding agents and processes of ours are given.
_GIVEN = frozenset(
    f"AGENTEVAL_{name}"
    for name in (
        *("BESIDE", "CODING_AGENT", "FEEDBACK", "IMPROVEMENT", "MCP_URL", "OUT", "PROMPTS", "ROUND"),
        *("RUN_FOLDER_TO", "SERVER", "STARTED_BY", "TASK"),
    )
)
# A name that is less alike than this may be another plugin's, a benchmark's or a conftest's.
_ALIKE = 0.8


def misspelt_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Name the variables that are nearly called like one of ours, and are not read."""
    import difflib

    known = [row.variable for row in Settings.rows() if row.variable]
    for name in sorted(environ):
        if name.upper().startswith("AGENTEVAL_") and name not in known and name not in _GIVEN:
            near = difflib.get_close_matches(name.upper()[10:], [each[10:] for each in known], 1, _ALIKE)
            if near:
                yield f"the variable {name} is not read: did you mean AGENTEVAL_{near[0]}?"


def without_workers(config: pytest.Config) -> None:
    """Keep xdist from starting workers in a dry run, which runs nothing."""
    row = Settings.dry_run
    is_named = bool(row.on_command_line(config) or os.environ.get(row.variable))
    # The cheap check comes first: every run with workers comes here, even without evals.
    with suppress(OSError):
        is_named = is_named or b"dry_run" in (config.rootpath / "pyproject.toml").read_bytes()
    with suppress(UsageMistake):  # settings that cannot be obeyed are reported when they are read again
        if is_named and read_settings(config).dry_run:
            config.option.dist, config.option.tx, config.option.numprocesses = "no", [], None


def _project_table(path: Path) -> Mapping[str, Any]:
    """Read ``[tool.agenteval]``; an unknown key there is a mistake."""
    if not path.is_file():
        return {}
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise UsageMistake(f"{path}: not TOML: {broken}") from None
    tools = document.get("tool", {})
    tools = tools if isinstance(tools, dict) else {}
    for name in ("pytest_agenteval", "pytest-agenteval"):
        if name in tools:
            raise UsageMistake(f"pyproject.toml: [tool.{name}] is not read; call it [tool.agenteval]")
    table = tools.get("agenteval", {})
    if not isinstance(table, dict):
        raise UsageMistake(f"{PROJECT}: expected a table; found {table!r}")
    keys = [row.name for row in Settings.rows()]
    for key in table:
        if key not in keys:
            known = (
                did_you_mean(key, keys)
                or "keys are options of `pytest --help`: max_steps is --agent-max-steps"
            )
            raise UsageMistake(f"{PROJECT}.{key}: unknown key; {known}")
    return table


def _check_shard(settings: Settings) -> None:
    """Raise UsageMistake for settings that are not the same in all shards, or need all of them."""
    place = f"{settings.places['shard']}={settings.shard}"
    between = settings.repetition_range
    if between is not None and not settings.regrade:
        raise UsageMistake(
            f"{place}: expected a fixed number of repetitions, as a shard does not see the results of a "
            f"whole suite; found --repetitions={between}; --repetitions={between.high} runs all of them"
        )
    only = settings.only
    runs_by_option = (
        ("--agent-baseline", settings.baseline, settings.baseline),
        ("--agent-only", only, only and (only.partition("@")[2].strip() or LATEST)),
        *(("--agent-regrade", name, name) for name in settings.regrade),
    )
    for option, value, run in runs_by_option:
        if run == LATEST or run.endswith(f"@{LATEST}"):
            raise UsageMistake(
                f"{place}: expected a run by name, as the latest run may be another shard's; "
                f"found {option}={value}; name the run"
            )
