"""What is remembered of pytest's plugins is what is there."""

from __future__ import annotations

from types import ModuleType

import pytest
from _pytest import fixtures
from pluggy import _manager


def test_hooks_and_fixtures_of_plugins_are_found_as_ever(pytestconfig: pytest.Config) -> None:
    """Of every plugin of this run, a module or an object: those that a look at all its names finds."""
    plugins = pytestconfig.pluginmanager
    for plugin in plugins.get_plugins():
        hooks = {name for name in dir(plugin) if plugins.parse_hookimpl_opts(plugin, name) is not None}
        assert hooks <= set(_manager.dir(plugin)), plugin
        assert _fixtures(plugin, dir(plugin)) == _fixtures(plugin, fixtures.dir(plugin)), plugin


def test_what_does_not_last_is_looked_at_as_ever() -> None:
    """A module that only bears the name of one of pytest's, an object of a class of anybody's."""
    namesake = ModuleType("_pytest.terminal")
    namesake.any_name = 1
    for holder in (namesake, test_what_does_not_last_is_looked_at_as_ever, ModuleType):
        assert _manager.dir(holder) == fixtures.dir(holder) == dir(holder)


def _fixtures(plugin: object, names: list[str]) -> set[str]:
    holder = plugin if isinstance(plugin, type | ModuleType) else type(plugin)
    return {
        name for name in names if isinstance(getattr(holder, name, None), fixtures.FixtureFunctionDefinition)
    }
