"""Prices of the user's own, in ``[tool.agenteval.prices]``."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

import pytest

from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.text.errors import UsageMistake
from tests.journals import finished
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

MINE = """
[tool.agenteval.models]
mine = {{id = "openai/mine-9", api_base = "{base}"}}

[tool.agenteval.prices."openai/mine-9"]
input = 10
output = 100
cached = 1
tiers = [{{above = 500, input = 20}}]
as_of = 2026-11-01
"""
OWN_AGENT = """
import json, urllib.request

def ask(task_input, ctx):
    body = json.dumps({{"model": "mine-9", "messages": [{{"role": "user", "content": "Hello"}}]}}).encode()
    request = urllib.request.Request("{base}/chat/completions", body, {{"Content-Type": "application/json"}})
    reply = json.load(urllib.request.urlopen(request))
    return reply["choices"][0]["message"]["content"]

class Asking:
    def run(self, task_input, ctx):
        return ask(task_input, ctx)

def pytest_agenteval_register(registry):
    registry.agent("asking", Asking)
"""
HELLO = "Hello, Mina!"


def test_a_price_of_the_users_own_holds_for_our_requests_and_an_agents(pytester: pytest.Pytester) -> None:
    """Tiers for the whole request, cached tokens at their own rate; run.json says where prices come from."""
    replies = [
        ReplyPlan(HELLO, input_tokens=400, cached_tokens=100, output_tokens=10),
        ReplyPlan(HELLO, input_tokens=600, cached_tokens=100, output_tokens=10),
    ]
    with ModelServer(replies) as server:
        base = server.openai_base
        write(
            pytester.path,
            {
                "pyproject.toml": MINE.format(base=base),
                "conftest.py": OWN_AGENT.format(base=base),
                "evals/ours/suite.yaml": suite(),
                "evals/ours/a.json": task("a", script=None),
                "evals/own/suite.yaml": suite("own", "agent: asking\n"),
                "evals/own/b.json": task("b"),
            },
        )
        run(pytester, "evals", "--agent-model=mine", "--agent-concurrency=1", "--agent-live")

    lines = finished(pytester.path)
    ours, own = lines["a"], lines["b"]
    assert ours["usage"]["cost_usd"] == pytest.approx(0.0003 * 10 + 0.0001 * 1 + 0.00001 * 100)
    assert own["usage"]["cost_usd"] == pytest.approx(0.0005 * 20 + 0.0001 * 1 + 0.00001 * 100)
    (folder,) = (pytester.path / ".agenteval" / "runs").glob("2*")
    prices = json.loads((folder / "run.json").read_text(encoding="utf-8"))["prices"]
    assert prices["own"] == {"openai/mine-9": "2026-11-01"}
    assert prices["table"].startswith("litellm 1.")


DOLLARS = "US dollars for a million tokens, 0 or more"
REFUSED = [
    (
        '[prices."openai/x"]|input = 1|output = 2|cahced = 3',
        "4: tool.agenteval.prices.openai/x.cahced|  expected: one of as_of, cache_write, cached, input, "
        "output, tiers|  found:    unknown key 'cahced'|  hint:     did you mean 'cached'?",
    ),
    ("[prices]|# mine|x = {input = 1}", f"3: *.x.output|  expected: {DOLLARS}|  found:    no key 'output'"),
    ("[prices.x]|input = 1|output = -2", f"3: *.x.output|  expected: {DOLLARS}|  found:    -2 (number)"),
    ("[prices.x]|input = inf|output = 2", f"2: *.x.input|  expected: {DOLLARS}|  found:    inf (number)"),
    ("[prices.x]|input = true|output = 2", f"2: *.x.input|  expected: {DOLLARS}|  found:    true*"),
    (
        "[prices.x]|input = 1|output = 2|tiers = [{input = 2}]",
        "4: *.x.tiers?0?.above|  expected: a whole number of tokens, 1 or more|  found:    no key 'above'",
    ),
    (
        "[prices.x]|input = 1|output = 2|tiers = 5",
        "4: *.x.tiers|  expected: a list of tables such as *|  found:    5*",
    ),
    (
        '[prices.x]|input = 1|output = 2|as_of = "last week"',
        "4: *.x.as_of|  expected: a date such as 2026-11-23|  found:    'last week' (text)",
    ),
    ("[prices.x]|input = -1|output = -2", "2: *.x.input|*|pyproject.toml:3: *.x.output|*"),
    ("[prices]|x = 5", "2: *.x|  expected: a map with input, output *|  found:    5 (number)"),
]


def test_what_is_no_price_is_refused_with_its_line(pytester: pytest.Pytester) -> None:
    """Before anything is asked, as a usage mistake that says what a price is."""
    for table, message in REFUSED:
        text = table.replace("[prices", "[tool.agenteval.prices").replace("|", "\n")
        write(pytester.path, {"pyproject.toml": text})
        with pytest.raises(UsageMistake) as refused:
            read_settings(pytester.parseconfig())
        expected = f"pyproject.toml:{message}".replace("|", "\n")
        assert fnmatchcase(str(refused.value), expected), str(refused.value)
