"""The retry layer: what is tried again, who pays for the time, and what is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_agenteval.chat.chat import ChatMessage, ProviderChat, Reply, Send
from pytest_agenteval.chat.rate_limiter import RateLimiters
from pytest_agenteval.chat.rate_shares import RateLimits
from pytest_agenteval.chat.recording_chat import AgentChat
from pytest_agenteval.chat.retries import RetryingChat
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.errors import ProviderDown

from .bench import QUESTION, Bench, ModelServer, ReplyPlan

pytestmark = pytest.mark.filterwarnings("ignore")

WAYS = (("openai", "direct"),)
"""What is tried again depends on the failure, and no more on who asked."""
OK = ReplyPlan(text="ok")


def test_retry_after_is_waited_counted_and_forgiven(bench: Bench) -> None:
    """What the provider asks for is waited; the trial pays for neither the failed attempt nor the wait."""
    with ModelServer([ReplyPlan(status=429, headers={"Retry-After": "0.3"}), OK]) as server:
        reply = bench.ask(bench.retrying(bench.chat(server)))

    (event,) = bench.recorder.transcript().events
    assert (reply.text, reply.usage.attempts, reply.usage.asks) == ("ok", 2, 1)
    assert server.requests[1].received_at - server.requests[0].received_at >= 0.3
    assert bench.budget.seconds > 0
    assert bench.budget.at - bench.budget.seconds >= 0.3
    assert (event.kind, event.details["status"], event.details["cause"]) == ("chat_retry", 429, "rate_limit")
    assert event.text.startswith("attempt 1 of 4: 429 rate_limit: ")


def test_a_server_error_passes(bench: Bench) -> None:
    """One failure is no reason to give up."""
    with ModelServer([ReplyPlan(status=500), OK]) as server:
        assert bench.ask(bench.retrying(bench.chat(server))).usage.attempts == 2


def test_a_provider_that_stays_down_is_said_in_one_line(bench: Bench) -> None:
    """After the last attempt the text names the model, the attempts, the last error and what to do."""
    with ModelServer([ReplyPlan(status=500)]) as server, pytest.raises(ProviderDown) as caught:
        bench.ask(bench.retrying(bench.chat(server)))

    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(
        f"model-a ({bench.model(server).id}): no reply after 4 attempts; last error: 500 provider: "
    )
    assert message.endswith("; try again later")
    assert [event.details["attempt"] for event in bench.recorder.transcript().events] == [1, 2, 3, 4]
    assert (len(server.requests), len(bench.slept)) == (4, 3)


def test_waits_double_and_are_the_same_for_the_same_seed(bench: Bench) -> None:
    """Jitter is drawn from the seed, so that a run can be repeated."""
    waits = []
    with ModelServer([ReplyPlan(status=500)]) as server:
        for seed in (7, 7, 8):
            bench.slept.clear()
            bench.limiters = RateLimiters()  # the model's circuit stays open
            with pytest.raises(ProviderDown):
                bench.ask(bench.retrying(bench.chat(server), seed=seed))
            waits.append(tuple(bench.slept))

    assert waits[0] == waits[1] != waits[2]
    assert all(0.5 * least <= wait <= least for least, wait in zip((0.01, 0.02, 0.04), waits[0], strict=True))


def test_a_wait_is_never_longer_than_the_cap(bench: Bench) -> None:
    """A server that fails, and asks for an hour, gets no more than the cap."""
    with ModelServer([ReplyPlan(status=500, headers={"Retry-After": "3600"}), OK]) as server:
        bench.ask(bench.retrying(bench.chat(server), longest_wait_s=0.05))

    assert 0.05 <= bench.slept[0] <= 0.056


@pytest.mark.parametrize("status", [400, 401, 404])
def test_what_cannot_pass_is_not_tried_again(bench: Bench, status: int) -> None:
    """A wrong key, model or request stays wrong."""
    with (
        ModelServer([ReplyPlan(status=status)]) as server,
        pytest.raises(ProviderDown, match="after 1 attempt;"),
    ):
        bench.ask(bench.retrying(bench.chat(server)))

    assert (len(server.requests), bench.slept) == (1, [])


def test_a_provider_that_hangs_is_down_not_the_trial_limited(bench: Bench) -> None:
    """No deadline of the trial falls into requests that time out, nor into the waits between them."""
    budget = bench.begin(Allowance(seconds=0.1))
    with ModelServer([ReplyPlan(hang_s=30)]) as server:
        chat = bench.retrying(bench.chat(server, request_seconds=0.15), attempts=2)

        async def within_the_limit() -> None:
            await AgentChat(chat, recorder=bench.recorder, budget=budget).ask(QUESTION)

        with pytest.raises(ProviderDown, match="timeout"):
            bench.loop.run(within_the_limit())

    assert isinstance(bench.recorder.broken, ProviderDown)
    assert (budget.seconds_left or 0) > 0


def test_a_slow_reply_is_the_trials_own_time(bench: Bench) -> None:
    """Time that led to a reply counts, so that the deadline strikes once the reply is there."""
    with ModelServer([ReplyPlan(text="ok", latency_s=0.3)]) as server:
        bench.ask(bench.retrying(bench.chat(server)))

    assert bench.budget.seconds >= 0.3


def test_the_request_that_brought_the_reply_is_what_a_reply_took(bench: Bench) -> None:
    """What came before it, a failed attempt and a wait here, is no part of the reply's own time."""
    with ModelServer([ReplyPlan(status=429, headers={"Retry-After": "0.4"}), OK]) as server:
        chat = AgentChat(bench.retrying(bench.chat(server)), recorder=bench.recorder, budget=bench.begin())
        bench.ask(chat)
        took = bench.budget.at

    (ask,) = bench.recorder.transcript().asks
    assert ask.started >= 0.4
    assert ask.ended - ask.started <= took - 0.4


