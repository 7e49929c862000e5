"""MCP servers at an address, in the older form of the protocol too: with sessions, events and keys."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.text.errors import McpServerDown
from pytest_agenteval.tools.mcp_servers import LoopThread, ServerPool, list_served_tools

RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "shop", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "price", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "3"}]},
}


class Shop(BaseHTTPRequestHandler):
    """Answers ``initialize`` by JSON, and all that follows by events, within the session that it opened."""

    server: Any

    def do_POST(self) -> None:
        """Answer a message."""
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, session = message["method"], self.headers["Mcp-Session-Id"]
        self.server.seen.append((method, session))
        answer = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": RESULTS.get(method)})
        if self.headers["Authorization"] != "Bearer sesame":
            self._reply(401)
        elif "id" not in message:
            self._reply(202)
        elif method == "initialize":
            self._reply(200, answer, "application/json", **{"Mcp-Session-Id": "one"})
        elif method in RESULTS and session == "one":
            self._reply(200, f"event: message\ndata: {answer}\n\n", "text/event-stream")
        else:
            self._reply(400)

    def do_GET(self) -> None:
        """Offer no stream of its own."""
        self._reply(405)

    def do_DELETE(self) -> None:
        """End the session."""
        self.server.seen.append(("end", self.headers["Mcp-Session-Id"]))
        self._reply(200)

    def _reply(self, status: int, body: str = "", kind: str = "text/plain", **more: str) -> None:
        self.send_response(status)
        for header in {"Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def shop() -> Iterator[Any]:
    """A server at an address, which notes each message with its session."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        server.seen = []  # type: ignore[attr-defined]  # a list of ours
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_server_at_an_address_is_asked_in_its_session_with_the_users_key(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies come as JSON or as events; the session is ended; a refused key is named by its status."""
    monkeypatch.setenv("SHOP_KEY", "sesame")
    headers = {"Authorization": "Bearer ${SHOP_KEY}"}
    server = McpServer(url=f"http://127.0.0.1:{shop.server_port}/mcp", headers=headers)
    loop = LoopThread("shop")
    servers = ServerPool(loop)

    assert [tool.name for tool in servers.tools(server).result()] == ["price"]
    assert servers.call(server, "price", {"item": "tea"}).result() == "3"
    servers.close().result()
    loop.close()
    messages = [pair for pair in shop.seen if pair[0] in (*RESULTS, "end")]
    assert messages == [("initialize", None), ("tools/list", "one"), ("tools/call", "one"), ("end", "one")]

    monkeypatch.setenv("SHOP_KEY", "wrong")
    with pytest.raises(McpServerDown, match=r"did not start: .* \(HTTP 401\)$"):
        list_served_tools(server)
