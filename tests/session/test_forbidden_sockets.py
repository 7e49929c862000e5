"""Runs under pytest-socket, which takes sockets away from tests: offline trials need none."""

from __future__ import annotations

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytest.importorskip("pytest_socket")
pytestmark = pytest.mark.usefixtures("quick")

OTHERS = """
import socket
import pytest

def test_the_guard_is_still_up():
    with pytest.raises(RuntimeError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
"""


@pytest.mark.parametrize("forbidding", ["--disable-socket", "--allow-hosts=127.0.0.1"])
def test_offline_trials_run_where_sockets_are_forbidden(
    pytester: pytest.Pytester, workers: int, forbidding: str
) -> None:
    """The loop of trials wakes itself through a pair of sockets, which reaches nobody; the guard stays up."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.yaml": [task("a"), task("b"), task("c")]})
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/test_others.py": OTHERS})

    result = run(pytester, "evals", "-p", "pytest_socket", forbidding, workers=workers)

    result.assert_outcomes(passed=4, warnings=None)
