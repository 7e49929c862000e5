"""What conftests register, for processes that run trials without being pytest runs themselves."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.registry.stash import get_registry, registry_key
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.registry.registry import Registry

PLUGIN = "pytest_agenteval.plugin"


class _Grab:
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
    """Give what the conftests of these folders, and of those above them, register beside what is built in.

    pytest itself loads them, so that what they import beside them is found; conftests further down are loaded
    where their folders are named. ``options`` of pytest decide how, such as its ``--rootdir``. Raises
    UsageMistake with pytest's own words when one cannot be loaded.
    """
    grab, output = _Grab(), io.StringIO()
    # Without the project's own options, which may ask for reports; our plugin by name, for where none is
    # loaded by itself. Twice under two names is more than pytest can bear.
    named = PLUGIN in os.environ.get("PYTEST_PLUGINS", "").split(",")
    ours = [] if named else ["-p", "agenteval"]
    args = ["--collect-only", "-o", "addopts=", *ours, *options, *map(str, folders)]
    with without_addopts(), redirect_stdout(output), redirect_stderr(output):
        pytest.main(args, plugins=[grab])
    if grab.interrupted:  # which pytest keeps to itself
        raise KeyboardInterrupt
    if grab.registry is None:
        raise UsageMistake(f"the conftests could not be loaded:\n{output.getvalue().strip()}")
    # pytest takes back what its settings added; what is registered by name is imported only later.
    sys.path += [place for place in grab.path if place not in sys.path]
    return grab.registry


@contextmanager
def without_addopts() -> Iterator[None]:
    """Hide the options that somebody set for runs of pytest of their own."""
    options = os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        yield
    finally:
        if options is not None:
            os.environ["PYTEST_ADDOPTS"] = options
