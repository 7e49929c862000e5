"""A server on this machine, one for the process, with a path of its own for each trial.

Programs in other languages and processes get its addresses in place of a provider's: what they ask is played,
recorded or refused by the trial's scope, like what is asked in this process.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from typing import Any

from pytest_agenteval.cassettes.http.loopback_address import HOST, TrialAddress, Upstream
from pytest_agenteval.cassettes.http.loopback_requests import LoopbackRequests
from pytest_agenteval.cassettes.http.scope import OWN_ADDRESSES, Scope, untaped
from pytest_agenteval.processes.closers import close_at_end
from pytest_agenteval.processes.threads import in_daemon_thread

POLL_S = 0.1
MOST_WAITING = 256
"""Connections that may wait to be taken: every agent of a run may open some at once."""


@contextmanager
def trial_address(
    scope: Scope,
    upstreams: Iterable[Upstream],
    ignored: Sequence[str] = (),
    named_by: Callable[[str], str] = str,
) -> Iterator[TrialAddress]:
    """Give a trial's addresses, one for each name; at the end of the block they refuse whatever is asked.

    What went around them is not counted for hosts that fit a pattern of ``ignored``. ``named_by`` gives, of
    a path at the address that stands for all upstreams, the name of the one that it is for.
    """
    address = open_address(scope, upstreams, ignored, named_by)
    try:
        yield address
    finally:
        address.close()


def open_address(
    scope: Scope,
    upstreams: Iterable[Upstream],
    ignored: Sequence[str] = (),
    named_by: Callable[[str], str] = str,
) -> TrialAddress:
    """Give a trial's addresses, for whoever closes them; that may take seconds."""
    server = _serving()
    named = {upstream.name: upstream for upstream in upstreams}
    address = TrialAddress(
        scope, named, port=server.server_port, ignored=ignored, leave=server.forget, named_by=named_by
    )
    server.addresses[address.token] = address
    return address


class _Server(ThreadingHTTPServer):
    """The server, and which trial has which path."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_WAITING

    def __init__(self) -> None:
        super().__init__((HOST, 0), LoopbackRequests)
        self.addresses: dict[str, TrialAddress] = {}
        self.base = f"http://{HOST}:{self.server_port}"
        self.process = os.getpid()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that somebody dropped; what matters is noted with its trial."""

    def forget(self, token: str) -> None:
        """Have no such path any more."""
        self.addresses.pop(token, None)

    def end(self) -> None:
        """Serve no more."""
        OWN_ADDRESSES.discard(self.base)
        self.shutdown()
        self.server_close()


_servers: list[_Server] = []
_starting = threading.Lock()


def _serving() -> _Server:
    """Give the server of this process, started for the first trial that needs it."""
    with _starting:
        if not _servers or _servers[0].process != os.getpid():
            _servers[:] = [_Server()]
            OWN_ADDRESSES.add(_servers[0].base)
            # It serves all trials, and is no part of the one that happens to be the first.
            contextvars.Context().run(_start, _servers[0])
            close_at_end(close)
        return _servers[0]


def _start(server: _Server) -> None:
    with untaped():
        threading.Thread(
            target=server.serve_forever, args=(POLL_S,), name="agenteval-loopback", daemon=True
        ).start()


async def close() -> None:
    """End the server of this process."""
    with _starting:
        ended, _servers[:] = tuple(_servers), []
    for server in ended:
        if server.process == os.getpid():
            with suppress(OSError):
                await in_daemon_thread(server.end)
