"""Providers that put requests off, or are gone: what a run sends all the same, and how its trials end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import import_litellm, run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.filterwarnings("ignore")

SUITE = "name: asked\nagent: tool_calling\nkind: regression\ndefaults: {model: first}\n"
FINE = ReplyPlan(text="Hello, Mina!", latency_s=0.05)


@pytest.fixture(scope="module", autouse=True)
def litellm() -> None:
    """Import it once for all runs of this module."""
    import_litellm()


@pytest.fixture(autouse=True)
def key(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the key that the models' tables name."""
    monkeypatch.setenv("SOME_KEY", "sk-some")


def project(root: Path, tasks: int, models: Mapping[str, str], more: str = "", **settings: Any) -> None:
    """Write so many tasks, and models at these addresses; ``settings`` are those of each."""
    said = "".join(f", {name} = {value}" for name, value in settings.items())
    table = "".join(
        f'{name} = {{id = "openai/{name}", api_base = "{base}", api_key_env = "SOME_KEY"{said}}}\n'
        for name, base in models.items()
    )
    write(root, {"pyproject.toml": f"[tool.agenteval]\n{more}\n[tool.agenteval.models]\n{table}"})
    write(root, {"evals/suite.yaml": SUITE, "evals/tasks.json": [task(f"t{n:03}") for n in range(tasks)]})


class Storm:
    """Answers for a while, then puts every request off for so many seconds, then answers again."""

    def __init__(self, after: int, seconds: float, refusal: ReplyPlan) -> None:
        self.after, self.seconds, self.refusal = after, seconds, refusal
        self.began = 0.0
        self.refused = 0

    def __call__(self, body: Any, number: int) -> ReplyPlan:
        """Answer one request."""
        now = time.monotonic()
        if number >= self.after and not self.began:
            self.began = now
        if self.began and now - self.began < self.seconds:
            self.refused += 1
            return self.refusal
        return FINE


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("refusal", [ReplyPlan(status=429), ReplyPlan(status=503)], ids=["429", "overloaded"])
def test_a_storm_ends_with_all_passed_and_few_requests(
    pytester: pytest.Pytester, refusal: ReplyPlan, workers: int
) -> None:
    """While nobody is answered one request tries it for all; nobody's seconds or attempts run out."""
    storm = Storm(30, 4.0, refusal)
    with ModelServer(storm) as server:
        project(pytester.path, 80, {"first": server.openai_base}, requests_at_start=20)
        result = run(
            pytester,
            "evals",
            "--agent-timeout=2",
            f"--agent-concurrency={20 // (workers or 1)}",
            workers=workers,
        )
        sent = len(server.requests)

    result.assert_outcomes(passed=80)
    assert storm.refused > 0
    assert sent <= 1.5 * 80
