"""Suite files below a folder, where pytest would look for tests."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from glob import iglob
from pathlib import Path

import pytest

from pytest_agenteval.registry.registration import without_addopts
from pytest_agenteval.tasks.file_names import SUITE_NAMES, is_set_aside_folder
from pytest_agenteval.tasks.load import load_suite
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.text.errors import ProblemsFound

READ_SETTINGS = ("--noconftest", "-o", "addopts=", "-p", "no:cacheprovider")


class _Settings:
    """Takes pytest's settings as soon as they are read; pytest collects nothing."""

    config: pytest.Config | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        self.config = config
        return 0


class SuiteSearch:
    """The suite files below a folder, in order: first those that a bare ``pytest`` in it would collect.

    Without ``testpaths``, or in a folder that is not pytest's rootdir, that is all of them. Folders that
    pytest passes over (``norecursedirs``, virtual environments) are passed over here.
    """

    def __init__(self, folder: Path) -> None:
        self._config = _settings_for(folder)
        testpaths = self._testpaths(folder)
        self.collected = list(dict.fromkeys(file for place in testpaths for file in self._below(place)))
        self.all = list(dict.fromkeys((*self.collected, *self._below(folder))))
        self.collected = self.collected or self.all

    def _testpaths(self, folder: Path) -> Iterator[Path]:
        config = self._config
        if config is not None and folder == config.rootpath:
            for pattern in config.getini("testpaths"):
                yield from (folder / name for name in sorted(iglob(pattern, root_dir=folder, recursive=True)))

    def _below(self, folder: Path) -> Iterator[Path]:
        for place, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if not self._is_passed_over(Path(place, name)))
            yield from (Path(place, name) for name in sorted(files) if name in SUITE_NAMES)

    def _is_passed_over(self, folder: Path) -> bool:
        if is_set_aside_folder(folder.name):
            return True
        config = self._config
        return config is not None and bool(
            config.hook.pytest_ignore_collect(collection_path=folder, config=config)
        )


def _settings_for(folder: Path) -> pytest.Config | None:
    """Read pytest's settings for a folder; None where pytest cannot read them."""
    settings, output = _Settings(), io.StringIO()
    with without_addopts(), redirect_stdout(output), redirect_stderr(output):
        pytest.main([*READ_SETTINGS, str(folder)], plugins=[settings])
    return settings.config


def read_suite(file: Path, top: Path) -> Suite | None:
    """Read a suite's file; None for one that is no suite and lies in a Python package below ``top``.

    That is data of the package, such as a template. Raises ProblemsFound for a file with problems elsewhere.
    """
    try:
        return load_suite(file)
    except ProblemsFound:
        folders = (folder for folder in file.parents if folder.is_relative_to(top) and folder != top)
        if any((folder / "__init__.py").is_file() for folder in folders):
            return None
        raise
