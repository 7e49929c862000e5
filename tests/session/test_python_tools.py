"""Python functions as tools: nothing that one of them does in a replay opens a socket."""

from __future__ import annotations

import pytest

from tests.suites import run, suite, task, write
from tests.tools.http.provider import playing

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

TOOLS = """
import http.client, socket, urllib.request

def by_urllib() -> str:
    return urllib.request.urlopen("{base}/now").read().decode()

def by_http_client() -> str:
    connection = http.client.HTTPConnection("{place}")
    connection.request("GET", "/now")
    return connection.getresponse().read().decode()

def by_socket() -> str:
    try:
        socket.create_connection(("{host}", {port}), timeout=1)
    except Exception:
        return "swallowed"
    return "open"

def alone() -> str:
    return "18"
"""


@pytest.mark.parametrize("tool", ["by_urllib", "by_http_client", "by_socket", "alone"])
def test_a_function_that_says_nothing_of_itself_reaches_nobody(pytester: pytest.Pytester, tool: str) -> None:
    """In mode none a request that was not recorded is a miss, by whatever means it is made."""
    with playing(lambda asked: (200, {"degrees": 18})) as provider:
        place = provider.base.removeprefix("http://")
        host, _, port = place.partition(":")
        text = TOOLS.format(base=provider.base, place=place, host=host, port=port)
        asking = task("t", script=[{"calls": [{"tool": tool, "args": {}}]}, {"text": "Mina"}])
        asking["settings"] = {"tools": [tool]}
        files = {"evals/suite.yaml": suite(more="tools: [tools.py]\n"), "evals/tools.py": text}
        write(pytester.path, {"pytest.ini": "[pytest]\n", **files, "evals/t.json": asking})

        result = run(pytester, "evals", "-q")

        assert provider.asked == []
    result.assert_outcomes(**({"passed": 1} if tool == "alone" else {"errors": 1}))
    if tool != "alone":
        result.stdout.fnmatch_lines(["*cassette_miss*", "! 1 of greetings's 1 call* not recorded"])
        way = "*record it:*taped=True*" if tool == "by_socket" else "*record it:*--agent-record*"
        result.stdout.fnmatch_lines([way])


def test_what_it_asks_by_a_library_that_is_known_is_recorded(pytester: pytest.Pytester) -> None:
    """Without a word in the file: the request, not the call, and it is played when nobody answers."""
    with playing(lambda asked: (200, {"degrees": 18})) as provider:
        text = TOOLS.format(base=provider.base, place="x", host="x", port=1)
        asking = task("t", script=[{"calls": [{"tool": "by_urllib", "args": {}}]}, {"text": "Mina"}])
        asking["settings"] = {"tools": ["by_urllib"]}
        files = {"evals/suite.yaml": suite(more="tools: [tools.py]\n"), "evals/tools.py": text}
        write(pytester.path, {"pytest.ini": "[pytest]\n", **files, "evals/t.json": asking})
        run(pytester, "evals", "-q", "--agent-record=once").assert_outcomes(passed=1)
    assert "/now" in (pytester.path / "cassettes" / "t.yaml").read_text(encoding="utf-8")
    run(pytester, "evals", "-q").assert_outcomes(passed=1)
