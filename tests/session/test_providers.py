"""Providers that put requests off, or are gone: what a run sends all the same, and how its trials end."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.graders.judge.judges import rubric_text
from tests.journals import latest_run
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.filterwarnings("ignore")

SUITE = "name: asked\nagent: tool_calling\nkind: regression\ndefaults: {model: first}\n"
FINE = ReplyPlan(text="Hello, Mina!", latency_s=0.05)


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


@pytest.mark.parametrize(
    ("refusal", "workers"),
    [(ReplyPlan(status=503), 0), (ReplyPlan(status=429), 2)],
    ids=["overloaded", "429-of-two-workers"],
)
def test_a_storm_ends_with_all_passed_and_few_requests(
    pytester: pytest.Pytester, refusal: ReplyPlan, workers: int
) -> None:
    """While nobody is answered one request tries it for all; nobody's seconds or attempts run out."""
    storm = Storm(30, 3.0, refusal)
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
    what = "429" if refusal.status == 429 else "overloaded"
    result.stdout.fnmatch_lines([f"first: {what} x {storm.refused}, limited to * at once"])
    assert not [*latest_run(pytester.path).folder.glob("rates-*")]


@pytest.fixture
def gone() -> Iterator[str]:
    """An address that refuses every connection for as long as the test lasts.

    The port is bound: one that is free is soon the server's of a test beside this one.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


def test_a_provider_that_is_not_there_is_found_once(pytester: pytest.Pytester, gone: str) -> None:
    """Who was on the way is errored; nothing more of that model begins, and all of the other's does."""
    with ModelServer([FINE]) as server:
        project(pytester.path, 30, {"first": gone, "second": server.openai_base})
        result = run(pytester, "evals", "--agent-model=first,second", "--agent-concurrency=4")

    ends = Counter((entry.key.model, entry.ending) for entry in latest_run(pytester.path).entries)
    assert ends["second", "passed"] == 30
    assert 1 <= ends["first", "errored"] <= 4
    held = 30 - ends["first", "errored"]
    result.stdout.fnmatch_lines(
        [f"! {held} of asked?first?'s 30 trials not run: first (openai/first): no reply*"]
    )
    result.stdout.fnmatch_lines(["first: not called any more"])


def test_a_wrong_key_is_found_with_one_round_of_requests(pytester: pytest.Pytester) -> None:
    """No waiting mends it: whatever was on the way is refused, and nobody asks again."""
    with ModelServer([ReplyPlan(status=401, latency_s=0.05)]) as server:
        project(pytester.path, 30, {"first": server.openai_base})
        run(pytester, "evals", "--agent-concurrency=4")
        sent = len(server.requests)

    assert sent == 4
    assert {entry.ending for entry in latest_run(pytester.path).entries} == {"errored"}


def test_no_agent_is_paid_for_what_no_judge_can_grade(pytester: pytest.Pytester, gone: str) -> None:
    """A judge's model that is not there is found by the first trials; those that need no judge go on."""
    with ModelServer([FINE]) as server:
        project(pytester.path, 6, {"first": server.openai_base, "second": gone})
        judge = {"name": "judge", "config": {"rubric": "tone.jinja"}}
        judged = [{**task(f"j{number:03}"), "graders": [judge]} for number in range(24)]
        write(pytester.path, {"evals/judged.json": judged, "evals/tone.jinja": rubric_text()})
        run(pytester, "evals", "--agent-judge=second", "--agent-concurrency=4")
        sent = len(server.requests)

    ends = Counter((entry.key.task[0], entry.ending) for entry in latest_run(pytester.path).entries)
    assert ends["t", "passed"] == 6
    assert 1 <= ends["j", "errored"] <= 8
    assert len(latest_run(pytester.path).not_run) == 24 - ends["j", "errored"]
    assert sent == 6 + ends["j", "errored"]
