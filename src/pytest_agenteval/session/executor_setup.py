"""What this session tells its executor, as plain data that another process can do with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_agenteval.engine.executors.executor import Executor, ExecutorContext, ExecutorFactory
from pytest_agenteval.redaction import KNOWN
from pytest_agenteval.registry import Registry
from pytest_agenteval.session.settings import Settings


def make_executor(name: str, registry: Registry) -> Executor:
    """Give the executor of this name, ``NAME`` or ``NAME:ARGUMENT``; raises UnknownName."""
    executor: Executor = executor_factory(name, registry)(registry)
    return executor


def executor_factory(name: str, registry: Registry) -> ExecutorFactory:
    """Find what makes the executor that an option names; raises UnknownName."""
    factory: ExecutorFactory = registry.executor_factory(name.partition(":")[0])
    return factory


def executor_context(config: pytest.Config, settings: Settings, started: float) -> ExecutorContext:
    """Give what the executor is told of this run; ``started`` is when it began, in seconds since 1970."""
    values, patterns = KNOWN.all_known()
    return ExecutorContext(
        root=str(config.rootpath),
        started=started,
        concurrency=settings.concurrency,
        argument=settings.executor.partition(":")[2],
        conftests=tuple(_conftest_folders(config)),
        pytest_options=tuple(_loading_options(config)),
        captures_output=config.getoption("capture", "fd") != "no",
        log_level=getattr(config.pluginmanager.get_plugin("logging-plugin"), "log_level", None),
        secrets=values,
        secret_patterns=patterns,
        # Under -v, and while tools are recorded: elsewhere nobody wants to know.
        reports_unused=config.getoption("verbose", 0) > 0 or settings.record != "none",
    )


def _conftest_folders(config: pytest.Config) -> Iterator[str]:
    """Give the folders of the conftests that this session has loaded, the outermost first."""
    names = (name for name, plugin in config.pluginmanager.list_name_plugin() if plugin is not None)
    folders = {str(Path(name).parent) for name in names if Path(name).name == "conftest.py"}
    yield from sorted(folders, key=lambda folder: (len(Path(folder).parts), folder))


def _loading_options(config: pytest.Config) -> Iterator[str]:
    """Give the options that decide which conftests and plugins there are, and how they are imported."""
    yield f"--rootdir={config.rootpath}"
    if config.inipath is not None:
        yield f"-c{config.inipath}"
    yield f"--import-mode={config.getoption('importmode')}"
    for plugin in config.getoption("plugins", None) or ():
        yield f"-p{plugin}"
