"""A real judge behind a calibration: asked through litellm on loopback, then played from its cassette."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.calibration.judges import figures, found_in, project, rows
from tests.loopback.model_server import ModelServer, ReplyPlan

WORTH = re.compile(r"order ([\d.]+) tone ([\d.]+)")


def _reply(body: Any, number: int) -> ReplyPlan:
    """Answer as the output is worth."""
    found = WORTH.search(json.dumps(body))
    assert found is not None
    order, tone = (4 * float(part) for part in found.groups())
    return ReplyPlan(text=json.dumps({"order": order, "tone": tone, "rationale": "so it is"}))


def _pytest(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "evals", "--agent-judge=here", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)


def test_a_recorded_calibration_needs_no_judge(tmp_path: Path) -> None:
    """Asked once for each example and repetition, few at once; replayed, the same comes without a server."""
    project(tmp_path, "repeats: 2\nthresholds: {spearman: 0.99}\n", rows(10))
    with ModelServer(_reply, latency_s=0.05) as server:
        alias = (
            f'here = {{id = "openai/gpt-4o-mini", api_base = "{server.openai_base}", request_seconds = 5}}'
        )
        (tmp_path / "pyproject.toml").write_text(f"[tool.agenteval.models]\n{alias}\n")
        live = _pytest(tmp_path, "--agent-record-chat=once", "--agent-concurrency=3")
        assert live.returncode == 0, live.stdout + live.stderr
        assert len(server.requests) == 20
        assert 1 < server.peak_in_flight <= 3
    recorded = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("cassettes/**/*.yaml"))
    assert recorded == [f"cassettes/calibration/tidy.chat/labels-{number}.yaml" for number in (1, 2)]
    first = found_in(tmp_path)
    next(tmp_path.glob(".agenteval/runs/2*")).rename(tmp_path / "first")

    replayed = _pytest(tmp_path, "--agent-record-chat=none", "-n2")

    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    again = found_in(tmp_path)
    assert again["measured"] == first["measured"]
    assert again["examples"] == first["examples"]
    assert figures(again, "here", "order")["spearman"]["value"] > 0.99
    assert "judge here (openai/gpt-4o-mini)" in replayed.stdout


def test_a_provider_that_is_down_is_an_error(tmp_path: Path) -> None:
    """After the retries the item is errored with what the provider said, and no figure is written."""
    project(tmp_path, "", rows(3))
    with ModelServer(lambda body, number: ReplyPlan(status=401)) as server:
        alias = (
            f'here = {{id = "openai/gpt-4o-mini", api_base = "{server.openai_base}", request_seconds = 5}}'
        )
        (tmp_path / "pyproject.toml").write_text(f"[tool.agenteval.models]\n{alias}\n")
        done = _pytest(tmp_path)
    assert done.returncode == 1
    assert "1 error" in done.stdout
    assert "provider: here (openai/gpt-4o-mini): no reply after 1 attempt" in done.stdout
    assert "Traceback" not in done.stdout
    assert not list(tmp_path.glob(".agenteval/runs/*/calibration-*"))