@dataclass
class Cumbersome(ProviderChat):
    """A model that takes its time to get ready, longer where tools are passed, and answers at once."""

    model: Model = Model("m", "m/m")
    ready_s: float = 0.0

    async def prepare(self, messages: Sequence[ChatMessage] = (), **ask: Any) -> Send:
        """Get ready, as far as it is not."""
        needed = 0.8 if ask.get("tools") else 0.4
        await asyncio.sleep(needed - self.ready_s)
        self.ready_s = needed
        return self._answer

    async def _answer(self) -> Reply:
        return Reply("ok")


def test_getting_ready_is_forgiven_however_long_it_takes() -> None:
    """Nobody's limit falls into the import of a library, nor of what only tools need."""
    budget = Budget(Allowance(seconds=0.3))
    recorder = Recorder(lambda: budget.at)
    chat = AgentChat(
        RetryingChat(
            Cumbersome(),
            budget=budget,
            recorder=recorder,
            limiter=RateLimiters().limiter("m", "m", RateLimits()),
        ),
        recorder=recorder,
        budget=budget,
    )

    async def within_the_limit() -> None:
        await chat.ask(QUESTION, tools=[ToolSpec("add", "adds", {})])

    asyncio.run(within_the_limit())
    (ask,) = recorder.transcript().asks
    assert budget.seconds < 0.3
    assert ask.ended - ask.started < 0.3


def test_a_key_that_was_never_named_is_what_to_mend(bench: Bench) -> None:
    """An address of the user's own is sent no key until its table names one: the environment is in order."""
    with (
        ModelServer([ReplyPlan(status=401)]) as server,
        pytest.raises(
            ProviderDown, match=r"; name its key's variable: api_key_env in \[tool.agenteval.models\]$"
        ),
    ):
        bench.ask(bench.retrying(bench.chat(server)))


