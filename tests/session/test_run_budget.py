"""What a run may cost: ``--agent-max-cost``, ``--agent-max-tokens``, and prices of the user's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest

from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from tests.journals import finished, latest_run
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

PRICED = """
[tool.agenteval.models]
mine = {{id = "openai/mine-9", api_base = "{base}"}}
unknown = {{id = "openai/nobodys", api_base = "{base}"}}

[tool.agenteval.prices.mine]
input = 10
output = 0

[tool.agenteval.prices.mine-9]
input = 10
output = 0
"""
OWN_AGENT = """
import json, urllib.request

def ask(content, model):
    body = json.dumps({{"model": model, "messages": [{{"role": "user", "content": content}}]}}).encode()
    request = urllib.request.Request("{base}/chat/completions", body, {{"Content-Type": "application/json"}})
    reply = json.load(urllib.request.urlopen(request))
    return reply["choices"][0]["message"]["content"]

class Asking:
    model = "mine-9"

    def run(self, task_input, ctx):
        return ask(task_input["content"], self.model)

class AskingNobodys(Asking):
    model = "nobodys"

def pytest_agenteval_register(registry):
    registry.agent("asking", Asking)
    registry.agent("asking_nobodys", AskingNobodys)
"""
NUMBER = re.compile(r"number (\d+)")


def tokens_of(number: int) -> int:
    """Give how many tokens the task of a number takes: its price is 1 to 5 cents."""
    return 1000 * (1 + number * 7 % 5)


def reply(body: Mapping[str, Any], place: int) -> ReplyPlan:
    """Answer as dearly as the task's number says; a judge too."""
    found = NUMBER.search(json.dumps(body["messages"]))
    tokens = tokens_of(int(found[1])) if found else 1000
    return ReplyPlan("Hello, Mina!", input_tokens=tokens, output_tokens=0, latency_s=0.01)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A provider of which each reply costs something."""
    with ModelServer(reply) as serving:
        yield serving


def numbered(number: int, **more: Any) -> dict[str, Any]:
    """Give a task that the provider knows by its number."""
    said = {"content": f"Say hello to Mina, number {number}."}
    return task(f"t{number:02}", input=said, script=None, **more)


def project(pytester: pytest.Pytester, server: ModelServer, tasks: int, agent: str = "", **more: Any) -> None:
    """Write a suite of tasks with different prices."""
    base = server.openai_base
    write(
        pytester.path,
        {
            "pyproject.toml": PRICED.format(base=base),
            "conftest.py": OWN_AGENT.format(base=base),
            "evals/suite.yaml": suite(more=f"agent: {agent}\nlive: true\n" if agent else ""),
            "evals/tasks.yaml": [numbered(number, **more) for number in range(tasks)],
        },
    )


def paid_usd(stored: Run) -> float:
    """Give what all of a run's trials have cost."""
    return sum(entry.usage.cost_usd or 0.0 for entry in stored.entries)


@pytest.mark.parametrize(
    ("agent", "options", "workers"),
    [("", ["--agent-model=mine"], 0), ("asking", [], 2)],
    ids=["one process", "two workers"],
)
def test_a_budget_of_half_the_price_ends_within_one_trials_cost_of_it(
    pytester: pytest.Pytester, server: ModelServer, agent: str, options: list[str], workers: int
) -> None:
    """Neither far over nor far under, however many processes count; the rest is not run, with its reason."""
    spend_half(pytester, server, agent, *options, workers=workers)


def spend_half(
    pytester: pytest.Pytester, server: ModelServer, agent: str, *options: str, workers: int = 0
) -> None:
    """Run with half of what all trials cost, and look at what was spent."""
    project(pytester, server, 40, agent)
    allowed = sum(map(tokens_of, range(40))) / 1e5 / 2

    result = run(pytester, "evals", *options, f"--agent-max-cost={allowed}", workers=workers)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    stored = latest_run(pytester.path)
    assert abs(paid_usd(stored) - allowed) <= 0.05 + 1e-9
    assert len(server.requests) == len(stored.entries)
    assert len(stored.entries) + len(stored.not_run) == 40
    (reason,) = {trial.reason for trial in stored.not_run}
    spent = f"${paid_usd(stored):.2f}"
    assert reason in (f"the budget of $0.60 was spent ({spent})", "the budget of $0.60 was spent ($0.6000)")
    result.stdout.fnmatch_lines_random([f"*trials not run: {reason}", f"budget: {spent} of $0.60"])
    assert not list(stored.folder.glob("budget*"))


