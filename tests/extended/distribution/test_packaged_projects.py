"""setuptools builds a project after ``agenteval init`` as before."""

from __future__ import annotations

import sys

import pytest

from tests.cli.test_init import PACKAGED, PROJECT, SETUPTOOLS, init
from tests.suites import write

pytest_plugins = ["pytester"]

BUILD = "import setuptools.build_meta as build; build.get_requires_for_build_wheel()"


@pytest.mark.parametrize("there", [there for there, _ in PACKAGED])
def test_a_project_can_be_installed_as_before(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], there: dict[str, str]
) -> None:
    """Folders that `init` adds are not taken for packages."""
    pytest.importorskip("setuptools")
    write(pytester.path, {"pyproject.toml": f"{PROJECT}{SETUPTOOLS}", **there})
    before = pytester.run(sys.executable, "-c", BUILD)
    init(capsys)

    assert before.ret == 0
    assert pytester.run(sys.executable, "-c", BUILD).ret == 0
