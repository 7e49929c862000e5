"""Benchmarks that are installed: found by their entry points, and asked to register."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import TYPE_CHECKING, Any

from pytest_agenteval.registry.name_table import NameTaken, raised_where
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    import pytest


GROUP = "pytest_agenteval.benchmarks"
"""The group of entry points; each names a module with the hook ``pytest_agenteval_register``."""
HOOK = "pytest_agenteval_register"
BENCHMARK_PLUGIN = "agenteval-benchmark-"
"""How pytest's names of benchmarks begin: ``-p no:agenteval-benchmark-NAME`` leaves one out."""


def installed_registry() -> Registry:
    """Give all that is registered without a conftest: what is built in, and what benchmarks offer."""
    from pytest_agenteval.registry.builtin import pytest_agenteval_register

    registry = Registry(discover=register_benchmarks)
    pytest_agenteval_register(registry)
    return registry


def register_benchmarks(registry: Registry) -> None:
    """Let every installed benchmark register; one that cannot is noted, and keeps no other from it."""
    _register(registry, lambda entry: _module_of(entry).pytest_agenteval_register(registry=registry))


def plug_in_benchmarks(plugins: pytest.PytestPluginManager, registry: Registry) -> None:
    """Do so in a pytest run, where each is a plugin: what it has of fixtures and other hooks is there too.

    The registering hook is historic: pytest calls that of every plugin that comes later.
    """

    def plug_in(entry: EntryPoint) -> None:
        name = f"{BENCHMARK_PLUGIN}{entry.name}"
        if plugins.is_blocked(name):  # not imported either: it may be left out because it is broken
            return
        module = _module_of(entry)
        if not plugins.is_registered(module):  # one that is a plugin of pytest anyway has registered
            plugins.register(module, name)

    _register(registry, plug_in)


def _register(registry: Registry, ask: Callable[[EntryPoint], None]) -> None:
    firsts: dict[str, EntryPoint] = {}
    for entry in _entries():
        try:
            first = firsts.setdefault(entry.name, entry)
            if first is not entry:
                raise UsageMistake(f"a benchmark{_distribution_suffix(first)} has the same name")
            ask(entry)
        except NameTaken as taken:  # the user decides which of the two goes
            way_out = f"-p no:{BENCHMARK_PLUGIN}{entry.name}"
            raise UsageMistake(f"{taken}; {way_out} leaves the latter out of a run of pytest") from None
        except Exception as raised:  # whatever an author's module raises
            why = raised_where(raised)
            registry.note_broken(
                f"the benchmark {entry.name!r}{_distribution_suffix(entry)} cannot be used: {why}"
            )


def _module_of(entry: EntryPoint) -> Any:
    module = entry.load()
    if not hasattr(module, HOOK):  # pytest would take it for a plugin without hooks, and say nothing
        raise UsageMistake(f"{entry.value} has no {HOOK}(registry)")
    return module


def _entries() -> Iterator[EntryPoint]:
    """Find the entry points of the group.

    Their files are looked at as text first: to parse those of every distribution, as ``entry_points`` does,
    takes seven times as long, in every run.
    """
    names: dict[str, None] = {}
    for distribution in distributions():
        if GROUP in (distribution.read_text("entry_points.txt") or ""):
            names[distribution.name] = None
    for name in names:
        # By its name again: of one that stands on the path twice, what is imported is the first.
        yield from Distribution.from_name(name).entry_points.select(group=GROUP)


def _distribution_suffix(entry: EntryPoint) -> str:
    return f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
