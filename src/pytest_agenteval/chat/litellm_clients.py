"""Clients that litellm has dropped from its cache: held until somebody has closed them."""

from __future__ import annotations

from contextlib import suppress
from inspect import isawaitable
from typing import Any
from weakref import WeakSet


class DroppedClients:
    """Stands before litellm's own closer, which closes what an hour made too old a while after it is dropped.

    That one holds them weakly: a client that is collected meanwhile, or is waiting still when the run ends,
    would never be closed, and aiohttp complains of its session.
    """

    def __init__(self, closer: Any) -> None:
        self._closer = closer
        self._owned: WeakSet[Any] = WeakSet()
        self._held: list[Any] = []

    def mark_owned(self, client: object) -> None:
        """Note that litellm made this client, and not the user."""
        with suppress(TypeError):  # as litellm does: what cannot be referred to weakly is no client
            self._owned.add(client)
        self._closer.mark_owned(client)

    def schedule(self, client: object) -> None:
        """Hold a client that is to be closed later."""
        with suppress(TypeError):
            if client in self._owned:
                self._held.append(client)
        self._closer.schedule(client)

    def reap(self) -> None:
        """Close those whose time has come."""
        self._closer.reap()
        if not self._closer.pending_count:
            self._held.clear()

    async def close(self) -> None:
        """Close all that are left."""
        held, self._held = self._held, []
        for client in held:
            with suppress(Exception):  # its loop may be somebody else's, and over
                closing = (getattr(client, "aclose", None) or client.close)()
                if isawaitable(closing):
                    await closing
