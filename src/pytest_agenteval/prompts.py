"""Prompt templates: an agent's own, replaced by name where a suite, task or variant says so."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_agenteval.canonical import digest

if TYPE_CHECKING:
    from jinja2 import Environment

ENDING = ".jinja"


@cache
def packaged(folder: str) -> Mapping[str, str]:
    """Read the templates of a folder inside this package: name without ending, to text."""
    found = files("pytest_agenteval").joinpath(folder).iterdir()
    return {
        file.name.removesuffix(ENDING): file.read_text(encoding="utf-8")
        for file in sorted(found, key=lambda file: file.name)
        if file.name.endswith(ENDING)
    }


class Prompts:
    """One agent's prompt texts, to be rendered by name.

    ``own`` are the agent's templates; ``changed`` replaces some of them by name. Templates see the values
    they are given and one another (``{% include "name" %}``); a value that is missing is an error.
    """

    def __init__(self, own: Mapping[str, str], changed: Mapping[str, str]) -> None:
        self.texts = {**own, **changed}

    def digest(self) -> str:
        """Give a digest of every text."""
        return digest(self.texts)

    def render(self, name: str, **values: Any) -> str:
        """Fill in the template of that name."""
        return _environment(tuple(sorted(self.texts.items()))).get_template(name).render(**values).strip()


@cache
def _environment(texts: tuple[tuple[str, str], ...]) -> Environment:
    # Kept per set of texts: compiling a template costs more than a whole offline trial.
    from jinja2 import DictLoader, StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(
        loader=DictLoader(dict(texts)), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
