"""Whose tape a request belongs to: that of the context in which it is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from pytest_agenteval.cassettes.index import Reading
from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.cassettes.misses import described
from pytest_agenteval.cassettes.tape import Tape


class NotRecorded(Exception):
    """A request that no tape answers, and that may not be sent; no HTTP library knows it, so none retries."""

    def __init__(self, request: Request, cassette: str) -> None:
        super().__init__(f"{described(request)} is not recorded in {cassette}, and nothing may be sent")
        self.request = request


class Scope:
    """The requests of one call of a tool; they may be made by several tasks and threads.

    ``missed`` holds, redacted, what was refused.
    """

    def __init__(self, tapes: Sequence[Tape], reading: Reading) -> None:
        self._own, self._tapes, self._reading = tapes[0], tuple(tapes), reading
        self.missed: list[Request] = []
        self.played = self.recorded = 0

    @property
    def word(self) -> Literal["hit", "miss", "live", "none"]:
        """What became of the requests, in the word of a transcript: the worst that happened to any."""
        if self.missed:
            return "miss"
        return "live" if self.recorded else "hit" if self.played else "none"

    @property
    def live(self) -> bool:
        """Whether a request that is not recorded is sent."""
        return self._own.recording

    def play(self, request: Request) -> Response | None:
        """Give the recorded response, or None if the request is to be sent; raises NotRecorded."""
        for tape in self._tapes:
            found = tape.find((request,), self._reading)
            if found is not None:
                self.played += 1
                return found.response
        if self._own.recording:
            return None
        raise self.refusal(request)

    def refusal(self, request: Request) -> NotRecorded:
        """Note a request that is not answered, and give what is to be raised."""
        self._own.missed()
        asked = self._own.cassette.redactor.request(request)
        self.missed.append(asked)
        return NotRecorded(asked, self._own.cassette.name)

    def record(self, request: Request, response: Response) -> None:
        """Keep what was really answered."""
        self._own.record(request, response)
        self.recorded += 1


_scope: ContextVar[Scope | None] = ContextVar("pytest_agenteval_http", default=None)


def current() -> Scope | None:
    """Give the scope of this context; None where requests go out as they are."""
    return _scope.get()


@contextmanager
def scoped(scope: Scope | None) -> Iterator[Scope]:
    """Let requests of this context belong to the scope."""
    token = _scope.set(scope)
    try:
        yield scope  # type: ignore[misc]  # None is for untaped, which gives nothing
    finally:
        _scope.reset(token)


@contextmanager
def untaped() -> Iterator[None]:
    """Let requests of this context go out, whatever scope is open: for those that are ours."""
    with scoped(None):
        yield
