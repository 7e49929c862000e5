"""What the user asked for: command line over environment over pyproject.toml over what is built in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from pytest_agenteval.errors import UsageMistake, nearest
from pytest_agenteval.records.plan import RecordMode, Variant
from pytest_agenteval.records.transcript import NOTHING
from pytest_agenteval.session.prompt_variants import read_variants

ENVIRONMENT = "AGENTEVAL_"
RESULTS = ".agenteval/runs"
SPLITS = ("dev", "held_out", "all")
TRUE, FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
PROJECT = "pyproject.toml: tool.agenteval"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of a run; None, or an empty text, where nobody said anything.

    ``results`` is the folder that holds runs, None for no run folder. ``only`` is the text of
    ``--agent-only``. ``max_steps`` and ``timeout`` (in seconds) come before what task and suite allow, and
    ``live`` before what the suite says.
    ``redact`` holds patterns of what is secret.
    """

    models: tuple[str, ...] = ()
    aliases: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    repetitions: int | None = None
    variants: tuple[Variant, ...] = ()
    split: str = "dev"
    sample: int | None = None
    only: str = ""
    judges: tuple[str, ...] = ()
    self_judge: bool = False
    max_steps: int | None = None
    timeout: float | None = None
    regrade: tuple[str, ...] = ()
    seed: int = 0
    concurrency: int = 10
    record: RecordMode = "none"
    record_chat: RecordMode = "off"
    live: bool | None = None
    results: Path | None = None
    keep_workspaces: bool = False
    strict: bool = False
    redact: tuple[str, ...] = ()


class _Said(NamedTuple):
    """What was said of a setting, where, and the folder that its paths start from."""

    value: Any
    place: str
    folder: Path


@dataclass(frozen=True, slots=True)
class _Sources:
    """Where a setting may be said, in order of rank."""

    config: pytest.Config
    project: Mapping[str, Any]

    def said(self, name: str) -> _Said | None:
        """Give what was said first by rank."""
        here = self.config.invocation_params.dir
        option = self.config.getoption(OPTION_OF.get(name, f"agent_{name}"), default=None)
        if option not in (None, [], False):
            flag = FLAG_OF.get(name, "--agent-" + name.replace("_", "-"))
            _check_not_blank(flag, name, option)
            return _Said(option, flag, here)
        variable = ENVIRONMENT + name.upper()
        if os.environ.get(variable):
            return _Said(os.environ[variable], variable, here)
        if name in self.project:
            return _Said(self.project[name], f"{PROJECT}.{name}", self.config.rootpath)
        return None


OPTION_OF = {"repetitions": "repetitions"}
FLAG_OF = {"repetitions": "--repetitions"}
EXPECTED = {
    "model": "the name of a model, or a comma list",
    "prompt": "NAME=PATH",
    "only": "endings, as in missed,errored",
    "judge": "the name of a model, or a comma list",
    "regrade": "a run: a path, name, prefix, latest or MODEL@YYYYMMDD",
    "results": "a folder, or none",
}
"""What those options expect that would take an empty text, such as a shell's empty variable, for nothing."""

NAMES = (
    "model",
    "repetitions",
    "prompt",
    "split",
    "sample",
    "only",
    "judge",
    "self_judge",
    "max_steps",
    "timeout",
    "regrade",
    "seed",
    "concurrency",
    "record",
    "record_chat",
    "live",
    "results",
    "keep_workspaces",
    "strict",
)


