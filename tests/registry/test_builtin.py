"""What is built in or comes with a benchmark is really there: names are resolved only when they are used."""

from __future__ import annotations

import inspect

import pytest

from pytest_agenteval.registry.installed import installed_registry

REGISTRY = installed_registry()
GRADERS = [name for name in REGISTRY.graders if not REGISTRY.group(name)]


@pytest.mark.parametrize("name", REGISTRY.agents)
def test_every_agent_is_there(name: str) -> None:
    """A misspelled place would be found only by whoever first uses the name."""
    assert callable(REGISTRY.agent_factory(name))


@pytest.mark.parametrize("name", sorted(REGISTRY.offline_models))
def test_every_offline_model_is_there(name: str) -> None:
    """The same of models."""
    assert callable(REGISTRY.model_factory(name))


@pytest.mark.parametrize("name", GRADERS)
def test_every_grader_says_what_it_does(name: str) -> None:
    """A grader has a version, which is part of the ruler, and a docstring."""
    grader = REGISTRY.grader_factory(name)
    assert inspect.getdoc(grader)
    assert isinstance(getattr(grader, "version", None), str)


def test_whatever_else_is_registered_is_there() -> None:
    """Groups have graders, sets have files, and importers, formats, scorecards and executors are found."""
    for name in set(REGISTRY.graders) - set(GRADERS):
        assert {member for member, _ in REGISTRY.group(name)} <= set(GRADERS)
    assert all(file.is_file() for files in REGISTRY.toolsets.values() for file in files)
    for name in REGISTRY.importers:
        assert callable(REGISTRY.importer_named(name).run)
    for name in REGISTRY.report_formats:
        assert callable(REGISTRY.report_format_named(name))
    for name in REGISTRY.executors:
        assert callable(REGISTRY.executor_factory(name))
    assert all(callable(scorecard.load()) for scorecard in REGISTRY.scorecards())
    assert not REGISTRY.broken_benchmarks