def test_tokens_are_a_budget_too_and_what_a_recording_plays_takes_none(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """Recorded within one budget, the same trials are played within one of a single token."""
    project(pytester, server, 6, "asking")

    options = ("--agent-record-chat=once", "--agent-concurrency=1")
    first = run(pytester, "evals", "--agent-max-tokens=8000", *options)
    assert first.ret == pytest.ExitCode.INTERRUPTED
    first.stdout.fnmatch_lines_random(
        ["*not run: the budget of 8,000 tokens was spent (9,000*", "budget: 9,000 tokens of 8,000 tokens"]
    )
    assert len(server.requests) == 3

    again = run(pytester, "evals", "-k", "t00 or t01 or t02", "--agent-max-tokens=1", *options)
    again.assert_outcomes(passed=3)
    again.stdout.fnmatch_lines_random(["budget: 0 tokens of 1 token"])
    assert len(server.requests) == 3


def test_a_player_without_an_llm_takes_nothing_of_a_budget(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """Its tokens cost nothing: all trials run, and the budget's line does not say that it was exceeded."""
    project(pytester, server, 3)

    result = run(pytester, "evals", "--agent-model=rules", "--agent-max-tokens=1")

    result.stdout.fnmatch_lines(["*3 of 3 trials*", "budget: 0 tokens of 1 token*"])


def test_a_model_without_a_price_is_refused_before_the_first_trial(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """With the way to say its price; without a budget of money it runs."""
    project(pytester, server, 1)

    result = run(pytester, "evals", "--agent-model=unknown", "--agent-max-cost=1")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = result.stderr.str()
    assert "--agent-max-cost: expected models whose price is known; found openai/nobodys" in told
    assert '[tool.agenteval.prices."openai/nobodys"]  input = …  output = …' in told
    assert server.requests == []
    assert run(pytester, "evals", "--agent-model=unknown").ret == pytest.ExitCode.OK


def test_nothing_more_begins_once_a_reply_has_no_price(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """Which model an agent of one's own asks only its replies tell: unknown is never counted as nothing."""
    project(pytester, server, 4, "asking_nobodys")

    result = run(pytester, "evals", "--agent-max-cost=1", "--agent-concurrency=1")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines_random(
        [
            "! 3 of greetings's 4 trials not run: the price of nobodys is unknown: set",
            "budget: $0 + unknown of $1",
        ]
    )
    assert len(server.requests) == 1


def test_a_run_that_goes_on_counts_what_it_had_paid(pytester: pytest.Pytester, server: ModelServer) -> None:
    """With the same budget nothing more is asked; with a greater one only what that leaves is spent."""
    project(pytester, server, 12, "asking")
    first = run(pytester, "evals", "--agent-max-cost=0.12", "--agent-concurrency=1")
    assert first.ret == pytest.ExitCode.INTERRUPTED
    asked, paid = len(server.requests), paid_usd(latest_run(pytester.path))

    same = run(pytester, "evals", "--agent-resume", "--agent-max-cost=0.12", "--agent-concurrency=1")

    assert len(server.requests) == asked
    same.stdout.fnmatch_lines_random([f"budget: ${paid:.2f} of $0.12"])
    more = run(pytester, "evals", "--agent-resume", "--agent-max-cost=0.24", "--agent-concurrency=1")
    stored = latest_run(pytester.path)
    assert abs(paid_usd(stored) - 0.24) <= 0.05 + 1e-9
    assert len(server.requests) == len(stored.entries)
    more.stdout.fnmatch_lines_random([f"budget: ${paid_usd(stored):.2f} of $0.24"])


IN_CODE = """
import pytest
from conftest import ask

@pytest.mark.agenteval(repetitions=2)
def test_marked(agenteval):
    with agenteval.record("hello", record_chat="all"):
        assert "Mina" in ask("number 4", "mine-9")

@pytest.mark.parametrize("number", range(3))
def test_run(agenteval, number):
    agenteval.run({"input": {"content": "hello"}}, agent=lambda content: ask("number 0", "mine-9"))
"""


def test_trials_of_code_count_and_are_held_back(pytester: pytest.Pytester, server: ModelServer) -> None:
    """A marked test costs 4 + 4 cents, what a test has run 1 cent each: of three only one fits."""
    project(pytester, server, 0)
    write(pytester.path, {"test_code.py": IN_CODE})

    result = run(
        pytester, "test_code.py", "--agent-live", "--agent-record=new_episodes", "--agent-max-cost=0.09"
    )

    assert len(server.requests) == 3
    result.stdout.fnmatch_lines_random(
        ["! 2 trials not run: the budget of $0.0900 was spent ($0.0900)", "*2 passed, 2 not run*"]
    )


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
