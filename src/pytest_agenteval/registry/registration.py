"""When names are registered in a pytest run: as soon as somebody offers some, else before the first look-up.

Imported in every pytest run, used or not; the registry itself is not, where nobody needs it.
"""

from __future__ import annotations

import os
import sys
from traceback import extract_tb
from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.registry.stash import open_configs, registry_key

if TYPE_CHECKING:
    from pytest_agenteval.registry.registry import Registry


PREFIX = "pytest_agenteval_"
HOOK = f"{PREFIX}register"
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Registration:
    """The registry of a pytest run: made, and offered to whoever has our hook, when it is first asked for."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._registry: Registry | None = None

    def __call__(self) -> Registry:
        """Give the registry; raises UsageMistake where a plugin or conftest claims what is taken."""
        if self._registry is None:
            from pytest_agenteval.registry import builtin
            from pytest_agenteval.registry.registry import Registry

            self._registry = Registry(self._plug_in_benchmarks)  # first: who is asked may register plugins
            self._config.pluginmanager.register(builtin, "agenteval-builtin")
            # As for `call:` in suite.yaml: a conftest below evals/ imports the project's own package.
            if (root := str(self._config.rootpath)) not in sys.path:
                sys.path.append(root)
            self._config.hook.pytest_agenteval_register.call_historic(kwargs={"registry": self._registry})
        return self._registry

    def offer_early(self) -> None:
        """Make the registry at once where somebody beside us has something to register."""
        if self._registry is None and self._config.hook.pytest_agenteval_register.get_hookimpls():
            self()

    def _plug_in_benchmarks(self, registry: Registry) -> None:
        from pytest_agenteval.registry.discovery import plug_in_benchmarks

        plug_in_benchmarks(self._config.pluginmanager, registry)


def begin_registration(config: pytest.Config) -> None:
    """Take what plugins and conftests have to offer that are there when pytest is configured."""
    registration = config.stash[registry_key] = Registration(config)
    try:
        registration.offer_early()
    except (KeyboardInterrupt, pytest.exit.Exception):
        raise
    except BaseException as raised:  # SystemExit too, and pytest.skip
        mistake = registration_mistake(raised, config)
        if not mistake:
            raise
        raise pytest.UsageError(mistake) from None


def registration_mistake(raised: BaseException, config: pytest.Config) -> str:
    """Say in which line a conftest's or plugin's hook failed to register; empty where the hook is ours."""
    from pytest_agenteval.text.errors import UsageMistake, exception_text

    if isinstance(raised, UsageMistake):
        return str(raised)
    frames = [frame for frame in extract_tb(raised.__traceback__) if frame.filename[:1] != "<"]
    of_hook = next((frame for frame in frames if frame.name == HOOK), None)
    if of_hook is None or of_hook.filename.startswith(_OURS):
        return ""
    last = frames[-1]
    is_elsewhere = (last.filename, last.lineno) != (of_hook.filename, of_hook.lineno)
    place = f" ({last.filename}:{last.lineno})" if is_elsewhere else ""
    text = " ".join(exception_text(raised).split())
    line = f"{of_hook.filename}:{of_hook.lineno}: {HOOK} raised {type(raised).__name__}: {text}{place}"
    if not isinstance(raised, ModuleNotFoundError):
        return line
    return f"{line}\n  modules are looked for in {config.rootpath} and wherever Python looks"


def check_hook_names(plugin: object) -> None:
    """Raise pytest.UsageError for a function that is named like a hook of ours and is none."""
    names = [name for name in vars(plugin) if name.startswith(PREFIX)] if hasattr(plugin, "__dict__") else []
    if not names:
        return
    from pytest_agenteval.registry import hookspecs
    from pytest_agenteval.text.errors import nearest

    known = [name for name in vars(hookspecs) if name.startswith(PREFIX)]
    for name in names:
        if name not in known and callable(vars(plugin)[name]):
            place = getattr(plugin, "__file__", None) or repr(plugin)
            hint = nearest(name, known) or f"hooks are {', '.join(known)}"
            raise pytest.UsageError(f"{place}: unknown hook {name!r}; {hint}")


def offer_to_later(manager: object) -> None:
    """Take what those have to offer that came later, such as a conftest further down."""
    for config in open_configs:
        if config.pluginmanager is manager and registry_key in config.stash:
            config.stash[registry_key].offer_early()
