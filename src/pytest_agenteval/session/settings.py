"""What the user asked for: command line over environment over pyproject.toml over what is built in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest

from pytest_agenteval.errors import UsageMistake, nearest
from pytest_agenteval.records.plan import RecordMode, Variant
from pytest_agenteval.records.transcript import NOTHING

ENVIRONMENT = "AGENTEVAL_"
RESULTS = ".agenteval/runs"
SPLITS = ("dev", "held_out", "all")
TRUE, FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of a run; None, or an empty text, where nobody said anything.

    ``results`` is the folder that holds runs, None for no run folder. ``only`` is the text of ``--agent-only``.
    """

    models: tuple[str, ...] = ()
    aliases: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    repetitions: int | None = None
    variants: tuple[Variant, ...] = ()
    split: str = "dev"
    sample: int | None = None
    only: str = ""
    seed: int = 0
    concurrency: int = 10
    record: RecordMode = "none"
    record_chat: RecordMode = "off"
    results: Path | None = None
    keep_workspaces: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class _Sources:
    """Where a setting may be said, in order of rank."""

    config: pytest.Config
    project: Mapping[str, Any]

    def said(self, name: str) -> tuple[Any, str] | None:
        """Give what was said first by rank, with the place where it was said."""
        option = self.config.getoption(OPTION_OF.get(name, f"agent_{name}"), default=None)
        if option not in (None, [], False):
            return option, FLAG_OF.get(name, "--agent-" + name.replace("_", "-"))
        variable = ENVIRONMENT + name.upper()
        if os.environ.get(variable):
            return os.environ[variable], variable
        if name in self.project:
            return self.project[name], f"pyproject.toml: tool.agenteval.{name}"
        return None


OPTION_OF = {"repetitions": "repetitions"}
FLAG_OF = {"repetitions": "--repetitions"}
NAMES = (
    "model",
    "repetitions",
    "prompt",
    "split",
    "sample",
    "only",
    "seed",
    "concurrency",
    "record",
    "record_chat",
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
    return Settings(
        models=_list(said("model")),
        aliases=project.get("models", NOTHING),
        repetitions=_whole(said("repetitions"), 1),
        variants=tuple(_variant(text, config.rootpath) for text in _list(said("prompt"))),
        split=_one_of(said("split"), SPLITS, "dev"),
        sample=_whole(said("sample"), 1),
        only=str((said("only") or ("", ""))[0]),
        seed=_whole(said("seed"), 0) or 0,
        concurrency=_concurrency(config, _whole(said("concurrency"), 1) or 10),
        record=_one_of(said("record"), get_args(RecordMode)[1:], "none"),  # type: ignore[arg-type]  # checked there
        record_chat=_one_of(said("record_chat"), get_args(RecordMode), "off"),  # type: ignore[arg-type]  # there too
        results=_results(said("results"), config.rootpath),
        keep_workspaces=_flag(said("keep_workspaces")),
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
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("agenteval", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise UsageMistake(f"{path}: not TOML: {broken}") from None
    known = (*NAMES, "models")
    for key in table:
        if key not in known:
            rows = [f"pyproject.toml: tool.agenteval.{key}: unknown", f"one of {', '.join(known)}"]
            raise UsageMistake("; ".join([*rows, nearest(key, known)]).rstrip("; "))
    found: Mapping[str, Any] = table
    return found


def _list(said: tuple[Any, str] | None) -> tuple[str, ...]:
    """Split comma lists; an option given several times gives several lists."""
    if said is None:
        return ()
    values: Sequence[Any] = said[0] if isinstance(said[0], list) else [said[0]]
    return tuple(part.strip() for value in values for part in str(value).split(",") if part.strip())


def _whole(said: tuple[Any, str] | None, least: int) -> int | None:
    if said is None:
        return None
    value, place = said
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if number < least:
        raise UsageMistake(f"{place}: expected a whole number, {least} or more; found {value!r}")
    return number


def _one_of(said: tuple[Any, str] | None, known: Sequence[str], default: str) -> str:
    if said is None:
        return default
    value, place = str(said[0]), said[1]
    if value not in known:
        hint = nearest(value, known)
        raise UsageMistake(
            f"{place}: expected one of {', '.join(known)}; found {value!r}" + (f"; {hint}" if hint else "")
        )
    return value


def _flag(said: tuple[Any, str] | None) -> bool:
    if said is None:
        return False
    value = str(said[0]).lower()
    if value not in TRUE + FALSE:
        raise UsageMistake(f"{said[1]}: expected true or false; found {said[0]!r}")
    return value in TRUE


def _results(said: tuple[Any, str] | None, root: Path) -> Path | None:
    where = RESULTS if said is None else str(said[0])
    return None if where == "none" else root / where


def _variant(text: str, root: Path) -> Variant:
    """Read ``NAME=PATH``: a folder of prompt files, or one file that stands for ``system``."""
    name, sign, where = text.partition("=")
    if not sign or not name or not where:
        raise UsageMistake(f"--agent-prompt: expected NAME=PATH; found {text!r}")
    if not name.isascii() or any(letter in name for letter in "@[]: ,/"):
        raise UsageMistake(f"--agent-prompt: the name {name!r} may hold ASCII letters, digits, '_', '-' and '.'")
    path = root / where
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith(".")]
        prompts = {file.name.partition(".")[0]: file.read_text(encoding="utf-8") for file in files}
    elif path.is_file():
        prompts = {"system": path.read_text(encoding="utf-8")}
    else:
        raise UsageMistake(f"--agent-prompt {name}: no such file or folder: {where}")
    if not prompts:
        raise UsageMistake(f"--agent-prompt {name}: no prompt file in {where}")
    return Variant(name, prompts)
