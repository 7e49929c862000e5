"""The addresses that one trial has on this machine, and the requests that are under way at them."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from pytest_agenteval.records.record import NOTHING, FrozenValue

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.http.forwarding import Connections
    from pytest_agenteval.cassettes.http.messages import Pairs
    from pytest_agenteval.cassettes.http.scope import Scope
    from pytest_agenteval.cassettes.interaction import Response

HOST = "127.0.0.1"
USER = "agenteval"
GRACE_S = 2.0
"""Seconds in which a response that has begun to come when its trial ends may come to its own end."""
CUT_S, CUTTING_S = 0.05, 5.0
MOST_REFUSED = 20
"""How often a program may go on asking after a limit of its trial was reached."""


class Upstream(FrozenValue, frozen=True):
    """Where the requests of one address really go, and how they are signed there.

    ``name`` is its part of the path, ``base`` what the rest of the path is put behind. The value of the
    environment variable ``key_env`` is sent as the header ``header``, behind ``prefix``; it is read when a
    request is sent, and held nowhere. Where it is ``needed`` and not set, nothing is sent. The headers and
    parameters of ``dummies`` are a program's own words for a key, and left out. ``version`` is what the
    address ends with, as ``base`` does.
    """

    name: str
    base: str
    header: str = ""
    prefix: str = ""
    key_env: str = ""
    needed: bool = False
    dummies: tuple[str, ...] = ()
    version: str = ""

    def signature(self) -> Mapping[str, str]:
        """Give the header that signs a request; none where there is no key."""
        key = os.environ.get(self.key_env, "") if self.header and self.key_env else ""
        return {self.header: f"{self.prefix}{key}"} if key else NOTHING

    def without_dummies(self, headers: Pairs) -> list[tuple[str, str]]:
        """Give a program's headers without its own words for a key."""
        return [pair for pair in headers if pair[0].lower() not in self.dummies]

    def url_of(self, path: str) -> str:
        """Give the real address of a path and its query, as they follow the address that stands for it."""
        path, _, query = path.partition("?")
        if self.version and f"{path}/".startswith(f"/{self.version}/"):
            path = path.removeprefix(f"/{self.version}")
        pairs = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in self.dummies]
        return f"{self.base.rstrip('/')}{path}" + (f"?{'&'.join(pairs)}" if pairs else "")


ANY = "model"
"""The name of an address at which the path of a request tells which upstream it is for."""


class Mounted(Protocol):
    """What answers requests itself, at an address of a trial: they go nowhere else."""

    def answer(self, method: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Answer a request, in a thread of its connection; names of ``headers`` are in small letters."""
        ...

    def close(self) -> None:
        """Cut off what is under way: the trial ends."""
        ...


class TrialAddress:
    """The addresses that one trial has, as long as it lasts.

    ``around`` holds the hosts, one for each request, that were asked past these addresses and refused;
    ``failures`` a line for each request whose provider did not answer; ``broken`` what of ours raised.
    """

    def __init__(
        self,
        scope: Scope,
        upstreams: Mapping[str, Upstream],
        *,
        port: int,
        ignored: Sequence[str] = (),
        leave: Callable[[str], object] = str,
        named_by: Callable[[str], str] = str,
    ) -> None:
        self.scope, self.upstreams, self.port = scope, upstreams, port
        self.token = secrets.token_urlsafe(18)
        self.around: list[str] = []
        self.failures: list[str] = []
        self.broken: list[BaseException] = []
        self.closed, self._limited = False, 0
        self.on_broken: Callable[[], object] = list
        self._ignored, self._leave, self._named_by = ignored, leave, named_by
        self.mounted: dict[str, Mounted] = {}
        self._under_way: dict[Connections, bool] = {}
        self._changed = threading.Condition()

    def upstream(self, name: str, path: str) -> Upstream | None:
        """Give the upstream that a request is for; None where there is none."""
        return self.upstreams.get(self._named_by(path) if name == ANY else name)

    @property
    def any_url(self) -> str:
        """Give the address that stands for every upstream: the path of a request tells them apart."""
        return self._root(ANY)

    def url(self, name: str) -> str:
        """Give the address that stands for an upstream."""
        version = self.upstreams[name].version
        root = self._root(name)
        return f"{root}/{version}" if version else root

    def mount(self, name: str, mounted: Mounted) -> str:
        """Have requests answered at an address of the trial; give it. A name is no upstream's too."""
        self.mounted[name] = mounted
        return self._root(name)

    def _root(self, name: str) -> str:
        return f"http://{HOST}:{self.port}/t/{self.token}/{quote(name, safe='')}"

    @property
    def refusing_proxy(self) -> str:
        """Give the address of a proxy that refuses every request, and counts it for this trial."""
        return f"http://{USER}:{self.token}@{HOST}:{self.port}"

    def note_broken(self, broken: BaseException) -> None:
        """Note what keeps the trial from going on, and tell whoever waits for it."""
        self.broken.append(broken)
        self.on_broken()

    def note_limit(self, reached: BaseException) -> None:
        """Note that a limit refused a request; a program that asks on and on is to be ended."""
        self._limited += 1
        if self._limited > MOST_REFUSED:
            self.note_broken(reached)

    def note_around(self, host: str) -> None:
        """Count a request that went past these addresses, unless nobody cares for its host."""
        if not any(fnmatch(host.rpartition(":")[0] or host, pattern) for pattern in self._ignored):
            self.around.append(host)

    @contextmanager
    def under_way(self, connections: Connections) -> Iterator[None]:
        """Count a request as under way within the block."""
        with self._changed:
            self._under_way[connections] = False
        try:
            yield
        finally:
            with self._changed:
                del self._under_way[connections]
                self._changed.notify_all()

    def note_response(self, connections: Connections) -> None:
        """Note that a response comes, for which the end of the trial waits a little."""
        with self._changed:
            self._under_way[connections] = True

    def close(self, grace_s: float = GRACE_S) -> None:
        """Refuse whatever is asked from now on, and wait until nothing is under way.

        A response that has begun has so many seconds to come to its end, and to be recorded: a program may
        have ended as soon as it read the last word. All else is cut.
        """
        self.closed = True
        self._leave(self.token)
        for mounted in self.mounted.values():
            mounted.close()
        end = time.monotonic() + grace_s + CUTTING_S
        with self._changed:
            self._cut(begun=False)
            self._changed.wait_for(lambda: not self._under_way, grace_s)
            while self._under_way and time.monotonic() < end:  # one that is not yet there to be cut will be
                self._cut(begun=True)
                self._changed.wait(CUT_S)

    def cut(self) -> None:
        """Refuse whatever is asked from now on, and cut off what is under way, without waiting."""
        self.closed = True
        self._leave(self.token)
        for mounted in self.mounted.values():
            mounted.close()
        with self._changed:
            self._cut(begun=True)

    def _cut(self, *, begun: bool) -> None:
        for connections, has_begun in tuple(self._under_way.items()):
            if begun or not has_begun:
                connections.cut()
