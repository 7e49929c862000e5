"""gRPC: its calls open sockets that Python does not see, and are on no tape; in a replay they are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_agenteval.cassettes.http.scope import answering

_CALLING = ("__call__", "with_call", "future")
"""How a method of a server is called; a stub holds what is called, for longer than any trial."""
_WATCHING = ("subscribe", "get_state")
"""How a channel is looked at, which connects it where ``try_to_connect`` is true: to wait for it does so."""


def patch_points(grpc: Any) -> Iterator[tuple[type, str, Any]]:
    """Say what is patched: calls from threads, then those from loops."""
    from grpc import _channel
    from grpc.aio import _channel as aio_channel

    for module in (_channel, aio_channel):
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__name__.endswith("MultiCallable"):
                for name in _CALLING:
                    if kind.__module__ == module.__name__ and name in vars(kind):
                        yield kind, name, _patch_call
        for name in _WATCHING:
            if name in vars(module.Channel):
                yield module.Channel, name, _patch_watching


def _patch_call(real: Any) -> Any:
    def call(called: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_in_replay("CALL", f"{_text(called, '_target')}{_text(called, '_method')}")
        return real(called, *args, **kwargs)

    return call


def _patch_watching(real: Any) -> Any:
    def watch(channel: Any, *args: Any, **kwargs: Any) -> Any:
        if any(flag is True for flag in (*args, *kwargs.values())):
            target = getattr(channel._channel, "target", None)  # that of a loop holds its own to itself
            place = target().decode("utf-8", "replace") if callable(target) else "channel"
            _refuse_in_replay("CONNECT", place)
        return real(channel, *args, **kwargs)

    return watch


def _refuse_in_replay(method: str, place: str) -> None:
    scope = answering()
    if scope is not None and not scope.live:
        from pytest_agenteval.cassettes.interaction import Request

        raise scope.refusal(Request(method, f"grpc://{place}"))
    if scope is not None:
        scope.note_connection(place)


def _text(called: Any, name: str) -> str:
    value = getattr(called, name, b"")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
