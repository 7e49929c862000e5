"""What nobody knows is never 0: tokens, cost and requests from a reply to every file that shows them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_agenteval.cli.main import main
from tests.journals import finished
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.reports.html.pages import Page
from tests.suites import import_multiprocessing, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")
import_multiprocessing()

AGENTS = """
from pytest_agenteval import Answer

class Telling:
    def run(self, task_input, ctx):
        said = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello, Mina!"}]
        return {"answer": "Hello, Mina!", "messages": said}

class Once(Telling):
    def run(self, task_input, ctx):
        usage = {"input_tokens": 70, "output_tokens": 5} if ctx.trial.repetition == 1 else None
        return {**super().run(task_input, ctx), "usage": usage}

class Twice:
    async def run(self, task_input, ctx):
        messages = [{"role": "user", "content": task_input["content"]}]
        for _ in range(2):
            reply = await ctx.chat.ask(messages)
            messages += [reply.message(), {"role": "user", "content": "again"}]
        return Answer(reply.text)

def pytest_agenteval_register(registry):
    registry.agent("telling", Telling)
    registry.agent("once", Once)
    registry.agent("twice", Twice)
"""
MODELS = """
[tool.agenteval.models]
mine = {{id = "openai/mine-9", api_base = "{base}"}}

[tool.agenteval.prices.mine]
input = 10
output = 0
"""
UNSEEN = "{command: [python3, speaker.py]}"
TAKEN = ("input_tokens", "output_tokens", "all_tokens", "cost_usd", "all_cost_usd")


def project(root: Path, agent: str, base: str = "") -> None:
    """Write a suite of one task for this agent."""
    write(
        root,
        {
            "pyproject.toml": MODELS.format(base=base),
            "conftest.py": AGENTS,
            "evals/speaker.py": "print('Hello, Mina!')",
            "evals/suite.yaml": suite(more=f"agent: {agent}\n"),
            "evals/tasks.yaml": [task("one")],
        },
    )


def written(root: Path, name: str, *more: str) -> str:
    """Have the run's report written as a file, and give its text."""
    results = root / ".agenteval" / "runs"
    assert main(["report", "latest", "--results", str(results), "-o", str(root / name), *more]) == 0
    return (root / name).read_text("utf-8")


def csv_row(root: Path) -> dict[str, str]:
    """Give the only trial's row in CSV."""
    (row,) = csv.DictReader(io.StringIO(written(root, "r.csv")))
    return row


def properties(path: Path) -> dict[str | None, str | None]:
    """Give all properties of a JUnit file."""
    return {each.get("name"): each.get("value") for each in ElementTree.parse(path).iter("property")}


@pytest.mark.parametrize("agent", ["telling", UNSEEN], ids=["messages", "command"])
def test_what_nobody_says_is_unknown_in_every_output(pytester: pytest.Pytester, agent: str) -> None:
    """Messages without usage, and a command that nobody saw ask: no output counts 0 of either."""
    project(pytester.path, agent)

    result = run(pytester, "evals", "--agent-model=own", "--junitxml=j.xml")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*  tokens unknown  cost unknown  turn p50/p95 unknown"])
    row = csv_row(pytester.path)
    assert [row[name] for name in (*TAKEN, "requests")] == [""] * 6
    document = json.loads(written(pytester.path, "r.json"))
    (trial,) = document["trials"]
    assert [trial[name] for name in (*TAKEN, "requests")] == [None] * 6
    spent = document["boards"][0]["rows"][0]["all"]["spent"]
    assert [spent[name] for name in ("tokens", "tokens_untold", "cost_usd", "unpriced")] == [None, 1, None, 1]
    written(pytester.path, "r.html")
    (row,) = Page(pytester.path / "r.html").index["trials"]
    assert (row["tokens"], row["usd"]) == (None, None)
    assert "tokens unknown" in written(pytester.path, "r.md")
    for junit in ("j.xml", "r.xml"):
        written(pytester.path, "r.xml")
        assert not [name for name in properties(pytester.path / junit) if "tokens" in name or "cost" in name]
    line = finished(pytester.path)["one"]
    assert (line["usage"]["in"], line["usage"]["cost_usd"]) == (None, None)


@pytest.mark.parametrize(("option", "amount"), [("--agent-max-cost", "1"), ("--agent-max-tokens", "1000")])
def test_a_budget_says_that_usage_is_missing_and_how_to_get_it(
    pytester: pytest.Pytester, option: str, amount: str
) -> None:
    """The price is known: what is missing is the count of tokens."""
    silent = ReplyPlan("Hello, Mina!", input_tokens=0, output_tokens=0)
    with ModelServer(lambda body, place: silent) as server:
        project(pytester.path, "twice", server.openai_base)
        tasks = [task(name) for name in ("one", "two")]
        write(pytester.path, {"evals/tasks.yaml": tasks})
        result = run(pytester, "evals", "--agent-model=mine", f"{option}={amount}", "--agent-concurrency=1")

    told = " ".join(result.stdout.str().split())
    assert f"mine returned no token usage, which {option} counts: request it in streams" in told
    assert "include_usage" in told
    assert "agenteval.prices" not in told
    assert "+ unknown of" in told
