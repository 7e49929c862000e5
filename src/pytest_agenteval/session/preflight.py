"""Keys of real models: asked for before any trial starts, and only where one would be called."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pytest_agenteval.chat.models import missing_key
from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.records.plan import Model

_INSTEAD = {
    "--agent-model": "choose a model that needs none: --agent-model=rules",
    "--agent-judge": "leave the option out: what only a judge can tell is then undecided",
}


def check_keys(needed: Iterable[tuple[Model, str]], record_chat: str, option: str = "--agent-model") -> None:
    """Raise UsageMistake when a model's key is missing and one of its trials would call it.

    ``needed`` holds models, named by ``option``, each with the path of a trial's chat cassette. With chats on
    ``none`` nothing is called; with ``once`` only trials without a cassette call; with ``new_episodes`` the
    cassette may hold all: a trial that finds it does not is errored then.
    """
    missing: dict[str, str] = {}
    for model, cassette in needed:
        if model.offline or model.name in missing:
            continue
        if record_chat == "none" or (record_chat in ("once", "new_episodes") and Path(cassette).exists()):
            continue
        variable = missing_key(model, os.environ)
        if variable:
            missing[model.name] = variable
    if missing:
        raise UsageMistake(
            "\n".join(_key_problem(option, name, variable) for name, variable in missing.items())
        )


def _key_problem(option: str, name: str, variable: str) -> str:
    return (
        f"{option}={name}: no key: the environment variable {variable} is not set\n"
        f"  set it, or {_INSTEAD[option]}"
    )
