"""Turns taping on for what runs inside a ``with``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from pytest_agenteval.cassettes.calls import reading_of_requests
from pytest_agenteval.cassettes.http.installing import install
from pytest_agenteval.cassettes.http.scope import Scope, scoped
from pytest_agenteval.cassettes.index import Reading
from pytest_agenteval.cassettes.rules import Rules
from pytest_agenteval.cassettes.tape import Tape


@contextmanager
def taped_http(
    tape: Tape, matching: Mapping[str, Any] | Rules | None = None, *, shared: Sequence[Tape] = ()
) -> Iterator[Scope]:
    """Play every HTTP request made inside from the tape; if it records, send and record what it lacks.

    What is neither played nor may be sent raises NotRecorded where it is asked, and is kept in ``missed`` in
    case that is swallowed. ``matching`` are rules for the parameters of query and JSON body, by name; tapes
    that are ``shared`` are asked after the first, and never recorded into.

    Covered are httpx, aiohttp, urllib3 and with it requests, and urllib.request. They are patched once in a
    process, in what they send with, and never while a request is under way; which tape plays is read from a
    context variable. So any number of trials may be open at once, in tasks of one loop, in threads started
    inside, in functions given to a ThreadPoolExecutor, and none gets what is another's. vcrpy's own
    ``use_cassette`` patches and un-patches the classes of the process each time it is entered and left: of
    eight trials on one loop, one cassette held the requests of all and seven trials of a replay went to the
    network. Subprocesses are outside of every scope.
    """
    install()
    rules = matching if isinstance(matching, Rules) else Rules(matching or {})
    with scoped(Scope((tape, *shared), reading_of_requests(rules))) as scope:
        yield scope


@contextmanager
def own_requests(
    tapes: Callable[[], Sequence[Tape]], *, passing: bool = False, closing: bool = True
) -> Iterator[Scope]:
    """Play, record or refuse each request that is made inside, whoever makes it; ``passing`` lets it out.

    The tapes are opened at the first request. At the end the scope is closed, if it is ``closing``: a thread
    that goes on dies at its next request.
    """
    install()
    scope = Scope(tapes, _by_what_is_asked(), passing=passing)
    try:
        with scoped(scope):
            yield scope
    finally:
        if closing:
            scope.close()


@cache
def _by_what_is_asked() -> Reading:
    """Compare requests that are no tool's: every parameter counts."""
    return reading_of_requests(Rules({}))
