"""What programs of other processes ask at a trial's address is taped like what is asked in this one."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from pytest_agenteval.cassettes.cassette import RecordMode
from pytest_agenteval.cassettes.http import loopback_address
from pytest_agenteval.cassettes.http.loopback import open_address
from pytest_agenteval.cassettes.http.loopback_address import HOST, Connections, TrialAddress, Upstream
from pytest_agenteval.cassettes.http.scope import Scope
from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.cassettes.http.server import Answers

CANARY = "sk-canary-4711-in-no-child"
PATIENCE_S = 30


class Slow(Answers):
    """An upstream whose streams wait between their parts until somebody lets them go on."""

    def do_POST(self) -> None:
        """Stream, wait for ever, say the key again, or answer as the others do."""
        place = urlsplit(self.path).path
        if place in ("/v1/stream", "/v1/thinking"):
            self._stream(thinks=place == "/v1/thinking")
        elif place == "/v1/parrot":
            self._say_key_in_parts()
        elif place == "/v1/broken":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
            self.close_connection = True
        elif place == "/v1/never":
            self.server.asked.append(self.path)  # type: ignore[attr-defined]  # a list of ours
            self.server.arrived.set()  # type: ignore[attr-defined]  # an event of ours
            self.server.go_on.wait(PATIENCE_S)  # type: ignore[attr-defined]  # an event of ours
        elif place == "/v1/key":
            said = {"headers": dict(self.headers.items()), "path": self.path}
            self._answer(401, json.dumps(said).encode(), {"Content-Type": "application/json"})
        else:
            self.do_GET()
            self.close_connection = place == "/v1/closing"  # without a word

    def _say_key_in_parts(self) -> None:
        said = self.headers["Authorization"]
        self.send_response(200)
        self.send_header("X-Told", said)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for letter in f"It is {said.removeprefix('Bearer ')}!":
            self.wfile.write(f"1\r\n{letter}\r\n".encode())
        self.wfile.write(b"0\r\n\r\n")

    def _stream(self, *, thinks: bool) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if thinks:
            assert self.server.go_on.wait(PATIENCE_S)  # type: ignore[attr-defined]  # an event of ours
        self.wfile.write(b"8\r\ndata: 1\n\r\n")
        assert self.server.go_on.wait(PATIENCE_S)  # type: ignore[attr-defined]  # an event of ours
        self.wfile.write(b"8\r\ndata: 2\n\r\n0\r\n\r\n")


class Provider(ThreadingHTTPServer):
    """The server that requests really go to."""

    daemon_threads = True
    request_queue_size = 64  # thirty programs ask at once, and a busy machine is slow to take them up

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Slow)
        self.asked: list[str] = []
        self.go_on, self.arrived = threading.Event(), threading.Event()
        self.base = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A server that is really asked."""
    server = Provider()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.go_on.set()
    server.shutdown()
    server.server_close()


class Told(NamedTuple):
    """What a program is answered."""

    status: int
    headers: Any
    body: bytes


class Program:
    """A program's connection to its trial's address, kept open."""

    def __init__(self, address: TrialAddress, name: str = "openai") -> None:
        self.root = urlsplit(address.url(name))
        self.connection = http.client.HTTPConnection(str(self.root.netloc), timeout=PATIENCE_S)

    def ask(self, path: str, body: Any = None, method: str = "POST", **headers: str) -> Told:
        """Ask, and read all of the answer."""
        self.connection.request(method, self.root.path + path, body, headers)
        response = self.connection.getresponse()
        return Told(response.status, response.headers, response.read())


def openai(base: str, **more: Any) -> Upstream:
    """Give an upstream that signs as OpenAI's clients do."""
    return Upstream(
        "openai",
        f"{base}/v1",
        header="Authorization",
        prefix="Bearer ",
        key_env="CANARY_KEY",
        dummies=("authorization", "key"),
        version="v1",
        **more,
    )


@contextmanager
def trial(
    folder: Path, base: str, mode: RecordMode = "once", name: str = "t", **more: Any
) -> Iterator[tuple[TrialAddress, Scope]]:
    """Open the addresses of a trial with a tape of its own; what it records is on disk at the end."""
    library = Library(folder)
    tape = library.open(Path(f"{name}.yaml"), mode, "tool")
    scope = Scope(lambda: (tape,))
    with closing(open_address(scope, [openai(base, **more)])) as address:
        yield address, scope
    library.save()


