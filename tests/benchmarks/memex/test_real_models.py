"""Real models behind ``--agent-model``: both wire formats, over HTTP on loopback, through litellm."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.run_reader import load_run
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run

pytest_plugins = ["pytester"]
# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")

FACT = "2026/09/17.md#ts_1"
METRIC = {"template_id": "metric", "data": {"items": [{"title": "Sleep", "value": 6.5}]}}
SAVE = {"fact_id": FACT, "title": "Sleep", "ui_configs": [METRIC]}
GOOD = ReplyPlan(calls=(("save_timeline_card", SAVE),), input_tokens=1000, output_tokens=100)
LOOK = ("get_card_metadata", {})
SOON = ReplyPlan(status=503, headers={"Retry-After": "0.05"})
"""Asks to be tried again at once: of the waits between hung requests only the shortest is waited."""

REPLIES: Mapping[str, tuple[ReplyPlan, ...]] = {
    "parallel": (ReplyPlan(calls=(LOOK, LOOK), input_tokens=500, output_tokens=20), GOOD),
    "broken": (ReplyPlan(status=500), GOOD),
    "hanging": (ReplyPlan(hang_s=30), SOON, SOON, ReplyPlan(hang_s=30)),
    "malformed": (ReplyPlan(calls=(("save_timeline_card", '{"fact_id": '),)), GOOD),
    "not_a_number": (
        ReplyPlan(
            calls=(("save_timeline_card", '{"fact_id": NaN}'), LOOK), input_tokens=500, output_tokens=20
        ),
        GOOD,
    ),
    "endless": (ReplyPlan(calls=(("save_timeline_card", '{"fact_id": 1e999}'),), input_tokens=-500), GOOD),
    "busy": (ReplyPlan(status=429, headers={"Retry-After": "0.4"}), GOOD),
}
"""What the server answers to each task, request by request; the last answer repeats."""

IDS = {"openai": "openai/gpt-4o-mini", "anthropic": "anthropic/claude-haiku-4-5"}


class Play:
    """A server's part in one run: every task is answered by its own list of replies."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def reply(self, body: Any, number: int) -> ReplyPlan:
        """Answer a request by the task that stands in its text."""
        text = json.dumps(body)
        task = next(name for name in REPLIES if f"case {name}" in text)
        replies = REPLIES[task]
        plan = replies[min(self.asked[task], len(replies) - 1)]
        self.asked[task] += 1
        return plan


def _write(root: Path, tasks: Iterable[str], **servers: ModelServer) -> None:
    """Write card tasks in a suite that counts a miss as a failure, and two aliases of each wire's server."""
    for name in tasks:
        folder = root / "evals" / name
        facts = folder / "workspace/Facts/2026/09"
        facts.mkdir(parents=True)
        content = f"Slept 6.5 hours (case {name})."
        (facts / "17.md").write_text(f'## <id:ts_1> 09:00:00 "{{}}"\n\n{content}\n')
        choice = {"name": "card_template_choice", "config": {"expected_template_ids": ["metric"]}}
        task = {"id": name, "input": {"fact_id": FACT, "content": content}}
        (folder / "task.json").write_text(
            json.dumps({**task, "graders": [{"name": "card_completion"}, choice]})
        )
    suite = "name: cards\nagent: card\nkind: regression\ndefaults: {clock: '2026-09-17T20:30:00+00:00'}\n"
    (root / "evals/suite.yaml").write_text(suite)
    aliases = []
    for wire, server in servers.items():
        base = server.openai_base if wire == "openai" else server.anthropic_base
        common = f'id = "{IDS[wire]}", api_base = "{base}"'
        aliases += [f"{wire} = {{{common}, request_seconds = 60}}"]
        aliases += [f"hurried_{wire} = {{{common}, request_seconds = 0.4}}"]
    (root / "pyproject.toml").write_text("\n".join(["[tool.agenteval.models]", *aliases, ""]))


def _trials(root: Path) -> dict[tuple[str, str], Trial]:
    stored = load_run((root / ".agenteval/runs/latest").resolve())
    return {(entry.key.model, entry.key.task): stored.trial(entry) for entry in stored.entries}


@pytest.fixture(scope="module")
def shared_trials() -> dict[tuple[str, str], Trial]:
    """What was tried already, by model and task."""
    return {}


@pytest.fixture
def project(shared_trials: object, quick: None, pytester: pytest.Pytester) -> pytest.Pytester:
    """Where runs know no plugin but this one, and share an imported litellm."""
    return pytester


@pytest.fixture(params=["openai", "anthropic"])
def trials(
    request: pytest.FixtureRequest, project: pytest.Pytester, shared_trials: dict[tuple[str, str], Trial]
) -> dict[str, Trial]:
    """Every task, tried once with a model behind this wire format; requests are counted here.

    A provider that hangs is asked by a model that waits for it less long than a busy machine may need.
    """
    if not shared_trials:
        shared_trials |= _run_trials(project)
    wire = request.param
    hung = shared_trials[f"hurried_{wire}", "hanging"]
    return {task: shared_trials[wire, task] for task in REPLIES if task != "hanging"} | {"hanging": hung}


