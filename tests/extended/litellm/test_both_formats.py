"""What holds for models asked directly holds through litellm, in both wire formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.records.plan import Via
from tests.chat import test_asking, test_broken_installs, test_odd_replies, test_retries, test_streaming

# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")
WAYS: tuple[tuple[str, Via], ...] = (("openai", "litellm"), ("anthropic", "litellm"))

for module in (test_asking, test_odd_replies, test_retries, test_streaming):
    room = module.__name__.rpartition(".test_")[2]
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    globals().update({f"{name}_{room}": test for name, test in tests.items()})


def test_a_release_of_mcp_that_does_not_fit_is_named_at_once(tmp_path: Path) -> None:
    """litellm imports it once tools are passed: nothing is sent, and the versions to install are named."""
    broken = "raise ImportError(\"cannot import name 'CacheableResult' from 'mcp.types'\")"
    test_broken_installs.check_broken_import(tmp_path, "mcp", broken, "CacheableResult")
