"""Who has which share of a model, by a clock that the tests move."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from pytest_agenteval.chat import rate_shares
from pytest_agenteval.chat.rate_shares import (
    LimiterReport,
    ModelFailure,
    ModelState,
    RateLimits,
    RateShare,
    RefusedRequests,
)

BUSY = ModelFailure("rate_limit", "m: 429")
GONE = ModelFailure("connection", "m: gone")
NO_KEY = ModelFailure("auth", "m: no key", lasts=True)


@dataclass
class Model:
    """The shares of one model, at a time that the test moves."""

    limits: RateLimits
    now: float = 1000.0
    state: ModelState | None = None
    gone: set[str] = field(default_factory=set)

    def tell(self, process: str = "1.a", **said: Any) -> RateShare:
        """Have a process report; the state goes through the form that it has in a file."""
        said = {"most": 50, "ended": said.get("replied", 0), **said}
        report = LimiterReport(process, "m", "m", self.limits, **said)
        state = self.state or rate_shares.new_state(report, self.now)
        share = rate_shares.exchange_report(state, report, self.now, lambda name, silent_s: name in self.gone)
        self.state = msgspec.json.decode(msgspec.json.encode(state), type=ModelState)
        return share

    def put_off(
        self, process: str = "1.a", wait_s: float = 0.0, ago_s: float = 0.5, **said: Any
    ) -> RateShare:
        """Report a request that was put off."""
        refusals = RefusedRequests(BUSY, {"429": 1}, wait_s, ago_s)
        return self.tell(process, **{"refusals": refusals, "ended": 1, **said})


def test_places_grow_with_replies_halve_once_for_a_burst_and_grow_back_slowly() -> None:
    """Doubled in a round trip until the first refusal; then halved, and one more for each round trip."""
    model = Model(RateLimits(at_once=40, at_start=10))
    assert model.tell(waiting=90).starts == 10
    assert model.tell(waiting=80, replied=10).starts == 20
    assert model.tell(waiting=60, replied=20).starts == 40
    assert model.tell(waiting=20, replied=40).starts == 20
    assert model.tell(waiting=40).starts == 20

    for _ in range(20):
        assert model.put_off(waiting=40).starts == 0
    model.now += 1.1
    assert model.tell(waiting=40, ended=19).starts == 1
    assert model.tell(waiting=40, replied=2).starts == 20
    model.put_off(ago_s=30, waiting=40)  # it was sent before the halving
    model.now += 1.1
    assert model.tell(waiting=40, replied=19).starts == 20
    assert model.tell(waiting=40, replied=20).starts == 21


def test_while_a_model_is_quiet_one_tries_it_for_all_later_each_time() -> None:
    """Others begin nothing, whoever they are; the waits double, whatever the provider says."""
    model = Model(RateLimits())
    model.tell("1.a", waiting=10)
    model.tell("2.b", waiting=5)
    assert model.put_off("1.a", wait_s=0.2, waiting=6).starts == 0
    model.now += 0.21
    waits = []
    for _ in range(6):
        assert model.tell("2.b", waiting=5).starts == 1
        assert model.tell("1.a", waiting=6).starts == 0
        waits.append(model.put_off("2.b", wait_s=0.2, waiting=6).again_s)
        model.now += waits[-1] + 0.001
    assert waits == pytest.approx([2, 4, 8, 15, 15, 15])


def test_a_reply_during_the_quiet_does_not_end_it() -> None:
    """It was sent before: whether there is room again nobody knows yet."""
    model = Model(RateLimits())
    model.tell(waiting=10)
    model.put_off(wait_s=5.0, waiting=9)
    model.now += 1
    assert model.tell(waiting=9, replied=1).starts == 0
    model.now += 4.1
    assert model.tell(waiting=9, replied=1).starts == 9


def test_a_model_that_stays_quiet_for_longer_than_it_is_waited_for_is_gone() -> None:
    """What it said last is the reason, for everybody."""
    model = Model(RateLimits(patience_s=10))
    model.tell(replied=5)
    share = model.put_off(waiting=5)
    for _ in range(4):
        assert share.down is None
        model.now += share.again_s
        model.tell(waiting=5)
        share = model.put_off(waiting=5)
    assert share.down == BUSY
    assert model.tell("2.b", waiting=1).down == BUSY


def test_who_never_replied_is_not_waited_for() -> None:
    """An address with nobody there is no outage; after replies it is one, until somebody is answered."""
    assert Model(RateLimits()).tell(failure=GONE).down == GONE
    model = Model(RateLimits())
    model.tell(replied=5)
    share = model.tell(failure=GONE, waiting=3)
    assert (share.down, share.is_in_trouble, share.starts) == (None, True, 0)
    model.now += 1.1
    assert model.tell(waiting=3).starts == 1
    assert not model.tell(replied=1, waiting=2).is_in_trouble
    model = Model(RateLimits())
    model.put_off(waiting=2)  # it is there, and has no room
    model.now += 1.1
    model.tell(waiting=2)
    assert model.tell(failure=GONE, waiting=2).down is None


def test_what_no_waiting_mends_is_believed_at_once_or_where_it_was_good_before_the_third_time() -> None:
    """One conversation that is forbidden must not end a run."""
    assert Model(RateLimits()).tell(failure=NO_KEY).down == NO_KEY
    model = Model(RateLimits())
    model.tell(replied=1)
    assert [model.tell(failure=NO_KEY).down for _ in range(3)] == [None, None, NO_KEY]
    model = Model(RateLimits())
    model.tell(replied=1)
    assert model.tell(failure=ModelFailure("quota", "m: no credit", lasts=True)).down is not None


def test_processes_have_equal_shares_and_none_keeps_what_another_wants() -> None:
    """Who was first gives back what is more than its share, as its requests end; nobody has more than all."""
    model = Model(RateLimits(at_once=6, at_start=6))
    assert model.tell("1.a", waiting=50).starts == 6
    assert model.tell("2.b", waiting=50).starts == 0
    assert model.tell("1.a", waiting=44, replied=2).starts == 0
    assert model.tell("2.b", waiting=50).starts == 2
    assert model.tell("1.a", waiting=44, replied=2).starts == 1
    assert model.tell("2.b", waiting=48).starts == 1
    assert model.tell("1.a", waiting=43).starts == 0
    assert model.tell("2.b", waiting=0).starts == 0
    assert model.tell("1.a", waiting=43).starts == 0
    model.tell("2.b", replied=3)
    assert model.tell("1.a", waiting=43).starts == 3


def test_one_place_goes_round() -> None:
    """Three processes with one place among them: who had it last waits for the others."""
    model, order = Model(RateLimits(at_once=1, at_start=1)), []
    processes = ("1.a", "2.b", "3.c")
    model.tell("0.x", waiting=1)
    for process in processes:
        model.tell(process, waiting=9)
    model.tell("0.x", replied=1)
    for _ in range(6):
        (chosen,) = [one for one in processes if model.tell(one, waiting=9).starts == 1][:1]
        order.append(chosen)
        model.tell(chosen, waiting=9, replied=1)
    assert sorted(order[:3]) == sorted(order[3:]) == sorted(processes)


def test_the_places_and_the_probe_of_a_dead_process_are_taken_back() -> None:
    """Its requests are gone with it."""
    model = Model(RateLimits(at_once=4, at_start=4))
    assert model.tell("1.a", waiting=9).starts == 4
    assert model.tell("2.b", waiting=9).starts == 0
    model.gone.add("1.a")
    assert model.tell("2.b", waiting=9).starts == 4
    model.put_off("2.b", waiting=9)
    model.now += 1.1
    assert model.tell("3.c", waiting=9).starts == 1
    model.gone.add("3.c")
    assert model.tell("2.b", waiting=9).starts == 1


@pytest.mark.parametrize("limit", [1, 7, 600])
def test_in_no_minute_are_there_more_requests_than_the_limit(limit: int) -> None:
    """However eagerly two processes ask; and nearly as many as there may be, for each as many."""
    model = Model(RateLimits(requests_per_minute=limit, at_once=1000, at_start=1000))
    begun: list[float] = []
    counts = {"1.a": 0, "2.b": 0}
    under_way = dict.fromkeys(counts, 0)
    for _ in range(6000):
        for process in counts:
            starts = model.tell(process, waiting=5, replied=under_way[process]).starts
            under_way[process] = starts
            counts[process] += starts
            begun += [model.now] * starts
        model.now += 0.05
    windows = [bisect_left(begun, start + 60) - bisect_left(begun, start) for start in begun]
    assert max(windows) <= limit
    assert len(begun) >= 0.8 * 5 * limit
    assert max(counts.values()) - min(counts.values()) <= max(2, 0.1 * len(begun))


def test_a_process_that_joins_later_has_no_claim_to_what_the_others_got_before() -> None:
    """Else the first would wait until it has got as much."""
    model = Model(RateLimits(requests_per_minute=120))
    assert model.tell("1.a", waiting=20).starts == 10
    assert model.tell("2.b", waiting=5).starts == 0
    model.now += 0.6
    assert model.tell("1.a", waiting=10).starts == 1


def test_a_probe_that_ended_without_a_result_leaves_its_turn_to_another() -> None:
    """A trial's limit may have cut it off."""
    model = Model(RateLimits())
    model.put_off("1.a", waiting=1)
    model.now += 1.1
    assert [model.tell(name, waiting=1).starts for name in ("1.a", "2.b")] == [1, 0]
    assert model.tell("1.a", waiting=1, ended=1, dropped=True).starts == 1
    model.tell("1.a", ended=1, dropped=True)
    assert model.tell("2.b", waiting=1).starts == 1