def test_the_wait_one_trial_is_told_holds_for_all(bench: Bench) -> None:
    """Other trials do not ask a model that has asked for quiet; then one tries it, for both."""
    with ModelServer([ReplyPlan(status=429, headers={"Retry-After": "0.3"}), OK]) as server:
        first, second = (bench.retrying(bench.chat(server)) for _ in range(2))

        async def both() -> None:
            one = asyncio.create_task(first.ask(QUESTION))
            while not bench.recorder.transcript().events:
                await asyncio.sleep(0.01)
            await asyncio.gather(one, second.ask(QUESTION))

        bench.loop.run(both())
        times = sorted(request.received_at for request in server.requests)

    assert len(times) == 3
    assert times[1] - times[0] >= 0.29


def test_a_cancelled_wait_leaves_the_budget_right(bench: Bench) -> None:
    """What was forgiven ahead is taken back when a wait ends early."""
    with ModelServer([ReplyPlan(status=429, headers={"Retry-After": "30"})]) as server:
        chat = bench.retrying(bench.chat(server))

        async def cut_short() -> None:
            async with asyncio.timeout(0.6):
                await chat.ask(QUESTION)

        with pytest.raises(TimeoutError):
            bench.loop.run(cut_short())

    assert -0.01 <= bench.budget.seconds < 0.5


def test_requests_share_their_places_and_waiting_for_one_is_forgiven(bench: Bench) -> None:
    """Agents and judges together send no more at once than is allowed, and nobody pays for the queue."""
    bench.limits = {"at_once": 2}
    with ModelServer([ReplyPlan(text="ok", latency_s=0.15)]) as server:
        chats = [bench.retrying(bench.chat(server)) for _ in range(6)]

        async def all_at_once() -> None:
            await asyncio.gather(*(chat.ask(QUESTION) for chat in chats))

        bench.begin()
        bench.loop.run(all_at_once())

    assert server.peak_in_flight == 2
    assert bench.budget.at >= 0.45


def test_a_failed_attempt_gives_its_place_back_while_it_waits(bench: Bench) -> None:
    """Back-off holds up nobody else: with one place, another is answered while the first waits."""
    bench.limits, answered = {"at_once": 1}, []

    async def sleep(seconds: float) -> None:
        answered.append(await bench.retrying(bench.chat(server)).ask(QUESTION))

    with ModelServer([ReplyPlan(status=500), OK]) as server:
        reply = bench.ask(bench.retrying(bench.chat(server), sleep=sleep))

    assert (reply.usage.attempts, len(answered), server.peak_in_flight) == (2, 1, 1)


def test_a_trial_that_waits_behind_itself_is_forgiven_nothing(bench: Bench) -> None:
    """Of requests that one trial sends at once, each moment counts once: none twice, and none not at all."""
    bench.limits = {"at_once": 1}
    with ModelServer([ReplyPlan(text="ok", latency_s=0.12)]) as server:
        bench.ask(bench.retrying(bench.chat(server)))  # imports what it takes

        budget = bench.begin()

        async def all_at_once() -> tuple[float, float]:
            chats = [bench.retrying(bench.chat(server)) for _ in range(3)]
            await asyncio.gather(*(chat.ask(QUESTION) for chat in chats))
            return budget.seconds, budget.at

        own, all_in_all = bench.loop.run(all_at_once())

    assert own == pytest.approx(all_in_all, rel=0.2)


def test_places_are_shared_by_the_loops_of_many_threads(bench: Bench) -> None:
    """Agents in threads ask on loops of their own, several requests at once: each gets its place."""
    bench.limits = {"at_once": 2}
    with ModelServer([ReplyPlan(text="ok", latency_s=0.02)]) as server:
        bench.ask(bench.retrying(bench.chat(server)))  # imports what it takes

        def on_a_loop_of_its_own() -> list[str]:
            async def ask() -> list[str]:
                chats = [bench.retrying(bench.chat(server)) for _ in range(3)]
                async with asyncio.timeout(60):
                    return [reply.text for reply in await asyncio.gather(*(c.ask(QUESTION) for c in chats))]

            return asyncio.run(ask())

        with ThreadPoolExecutor(4) as threads:
            replies = [each.result() for each in [threads.submit(on_a_loop_of_its_own) for _ in range(4)]]

    assert replies == [["ok"] * 3] * 4
    assert server.peak_in_flight <= 2
