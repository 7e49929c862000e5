"""The server of ``agenteval view``: on this machine alone, for whoever has its token."""

from __future__ import annotations

import gzip
import json
import secrets
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from hmac import compare_digest
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode

from pytest_agenteval.processes.files import POSIX
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

ADDRESS = "127.0.0.1"
METHODS = ("GET", "HEAD", "POST")
MOST_FIELDS = 1000
MOST_POSTED = 64 * 1024
"""Bytes of a request's body: a note is a comment."""

SMALL = 1024
"""Bytes of a reply that is not worth compressing."""

HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
NOTHING_LOADS = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

# For every reply: nothing is guessed, shown in a frame, stored on disk or sent along to other pages.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

NO_TOKEN = "Open the address that `agenteval view` printed: it holds the key to this page.\n"


class ViewRequest(NamedTuple):
    """A request that passed all checks: a path, the values of its query, and what was posted.

    ``etag`` names the version that the browser has.
    """

    path: str
    query: Mapping[str, Sequence[str]]
    posted: Mapping[str, Any] | None = None
    etag: str = ""


class ViewReply(NamedTuple):
    """What a request gets; ``policy`` is its Content-Security-Policy, ``etag`` names the version of the body.

    ``packed`` is the body as gzip, where it is at hand.
    """

    body: bytes
    content_type: str = TEXT
    status: int = 200
    policy: str = NOTHING_LOADS
    etag: str = ""
    packed: bytes = b""
    headers: Mapping[str, str] = {}


Answer = Callable[[ViewRequest], ViewReply]


def text_reply(status: int, text: str, headers: Mapping[str, str] = {}) -> ViewReply:
    return ViewReply(
        KNOWN_SECRETS.text(text).encode(errors="backslashreplace"), status=status, headers=headers
    )


def json_reply(data: object, status: int = 200, etag: str = "") -> ViewReply:
    text = json.dumps(KNOWN_SECRETS.value(data), separators=(",", ":"))
    return ViewReply(text.encode(), JSON, status, etag=etag)


