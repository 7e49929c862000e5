"""Reading the settings of a run: the command line, then the environment, then pyproject.toml."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from os import environ
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_agenteval.session.options import PROJECT, Option, RawValue
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.text.errors import UsageMistake

LATEST = "latest"


def check_shard(settings: Settings) -> None:
    """Raise UsageMistake for settings that are not the same in all shards, or need all of them."""
    place = f"{settings.places['shard']}={settings.shard}"
    between = settings.repetition_range
    if between is not None and not settings.regrade:
        raise UsageMistake(
            f"{place}: expected a fixed number of repetitions: a shard has no suite's results to look at as "
            f"a whole; found --repetitions={between}; --repetitions={between.high} makes all of them"
        )
    for option, value in _latest_runs(settings):
        raise UsageMistake(
            f"{place}: expected a run that all shards mean alike, and the latest may be another shard's; "
            f"found {option}={value}; name the run"
        )


def _latest_runs(settings: Settings) -> Iterator[tuple[str, str]]:
    """Give each option that means the run before this one, whichever that is."""
    only = settings.only
    named = (
        ("--agent-baseline", settings.baseline, settings.baseline),
        ("--agent-only", only, only and (only.partition("@")[2].strip() or LATEST)),
        *(("--agent-regrade", name, name) for name in settings.regrade),
    )
    for option, value, run in named:
        if run == LATEST or run.endswith(f"@{LATEST}"):
            yield option, value


AUDIT_MARK = "agenteval_audit"


def read_settings(config: pytest.Config) -> Settings:
    """Work out the settings of a run.

    Raises UsageMistake, naming the place, for a value that cannot be obeyed.
    """
    project = _project_table(config.rootpath / "pyproject.toml")
    values: dict[str, object] = {"results": config.rootpath / RESULTS}
    places: dict[str, str] = {}
    for row in Settings.rows():
        raw = _raw_value(row, config, project)
        if raw is not None:
            values[row.attribute] = row.parse_value(raw)
            places[row.attribute] = raw.place
    if values.get("keep_workspaces") and values["results"] is None:
        from pytest_agenteval.text.errors import UsageMistake

        raise UsageMistake(
            "--agent-keep-workspaces: workspaces are kept in the run's folder; found results none"
        )
    # Over all others: they are about this one run, whatever the project says of every run.
    values |= _by_pytests_own_options(config)
    if values.get("audit"):
        values |= _of_audit(places)
    settings = Settings(values, places)
    if settings.shard is not None:
        check_shard(settings)
    return settings


def project_settings(root: Path) -> Settings:
    """Work out the settings of a script: the environment's, then those of pyproject.toml."""
    project = _project_table(root / "pyproject.toml")
    values: dict[str, object] = {}
    for row in Settings.rows():
        if row.flag and os.environ.get(row.variable):
            values[row.attribute] = row.parse_value(
                RawValue(os.environ[row.variable], row.variable, Path.cwd())
            )
        elif row.name in project:
            place = f"{PROJECT}.{row.name}"
            values[row.attribute] = row.parse_value(RawValue(project[row.name], place, root))
    return Settings(values)


def _of_audit(places: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """Give what holds for an audit: every task, its own players, and nothing that judges an agent's run."""
    from pytest_agenteval.text.errors import UsageMistake

    for attribute in ("models", "variants", "repetitions", "regrade", "only"):
        place = places.get(attribute, "")
        if place.startswith("--"):
            raise UsageMistake(f"{place}: expected no such option in an audit, which brings its own players")
        yield attribute, getattr(Settings, attribute).default
    if "split" not in places:
        yield "split", "all"
    yield "gate", None
    yield "baseline", ""


def _raw_value(row: Option[Any], config: pytest.Config, project: Mapping[str, Any]) -> RawValue | None:
    """Give the value of the highest rank: command line, environment, pyproject.toml; None for none."""
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
    if _wants_audit(config.getoption("markexpr", "") or ""):
        yield "audit", True
    # A debugger and -s want one thing at a time.
    if config.getoption("usepdb", False) or config.getoption("capture", "") == "no":
        yield "concurrency", 1


def _wants_audit(markexpr: str) -> bool:
    """Whether ``-m`` keeps items for the mark of audits, with all other marks or with none."""
    if AUDIT_MARK not in markexpr:
        return False
    from _pytest.mark.expression import Expression

    try:
        keeps = Expression.compile(markexpr).evaluate
    except SyntaxError:  # which pytest tells
        return False
    return any(
        keeps(_Marks(audit=True, others=others)) and not keeps(_Marks(audit=False, others=others))
        for others in (True, False)
    )


class _Marks(NamedTuple):
    """The marks of an item that was never made: that of audits, and all others or none."""

    audit: bool
    others: bool

    def __call__(self, name: str, /, **arguments: object) -> bool:
        """Whether the item has this mark."""
        return self.audit if name == AUDIT_MARK else self.others


def _project_table(path: Path) -> Mapping[str, Any]:
    """Read ``[tool.agenteval]``; a key that means nothing there is a mistake."""
    if not path.is_file():
        return {}
    import tomllib

    from pytest_agenteval.text.errors import UsageMistake, nearest

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
            known = nearest(key, keys) or f"it is one of {', '.join(keys)}"
            raise UsageMistake(f"{PROJECT}.{key}: unknown key; {known}")
    return table


def without_workers(config: pytest.Config) -> None:
    """Keep xdist from starting workers where nothing is to be run."""
    if getattr(config.option, "dist", "no") != "no" and _is_dry_run(config):
        config.option.dist, config.option.tx, config.option.numprocesses = "no", [], None


def _is_dry_run(config: pytest.Config) -> bool:
    """Whether somebody says that nothing is to be run; settings that cannot be obeyed are told later."""
    row = Settings.dry_run
    project = config.rootpath / "pyproject.toml"
    said = row.on_command_line(config) or environ.get(row.variable)
    with suppress(OSError):
        said = said or b"dry_run" in project.read_bytes()
    if not said:
        return False
    from pytest_agenteval.text.errors import UsageMistake

    with suppress(UsageMistake):
        return read_settings(config).dry_run
    return False
