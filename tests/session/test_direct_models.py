"""Runs that ask real models directly: without litellm, and told in the header and in the run's record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick", "forked")

GUARD = """
import os
import sys
from pathlib import Path

def pytest_unconfigure(config):
    found = [name for name in sys.modules if name.partition(".")[0] == "litellm"]
    Path(__file__).with_name(f"{os.getpid()}.imported").write_text(str(len(found)))
"""
TASK: dict[str, Any] = {
    "id": "add",
    "input": {"content": "What is 1 + 2?"},
    "graders": [{"name": "answer_contains", "config": {"text": "3"}}],
}
SUITE = "name: sums\nkind: capability\nagent: tool_calling\n"
HEADER = "run.json"


def asked(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *options: str) -> pytest.RunResult:
    """Ask the shipped aliases' models, at the address and with the key that the environment names."""
    tables = '[tool.agenteval.models]\nslow = {id = "gpt", via = "litellm"}\n'
    write(
        pytester.path,
        {
            "pyproject.toml": tables,
            "conftest.py": GUARD,
            "evals/suite.yaml": SUITE,
            "evals/add.json": TASK,
        },
    )
    with ModelServer([ReplyPlan(text="It is 3.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_base)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_base)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, "sk-of-the-test")
        result = pytester.runpytest_subprocess("evals", "-s", *options)
        sent = [request.headers for request in server.requests]
    keys = {headers.get("authorization") or headers.get("x-api-key") for headers in sent}
    assert keys <= {"Bearer sk-of-the-test", "sk-of-the-test"}
    return result


def litellm_modules(pytester: pytest.Pytester) -> list[bool]:
    """Say of each process of the run whether it has imported any of litellm's modules."""
    return [path.read_text() != "0" for path in pytester.path.glob("*.imported")]


def record_of(pytester: pytest.Pytester) -> list[tuple[str, str]]:
    """Give the models of the latest run, each with the way in which it was asked."""
    latest: Path = pytester.path / ".agenteval" / "runs" / "latest" / HEADER
    models = json.loads(latest.read_text(encoding="utf-8"))["models"]
    return [(model["name"], model["via"]) for model in models]


@pytest.mark.parametrize(
    ("workers", "processes"),
    [((), 1), (("-p", "xdist.plugin", "-n1"), 2)],
    ids=["one-process", "one-worker"],
)
def test_a_run_of_shipped_models_never_imports_litellm(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...], processes: int
) -> None:
    """Prices, keys and replies are there all the same; header and record say how the models were asked.

    The process from which tests fork has imported all of ours, and nothing of litellm.
    """
    result = asked(pytester, monkeypatch, "--agent-model=gpt,claude", *workers)

    result.assert_outcomes(passed=2)
    if not workers:  # whose own collection says it
        told = "*gpt (openai/gpt-6.1-sol, direct), claude (anthropic/claude-sonnet-5-5, direct)*"
        result.stdout.fnmatch_lines([told])
    assert litellm_modules(pytester) == [False] * processes
    result.stdout.no_fnmatch_line("*cost unknown*")
    assert record_of(pytester) == [("gpt", "direct"), ("claude", "direct")]


def test_an_address_that_cannot_be_asked_is_refused_before_any_trial(pytester: pytest.Pytester) -> None:
    """Each model's problem is told at once, in words."""
    tables = (
        "[tool.agenteval.models]\n"
        'bare = {id = "openai/m", api_base = "127.0.0.1:8000/v1"}\n'
        'nameless = {id = "openai/", api_base = "http://127.0.0.1:8000/v1"}\n'
    )
    write(pytester.path, {"pyproject.toml": tables, "evals/suite.yaml": SUITE, "evals/add.json": TASK})

    result = pytester.runpytest("evals", "--agent-model=bare,nameless")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*--agent-model bare: expected an address that begins with http:// or https:// and a host; "
            "found '127.0.0.1:8000/v1'*",
            "*--agent-model nameless: 'openai/' names no model*",
        ]
    )
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
