"""When names are registered in a pytest run: as soon as somebody offers some, else before the first look-up.

Imported in every pytest run, used or not; the registry itself is not, where nobody needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.stash import open_configs, registry_key

if TYPE_CHECKING:
    from pytest_agenteval.registry import Registry


class Registration:
    """The registry of a pytest run: made, and offered to whoever has our hook, when it is first asked for."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._registry: Registry | None = None

    def __call__(self) -> Registry:
        """Give the registry; raises UsageMistake where a plugin or conftest claims what is taken."""
        if self._registry is None:
            from pytest_agenteval import builtin
            from pytest_agenteval.registry import Registry

            self._registry = Registry(self._plug_in_benchmarks)  # first: who is asked may register plugins
            self._config.pluginmanager.register(builtin, "agenteval-builtin")
            self._config.hook.pytest_agenteval_register.call_historic(kwargs={"registry": self._registry})
        return self._registry

    def offer_early(self) -> None:
        """Make the registry at once where somebody beside us has something to register."""
        if self._registry is None and self._config.hook.pytest_agenteval_register.get_hookimpls():
            self()

    def _plug_in_benchmarks(self, registry: Registry) -> None:
        from pytest_agenteval.discovery import plug_in_benchmarks

        plug_in_benchmarks(self._config.pluginmanager, registry)


def begin_registration(config: pytest.Config) -> None:
    """Take what plugins and conftests have to offer that are there when pytest is configured."""
    registration = config.stash[registry_key] = Registration(config)
    try:
        registration.offer_early()
    except Exception as raised:
        from pytest_agenteval.errors import UsageMistake

        if isinstance(raised, UsageMistake):
            raise pytest.UsageError(str(raised)) from None
        raise


def offer_to_later(manager: object) -> None:
    """Take what those have to offer that came later, such as a conftest further down."""
    for config in open_configs:
        if config.pluginmanager is manager and registry_key in config.stash:
            config.stash[registry_key].offer_early()
