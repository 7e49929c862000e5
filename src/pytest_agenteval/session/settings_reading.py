"""Reading the settings of a run: the command line, then the environment, then pyproject.toml."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.session.options import PROJECT, Option, RawValue
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.text.errors import UsageMistake, did_you_mean

AUDIT_MARK = "agenteval_audit"
LATEST = "latest"


def read_settings(config: pytest.Config) -> Settings:
    """Work out a run's settings; raises UsageMistake, naming the place, for a value that cannot be obeyed."""
    project, here = _project_table(config.rootpath / "pyproject.toml"), config.invocation_params.dir
    values: dict[str, object] = {"results": config.rootpath / RESULTS}
    places: dict[str, str] = {}
    for row in Settings.rows():
        raw = _raw_default(row, project, here, config.rootpath)
        typed = row.on_command_line(config)
        if typed is not None:
            raw = RawValue(typed, str(row.flag), here)
            # Only on the command line: an empty variable or key has always meant that nothing was set.
            row.refuse_blank(raw)
        if raw is not None:
            values[row.attribute] = row.parse_value(raw)
            places[row.attribute] = raw.place
    if values.get("keep_workspaces") and values["results"] is None:
        raise UsageMistake(
            "--agent-keep-workspaces: workspaces are kept in the run's folder; found results none"
        )
    # pytest's own options override all others: they are about this one run, and no default of a project.
    if config.getoption("runxfail", False):
        values["strict"] = True
    if _selects_audits(config.getoption("markexpr", "") or ""):
        values["audit"] = True
    # A debugger and -s want one trial at a time.
    if config.getoption("usepdb", False) or config.getoption("capture", "") == "no":
        values["concurrency"] = 1
    if values.get("audit"):
        # An audit looks at every task with models of its own, and judges no run of an agent.
        for attribute in ("models", "variants", "repetitions", "regrade", "only"):
            place = places.get(attribute, "")
            if place.startswith("--"):
                expected = "expected no such option in an audit, which brings its own players"
                raise UsageMistake(f"{place}: {expected}")
            values[attribute] = getattr(Settings, attribute).default
        values |= {"split": values.get("split", "all"), "gate": None, "baseline": ""}
    settings = Settings(values, places)
    if settings.shard is not None:
        _check_shard(settings)
    return settings


def project_settings(root: Path) -> Settings:
    """Work out the settings of a script: the environment's, then those of pyproject.toml."""
    project = _project_table(root / "pyproject.toml")
    raw_values = {
        row: raw for row in Settings.rows() if (raw := _raw_default(row, project, Path.cwd(), root))
    }
    return Settings({row.attribute: row.parse_value(raw) for row, raw in raw_values.items()})


def without_workers(config: pytest.Config) -> None:
    """Keep xdist from starting workers in a dry run, which runs nothing."""
    row = Settings.dry_run
    if getattr(config.option, "dist", "no") == "no":
        return
    is_named = bool(row.on_command_line(config) or os.environ.get(row.variable))
    # The cheap check comes first: every run with workers comes here, even without evals.
    with suppress(OSError):
        is_named = is_named or b"dry_run" in (config.rootpath / "pyproject.toml").read_bytes()
    with suppress(UsageMistake):  # settings that cannot be obeyed are reported when they are read again
        if is_named and read_settings(config).dry_run:
            config.option.dist, config.option.tx, config.option.numprocesses = "no", [], None


def _raw_default(row: Option[Any], project: Mapping[str, Any], here: Path, root: Path) -> RawValue | None:
    """Give the value of the environment, else that of pyproject.toml."""
    if row.flag and os.environ.get(row.variable):
        return RawValue(os.environ[row.variable], row.variable, here)
    if row.name in project:
        return RawValue(project[row.name], f"{PROJECT}.{row.name}", root)
    return None


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
            known = did_you_mean(key, keys) or f"it is one of {', '.join(keys)}"
            raise UsageMistake(f"{PROJECT}.{key}: unknown key; {known}")
    return table


def _selects_audits(markexpr: str) -> bool:
    """Whether the mark of audits decides if ``-m`` selects an item, be it with all other marks or none."""
    if AUDIT_MARK not in markexpr:
        return False
    from _pytest.mark.expression import Expression

    try:
        keeps = Expression.compile(markexpr).evaluate
    except SyntaxError:  # which pytest reports
        return False

    def marks(audit: bool, others: bool) -> Callable[..., bool]:
        return lambda name, **_: audit if name == AUDIT_MARK else others

    return any(keeps(marks(True, others)) and not keeps(marks(False, others)) for others in (True, False))


def _check_shard(settings: Settings) -> None:
    """Raise UsageMistake for settings that are not the same in all shards, or need all of them."""
    place = f"{settings.places['shard']}={settings.shard}"
    between = settings.repetition_range
    if between is not None and not settings.regrade:
        raise UsageMistake(
            f"{place}: expected a fixed number of repetitions: a shard has no suite's results to look at as "
            f"a whole; found --repetitions={between}; --repetitions={between.high} makes all of them"
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
                f"{place}: expected a run that all shards mean alike, and the latest may be another shard's; "
                f"found {option}={value}; name the run"
            )
