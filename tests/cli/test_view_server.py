"""Who may look at runs in the browser: whoever has the token, from the page itself, and nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_agenteval.cli.view_server import MOST_POSTED, ViewReply, ViewRequest, ViewServer
from tests.cli.viewing import Client, viewing
from tests.reports.runs import MIXED, store_run

PATHS = ("/", "/api/runs", "/api/baselines", "/nothing")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One run is served."""
    results = tmp_path_factory.mktemp("served") / "runs"
    store_run(results, MIXED)
    with viewing(results) as client:
        yield client


@pytest.mark.parametrize("token", ["", "wrong", "미나".encode().decode("latin-1"), '"', "x" * 5000])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS", "TRACE"])
def test_nothing_is_told_without_the_token(client: Client, method: str, token: str) -> None:
    """Whatever is asked for, also what does not exist, and by whichever method."""
    for path in (*PATHS, "/?token=", "/?token=wrong", "/api/runs?token=wrong"):
        got = client.ask(path, method, token=token)
        assert got.status == 403
        assert b"rules" not in got.body
        assert "set-cookie" not in got.headers


def test_the_address_lets_in_and_the_cookie_stays_with_the_browser(client: Client) -> None:
    """The token does not stay in the address; no script can read the cookie, no other site can send it."""
    server = client.server
    got = client.ask(server.url("/report?side=a%2Fb&side=c").partition(client.host)[2], token=None)
    assert got.status == 200
    assert 'content="0; url=/report?side=a%2Fb&amp;side=c"' in got.text
    assert server.token not in got.text
    value, *flags = got.headers["set-cookie"].split("; ")
    assert value == f"agenteval_{server.server_port}={server.token}"
    assert flags == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert client.ask("/").status == 200