def test_tokens_are_estimated_before_and_settled_after() -> None:
    """What a request took beyond its estimate is waited off; what it did not take is given back."""
    model = Model(RateLimits(tokens_per_minute=12_000))
    assert model.tell(waiting=2, tokens=(600, 600)).starts == 1
    share = model.tell(waiting=1, tokens=(700,), further_tokens=100)
    assert (share.starts, share.again_s) == (0, pytest.approx(400 / 183.35, rel=0.01))
    model.now += 2.3
    assert model.tell(waiting=1, tokens=(700,)).starts == 1
    assert model.tell(waiting=1, tokens=(300,), further_tokens=-290).starts == 1
    model.now += 5.5
    assert model.tell(waiting=1, tokens=(5000,)).starts == 1  # more than ever fits: all that there is
    assert model.tell(waiting=1, tokens=(1,)).starts == 0


def test_a_model_in_trouble_is_tried_only_by_who_is_there() -> None:
    """While it is left alone, or a request of a living process waits; else somebody has to begin."""
    model = Model(RateLimits())
    model.tell("1.a", waiting=1)
    model.put_off("1.a", wait_s=5, waiting=1)

    def is_tried() -> bool:
        assert model.state is not None
        found = rate_shares.standing_of(
            "m", model.state, model.now, lambda name, silent_s: name in model.gone
        )
        assert found.is_in_trouble
        return found.is_tried

    model.gone.add("1.a")
    assert is_tried()
    model.now += 5.1
    assert not is_tried()
    model.gone.clear()
    assert is_tried()
    model.tell("1.a")
    assert not is_tried()