def test_what_a_program_asks_is_recorded_and_played_with_the_server_down(
    tmp_path: Path, provider: Provider
) -> None:
    """Plain, zipped, in parts, redirected: a replay gives the same as the live run, and sends nothing."""

    def asked(address: TrialAddress) -> list[Told]:
        program = Program(address)
        return [
            program.ask("/chat/completions", b'{"a": 1}'),
            program.ask("/zipped", method="GET", **{"Accept-Encoding": "gzip"}),
            program.ask("/parts", iter([b"first,", b"second"])),
            program.ask("/find?q=%EC%84%9C%EC%9A%B8&n=2", method="GET"),
        ]

    with trial(tmp_path, provider.base) as (address, scope):
        live = asked(address)
    assert (scope.tape_status, len(provider.asked)) == ("live", 4)
    assert json.loads(live[2].body)["body"] == "first,second"
    assert [told.status for told in live] == [200] * 4

    with trial(tmp_path, provider.base, "none") as (address, scope):
        played = asked(address)
    assert (scope.tape_status, len(provider.asked)) == ("hit", 4)
    assert [told.body for told in played] == [told.body for told in live]


def test_a_redirect_leads_back_to_the_trials_own_address(tmp_path: Path, provider: Provider) -> None:
    """A program that follows one goes to the same server by the same way, live and in a replay."""
    for mode in ("once", "none"):
        upstream = Upstream("TOOL_API", provider.base)
        library = Library(tmp_path)
        tape = library.open(Path("t.yaml"), mode, "tool")  # type: ignore[arg-type]  # both are modes
        with closing(open_address(Scope(lambda tape=tape: (tape,)), [upstream])) as address:
            told = Program(address, "TOOL_API").ask("/redirect", method="GET")
            assert told.headers["Location"] == f"{address.url('TOOL_API')}/landed?n=1"
        library.save()


def test_what_is_not_recorded_is_refused_for_good(tmp_path: Path, provider: Provider) -> None:
    """With a status that no client tries again, and the trial knows what is missing."""
    with trial(tmp_path, provider.base, "none") as (address, scope):
        told = Program(address).ask("/chat/completions", b"{}")

    assert (told.status, told.headers["X-Should-Retry"], provider.asked) == (400, "false", [])
    assert "is not recorded" in json.loads(told.body)["error"]["message"]
    assert [request.uri for request in scope.missed] == [f"{provider.base}/v1/chat/completions"]


def test_a_stream_comes_through_as_it_is_sent(tmp_path: Path, provider: Provider) -> None:
    """The first word is there before the second is sent: the second is sent when the first was read."""
    with trial(tmp_path, provider.base) as (address, _):
        program = Program(address)
        program.connection.request("POST", f"{program.root.path}/stream", b"{}")
        response = program.connection.getresponse()
        assert response.read1(100) == b"data: 1\n"
        provider.go_on.set()
        assert response.read() == b"data: 2\n"

    with trial(tmp_path, provider.base, "none") as (address, _):
        assert Program(address).ask("/stream", b"{}").body == b"data: 1\ndata: 2\n"