def test_the_address_that_a_browser_is_started_with_works_once(client: Client) -> None:
    """Everybody on a machine can see the arguments of its commands, a moment later."""
    target = client.server.url(once=True).partition(client.host)[2]
    assert client.server.token not in target
    assert [client.ask(target, token=None).status for _ in range(2)] == [200, 403]


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:{port}"]
)
def test_a_name_that_leads_here_is_not_enough(client: Client, host: str | None) -> None:
    """A site whose own DNS server answers 127.0.0.1 gets nothing, even with the cookie and the token."""
    named = host and host.format(port=client.server.server_port)
    for path in (*PATHS, client.server.url().partition(client.host)[2]):
        assert client.ask(path, headers={"Host": named}).status == 403
    doubled = f"{client.host}\r\nHost: evil.example"
    assert client.ask("/", headers={"Host": doubled}).status == 403
    assert client.ask("/", headers={"Host": f"localhost:{client.server.server_port}"}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_other_pages_can_send_nothing(client: Client, headers: dict[str, str | None]) -> None:
    """Also those of other servers on this machine, to whom browsers send the same cookies."""
    assert client.post("/api/runs", {}, headers).status == 403


def test_other_pages_can_load_nothing_but_a_link_may_lead_here(client: Client) -> None:
    """An image or a script of a page that another port serves would have the cookie."""
    for site in ("cross-site", "same-site"):
        assert client.ask("/api/runs", headers={"Sec-Fetch-Site": site}).status == 403
        visit = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        assert client.ask("/", headers=visit).status == 200
    for site in ("same-origin", "none"):
        assert client.ask("/api/runs", headers={"Sec-Fetch-Site": site}).status == 200


def test_every_reply_forbids_what_a_page_could_do(client: Client) -> None:
    """Nothing is loaded or sent elsewhere, guessed, framed or kept; refusals say no more than others."""
    replies = [client.ask(path) for path in PATHS] + [client.ask("/", token=None), client.ask("/", "PUT")]
    replies += [client.send(b"nonsense\r\n\r\n"), client.post("/", [])]
    for got in replies:
        policy = got.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'none'" in policy
        assert not {"*", "http:", "https:", "'unsafe-eval'"} & set(policy.replace(";", "").split())
        assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["referrer-policy"] == "no-referrer"
        assert got.headers["cache-control"] == "no-store"
        assert got.headers["cross-origin-resource-policy"] == "same-origin"
        assert "Python" not in str(got.headers)
        assert "access-control-allow-origin" not in got.headers


@pytest.mark.parametrize(
    "target",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/runs/../run.json",
        "/.held",
        "//evil.example/",
        "/\\evil.example",
        "http://evil.example/",
        "evil",
        "*",
        "/api/runs/",
        "/%00",
    ],
)
def test_no_path_leads_to_a_file(client: Client, target: str) -> None:
    """A path is one of a few names, and never looked up on the disk."""
    got = client.ask(target)
    assert got.status in (400, 404)
    assert b"root:" not in got.body
    assert client.ask(f"{target}?token={client.server.token}", token=None).status in (200, 400)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"<script>alert(1)</script> / HTTP/1.1\r\n\r\n", 501),
    ],
)
def test_what_is_no_request_is_refused_without_repeating_it(
    client: Client, request_: bytes, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither page nor terminal show what was sent, and the server goes on."""
    got = client.send(request_)
    assert (got.status, got.body) == (status, b"refused\n")
    assert client.ask("/").status == 200
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Content-Type": "text/plain"}, b"{}", 415),
        ({"Content-Type": None}, b"{}", 415),
        ({"Content-Length": None, "Transfer-Encoding": "chunked"}, b"2\r\n{}\r\n0\r\n\r\n", 413),
        ({"Content-Length": str(MOST_POSTED + 1)}, b"{}", 413),
        ({"Content-Length": "9" * 5000}, b"{}", 413),
        ({"Content-Length": "-1"}, b"{}", 413),
        ({"Content-Length": "+2"}, b"{}", 413),
        ({}, b"[]", 400),
        ({}, b"{", 400),
        ({}, b"\xff", 400),
        ({}, b"[" * 60_000, 400),
        ({}, b"{}", 405),
    ],
)
def test_only_short_json_can_be_posted(
    client: Client, headers: dict[str, str | None], body: bytes, status: int
) -> None:
    """And only where a page takes it: nothing else is read, however much is sent."""
    assert client.ask("/api/runs", "POST", headers, body).status == status


def test_other_methods_are_refused(client: Client) -> None:
    """A reply to HEAD has the same headers as one to GET, and no body."""
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT"):
        got = client.ask("/api/runs", method)
        assert (got.status, got.headers["allow"]) == (405, "GET, HEAD, POST")
    whole, head = client.ask("/api/runs"), client.ask("/api/runs", "HEAD")
    assert head.body == b""
    assert head.headers["content-length"] == whole.headers["content-length"] == str(len(whole.body))


def test_what_the_browser_has_is_not_sent_again_and_the_rest_is_packed(client: Client) -> None:
    """The page asks every two seconds: nothing new is a reply of no bytes."""
    got = client.ask("/api/runs")
    again = client.ask("/api/runs", headers={"If-None-Match": got.headers["etag"]})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", got.headers["etag"])
    assert client.ask("/api/runs", headers={"If-None-Match": '"older"'}).json == got.json
    packed = client.ask("/", headers={"Accept-Encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == client.ask("/").text


def test_a_connection_is_used_for_several_requests_and_what_one_has_sent_is_not_the_next(
    client: Client,
) -> None:
    """A request with a body that nobody reads ends the connection: its body would be taken for a request."""
    cookie = f"{client.server.cookie}={client.server.token}"
    head = f"GET /api/runs HTTP/1.1\r\nHost: {client.host}\r\nCookie: {cookie}\r\n".encode()
    end = b"Connection: close\r\n\r\n"
    assert client.send(head + b"\r\n" + head + end).body.count(b"HTTP/1.1 200") == 1
    inner = b"GET /?inner HTTP/1.1\r\n\r\n"
    smuggled = head + b"Content-Length: %d\r\n\r\n" % len(inner) + inner
    assert client.send(smuggled).body.count(b"HTTP/1.1") == 0
    assert client.send(head + b"Transfer-Encoding: chunked\r\n\r\n" + inner).body.count(b"HTTP/1.1") == 0


def test_our_own_mistake_shows_its_traceback_in_the_terminal_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The page says where to look, and the server goes on."""

    def broken(request: ViewRequest) -> ViewReply:
        raise ZeroDivisionError(request.path)

    server = ViewServer(broken)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    got = [Client(server).ask("/secret") for _ in range(2)]
    server.shutdown()
    server.server_close()
    assert [(each.status, b"secret" in each.body, b"ZeroDivision" in each.body) for each in got] == [
        (500, False, False)
    ] * 2
    assert capsys.readouterr().err.count("ZeroDivisionError: /secret") == 2


def test_it_listens_on_this_machine_alone(client: Client) -> None:
    """On 127.0.0.1: nobody in the same network reaches it."""
    assert client.server.server_address[0] == "127.0.0.1"
    assert client.server.socket.getsockname()[0] == "127.0.0.1"


def test_a_run_is_removed_while_it_is_looked_at(tmp_path: Path) -> None:
    """It is no longer in the list, and the others stay."""
    first, second = store_run(tmp_path / "runs", MIXED), store_run(tmp_path / "runs", MIXED)
    with viewing(tmp_path / "runs") as client:
        assert len(client.ask("/api/runs").json["runs"]) == 2
        for path in first.folder.iterdir():
            path.unlink()
        first.folder.rmdir()
        assert [run["name"] for run in client.ask("/api/runs").json["runs"]] == [second.name]