def settings_of(config: pytest.Config) -> Settings:
    """Work out the settings of a run.

    Raises UsageMistake, naming the place, for a value that cannot be obeyed.
    """
    project = _project(config.rootpath / "pyproject.toml")
    said = _Sources(config, project).said
    only, prompts = said("only"), said("prompt")
    results, keep = _results(said("results"), config.rootpath), _flag(said("keep_workspaces"))
    if keep and results is None:
        raise UsageMistake(
            "--agent-keep-workspaces: workspaces are kept in the run's folder; found results none"
        )
    return Settings(
        models=_list(said("model")),
        aliases=project.get("models", NOTHING),
        repetitions=_whole(said("repetitions"), 1),
        variants=read_variants(_list(prompts), prompts.place, prompts.folder) if prompts else (),
        split=_one_of(said("split"), SPLITS, "dev"),
        sample=_whole(said("sample"), 1),
        only=str(only.value) if only else "",
        judges=_list(said("judge")),
        self_judge=_flag(said("self_judge")),
        max_steps=_whole(said("max_steps"), 1),
        timeout=_seconds(said("timeout")),
        regrade=_list(said("regrade")),
        seed=_whole(said("seed"), 0) or 0,
        concurrency=_concurrency(config, _whole(said("concurrency"), 1) or 10),
        record=_one_of(said("record"), get_args(RecordMode)[1:], "none"),  # type: ignore[arg-type]  # checked there
        record_chat=_one_of(said("record_chat"), get_args(RecordMode), "off"),  # type: ignore[arg-type]  # there too
        live=None if said("live") is None else _flag(said("live")),
        results=results,
        keep_workspaces=keep,
        redact=_texts(project.get("redact", []), f"{PROJECT}.redact"),
        strict=_flag(said("strict")) or bool(config.getoption("runxfail", False)),
    )


def _concurrency(config: pytest.Config, asked: int) -> int:
    # A debugger and -s want one thing at a time.
    alone = config.getoption("usepdb", False) or config.getoption("capture", "") == "no"
    return 1 if alone else asked


def _project(path: Path) -> Mapping[str, Any]:
    """Read ``[tool.agenteval]``; a key that means nothing there is a mistake."""
    if not path.is_file():
        return NOTHING
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise UsageMistake(f"{path}: not TOML: {broken}") from None
    tools = document.get("tool", {})
    table = _table(tools.get("agenteval", {}) if isinstance(tools, dict) else {}, PROJECT)
    _table(table.get("models", {}), f"{PROJECT}.models")
    known = (*NAMES, "models", "redact")
    for key in table:
        if key not in known:
            rows = [f"{PROJECT}.{key}: unknown", f"one of {', '.join(known)}", nearest(key, known)]
            raise UsageMistake("; ".join(row for row in rows if row))
    return table


def _texts(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise UsageMistake(f"{place}: expected a list of regular expressions; found {value!r}")
    return tuple(value)


def _table(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageMistake(f"{place}: expected a table; found {value!r}")
    return value


def _check_not_blank(flag: str, name: str, option: Any) -> None:
    """Refuse an empty text: to go on as if nothing had been said may cost money."""
    values = option if isinstance(option, list) else [option]
    for value in values if name in EXPECTED else ():
        if not value.replace(",", " ").strip():
            raise UsageMistake(f"{flag}: expected {EXPECTED[name]}; found {value!r}")


def _list(said: _Said | None) -> tuple[str, ...]:
    """Split comma lists; an option given several times gives several lists."""
    if said is None:
        return ()
    values: Sequence[Any] = said.value if isinstance(said.value, list) else [said.value]
    for value in values:
        if not isinstance(value, str):
            raise UsageMistake(f"{said.place}: expected a text, or a list of texts; found {value!r}")
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _whole(said: _Said | None, least: int) -> int | None:
    if said is None:
        return None
    try:
        number = int(str(said.value))
    except ValueError:
        number = least - 1
    if number < least:
        raise UsageMistake(f"{said.place}: expected a whole number, {least} or more; found {said.value!r}")
    return number


def _seconds(said: _Said | None) -> float | None:
    if said is None:
        return None
    try:
        seconds = float(str(said.value))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageMistake(f"{said.place}: expected a number of seconds above 0; found {said.value!r}")
    return seconds


def _one_of(said: _Said | None, known: Sequence[str], default: str) -> str:
    if said is None:
        return default
    value = str(said.value)
    if value not in known:
        hint = nearest(value, known)
        raise UsageMistake(
            f"{said.place}: expected one of {', '.join(known)}; found {value!r}"
            + (f"; {hint}" if hint else "")
        )
    return value


def _flag(said: _Said | None) -> bool:
    if said is None:
        return False
    value = str(said.value).lower()
    if value not in TRUE + FALSE:
        raise UsageMistake(f"{said.place}: expected true or false; found {said.value!r}")
    return value in TRUE


def _results(said: _Said | None, root: Path) -> Path | None:
    if said is None:
        return root / RESULTS
    return None if str(said.value) == "none" else said.folder / str(said.value)
