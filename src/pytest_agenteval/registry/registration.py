"""When names are registered: in a pytest run by the hook, elsewhere by loading the conftests.

Imported in every pytest run, used or not: everything else is imported where it is needed.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_agenteval.registry.registry import Registry


registry_key: pytest.StashKey[LazyRegistry] = pytest.StashKey()

# The pytest runs of this process, the innermost last, for code that no fixture gives a config.
open_configs: list[pytest.Config] = []

PREFIX = "pytest_agenteval_"
HOOK = f"{PREFIX}register"
PLUGIN = "pytest_agenteval.plugin"
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep


def get_registry(config: pytest.Config) -> Registry:
    """Return all that has a name in this pytest run; the first call registers what is built in."""
    return config.stash[registry_key].registry


class LazyRegistry:
    """The registry of a pytest run: it is made, and passed to all who have the hook, when first used."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._registry: Registry | None = None

    @property
    def registry(self) -> Registry:
        """The registry; raises UsageMistake where a plugin or conftest claims what is taken."""
        if self._registry is None:
            from pytest_agenteval.registry import installed
            from pytest_agenteval.registry.registry import Registry

            plugins = self._config.pluginmanager
            # Stored before any hook is called: a hook may register plugins, for which offer_early is called.
            self._registry = Registry(partial(installed.register_benchmarks, plugins=plugins))
            plugins.register(installed, "agenteval-builtin")
            # As for `call:` in suite.yaml: a conftest below evals/ imports the project's own package.
            if (root := str(self._config.rootpath)) not in sys.path:
                sys.path.append(root)
            self._config.hook.pytest_agenteval_register.call_historic(kwargs={"registry": self._registry})
        return self._registry

    def offer_early(self) -> None:
        """Make the registry at once where a conftest or another plugin has something to register."""
        if self._registry is None and self._config.hook.pytest_agenteval_register.get_hookimpls():
            _ = self.registry


def register_plugins(config: pytest.Config) -> None:
    """Let the plugins and conftests register that are there when pytest is configured."""
    config.stash[registry_key] = LazyRegistry(config)
    try:
        config.stash[registry_key].offer_early()
    except (KeyboardInterrupt, pytest.exit.Exception):
        raise
    except BaseException as raised:  # SystemExit too, and pytest.skip
        mistake = registration_mistake(raised, config)
        if not mistake:
            raise
        raise pytest.UsageError(mistake) from None


def register_late_plugins(manager: object) -> None:
    """Let those register that came later, such as a conftest further down."""
    for config in open_configs:
        if config.pluginmanager is manager and registry_key in config.stash:
            config.stash[registry_key].offer_early()


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


def add_import_hint(lost: ModuleNotFoundError, root: Path) -> None:
    """Say what to do where a conftest imports a module of the project that Python does not find."""
    name = (lost.name or "").partition(".")[0]
    for folder in (".", "src"):
        place = root / folder / name
        if name and (place.is_dir() or place.with_suffix(".py").is_file()):
            lost.add_note(
                f"hint: {name} is in {(root / folder).resolve()}, where Python does not look: run "
                f'`pip install -e .`, or add pythonpath = ["{folder}"] to [tool.pytest.ini_options] in '
                "pyproject.toml"
            )
            return


def check_hook_names(plugin: object) -> None:
    """Raise pytest.UsageError for a function that is named like a hook of ours and is none."""
    names = [name for name in vars(plugin) if name.startswith(PREFIX)] if hasattr(plugin, "__dict__") else []
    if not names:
        return
    from pytest_agenteval.registry import hookspecs
    from pytest_agenteval.text.errors import did_you_mean

    known = [name for name in vars(hookspecs) if name.startswith(PREFIX)]
    for name in names:
        if name not in known and callable(vars(plugin)[name]):
            place = getattr(plugin, "__file__", None) or repr(plugin)
            hint = did_you_mean(name, known) or f"hooks are {', '.join(known)}"
            raise pytest.UsageError(f"{place}: unknown hook {name!r}; {hint}")


class _RegistryCatcher:
    """Takes the registry of a session, and lets it collect nothing."""

    registry: Registry | None = None
    interrupted = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if registry_key in session.config.stash:  # else our plugin is left out
            self.registry = get_registry(session.config)
        self.path = list(sys.path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool:
        return True  # the first answer counts: pytest's own collecting is not reached

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.interrupted = isinstance(excinfo.value, KeyboardInterrupt)


def load_registry(folders: Iterable[Path], options: Sequence[str] = ()) -> Registry:
    """Return what the conftests of these folders, and of those above them, register beside what is built in.

    pytest itself loads them, so that what they import beside them is found; conftests further down are loaded
    where their folders are named. ``options`` of pytest decide how, such as its ``--rootdir``. Raises
    UsageMistake with pytest's own words when one cannot be loaded.
    """
    catcher, output = _RegistryCatcher(), io.StringIO()
    # Without the project's own options, which may ask for reports; our plugin by name, for where none is
    # loaded by itself. Twice under two names is more than pytest can bear.
    named = PLUGIN in os.environ.get("PYTEST_PLUGINS", "").split(",")
    ours = [] if named else ["-p", "agenteval"]
    args = ["--collect-only", "-o", "addopts=", *ours, *options, *map(str, folders)]
    with without_addopts(), redirect_stdout(output), redirect_stderr(output):
        pytest.main(args, plugins=[catcher])
    if catcher.interrupted:  # pytest raises nothing
        raise KeyboardInterrupt
    if catcher.registry is None:
        from pytest_agenteval.text.errors import UsageMistake

        raise UsageMistake(f"the conftests could not be loaded:\n{output.getvalue().strip()}")
    # pytest takes back what its settings added; what is registered by name is imported only later.
    sys.path += [place for place in catcher.path if place not in sys.path]
    return catcher.registry


@contextmanager
def without_addopts() -> Iterator[None]:
    """Hide ``PYTEST_ADDOPTS``, whose options somebody set for runs of pytest of their own."""
    options = os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        yield
    finally:
        if options is not None:
            os.environ["PYTEST_ADDOPTS"] = options
