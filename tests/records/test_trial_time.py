"""What passes in a trial and what of it is charged, by a clock that is set by hand."""

from __future__ import annotations

from pytest_agenteval.records.limits import StoppedTime, TrialTime


class Clock(TrialTime):
    """A trial's time whose clock moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        super().__init__(lambda: self.now)

    @property
    def figures(self) -> tuple[float, float]:
        """What has passed, and what of it is charged."""
        return round(self.elapsed, 6), round(self.charged, 6)


def test_waiting_passes_unseen_and_back_off_uncharged() -> None:
    """People see what a trial took; its limit counts what led somewhere."""
    time = Clock()
    with time.span("waiting"):
        time.now += 10
    with time.span("uncharged"):
        time.now += 3
    time.now += 1
    assert time.figures == (4, 1)


def test_an_attempt_is_charged_once_it_succeeds() -> None:
    """Wholly, or the seconds that the reply says; until then it is not known."""
    time = Clock()
    with time.span("uncharged") as attempt:
        time.now += 5
        assert time.figures == (5, 0)
        attempt.kind = "charged"
    assert time.figures == (5, 5)
    with time.span("uncharged"):
        time.now += 12
        time.charge(2)
    assert time.figures == (17, 7)


def test_a_moment_in_which_anything_is_charged_counts_once() -> None:
    """Requests side by side: one waits, one is answered, two fail together."""
    time = Clock()
    waiting = time.span("waiting")
    time.now += 10
    with time.span("uncharged") as answered:
        time.now += 2
        answered.kind = "charged"
    time.now += 5
    failed = time.span("uncharged"), time.span("uncharged")
    time.now += 4
    for span in (waiting, *failed):
        span.end()
    time.now += 1
    assert time.figures == (7, 3)


def test_a_request_that_was_refused_lasts_no_longer_than_until_then() -> None:
    """Its body may be read much later; what the client does meanwhile is its own time."""
    time = Clock()
    refused = time.span("charged")
    time.now += 2
    refused.stop()
    assert time.is_open
    time.now += 7
    refused.kind = "uncharged"
    refused.end()
    assert not time.is_open
    assert time.figures == (9, 7)


def test_a_trial_that_cannot_go_on_is_charged_nothing_and_nothing_twice() -> None:
    """Within back-off and beside it, as long as it stands still, from its own beginning on."""
    stopped = StoppedTime()
    stopped.seconds = 50.0
    time = Clock()
    time.begin(stopped)
    with time.span("uncharged"):
        time.now += 10
        stopped.seconds += 4
    time.now += 3
    stopped.seconds += 2
    assert time.figures == (13, 1)


def test_what_stops_a_trial_is_counted_before_a_span_ends() -> None:
    """It may be seen only later: what a span holds, or came before the trial, is left out no second time."""
    time, stopped_since = Clock(), 90.0

    def catch_up() -> None:
        nonlocal stopped_since
        stopped.seconds += time.now - stopped_since
        stopped_since = time.now

    stopped = StoppedTime(catch_up)
    time.begin(stopped)
    time.now, stopped_since = 101.0, 101.0
    with time.span("uncharged"):
        time.now += 8
    assert time.figures == (9, 1)


def test_an_agent_that_has_answered_takes_no_more_time() -> None:
    """A busy loop may learn of its answer much later."""
    time = Clock()
    time.now += 2
    time.note_answer()
    time.now += 9
    assert (time.figures, time.at) == ((2, 2), 11)
