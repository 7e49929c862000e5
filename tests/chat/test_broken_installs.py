"""Libraries of versions that do not fit: told at once, with what to install, and no provider is blamed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

from pytest_agenteval.chat.provider_failures import import_failure
from tests.loopback.model_server import ModelServer, ReplyPlan

SCRIPT = """
import asyncio, sys
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.chat.rate_limiter import RateLimiters, limiter_of
from pytest_agenteval.chat.retries import RetryingChat
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec

budget = Budget(Allowance())
recorder = Recorder(lambda: budget.at)
model = Model("m", "openai/gpt-4o-mini", params={"api_base": sys.argv[1]})
limiter = limiter_of(RateLimiters(), model, {})
chat = RetryingChat(LitellmChat(model), budget=budget, recorder=recorder, limiter=limiter)
tool = ToolSpec("add", "adds", {"type": "object", "properties": {}})
try:
    asyncio.run(chat.ask([{"role": "user", "content": "hi"}], tools=[tool]))
except Exception as raised:
    print(type(raised).__name__, getattr(raised, "cause", ""), raised)
print("retries", len(recorder.transcript().events))
"""


def test_an_import_that_fails_is_named_at_once(tmp_path: Path) -> None:
    """Nothing is sent, nothing is tried again, and the versions to install are named."""
    check_broken_import(tmp_path, "litellm", "raise ImportError('torn')", "torn")


def check_broken_import(tmp_path: Path, module: str, broken: str, word: str) -> None:
    """Ask where importing a module fails."""
    package = tmp_path / module
    package.mkdir()
    (package / "__init__.py").write_text(broken, encoding="utf-8")
    with ModelServer([ReplyPlan(text="hello")]) as server:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, server.openai_base],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        sent = len(server.requests)
    output = done.stdout
    assert output.startswith("NotInstalled not_installed "), output + done.stderr
    assert "pip install" in output
    needs = [need for need in requires("pytest-agenteval") or () if "extra ==" not in need]
    expected = [need for need in needs if need.startswith(("mcp", "litellm"))]
    assert len(expected) == 2
    assert all(f"'{need}'" in output for need in expected)
    assert (word in output, "retries 0" in output, sent) == (True, True, 0)


def test_an_import_that_failed_within_a_request_is_one_too() -> None:
    """litellm wraps whatever is raised while it sends; what it was raised for is looked for."""
    try:
        try:
            raise ImportError("cannot import name 'X'")
        except ImportError as inner:
            raise RuntimeError("litellm.APIConnectionError: ...") from inner
    except RuntimeError as raised:
        found = import_failure(raised)
    assert found is not None
    assert "cannot import name 'X'" in str(found)
    assert import_failure(RuntimeError("connection refused")) is None
