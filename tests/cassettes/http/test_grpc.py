"""Calls over gRPC are refused where nothing may be sent: Python sees none of the sockets they open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pytest_agenteval.cassettes.http.patches import intercepted_requests, taped_http
from pytest_agenteval.cassettes.http.scope import NotRecorded
from pytest_agenteval.cassettes.tape import Library

grpc = pytest.importorskip("grpc")


class Greeter(grpc.GenericRpcHandler):
    """Answers whatever is called, and remembers it."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def service(self, details: Any) -> Any:
        """Give what answers a call."""

        def answer(request: bytes, context: Any) -> bytes:
            self.called.append(details.method)
            return b"Mina"

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def greeter() -> Iterator[tuple[Greeter, str]]:
    """A server on loopback, and its address."""
    greeter = Greeter()
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool, handlers=[greeter])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield greeter, f"127.0.0.1:{port}"
        server.stop(None).wait()


def blocking(address: str) -> Callable[[], bytes]:
    """Call from a thread, with a stub that was made before."""
    stub = grpc.insecure_channel(address).unary_unary("/greeting/hello")
    return lambda: bytes(stub(b"?", timeout=20))


def waiting(address: str) -> Callable[[], bytes]:
    """Call from a loop."""

    async def call() -> bytes:
        async with grpc.aio.insecure_channel(address) as channel:
            return bytes(await channel.unary_unary("/greeting/hello")(b"?", timeout=20))

    return lambda: asyncio.run(call())


def waiting_until_ready(address: str) -> None:
    """Connect a channel from a thread, without a call."""
    grpc.channel_ready_future(grpc.insecure_channel(address)).result(timeout=20)


def waiting_until_ready_on_a_loop(address: str) -> None:
    """Connect a channel of a loop, without a call."""

    async def connect() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            await channel.channel_ready()

    asyncio.run(connect())


@pytest.mark.parametrize("connect", [waiting_until_ready, waiting_until_ready_on_a_loop])
def test_a_channel_is_not_connected_in_a_replay(
    greeter: tuple[Greeter, str], connect: Callable[[str], None], tmp_path: Any
) -> None:
    """To wait until a server is ready is to reach it."""
    tape = Library(tmp_path).open(tmp_path / "t.yaml", "none", "tool")
    with taped_http(tape) as scope, pytest.raises(NotRecorded):
        connect(greeter[1])
    assert [request.method for request in scope.missed] == ["CONNECT"]
    connect(greeter[1])


@pytest.mark.parametrize("client", [blocking, waiting])
def test_a_call_is_refused_in_a_replay_and_goes_out_where_it_may(
    greeter: tuple[Greeter, str], client: Callable[[str], Callable[[], bytes]], tmp_path: Any
) -> None:
    """Let out it is sent; it is on no tape."""
    server, address = greeter
    call = client(address)
    tape = Library(tmp_path).open(tmp_path / "t.yaml", "none", "tool")

    with taped_http(tape) as scope, pytest.raises(NotRecorded):
        call()
    assert server.called == []
    assert [request.method for request in scope.missed] == ["CALL"]
    assert scope.missed[0].uri.endswith("/greeting/hello")

    with intercepted_requests(lambda: [tape], passing=True):
        assert call() == b"Mina"
    assert server.called == ["/greeting/hello"]
