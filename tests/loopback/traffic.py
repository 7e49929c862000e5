"""The counters of the loopback server."""

from __future__ import annotations

import asyncio
import time


class Traffic:
    """What the connections count; only the thread of the server writes here."""

    def __init__(self) -> None:
        self.open: set[asyncio.Transport] = set()
        self.in_flight = 0
        self.reset()

    def reset(self) -> None:
        """Start counting again; what is in flight stays so."""
        self.requests = 0
        self.connections = 0
        self.peak_in_flight = self.in_flight
        self.first_request: float | None = None
        self.last_reply: float | None = None

    @property
    def span_s(self) -> float:
        """Seconds from the first request to the last reply; 0 before the first reply."""
        if self.first_request is None or self.last_reply is None:
            return 0.0
        return self.last_reply - self.first_request

    def request_arrived(self, at: float) -> None:
        """Count a request in."""
        self.requests += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        if self.first_request is None:
            self.first_request = at

    def request_left(self, *, answered: bool) -> None:
        """Count a request out, be it answered, dropped, or given up by the client."""
        self.in_flight -= 1
        if answered:
            self.last_reply = time.monotonic()

    def as_json(self) -> dict[str, float]:
        """Give every counter under its name; the first request by the clock that all processes share."""
        return {
            "requests": self.requests,
            "connections": self.connections,
            "open_connections": len(self.open),
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "span_s": self.span_s,
            "first_request_at": self.first_request or 0.0,
        }