class ViewServer(ThreadingHTTPServer):
    """Serves what ``answer`` gives on a port of 127.0.0.1; 0 lets the system choose one.

    Raises OSError where the port cannot be had.
    """

    daemon_threads = True
    block_on_close = False
    # Elsewhere another process could take the same port.
    allow_reuse_address = POSIX
    request_queue_size = 64

    def __init__(self, answer: Answer, port: int = 0) -> None:
        self.answer, self.token = answer, secrets.token_urlsafe(32)
        self._tokens_of_one_visit: set[str] = set()
        super().__init__((ADDRESS, port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer's own would look up the machine's name, which may ask a server elsewhere.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    @property
    def cookie(self) -> str:
        """The name of the cookie; browsers do not tell the ports of a machine apart."""
        return f"agenteval_{self.server_port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        return f"{ADDRESS}:{self.server_port}", f"localhost:{self.server_port}"

    def url(self, path: str = "/", *, once: bool = False) -> str:
        """Give an address with the token; with ``once`` one that works a single time.

        Commands, and so the address that a browser is started with, can be seen by others on the machine.
        """
        token = self.token
        if once:
            token = secrets.token_urlsafe(32)
            self._tokens_of_one_visit.add(token)
        return f"http://{ADDRESS}:{self.server_port}{path}{'&' if '?' in path else '?'}token={token}"

    def has_token(self, token: str) -> bool:
        """Whether this is the token, or one of a single visit, which it then no longer is."""
        given = token.encode(errors="replace")
        for single in [each for each in self._tokens_of_one_visit if compare_digest(each.encode(), given)]:
            self._tokens_of_one_visit.discard(single)
            return True
        return compare_digest(self.token.encode(), given)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print our own mistakes; a browser that leaves is none."""
        if not isinstance(sys.exception(), OSError):
            traceback.print_exc()


class _Refused(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.reply = text_reply(status, text, headers)


class _Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: ViewServer
    protocol_version = "HTTP/1.1"
    server_version = sys_version = ""
    # Seconds after which a connection that says nothing is closed.
    timeout = 60

    def do_GET(self) -> None:
        """Answer a request of any method."""
        try:
            reply = self._answered()
        except _Refused as refused:
            # What it has posted is not read.
            self.close_connection = True
            reply = refused.reply
        except UsageMistake as mistake:
            reply = json_reply({"problem": str(mistake)}, 404)
        except OSError as broken:
            if isinstance(broken, (ConnectionError, TimeoutError)):
                raise
            # A run may be removed while it is read.
            reply = json_reply({"problem": f"cannot be read ({broken.strerror or broken})"}, 404)
        except Exception:
            traceback.print_exc()
            reply = text_reply(500, "agenteval view failed: see the traceback in its terminal.\n")
        self._send(reply)

    do_HEAD = do_POST = do_GET

    def _answered(self) -> ViewReply:
        # Read first, where it is short: a connection that is closed before may lose the reply.
        body = self._body()
        self.close_connection |= self.command != "POST" and body != b""
        if self.headers.get_all("Host", [])[:2] not in [[host] for host in self.server.hosts]:
            # A name that someone else's DNS server lets point here.
            raise _Refused(403, "The address must begin with 127.0.0.1 or localhost, and have the port.\n")
        path, _, rest = self.path.partition("?")
        if not path.startswith("/") or path.startswith("//") or "\\" in path:
            raise _Refused(400, "expected a path\n")
        try:
            query = parse_qs(rest, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
        except ValueError:
            raise _Refused(400, f"more than {MOST_FIELDS} fields\n") from None
        if self.command in ("GET", "HEAD") and (tokens := query.pop("token", None)):
            return self._welcomed(path, query, tokens[0])
        self._check_cookie()
        self._check_origin()
        if self.command not in METHODS:
            raise _Refused(405, "refused\n", Allow=", ".join(METHODS))
        posted = self._posted(body) if self.command == "POST" else None
        return self.server.answer(ViewRequest(path, query, posted, self.headers.get("If-None-Match", "")))

    def _welcomed(self, path: str, query: Mapping[str, Sequence[str]], token: str) -> ViewReply:
        """Exchange the token of an address for a cookie, and go to the address without it."""
        if not self.server.has_token(token):
            raise _Refused(403, NO_TOKEN)
        place = f"{path}?{urlencode(query, doseq=True)}" if query else path
        # A page, and no redirection: where another site's link led here, browsers would not send a strict
        # cookie to the address that it redirects to.
        page = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>agenteval view</title>
<meta http-equiv="refresh" content="0; url={escape(place)}"><p><a href="{escape(place)}">Go on</a></p></html>
"""
        cookie = f"{self.server.cookie}={self.server.token}; Path=/; HttpOnly; SameSite=Strict"
        return ViewReply(page.encode(), HTML, headers={"Set-Cookie": cookie})

    def _check_cookie(self) -> None:
        pairs = (pair.strip().partition("=") for pair in self.headers.get("Cookie", "").split(";"))
        values = [value for name, _, value in pairs if name == self.server.cookie]
        if not any(
            compare_digest(self.server.token.encode(), value.encode(errors="replace")) for value in values
        ):
            raise _Refused(403, NO_TOKEN)

    def _check_origin(self) -> None:
        """Refuse what other pages of this machine ask for: browsers send them the cookie of every port."""
        site = self.headers.get("Sec-Fetch-Site", "none")
        is_visit = self.command != "POST" and self.headers.get("Sec-Fetch-Mode") == "navigate"
        if site not in ("same-origin", "none") and not is_visit:
            raise _Refused(403, "Only this page may ask for that.\n")
        if self.command == "POST" and self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            raise _Refused(403, "Only this page may send that.\n")

    def _body(self) -> bytes | None:
        """Read what was posted; None where it has no length, or is too long."""
        if "Transfer-Encoding" in self.headers:
            return None
        length = self.headers.get("Content-Length", "0")
        is_short = length.isascii() and length.isdecimal() and len(length) <= len(str(MOST_POSTED))
        return self.rfile.read(int(length)) if is_short and int(length) <= MOST_POSTED else None

    def _posted(self, body: bytes | None) -> Mapping[str, Any]:
        if self.headers.get_content_type() != JSON:
            raise _Refused(415, "expected JSON\n")
        if body is None:
            raise _Refused(413, f"expected a length of at most {MOST_POSTED:,} bytes\n")
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise _Refused(400, "expected a JSON object\n")
        return data

    def _send(self, reply: ViewReply) -> None:
        is_known = reply.status == 200 and reply.etag and reply.etag == self.headers.get("If-None-Match")
        status, body = (304, b"") if is_known else (reply.status, reply.body)
        headers = {"Content-Type": reply.content_type, "Content-Security-Policy": reply.policy, **HEADERS}
        headers |= {"ETag": reply.etag} if reply.etag else {}
        if len(body) >= SMALL and "gzip" in self.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = reply.packed or gzip.compress(body, 5), "gzip"
        headers |= {**reply.headers, "Content-Length": str(len(body))}
        headers |= {"Connection": "close"} if self.close_connection else {}
        # Else a reply to what is no request would have no head.
        self.request_version = self.protocol_version
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request, without repeating any of it; another method is refused as all are."""
        self.close_connection = True
        if code == HTTPStatus.NOT_IMPLEMENTED and "Host" in getattr(self, "headers", ()):
            self.do_GET()
            return
        self.headers = self.MessageClass()
        self._send(text_reply(code, "refused\n"))

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the terminal is the user's."""
