"""Which files are taken for tasks whose keys are misspelt."""

from __future__ import annotations

import pytest

from pytest_agenteval.tasks.documents import is_nearly_task, may_be_task


@pytest.mark.parametrize(
    "key", ["id", "ID", "_id", "idd", "ids", "uid", "graders", "grader", "greaders", "grades"]
)
def test_a_slip_of_one_letter_is_taken_for_the_key(key: str) -> None:
    """A task would vanish with it."""
    assert may_be_task([key])


@pytest.mark.parametrize("key", ["idea", "name", "inputs", "grids", "leaders", ""])
def test_a_word_of_its_own_is_not(key: str) -> None:
    """Data beside the tasks of a suite has keys too."""
    assert not may_be_task([key])


def test_two_keys_nearly_so_make_a_task() -> None:
    """An id alone may be anybody's."""
    assert is_nearly_task({"ids": "a", "inputs": {}})
    assert not is_nearly_task({"ids": "a", "name": "b"})
    assert not is_nearly_task(["id", "input"])
