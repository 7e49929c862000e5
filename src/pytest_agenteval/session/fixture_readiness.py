"""Which trials may begin before pytest comes to their items."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

from pytest_agenteval.discovery import BENCHMARK_PLUGIN

When: TypeAlias = Literal["now", "later", "in turn"]
"""Now; once a wider fixture has its value; or only when pytest comes to the item."""

CHANGEABLE = ("task", "workspace", "cassette")
"""Our fixtures that a conftest may replace to change what a trial is given."""


class FixtureReadiness:
    """Looks at what fixtures an item needs, once for every set of fixtures.

    A trial may begin ahead only if every fixture it needs is ours, or is of a wider scope and has its value
    already: the value of a function-scoped fixture does not exist before pytest comes to the item.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._root = config.rootpath
        self._installed = _packages_of_plugins(config)
        self._by_fixtureinfo: dict[int, tuple[Any, list[Any], list[Any]]] = {}
        self.blocking_fixtures: dict[str, int] = {}

    def start_policy(self, item: pytest.Function, current: pytest.Item) -> When:
        """Say when the item's trial may begin, as seen from the item that pytest is busy with.

        Counts those that may never begin ahead, by the fixture that forbids it.
        """
        narrow, wide = self._of(item)
        if narrow:
            name = self._display_name(narrow[0])
            self.blocking_fixtures[name] = self.blocking_fixtures.get(name, 0) + 1
            return "in turn"
        if not all(_has_value(definition, item, current) for definition in wide):
            return "later"
        # Where a fixture broke, the item is set up in vain: nobody will ask for its trial.
        return "in turn" if any(definition.cached_result[2] is not None for definition in wide) else "now"

    def _of(self, item: pytest.Function) -> tuple[list[Any], list[Any]]:
        """Give the function-scoped fixtures and the wider ones that are not ours."""
        info = item._fixtureinfo
        entry = self._by_fixtureinfo.get(id(info))
        if entry is None:
            definitions = self._others(item.fixturenames, info.name2fixturedefs)
            # A trial is in no class: there, pytest gives class scope the extent of function scope.
            narrow = [definition for definition in definitions if definition.scope in ("function", "class")]
            wide = [definition for definition in definitions if definition.scope not in ("function", "class")]
            entry = self._by_fixtureinfo[id(info)] = (info, narrow, wide)
        return entry[1], entry[2]

    def _others(self, names: Sequence[str], definitions: Any) -> list[Any]:
        last = [definitions[name][-1] for name in names if definitions.get(name)]
        relevant = [
            definition for definition in last if not is_ours(definition) or definition.argname in CHANGEABLE
        ]
        return [definition for definition in relevant if is_ours(definition) or self._users(definition)]

    def _users(self, definition: Any) -> bool:
        """Whether a fixture is the user's: those that installed plugins hang onto every test do not count."""
        if definition.scope != "function":
            return True
        module: str = getattr(definition.func, "__module__", "")
        return module.partition(".")[0] not in self._installed

    def _display_name(self, definition: Any) -> str:
        code = getattr(inspect.unwrap(definition.func), "__code__", None)
        if is_ours(definition) or code is None:
            return str(definition.argname)
        path = Path(code.co_filename)
        place = path.relative_to(self._root) if path.is_relative_to(self._root) else path
        return f"{definition.argname} ({place}:{code.co_firstlineno})"


def is_ours(definition: Any) -> bool:
    """Whether a fixture is the one that this plugin gives, and no replacement."""
    return bool(getattr(definition.func, "__module__", "").startswith("pytest_agenteval."))


def _has_value(definition: Any, item: pytest.Function, current: pytest.Item) -> bool:
    """Whether a fixture has the value that the item will be given, not that of another module."""
    cached = definition.cached_result
    if cached is None or cached[1] != item.callspec.params.get(definition.argname):
        return False
    if definition.scope == "session" or item.parent is current.parent:
        return True
    if definition.scope != "package" or item.parent is None or current.parent is None:
        return False
    return item.parent.parent is current.parent.parent


def replaced(item_parent: pytest.Collector) -> tuple[tuple[str, Any], ...]:
    """Give those of our fixtures that a conftest above this collector replaces, with their definitions."""
    manager = item_parent.session._fixturemanager
    last = ((name, manager.getfixturedefs(name, item_parent)) for name in CHANGEABLE)
    return tuple(
        (name, definitions[-1]) for name, definitions in last if definitions and not is_ours(definitions[-1])
    )


def _packages_of_plugins(config: pytest.Config) -> frozenset[str]:
    manager = config.pluginmanager
    plugins: list[Any] = [plugin for plugin, _ in manager.list_plugin_distinfo()]
    plugins += [plugin for name, plugin in manager.list_name_plugin() if name.startswith(BENCHMARK_PLUGIN)]
    names = (getattr(plugin, "__name__", type(plugin).__module__) for plugin in plugins)
    return frozenset({"_pytest", *(name.partition(".")[0] for name in names)})
