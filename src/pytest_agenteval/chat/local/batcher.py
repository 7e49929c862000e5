"""Requests of concurrent trials, put together: one model answers all that come within some milliseconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from pytest_agenteval.chat.local.generation import Generation, GenerationRequest, OutOfMemory

GATHER_S = 0.02
"""Seconds for which the first request of a batch waits for others: far less than a reply takes."""

CLOSING_S = 30.0


class _Waiting(NamedTuple):
    request: GenerationRequest
    future: Future[Generation]


class Batcher:
    """A thread that hands requests to ``generate``, as many at once as have come.

    A batch that does not fit into memory is generated in halves. A request that nobody waits for any more
    ends at its next token.
    """

    def __init__(
        self,
        generate: Callable[[Sequence[GenerationRequest]], list[Generation]],
        gather_s: float = GATHER_S,
    ) -> None:
        self._generate, self._gather_s = generate, gather_s
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._closing = threading.Event()
        # Never waited for at the end of the interpreter: a kernel that hangs would hold it.
        self._thread = threading.Thread(target=self._work, name="agenteval-batches", daemon=True)
        self._thread.start()

    def submit(self, request: GenerationRequest) -> Future[Generation]:
        """Put a request into the next batch."""
        future: Future[Generation] = Future()
        unwanted = request.unwanted
        request.unwanted = lambda: future.cancelled() or self._closing.is_set() or unwanted()
        self._queue.put(_Waiting(request, future))
        return future

    def close(self) -> None:
        """End what is being generated, and the thread."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join(CLOSING_S)

    def _work(self) -> None:
        while not self._closing.is_set():
            batch = self._next_batch()
            if batch:
                self._answer(batch)
        with suppress(Empty):  # those who came too late
            while True:
                waiting = self._queue.get_nowait()
                if waiting is not None:
                    waiting.future.cancel()

    def _next_batch(self) -> list[_Waiting]:
        batch = [self._queue.get()]
        until = time.monotonic() + self._gather_s
        with suppress(Empty):
            while (left := until - time.monotonic()) > 0:
                batch.append(self._queue.get(timeout=left))
        return [waiting for waiting in batch if waiting is not None and not waiting.future.cancelled()]

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        try:
            generations = self._generate([waiting.request for waiting in batch])
        except OutOfMemory as raised:
            if len(batch) == 1:
                _settle(batch, raised)
            else:
                half = len(batch) // 2
                self._answer(batch[:half])
                self._answer(batch[half:])
        except BaseException as raised:  # whatever the library raises: those who wait are told
            _settle(batch, raised)
        else:
            for waiting, generation in zip(batch, generations, strict=True):
                with suppress(InvalidStateError):  # given up meanwhile
                    waiting.future.set_result(generation)


def _settle(batch: Sequence[_Waiting], raised: BaseException) -> None:
    for waiting in batch:
        with suppress(InvalidStateError):
            waiting.future.set_exception(raised)
