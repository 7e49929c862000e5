"""Requests of concurrent trials are put together, and each is answered on its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError

import pytest

from pytest_agenteval.chat.local.generation import (
    Batcher,
    Generation,
    GenerationRequest,
    OutOfMemory,
    Prompt,
    Sampling,
)

LONG_S = 30.0


def _request(number: int) -> GenerationRequest:
    return GenerationRequest(Prompt((number,), ""), Sampling(), 8)


class Model:
    """Generates nothing; says which batches it was given, and takes so many requests at once."""

    def __init__(self, most: int = 100) -> None:
        self.batches: list[list[int]] = []
        self.most = most
        self.free = threading.Event()
        self.free.set()
        self.begun = threading.Semaphore(0)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer when it may."""
        self.batches.append([request.prompt.tokens[0] for request in requests])
        self.begun.release()
        while not (self.free.wait(0.001) or all(request.unwanted() for request in requests)):
            pass
        if len(requests) > self.most:
            raise OutOfMemory("full")
        return [Generation(str(request.prompt.tokens[0]), 1, "stop", 0.0) for request in requests]


@pytest.fixture
def model() -> Model:
    """A model with memory enough."""
    return Model()


@pytest.fixture
def batcher(model: Model) -> Iterator[Batcher]:
    """A batcher that waits long enough for a slow machine."""
    batcher = Batcher(model.generate, gather_s=0.2)
    yield batcher
    batcher.close()


def test_what_comes_together_is_one_batch(model: Model, batcher: Batcher) -> None:
    """And what comes while it is generated is the next."""
    model.free.clear()
    first = [batcher.submit(_request(number)) for number in range(3)]
    assert model.begun.acquire(timeout=LONG_S)
    second = [batcher.submit(_request(number)) for number in (3, 4)]
    model.free.set()
    assert [future.result(LONG_S).text for future in first + second] == ["0", "1", "2", "3", "4"]
    assert model.batches == [[0, 1, 2], [3, 4]]


def test_what_does_not_fit_into_memory_is_halved(model: Model, batcher: Batcher) -> None:
    """Down to single requests; one of which even that is too much for is told."""
    model.most = 2
    futures = [batcher.submit(_request(number)) for number in range(5)]
    assert [future.result(LONG_S).text for future in futures] == ["0", "1", "2", "3", "4"]
    assert model.batches == [[0, 1, 2, 3, 4], [0, 1], [2, 3, 4], [2], [3, 4]]
    model.most = 0
    with pytest.raises(OutOfMemory):
        batcher.submit(_request(9)).result(LONG_S)


def test_a_request_that_is_given_up_ends(model: Model, batcher: Batcher) -> None:
    """While it is generated, and before."""
    model.free.clear()
    given_up = batcher.submit(_request(1))
    assert model.begun.acquire(timeout=LONG_S)
    waiting = batcher.submit(_request(2))
    waiting.cancel()
    given_up.cancel()
    last = batcher.submit(_request(3))
    assert model.begun.acquire(timeout=LONG_S)
    model.free.set()
    assert last.result(LONG_S).text == "3"
    assert model.batches == [[1], [3]]


def test_what_the_model_raises_is_raised_in_each(model: Model, batcher: Batcher) -> None:
    """And the next batch is generated all the same."""

    class Broken(Exception):
        pass

    def broken(requests: Sequence[GenerationRequest]) -> list[Generation]:
        raise Broken

    other = Batcher(broken, gather_s=0.2)
    futures = [other.submit(_request(number)) for number in range(2)]
    for future in (*futures, other.submit(_request(3))):
        with pytest.raises(Broken):
            future.result(LONG_S)
    other.close()


def test_the_end_stops_what_is_generated(model: Model, batcher: Batcher) -> None:
    """Nobody waits for a reply of thousands of tokens."""
    model.free.clear()
    future = batcher.submit(_request(1))
    assert model.begun.acquire(timeout=LONG_S)
    waiting = batcher.submit(_request(2))
    batcher.close()
    assert future.done()
    with pytest.raises(CancelledError):
        waiting.result(0)
