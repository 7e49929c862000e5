"""The part of GitHub's API that comments take, on the loopback interface, with comments in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOT = {"login": "github-actions[bot]", "type": "Bot"}
LIMIT = 65_536


class CommentsApi:
    """Pull request 7 of ``o/r``: its comments, who asks, and what is refused.

    ``writes`` is the status of every request that would write, 0 for obeying it. A user's own token has a
    ``login``, a job's has none. Where it ``breaks_off``, answers end before they are whole.
    """

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        self.writes, self.login = 0, ""
        self.breaks_off = False
        self.requests: list[str] = []
        self.tokens: set[str] = set()
        self.url = ""

    def add(self, body: str, user: dict[str, str] = BOT) -> dict[str, Any]:
        """Put a comment there."""
        self.comments.append({"id": 100 + len(self.comments), "body": body, "user": user})
        return self.comments[-1]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Give status and content of an answer."""
        url = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.requests.append(f"{method} {url.path}")
        if method != "GET" and self.writes:
            return self.writes, {"message": "Resource not accessible by integration"}
        if method != "GET" and len(body["body"]) > LIMIT:
            return 422, {"message": "Body is too long (maximum is 65536 characters)"}
        match (method, url.path.split("/")[1:]):
            case ("GET", ["user"]):
                return (200, {"login": self.login}) if self.login else (403, {})
            case ("GET", ["repos", "o", "r", "issues", "7", "comments"]):
                size, page = int(query["per_page"]), int(query["page"])
                return 200, self.comments[size * (page - 1) : size * page]
            case ("POST", ["repos", "o", "r", "issues", "7", "comments"]):
                return 201, self.add(body["body"])
            case ("PATCH", ["repos", "o", "r", "issues", "comments", number]):
                comment = next(each for each in self.comments if each["id"] == int(number))
                comment["body"] = body["body"]
                return 200, comment
            case ("GET", ["repos", "o", "r", "pulls"]):
                return 200, [pull for pull in self.pulls if pull["label"] == query["head"]]
        return 404, {}


@contextmanager
def serving(api: CommentsApi) -> Iterator[CommentsApi]:
    """Let an API answer over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            api.tokens.add(self.headers["Authorization"])
            status, content = api.answer(self.command, self.path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[:-1] if api.breaks_off else data)

        do_GET = do_POST = do_PATCH = _answer

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
