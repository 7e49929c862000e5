"""The wire files: exchanges with model APIs in the shapes that providers document, and how each is read.

A file holds a ``request``, ``responses`` that are all to be read in the same way (a JSON body, a text, or AWS
``frames``, which ``cut`` leaves so many bytes short), what is ``expected``, and ``echoes``: what clients put
behind the messages of the request once they have the reply.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import pack
from typing import Any
from zlib import crc32

from pytest_agenteval.cassettes.interaction import Request, Response
from tests.yaml_files import read_yaml

FILES = Path(__file__).parent / "files"
PLACES = ("messages", "input", "contents")


@dataclass(frozen=True)
class Exchange:
    """One wire file."""

    name: str
    content: Mapping[str, Any]

    @property
    def format(self) -> str:
        return str(self.expected["request"]["format"])

    @property
    def expected(self) -> Mapping[str, Any]:
        return dict(self.content["expected"])

    @property
    def request(self) -> Request:
        return self._asked(self.content["request"]["body"])

    def responses(self) -> Iterator[tuple[str, Response]]:
        for name, response in self.content["responses"].items():
            yield name, _response(response)

    def echoes(self) -> Iterator[tuple[str, Request]]:
        """Give the next request of each client of which the file knows how it sends replies back."""
        body = self.content["request"]["body"]
        place = next(name for name in PLACES if name in body)
        before = body[place] if isinstance(body[place], list) else [{"role": "user", **_said(body[place])}]
        for client, more in self.content.get("echoes", {}).items():
            yield client, self._asked({**body, place: [*before, *more]})

    def _asked(self, body: Mapping[str, Any]) -> Request:
        return Request("POST", self.content["request"]["uri"], json.dumps(body))


def _said(content: Any) -> dict[str, Any]:
    return content if isinstance(content, dict) else {"content": content}


@cache
def exchanges() -> tuple[Exchange, ...]:
    """Give every wire file."""
    paths = sorted(FILES.rglob("*.yaml"))
    return tuple(Exchange(f"{path.parent.name}/{path.stem}", _loaded(path)) for path in paths)


def _loaded(path: Path) -> Mapping[str, Any]:
    content: Mapping[str, Any] = read_yaml(path)
    return content


def _response(response: Any) -> Response:
    if isinstance(response, dict) and "frames" in response:
        raw = b"".join(frame(name, held) for it in response["frames"] for name, held in it.items())
        return Response(200, "OK", {}, raw[: len(raw) - response.get("cut", 0)])
    if isinstance(response, dict) and "body" in response:
        return Response(response["status"], "", response.get("headers", {}), _text(response["body"]))
    return Response(200, "OK", {}, _text(response))


def _text(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def frame(name: str, payload: Any) -> bytes:
    """Write an event as AWS frames it; ``chunk`` wraps another format's event, ``exception`` is one."""
    kind, headers = "event", {":event-type": name}
    if name == "chunk":
        payload = {"bytes": b64encode(json.dumps(payload).encode()).decode(), "p": "abc"}
    if name == "exception":
        ((exception, payload),) = payload.items()
        kind, headers = "exception", {":exception-type": exception}
    texts = {**headers, ":content-type": "application/json", ":message-type": kind}
    written = b"".join(
        pack(">B", len(key)) + key.encode() + pack(">BH", 7, len(value)) + value.encode()
        for key, value in texts.items()
    )
    body = json.dumps(payload).encode()
    prelude = pack(">II", 12 + len(written) + len(body) + 4, len(written))
    framed = prelude + pack(">I", crc32(prelude)) + written + body
    return framed + pack(">I", crc32(framed))
