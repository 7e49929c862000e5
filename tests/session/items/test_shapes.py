"""Items are built quickly, and like pytest's own where somebody else has a say."""

from __future__ import annotations

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


def test_tasks_of_a_folder_are_built_from_one_shape(pytester: pytest.Pytester, slow_ways: list[str]) -> None:
    """pytest works out parameters and fixtures once for each folder, not for each task or file."""
    write(pytester.path, FILES)

    assert len(collected_ids(pytester, "--agent-model=scripted,nop", "--repetitions=2")) == 22 * 4

    assert slow_ways == ["task_0", "lone"]


def test_tasks_with_other_cases_have_another_shape(pytester: pytest.Pytester, slow_ways: list[str]) -> None:
    """A task with repetitions of its own has items of its own."""
    write(pytester.path, {"evals/suite.yaml": suite()})
    write(pytester.path, {"evals/many.json": [*MANY, task("often", trials_per_run=3)]})

    assert len(collected_ids(pytester)) == 20 + 3

    assert slow_ways == ["task_0", "often"]


def test_where_somebody_else_makes_parameters_each_task_is_asked_for(
    pytester: pytest.Pytester, slow_ways: list[str]
) -> None:
    """A conftest's ``pytest_generate_tests`` sees every task of its folder, and no others."""
    conftest = """
def pytest_generate_tests(metafunc):
    if metafunc.function.__name__ == "task_1":
        metafunc.fixturenames.append("again")
        metafunc.parametrize("again", [1, 2])
"""
    write(pytester.path, FILES | {"evals/a/conftest.py": conftest})

    found = collected_ids(pytester)

    assert len(found) == 22 + 1
    assert len([name for name in found if "task_1[" in name]) == 2
    assert slow_ways == [f"task_{number}" for number in range(20)] + ["lone"]


def test_a_conftests_fixture_multiplies_all_tasks_of_its_folder(
    pytester: pytest.Pytester, slow_ways: list[str]
) -> None:
    """A parametrised autouse fixture is part of the folder's shape."""
    conftest = "import pytest\n@pytest.fixture(autouse=True, params='xy')\ndef axis(): pass\n"
    write(pytester.path, FILES | {"evals/a/conftest.py": conftest})

    found = collected_ids(pytester)

    assert len(found) == 20 * 2 + 2
    assert len(set(found)) == len(found)
    assert slow_ways == ["task_0", "lone"]


def test_items_of_a_shape_have_their_own_marks_and_words(pytester: pytest.Pytester) -> None:
    """What is shared is what is the same: tags and suites are each task's own."""
    write(pytester.path, FILES)

    assert collected_ids(pytester, "-m", "slow") == ["evals/b/two.json::other[scripted-1]"]
    assert collected_ids(pytester, "-k", "slow") == ["evals/b/two.json::other[scripted-1]"]
