"""Runs under pytest-socket, which takes sockets away from tests: offline trials need none."""

from __future__ import annotations

import pytest

from tests.cassettes.http.server import serving
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


@pytest.mark.parametrize(
    ("workers", "forbidding"),
    [(0, "--disable-socket"), (0, "--allow-hosts=127.0.0.1"), (2, "--disable-socket")],
)
def test_offline_trials_run_where_sockets_are_forbidden(
    pytester: pytest.Pytester, workers: int, forbidding: str
) -> None:
    """The loop of trials wakes itself through a pair of sockets, which reaches nobody; the guard stays up."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.yaml": [task("a"), task("b"), task("c")]})
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/test_others.py": OTHERS})

    result = run(pytester, "evals", "-p", "pytest_socket", forbidding, workers=workers)

    result.assert_outcomes(passed=4, warnings=None)


RAW = """
import http.client
import threading

first_is_over = threading.Event()

def pytest_runtest_logfinish():
    first_is_over.set()

class Raw:
    def run(self, task_input, ctx):
        if task_input["content"] != "t0":
            first_is_over.wait(20)
        connection = http.client.HTTPConnection("{place}")
        connection.request("GET", "/" + task_input["content"])
        return "Mina " + connection.getresponse().read().decode()

def pytest_agenteval_register(registry):
    registry.agent("raw", Raw)
"""


def test_what_a_replay_refuses_stays_refused(pytester: pytest.Pytester) -> None:
    """pytest-socket puts functions of sockets in place before each test, and Python's own back after it."""
    with serving() as server:
        raw = [task(f"t{n}", agent="raw", input={"content": f"t{n}"}) for n in range(3)]
        write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.yaml": raw, "pytest.ini": "[pytest]\n"})
        write(pytester.path, {"evals/conftest.py": RAW.format(place=server.base.removeprefix("http://"))})

        result = run(pytester, "evals", "-p", "pytest_socket", "--allow-hosts=127.0.0.1")

        assert server.asked == []
    result.assert_outcomes(errors=3)
