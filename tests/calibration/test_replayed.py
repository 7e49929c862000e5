"""A real judge behind a calibration: asked through litellm on loopback, then played from its cassette."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.calibration.judges import figures, found_in, project, rows
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run

pytest_plugins = ["pytester"]
# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")

WORTH = re.compile(r"order ([\d.]+) tone ([\d.]+)")


def _reply(body: Any, number: int) -> ReplyPlan:
    """Answer as the output is worth."""
    found = WORTH.search(json.dumps(body))
    assert found is not None
    order, tone = (4 * float(part) for part in found.groups())
    return ReplyPlan(text=json.dumps({"order": order, "tone": tone, "rationale": "so it is"}))


ASKED = ("evals", "--agent-judge=here")


def test_a_recorded_calibration_needs_no_judge(letters: pytest.Pytester) -> None:
    """Asked once for each example and repetition, few at once; replayed, the same comes without a server."""
    root = letters.path
    project(root, "repeats: 2\nthresholds: {spearman: 0.99}\n", rows(10))
    with ModelServer(_reply, latency_s=0.05) as server:
        alias = (
            f'here = {{id = "openai/gpt-4o-mini", api_base = "{server.openai_base}", request_seconds = 60}}'
        )
        (root / "pyproject.toml").write_text(f"[tool.agenteval.models]\n{alias}\n")
        live = run(letters, *ASKED, "--agent-record-chat=once", "--agent-concurrency=3")
        assert live.ret == 0, live.stdout.str()
        assert len(server.requests) == 20
        assert 1 < server.peak_in_flight <= 3
    recorded = sorted(path.relative_to(root).as_posix() for path in root.glob("cassettes/**/*.yaml"))
    assert recorded == [f"cassettes/calibration/tidy.chat/labels-{number}.yaml" for number in (1, 2)]
    first = found_in(root)
    next(root.glob(".agenteval/runs/2*")).rename(root / "first")

    replayed = run(letters, *ASKED, "--agent-record-chat=none")

    assert replayed.ret == 0, replayed.stdout.str()
    again = found_in(root)
    assert again["measured"] == first["measured"]
    assert again["examples"] == first["examples"]
    assert figures(again, "here", "order")["spearman"]["value"] > 0.99
    assert "judge here (openai/gpt-4o-mini)" in replayed.stdout.str()


def test_a_provider_that_is_down_is_an_error(letters: pytest.Pytester) -> None:
    """After the retries the item is errored with what the provider said, and no figure is written."""
    root = letters.path
    project(root, "", rows(3))
    with ModelServer(lambda body, number: ReplyPlan(status=401)) as server:
        alias = (
            f'here = {{id = "openai/gpt-4o-mini", api_base = "{server.openai_base}", request_seconds = 60}}'
        )
        (root / "pyproject.toml").write_text(f"[tool.agenteval.models]\n{alias}\n")
        done = run(letters, *ASKED)
    assert done.ret == 1
    assert "1 error" in done.stdout.str()
    assert "provider: here (openai/gpt-4o-mini): no reply after 1 attempt" in done.stdout.str()
    assert "Traceback" not in done.stdout.str()
    assert not list(root.glob(".agenteval/runs/*/calibration-*"))
