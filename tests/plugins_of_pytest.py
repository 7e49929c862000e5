"""Pytest's own plugins have the same hooks and fixtures in every run inside a test: they are looked for once.

A run registers some fifty plugins, and takes every name of each in hand, three times: that is a third of what
a small run takes. What is ours, a user's or a test's is looked at as ever, and so is everything by runs in
processes of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from _pytest import fixtures
from pluggy import _manager

PACKAGES = frozenset({"_pytest", "xdist"})
"""Whose plugins stay as they are, as modules and as classes."""


def look_once() -> None:
    """Let pluggy and pytest have the names that may be hooks or fixtures, in place of all that there are."""
    lasting = {name: module for name, module in sys.modules.items() if name.split(".")[0] in PACKAGES}
    _manager.dir = Names(lasting, _hooks, of_instances=True)  # type: ignore[attr-defined]
    fixtures.dir = Names(lasting, _fixtures, of_instances=False)  # type: ignore[attr-defined]
    slow = getattr(_manager, "_static_hook_attr", None)  # older ones ask the plugin itself, which is quick
    if slow is not None and not hasattr(slow, "look"):
        _manager._static_hook_attr = QuickLook(slow)  # type: ignore[assignment]


class Names:
    """``dir``, which remembers for what lasts the names that matter."""

    def __init__(
        self, lasting: dict[str, ModuleType], choose: Callable[[Any], Iterable[str]], *, of_instances: bool
    ) -> None:
        self.lasting = lasting
        self.choose = choose
        self.of_instances = of_instances
        self.known = WeakKeyDictionary[Any, list[str]]()

    def __call__(self, holder: object) -> list[str]:
        """Give them; for what does not last, all names."""
        if isinstance(holder, ModuleType):
            lasts = self.lasting.get(holder.__name__) is holder
            return self._remembered(holder) if lasts else dir(holder)
        kind = type(holder)
        if isinstance(holder, type) or kind.__module__ not in self.lasting:
            return dir(holder)
        names = self._remembered(kind)
        own = self.of_instances and [name for name in vars(holder) if name.startswith("pytest_")]
        return sorted({*names, *own}) if own else names

    def _remembered(self, holder: Any) -> list[str]:
        if holder not in self.known:
            self.known[holder] = list(self.choose(holder))
        return self.known[holder]


class QuickLook:
    """How pluggy finds a hook, which for a function of a module is to look it up."""

    def __init__(self, look: Callable[[object, str], Any]) -> None:
        self.look = look

    def __call__(self, holder: object, name: str) -> Any:
        """Give the function twice, as what bears the marks and as what is called."""
        value = vars(holder).get(name) if type(holder) is ModuleType else None
        return (value, value) if type(value) is FunctionType else self.look(holder, name)


def _hooks(holder: Any) -> list[str]:
    return [name for name in dir(holder) if name.startswith("pytest_")]


def _fixtures(holder: Any) -> list[str]:
    """Give the names of fixtures, and of all that is wrapped: pytest warns of a fixture within."""
    owners = holder.__mro__ if isinstance(holder, type) else (holder,)
    values = {name: value for owner in reversed(owners) for name, value in vars(owner).items()}
    return sorted(name for name, value in values.items() if _may_be_fixture(value))


def _may_be_fixture(value: object) -> bool:
    return isinstance(value, fixtures.FixtureFunctionDefinition) or hasattr(value, "__wrapped__")
