"""OpenAI's own client, held for good by a module, asks for many trials side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.cassettes.http.patches import remove
from pytest_agenteval.records.plan import Conditions
from tests.engine.executing import execute, plan, registry
from tests.loopback.model_server import ModelServer, ReplyPlan

TRIALS = 8


@pytest.fixture
def provider() -> Iterator[ModelServer]:
    """A provider that says hello, slowly enough for all to be under way at once."""
    with ModelServer([ReplyPlan(text="Hello, Mina!")] * (2 * TRIALS), latency_s=0.05) as server:
        yield server
    remove()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_of_a_module_serves_eight_trials_side_by_side(provider: ModelServer, streamed: bool) -> None:
    """Each on its own loop; what is streamed comes in parts, and is seen in the transcript like the rest."""
    openai = pytest.importorskip("openai")
    client = openai.AsyncOpenAI(base_url=provider.openai_base, api_key="x", max_retries=0)

    async def mine(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        reply = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": task_input["content"]}], stream=streamed
        )
        if not streamed:
            return str(reply.choices[0].message.content)
        pieces: list[str] = [part.choices[0].delta.content or "" async for part in reply if part.choices]
        assert len(pieces) > 1
        return "".join(pieces)

    known = registry()
    known.agent("mine", mine)
    live = Conditions(live=True)
    trials = execute(known, *(plan(f"t{n}", agent="mine", conditions=live) for n in range(TRIALS)))

    assert [trial.message for trial in trials if trial.ending != "passed"] == []
    assert {trial.outcome.answer.text for trial in trials} == {"Hello, Mina!"}
    assert [trial.transcript.usage.asks for trial in trials] == [1] * TRIALS
