"""What is built in is really there: names are resolved only when a task first says them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import pytest

from pytest_agenteval.builtin import AGENTS, GRADERS, MODELS, PACKAGE


@pytest.mark.parametrize("names", [AGENTS, MODELS, GRADERS], ids=["agents", "models", "graders"])
def test_every_name_leads_somewhere(names: Mapping[str, str]) -> None:
    """A misspelled place would be found only by whoever first uses the name."""
    for place in names.values():
        module, _, name = place.partition(":")
        assert callable(getattr(import_module(f"{PACKAGE}.{module}"), name))


def test_every_grader_says_what_it_does() -> None:
    """A grader has a version, which is part of the ruler, and a docstring."""
    for place in GRADERS.values():
        module, _, name = place.partition(":")
        grader = getattr(import_module(f"{PACKAGE}.{module}"), name)
        assert grader.__doc__, name
        assert isinstance(grader.version, str), name
