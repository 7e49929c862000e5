"""Items are built quickly, and like pytest's own where somebody else has a say."""

from __future__ import annotations

from typing import Any

import pytest
from _pytest.python import PyCollector

from tests.suites import collected_ids, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

MANY = [task(f"task_{number}") for number in range(20)]
FILES = {
    "evals/suite.yaml": suite(),
    "evals/a/many.json": MANY,
    "evals/b/one.json": task("lone"),
    "evals/b/two.json": task("other", tags=["slow"]),
}


@pytest.fixture
def slow_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that pytest's own way of building functions was asked for."""
    asked: list[str] = []
    original = PyCollector._genfunctions

    def counted(self: PyCollector, name: str, funcobj: object) -> object:
        asked.append(name)
        return original(self, name, funcobj)

    monkeypatch.setattr(PyCollector, "_genfunctions", counted)
    return asked


PARAMETERS = """
def pytest_generate_tests(metafunc):
    if metafunc.function.__name__ == "task_1":
        metafunc.fixturenames.append("again")
        metafunc.parametrize("again", [1, 2])
"""
AXIS = "import pytest\n@pytest.fixture(autouse=True, params='xy')\ndef axis(): pass\n"
# Files beside those above, options, how many items there are, and which tasks pytest itself was asked for.
SHAPES: dict[str, tuple[dict[str, Any], list[str], int, list[str]]] = {
    "once for each folder": ({}, ["--agent-model=scripted,nop", "--repetitions=2"], 88, ["task_0", "lone"]),
    "a task of other cases": (
        {"evals/a/more.json": task("often", trials_per_run=3)},
        [],
        25,
        ["task_0", "often", "lone"],
    ),
    "a conftest that sees every task of its folder": (
        {"evals/a/conftest.py": PARAMETERS},
        [],
        23,
        [*(f"task_{number}" for number in range(20)), "lone"],
    ),
    "a fixture that multiplies": ({"evals/a/conftest.py": AXIS}, [], 42, ["task_0", "lone"]),
}


@pytest.mark.parametrize("case", SHAPES)
def test_tasks_of_a_folder_are_built_from_one_shape(
    pytester: pytest.Pytester, slow_ways: list[str], case: str
) -> None:
    """pytest works out parameters and fixtures once for each folder, unless somebody else has a say.

    What is shared is what is the same: tags and suites are each task's own.
    """
    more, options, count, asked = SHAPES[case]
    write(pytester.path, FILES | more)

    found = collected_ids(pytester, *options)

    assert len(found) == len(set(found)) == count
    assert slow_ways == asked
    for option in ("-m", "-k"):
        slow = collected_ids(pytester, option, "slow")
        assert slow == ["evals/b/two.json::other[scripted-1]"]
