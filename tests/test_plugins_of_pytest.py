"""What is remembered of pytest's plugins is what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest import fixtures
from _pytest._code import code
from _pytest._code.source import Source, getstatementrange_ast
from _pytest.config.argparsing import OptionGroup, Parser
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


def test_options_are_added_and_refused_as_ever() -> None:
    """With names and values that are taken, in the same group or another, and with those that are new."""
    quick, slow = OptionGroup.addoption, OptionGroup.addoption.slow  # type: ignore[attr-defined]
    options = [
        (("--one", "-O"), {}),
        (("--two-words",), {"dest": "two", "type": int}),
        (("--one",), {}),
        (("-O", "--other"), {}),
        (("--two",), {}),
        (("--two",), {"dest": "two"}),
        (("--two_words",), {}),
        (("-l",), {}),
        (("nothing",), {}),
        ((), {}),
    ]
    for groups in (("first", "first"), ("first", "second")):
        said, values = _added(quick, groups, options)
        assert (said, values) == _added(slow, groups, options)
        assert any("already" in each for each in said)


def _added(
    add: Callable[..., None], groups: tuple[str, str], options: Sequence[Any]
) -> tuple[list[str], dict[str, Any]]:
    """Give what is said of each option, and what a command line sets in the end."""
    parser, said = Parser(_ispytest=True), []
    for number, (names, settings) in enumerate(options):
        group = parser.getgroup(groups[number % 2])
        try:
            add(group, *names, **settings)
            said.append("")
        except Exception as refused:
            said.append(f"{type(refused).__name__}: {refused}")
    return said, vars(parser.parse_known_args(["--one=1", "--two-words=2", "x"]))


def test_statements_begin_and_end_where_they_did() -> None:
    """Of lines of this file, asked once and asked again; what cannot be read is refused as ever."""
    source = Source(Path(__file__).read_text(encoding="utf-8"))
    tree = None
    lines = range(0, len(source.lines), 3)
    for line in (*lines, *lines):
        tree, *found = code.getstatementrange_ast(line, source, astnode=tree)
        assert found == list(getstatementrange_ast(line, source)[1:])
    with pytest.raises(SyntaxError):
        code.getstatementrange_ast(0, Source("def"))


def _fixtures(plugin: object, names: list[str]) -> set[str]:
    holder = plugin if isinstance(plugin, type | ModuleType) else type(plugin)
    return {
        name for name in names if isinstance(getattr(holder, name, None), fixtures.FixtureFunctionDefinition)
    }
