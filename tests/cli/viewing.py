"""A server of ``agenteval view`` for tests, and a client that sends exactly what it is given."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pytest_agenteval.cli.view_runs import ViewedRuns
from pytest_agenteval.cli.view_server import ViewServer
from pytest_agenteval.cli.view_site import ViewSite
from pytest_agenteval.reports.scorecard import RegisteredScorecard


class Got(NamedTuple):
    """A reply: its status, its headers by lower-case name, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as a text."""
        return self.body.decode()


class Client:
    """Speaks to a server as its browser does, unless a request says otherwise."""

    def __init__(self, server: ViewServer) -> None:
        self.server = server
        self.host = f"127.0.0.1:{server.server_port}"

    def ask(
        self,
        target: str,
        method: str = "GET",
        headers: Mapping[str, str | None] = {},
        body: bytes = b"",
        token: str | None = "right",
    ) -> Got:
        """Send one request; a header that is None is left out."""
        cookie = self.server.token if token == "right" else token
        whole: dict[str, str | None] = {
            "Host": self.host,
            "Cookie": f"other=1; {self.server.cookie}={cookie}" if cookie else None,
            "Connection": "close",
        }
        if method == "POST":
            whole |= {"Origin": f"http://{self.host}", "Content-Type": "application/json"}
            whole |= {"Content-Length": str(len(body))}
        whole |= headers
        lines = [
            f"{method} {target} HTTP/1.1",
            *(f"{name}: {value}" for name, value in whole.items() if value),
        ]
        return self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def post(self, target: str, data: object, headers: Mapping[str, str | None] = {}) -> Got:
        """Post JSON."""
        return self.ask(target, "POST", headers, json.dumps(data).encode())

    def send(self, data: bytes) -> Got:
        """Send these bytes, and read until the server ends the connection."""
        with socket.create_connection(("127.0.0.1", self.server.server_port), timeout=60) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return Got(int(first.split()[1]), headers, body)


@contextmanager
def viewing(
    results: Path,
    named: Sequence[Path] = (),
    project: Path | None = None,
    scorecards: Sequence[RegisteredScorecard] = (),
) -> Iterator[Client]:
    """Serve a folder of runs for as long as the block lasts."""
    runs = ViewedRuns(results, named, project or results)
    server = ViewServer(ViewSite(runs, scorecards).answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Client(server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def side(*parts: str) -> str:
    """Name a side as pages do."""
    return "/".join(quote(part, safe="") for part in parts)