def test_the_first_word_of_a_stream_is_not_its_head(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers send the head at once, and think before they speak."""
    seconds: list[float] = []
    with trial(tmp_path, provider.base) as (address, scope):
        monkeypatch.setattr(scope, "record", lambda request, response, first: seconds.append(first))
        program = Program(address)
        program.connection.request("POST", f"{program.root.path}/thinking", b"{}")
        response = program.connection.getresponse()
        time.sleep(0.2)
        provider.go_on.set()
        response.read()

    assert seconds[0] >= 0.2


def test_a_stream_that_breaks_off_is_a_failure_live_and_in_a_replay(
    tmp_path: Path, provider: Provider
) -> None:
    """A program sees that it is not whole; a replay answers that the provider did not."""
    with trial(tmp_path, provider.base) as (address, scope), pytest.raises(http.client.IncompleteRead):
        Program(address).ask("/broken", b"{}")
    assert scope.recorded == 1

    with trial(tmp_path, provider.base, "none") as (address, _):
        told = Program(address).ask("/broken", b"{}")
    assert (told.status, b"did not answer: http.client.IncompleteRead" in told.body) == (502, True)


def test_a_program_that_ends_with_its_streams_last_word_has_all_of_it_recorded(
    tmp_path: Path, provider: Provider
) -> None:
    """Nobody reads what comes after the last word, and the trial ends at once."""
    with trial(tmp_path, provider.base) as (address, scope):
        program = Program(address)
        program.connection.request("POST", f"{program.root.path}/stream", b"{}")
        program.connection.getresponse().read1(100)
        program.connection.close()
        provider.go_on.set()

    assert scope.recorded == 1


def test_after_its_end_a_trial_asks_nothing_more(tmp_path: Path, provider: Provider) -> None:
    """By its old path, by a connection that is still open, or by a path that somebody guesses."""
    with trial(tmp_path, provider.base) as (address, _):
        program = Program(address)
        program.ask("/first", b"{}")
    told = program.ask("/second", b"{}")
    program.root = urlsplit(address.url("openai").replace(address.token, "guessed"))

    assert (told.status, program.ask("/third", b"{}").status) == (403, 403)
    assert provider.asked == ["/v1/first"]


def test_a_request_that_waits_when_the_trial_ends_is_cut(tmp_path: Path, provider: Provider) -> None:
    """Nobody waits for a provider on behalf of a trial that is over."""
    with ThreadPoolExecutor(1) as pool, trial(tmp_path, provider.base) as (address, scope):
        waiting = pool.submit(Program(address).ask, "/never", b"{}")
        assert provider.arrived.wait(PATIENCE_S)
        address.close()
        assert waiting.result(PATIENCE_S).status == 502
    assert scope.recorded == 0


def test_what_is_slow_to_close_takes_no_time_from_cutting(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool server may take its time; a response that goes on for ever is still cut after it."""
    monkeypatch.setattr(loopback_address, "CUTTING_S", 0.2)
    with trial(tmp_path, provider.base) as (address, _):
        address.mount("tools", SlowToClose())
        program = Program(address)
        program.connection.timeout = PATIENCE_S / 3  # before the provider itself gives up
        program.connection.request("POST", f"{program.root.path}/stream", b"{}")
        response = program.connection.getresponse()
        assert response.read1(100) == b"data: 1\n"
        address.close(grace_s=0)
        with pytest.raises(http.client.IncompleteRead):
            response.read()
        assert not provider.go_on.is_set()


class SlowToClose:
    """Answers nothing, and takes longer to close than is left for cutting off what is under way."""

    def answer(self, method: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        raise AssertionError("nobody asks for a tool here")

    def close(self) -> None:
        time.sleep(0.4)


def test_a_host_that_is_reached_after_the_trial_has_ended_is_asked_nothing(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To reach one may take long; nobody can cut off what is not yet connected."""
    ended, connect = threading.Event(), http.client.HTTPConnection.connect

    def connect_slowly(connection: http.client.HTTPConnection) -> None:
        connect(connection)
        ended.set()

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect_slowly)
    with pytest.raises(ConnectionAbortedError):
        Connections().send("POST", f"{provider.base}/late", [], b"{}", is_awaited=lambda: not ended.is_set())

    assert provider.asked == []


def test_the_key_is_put_on_here_and_stands_nowhere_else(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program sends its dummy; the provider gets the key, and neither the program nor the tape has it."""
    monkeypatch.setenv("CANARY_KEY", CANARY)
    KNOWN_SECRETS.know_variables(["CANARY_KEY"])
    with trial(tmp_path, provider.base) as (address, _):
        told = Program(address).ask("/key?key=agenteval&n=1", b"{}", Authorization="Bearer agenteval")
        in_parts = Program(address).ask("/parrot", b"{}")

    sent = json.loads(told.body.replace(b"<redacted>", CANARY.encode()))
    assert (sent["headers"]["Authorization"], sent["path"]) == (f"Bearer {CANARY}", "/v1/key?n=1")
    assert CANARY not in told.body.decode()
    assert (in_parts.body, in_parts.headers["X-Told"]) == (b"It is <redacted>!", "Bearer <redacted>")
    assert CANARY not in (tmp_path / "t.yaml").read_text(encoding="utf-8")


def test_a_key_that_is_not_set_is_named_and_nothing_is_sent(tmp_path: Path, provider: Provider) -> None:
    """A provider would only say that some key is wrong."""
    with trial(tmp_path, provider.base, needed=True) as (address, _):
        told = Program(address).ask("/chat/completions", b"{}")

    assert (told.status, provider.asked) == (401, [])
    assert b"CANARY_KEY is not set where pytest runs" in told.body


def test_trials_that_run_at_once_are_told_apart(tmp_path: Path, provider: Provider) -> None:
    """Each has its own path: what one asks is on its own tape alone."""

    def one(me: int) -> set[str]:
        with trial(tmp_path, provider.base, name=f"t{me}") as (address, scope):
            with ThreadPoolExecutor(3) as pool:
                told = pool.map(lambda n: Program(address).ask(f"/mine?{me}-{n}", b"{}"), range(3))
                paths = {json.loads(each.body)["path"] for each in told}
            assert scope.recorded == 3
        return paths

    with ThreadPoolExecutor(10) as pool:
        for me, paths in enumerate(pool.map(one, range(10))):
            assert paths == {f"/v1/mine?{me}-{n}" for n in range(3)}
            text = (tmp_path / f"t{me}.yaml").read_text(encoding="utf-8")
            assert (text.count("uri:"), text.count(f"/v1/mine?{me}-")) == (3, 6)  # asked, and told back


def test_a_provider_that_closed_an_idle_connection_is_asked_by_another(
    tmp_path: Path, provider: Provider
) -> None:
    """A program keeps its connection, and never learns of it."""
    with trial(tmp_path, provider.base) as (address, _):
        program = Program(address)
        program.ask("/closing", b"{}")
        line = program.connection.sock
        assert program.ask("/next", b"{}").status == 200
        assert program.connection.sock is line is not None

    assert provider.asked == ["/v1/closing", "/v1/next"]


def test_what_goes_around_the_addresses_is_refused_and_counted(tmp_path: Path, provider: Provider) -> None:
    """A program that obeys HTTP_PROXY shows whom it asked: plainly, or by a tunnel that opens nothing."""
    with trial(tmp_path, provider.base) as (address, _):
        proxy = urlsplit(address.refusing_proxy)
        signed = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        headers = {"Proxy-Authorization": f"Basic {signed}"}
        host = f"127.0.0.1:{proxy.port}"
        statuses = []
        for method, target, more in (
            ("GET", "http://api.example.com/find", headers),
            ("CONNECT", "api.example.com:443", headers),
            ("CONNECT", "api.example.com:443", {}),
        ):
            line = http.client.HTTPConnection(host, timeout=PATIENCE_S)
            line.request(method, target, headers=more)
            statuses.append(line.getresponse().status)
            line.close()
        own = http.client.HTTPConnection(host, timeout=PATIENCE_S)  # a client that asks us by ourselves
        own.request("POST", f"{address.url('openai')}/chat/completions", b"{}", headers)
        statuses.append(own.getresponse().status)

    assert statuses == [403, 403, 407, 200]
    assert address.around == ["api.example.com", "api.example.com:443"]


@pytest.mark.parametrize(
    "head",
    ["http://[/x HTTP/1.1", "http://x:99999999/ HTTP/1.1", "/x HTTP/1.1\r\nContent-Length: 99999999999999"],
)
def test_a_request_that_is_none_is_answered(tmp_path: Path, provider: Provider, head: str) -> None:
    """A connection that is dropped without a word is tried again and again, and tells nobody why."""
    with (
        trial(tmp_path, provider.base) as (address, _),
        socket.create_connection((HOST, address.port)) as sent,
    ):
        sent.settimeout(PATIENCE_S)
        sent.sendall(f"POST {head}\r\n\r\n".encode())
        assert sent.makefile("rb").readline() == b"HTTP/1.1 400 Bad Request\r\n"
