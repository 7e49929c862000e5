"""One request at a trial's address: played, refused, or sent to where it really goes and recorded."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from pytest_agenteval.cassettes.http.failures import failed_response, failure_text, is_failure
from pytest_agenteval.cassettes.http.forwarding import Connections, IncomingResponse, onward_headers
from pytest_agenteval.cassettes.http.messages import recordable_request, recordable_response
from pytest_agenteval.cassettes.http.scope import GIVEN_UP, NothingSent
from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.text.errors import RequestRefused, exception_text
from pytest_agenteval.text.redaction.spellings import MARK, worth_hiding

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.http.loopback_address import TrialAddress, Upstream
    from pytest_agenteval.cassettes.http.messages import Pairs

ENDED = "the trial has ended: nothing more is sent"
BROKEN = "the trial is broken: nothing more is answered"


class Exchange:
    """What a program asks at one of its trial's addresses, and what it is answered."""

    def __init__(
        self,
        address: TrialAddress,
        upstream: Upstream,
        method: str,
        path: str,
        headers: Pairs,
        body: bytes | None,
    ) -> None:
        self._address, self._upstream, self._method, self._body = address, upstream, method, body
        self._url = upstream.url_of(path)
        self._headers = upstream.without_dummies(onward_headers(headers))
        self._signature = upstream.signature()
        self._began = 0.0
        self._first_byte_s: float | None = None
        self._upgrades = any(name.lower() == "upgrade" for name, _ in headers)
        self.request = recordable_request(method, self._url, self._headers, body)

    def unsent(self) -> Response | None:
        """Give what is answered without sending anything, be it recorded or a refusal; None to send it."""
        address, scope = self._address, self._address.scope
        if address.closed or scope.closed:
            return refusal(403, "trial_ended", ENDED, self.request)
        try:
            if self._upgrades and not scope.live:  # a WebSocket is no request with a response
                raise scope.refusal(self.request)
            response = scope.play(self.request)
        except (RequestRefused, NothingSent) as refused:
            return refusal(400, "not_recorded", exception_text(refused), self.request)
        except Exception as broken:  # nobody is above us: whoever runs the program is told
            address.note_broken(broken)
            return refusal(400, "trial_broken", BROKEN, self.request)
        except BaseException as reached:  # what ends an agent in this process
            address.note_limit(reached)
            return refusal(400, "limit_reached", exception_text(reached), self.request)
        if response is None and self._upstream.needed and not self._signature:
            missing = (
                f"{self._upstream.key_env} is not set where pytest runs, and requests are signed with it"
            )
            unsigned = refusal(401, "no_key", missing, self.request)
            scope.record(self.request, unsigned)  # as a provider's word: it is no reply, and is not played
            return unsigned
        if response is not None and is_failure(response):
            host = urlsplit(self._url).netloc.rpartition("@")[2]
            return self._unreachable(f"{host} did not answer: {failure_text(response)}")
        return None if response is None else self.with_own_address(response)

    def send(self, connections: Connections) -> IncomingResponse:
        """Send it, signed, and give the response that begins; raises one of ``Unanswered``."""
        headers = [*self._headers, *self._signature.items()]
        self._began = time.monotonic()
        incoming = connections.send(
            self._method, self._url, headers, self._body, is_awaited=lambda: not self._address.closed
        )
        self._address.note_response(connections)
        said = [(name, self.clean(value.encode("latin-1", "replace"))) for name, value in incoming.headers]
        incoming.headers = [(name, value.decode("latin-1")) for name, value in said]
        return incoming

    def note_part(self) -> None:
        """Note that some of the response's body has come."""
        if self._first_byte_s is None:
            self._first_byte_s = time.monotonic() - self._began

    def record(self, incoming: IncomingResponse, raw: bytes) -> Response:
        """Record what was really answered, and give it."""
        response = recordable_response(self._method, incoming.status, incoming.reason, incoming.headers, raw)
        if not self._address.scope.closed:
            try:
                self._address.scope.record(self.request, response, self._first_byte_s)
            except BaseException as broken:
                self._address.note_broken(broken)
        return self.with_own_address(response)

    def clean(self, data: bytes) -> bytes:
        """Give a body without the key that was sent: a provider may say it again."""
        for key in self._keys:
            data = data.replace(key, MARK.encode())
        return data

    def clean_parts(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Give the parts of a body without it; what may be a key's beginning waits for the next part."""
        rest = b""
        for part in parts:
            data = self.clean(rest + part)
            begun = max((_begun(data, key) for key in self._keys), default=0)
            data, rest = data[: len(data) - begun], data[len(data) - begun :]
            if data:
                yield data
        if rest:
            yield rest

    @cached_property
    def _keys(self) -> Sequence[bytes]:
        # One that a client only wants to have, such as `none`, is a word of replies too.
        keys = (key.removeprefix(self._upstream.prefix) for key in self._signature.values())
        return [key.encode() for key in keys if worth_hiding(key)]

    def unanswered(self, failed: BaseException) -> Response:
        """Say that nobody answered, in the way in which providers do: it may be tried again."""
        host = urlsplit(self._url).netloc.rpartition("@")[2]
        line = f"{host} did not answer: {type(failed).__name__}: {exception_text(failed)}"
        self._address.failures.append(line)
        if self._address.closed:
            self.cut(Response(0, GIVEN_UP))
        else:
            self.fail(Response(0, line), failed)
        return self._unreachable(line)

    def _unreachable(self, line: str) -> Response:
        response = refusal(502, "unreachable", line, self.request)
        return replace(response, headers={"Content-Type": "application/json"})

    def fail(self, cut: Response, failed: BaseException) -> None:
        """Record that no whole response came: ``cut`` is what came of it."""
        if not self._address.scope.closed:
            self._address.scope.fail(self.request, cut, failed_response(failed))

    def cut(self, response: Response) -> None:
        """Note that no whole response came; status 0 is that of none at all."""
        if not self._address.scope.closed:
            self._address.scope.cut(self.request, response)

    def with_own_address(self, response: Response) -> Response:
        """Give a response that leads nowhere else: to where it redirects, the program comes back to us."""
        headers = {
            name: [self._own(value) if name.lower() == "location" else value for value in values]
            for name, values in response.headers.items()
        }
        return replace(response, headers=headers)

    def _own(self, location: str) -> str:
        target, base = urljoin(self._url, location), self._upstream.base.rstrip("/")
        if target.startswith((f"{base}/", f"{base}?")) or target == base:
            return self._address.url(self._upstream.name) + target.removeprefix(base)
        return location


def _begun(data: bytes, key: bytes) -> int:
    """Give how many bytes at the end of the data are a key's beginning."""
    longest = min(len(data), len(key) - 1)
    return next((length for length in range(longest, 0, -1) if data.endswith(key[:length])), 0)


def refusal(status: int, kind: str, message: str, request: Request | None = None) -> Response:
    """Give a response that refuses a request for good, in the words of the provider that was asked."""
    from pytest_agenteval.cassettes.wire.classification import classify
    from pytest_agenteval.cassettes.wire.response_bodies import error_response

    return error_response("" if request is None else classify(request).format, status, kind, message)
