"""Models that fail again and again, for agents that ask them again and again."""

from __future__ import annotations

import threading
from multiprocessing.pool import ThreadPool

import pytest

from pytest_agenteval.cassettes.http.patches import intercepted_requests
from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.chat.model_traffic import ModelTraffic
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance
from pytest_agenteval.records.recorder import Recorder

SECONDS = 30.0


class Asking:
    """An agent's traffic, by a clock that is set by hand."""

    def __init__(self, steps: int | None = None) -> None:
        self.now = 0.0
        self.budget = Budget(Allowance(seconds=SECONDS, steps=steps), now=lambda: self.now)
        recorder = Recorder(lambda: self.now)
        self.traffic = ModelTraffic(recorder, self.budget, None, sends=True, refusal="")

    def ask(self) -> Request:
        """Begin to ask; give what is asked."""
        body = b'{"model": "m", "messages": [{"role": "user", "content": "?"}]}'
        request = Request("POST", "http://127.0.0.1:9/v1/chat/completions", body=body)
        assert self.traffic.play(request) is None
        return request

    def fail(self, *requests: Request, after_s: float) -> None:
        """Let requests be answered by a failure."""
        self.now += after_s
        for request in requests:
            self.traffic.record(request, Response(500, "Internal Server Error"))


def test_a_trial_whose_model_only_fails_comes_to_its_time() -> None:
    """What an agent waits for failures is not its own time, but one that never gives up must be ended."""
    asking = Asking()

    for _ in range(30):
        asking.fail(asking.ask(), after_s=1.0)

    assert asking.budget.seconds == pytest.approx(20.0)


def test_of_requests_that_fail_at_once_a_moment_is_forgiven_once() -> None:
    """Else each of twenty threads would give the trial the time that all have waited together."""
    asking = Asking()

    asking.fail(*[asking.ask() for _ in range(20)], after_s=10.0)

    assert asking.budget.seconds == pytest.approx(0.0)


def test_a_pool_s_task_that_meets_the_limit_is_no_task_that_is_lost() -> None:
    """multiprocessing's pools forget a task that raises what is no Exception, and wait for it for ever."""
    asking, over = Asking(steps=0), []

    def ask_in_pool() -> None:
        with intercepted_requests(tuple, traffic=asking.traffic), ThreadPool(1) as pool:
            with pytest.raises(ConnectionError):
                pool.map_async(lambda _: asking.ask(), [1]).get(20)
            over.append(True)

    thread = threading.Thread(target=ask_in_pool, daemon=True)
    thread.start()
    thread.join(30)

    assert over