def _run_trials(project: pytest.Pytester) -> dict[tuple[str, str], Trial]:
    plays = {wire: Play() for wire in IDS}
    with ExitStack() as servers:
        opened = {
            wire: servers.enter_context(ModelServer(replies=play.reply)) for wire, play in plays.items()
        }
        _write(project.path, REPLIES, **opened)
        models = ",".join([*IDS, *(f"hurried_{wire}" for wire in IDS)])
        options = ("-v", "--agent-concurrency=4", f"--agent-model={models}")
        done = run(project, "evals", *options, "-k", "(hanging and hurried) or not (hanging or hurried)")
    assert done.ret == 1, done.stdout.str()
    assert "Traceback" not in done.stdout.str()
    found = _trials(project.path)
    for wire, play in plays.items():
        for task in ("parallel", "broken", "busy"):
            assert found[wire, task].usage.attempts == play.asked[task]
    return found


def test_a_card_is_made_by_a_model_over_http(trials: dict[str, Trial]) -> None:
    """Parallel calls, their results, usage and cost of both providers come through; the card is graded."""
    trial = trials["parallel"]
    assert trial.ending == "passed"
    assert [call.tool for call in trial.transcript.calls] == ["get_card_metadata"] * 2 + [
        "save_timeline_card"
    ]
    assert [call.turn for call in trial.transcript.calls] == [1, 1, 2]
    assert (trial.usage.input_tokens, trial.usage.output_tokens) == (1500, 120)
    assert trial.usage.cost_usd is not None
    assert 0 < trial.usage.cost_usd < 0.05


def test_a_busy_provider_is_asked_again_when_it_says(trials: dict[str, Trial]) -> None:
    """A 429 is waited out as long as it says; the wait is neither the agent's time nor the reply's."""
    trial = trials["busy"]
    assert trial.ending == "passed"
    assert (trial.usage.attempts, trial.usage.asks) == (2, 1)
    (ask,) = trial.transcript.asks
    assert ask.started >= 0.4
    assert trial.seconds < ask.started


def test_a_broken_provider_is_asked_again(trials: dict[str, Trial]) -> None:
    """A 500 is tried again, and the transcript says so."""
    trial = trials["broken"]
    assert trial.ending == "passed"
    assert trial.usage.attempts == 2
    kinds = [event.kind for event in trial.transcript.events]
    assert [kind for kind in kinds if kind != "prompt_read"] == ["chat_retry"]


def test_a_provider_that_hangs_is_an_error_of_its_own(trials: dict[str, Trial]) -> None:
    """Requests that time out again and again err the trial, which is neither limited nor a miss."""
    trial = trials["hanging"]
    assert (trial.ending, trial.cause, trial.limit, trial.score) == ("errored", "provider", "", None)
    # The second time that it is put off counts where somebody else had a reply meanwhile.
    assert [event.kind for event in trial.transcript.events].count("chat_retry") in (4, 5)


def test_malformed_arguments_are_told_to_the_model(trials: dict[str, Trial]) -> None:
    """Arguments that are no JSON object come back to the model as an error, and it can mend them."""
    trial = trials["malformed"]
    first, second = trial.transcript.calls
    assert first.error is not None
    assert second.error is None
    assert trial.ending == "passed"


@pytest.mark.parametrize("task", ["not_a_number", "endless"])
def test_numbers_that_json_does_not_know_are_the_models_mistake(trials: dict[str, Trial], task: str) -> None:
    """NaN and 1e999 as arguments are a failed call that the model is told of, and the trial goes on."""
    trial = trials[task]
    wrong, *_, right = trial.transcript.calls
    assert wrong.error is not None
    assert wrong.error.type == "bad_arguments"
    assert (
        "NaN is no number" in wrong.error.message
        or "too large" in wrong.error.message
        or ("Infinity is no number" in wrong.error.message)
    )
    assert wrong.raw_args
    assert right.error is None
    assert trial.ending == "passed"


def test_tokens_of_a_reply_with_a_mistake_are_counted_and_those_that_cannot_be_are_not(
    trials: dict[str, Trial],
) -> None:
    """A failed call took its tokens all the same; a count below 0 is unknown, beside those that are known."""
    assert trials["not_a_number"].usage.tokens == 500 + 20 + 1000 + 100
    assert (trials["endless"].usage.tokens, trials["endless"].usage.known_tokens) == (None, 1000 + 100)
    assert trials["endless"].usage.cost_usd is None


def test_a_recorded_chat_is_played_with_nobody_to_ask(project: pytest.Pytester) -> None:
    """What was recorded gives the same trial with nobody there; what was not says how to record it."""
    usual = ("evals", "--agent-model=openai")
    with ModelServer(replies=[GOOD]) as server:
        _write(project.path, ["parallel"], openai=server)
        recorded = run(project, *usual, "--agent-record-chat=once")
    assert recorded.ret == 0, recorded.stdout.str()
    played = run(project, *usual, "--agent-record-chat=none", "-v")
    assert played.ret == 0, played.stdout.str()
    assert "cassettes for chats: 1 hit" in played.stdout.str()
    missed = run(project, *usual, "--agent-record-chat=none", "--repetitions=2", "-k", "openai-2")
    assert missed.ret == 1
    assert "--agent-record-chat=new_episodes" in missed.stdout.str()
