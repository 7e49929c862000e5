"""Garbage is looked for again, whatever happens where it was not."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from pytest_agenteval.processes.startup import (
    REDUCED_THRESHOLD,
    garbage_collection_paused,
    garbage_collection_reduced,
)
from tests.suites import suite, task, write

pytest_plugins = ["pytester"]


def test_garbage_is_looked_for_again_afterwards() -> None:
    """Also where the block raises, and one within another gives way to the outer."""
    with suppress(ValueError), garbage_collection_paused():
        with garbage_collection_paused():
            pass
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_who_looks_for_none_is_left_alone() -> None:
    """A user who switched the collector off finds it so."""
    gc.disable()
    try:
        with garbage_collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_garbage_is_looked_for_rarely_while_items_are_collected(pytester: pytest.Pytester) -> None:
    """From the first task file on, and as ever once all are collected, whatever came of it."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": "{"})
    conftest = "import gc\ndef pytest_pycollect_makemodule(): print('AT', gc.get_threshold()[0])\n"
    write(pytester.path, {"conftest.py": conftest, "evals/test_c.py": "", "test_a.py": ""})
    before = gc.get_threshold()

    result = pytester.runpytest_inprocess("test_a.py", "evals", "-s", "--agent-model=scripted")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*AT {before[0]}", f"*AT {REDUCED_THRESHOLD}"])
    assert gc.get_threshold() == before


def test_who_collects_once_more_later_changes_nothing(pytester: pytest.Pytester) -> None:
    """Nothing would end what is begun then."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "test_a.py": ""})
    conftest = """
def pytest_runtestloop(session):
    session.perform_collect(["evals"])
    return True
"""
    write(pytester.path, {"conftest.py": conftest})
    before = gc.get_threshold()
    pytester.runpytest_inprocess("test_a.py", "--agent-model=scripted")
    assert gc.get_threshold() == before


def test_who_chooses_how_often_has_the_say() -> None:
    """A threshold of a user's own stays: a higher one, none at all, and one that is set meanwhile."""
    before = gc.get_threshold()
    try:
        for own in (0, REDUCED_THRESHOLD + 1):
            gc.set_threshold(own)
            with garbage_collection_reduced():
                assert gc.get_threshold()[0] == own
        with garbage_collection_reduced():
            gc.set_threshold(5)
        assert gc.get_threshold()[0] == 5
    finally:
        gc.set_threshold(*before)


def test_what_is_collected_is_never_looked_through_again(pytester: pytest.Pytester) -> None:
    """Before anything is left out of it, for what ``-k`` leaves out stays as well; also without a run."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": task("b")})
    conftest = """
import gc
def pytest_collection_modifyitems(items):
    print("SEEN", any(kept is item for kept in gc.get_objects() for item in items))
"""
    write(pytester.path, {"conftest.py": conftest})
    arguments = ("evals", "--agent-model=scripted", "--collect-only", "-s", "-k", "a_")
    pytester.runpytest_subprocess(*arguments).stdout.fnmatch_lines(["*SEEN False"])
