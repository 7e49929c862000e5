"""Nothing is sent by detours either: connections that stand, pools, bare threads, names, leftovers."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import time
from collections.abc import Iterator

import pytest

from pytest_agenteval.cassettes.http.patches import intercepted_requests
from tests.cassettes.http.server import Server, serving
from tests.journals import finished
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick", "forked")

CONFTEST = """
import _thread
import asyncio
import atexit
import contextvars
import http.client
import itertools
import multiprocessing
import queue
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

HOST, PORT = "127.0.0.1", {port}
URL = f"http://{{HOST}}:{{PORT}}/"
POOL = ThreadPool(1)
STANDING = http.client.HTTPConnection("localhost", PORT)
STANDING.connect()
RAW = socket.create_connection((HOST, PORT))
COPIED = contextvars.copy_context()
EMPTY = contextvars.Context
EXECUTOR = ThreadPoolExecutor(1)


def fetch(path):
    return urllib.request.urlopen(URL + path).read().decode()

def ask_standing(path):
    STANDING.request("GET", "/" + path)
    return STANDING.getresponse().read().decode()

def udp():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

def late_pool():
    global LATE
    if "LATE" not in globals():
        LATE = ThreadPool(1)
    return LATE.apply(fetch, ("late_pool",))

def copies():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(fetch, ("copies",))

def worker(work):
    def serve():
        while True:
            path, _, replies = work.get()
            try:
                replies.put(fetch(path))
            except Exception as problem:
                replies.put(repr(problem))
    threading.Thread(target=serve, daemon=True).start()
    return work

WORK = worker(queue.Queue())

ORDER = itertools.count()  # a PriorityQueue cannot compare two queues when two trials wait at once

def handed_over(work, path):
    replies = queue.Queue()
    work.put((path, next(ORDER), replies))
    return replies.get(timeout=60)

def late_thread():
    global LATE_WORK
    if "LATE_WORK" not in globals():
        LATE_WORK = worker(queue.PriorityQueue())
    return handed_over(LATE_WORK, "late_thread")

def bare_thread():
    said = queue.Queue()
    def ask():
        try:
            said.put(fetch("bare_thread"))
        finally:
            said.put("nothing")
    _thread.start_new_thread(ask, ())
    return said.get()

def raw():
    RAW.sendall(b"GET /raw HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    return str(RAW.recv(99))

def names_on_a_loop():
    async def look_up():
        return await asyncio.get_running_loop().getnameinfo(("192.0.2.4", 80))
    return str(asyncio.run(look_up()))

def thread_of_an_empty_context():
    said = queue.SimpleQueue()
    def ask():
        try:
            fetch("thread_of_an_empty_context")
        finally:
            said.put("nothing")
    EMPTY().run(threading.Thread(target=ask).start)
    return said.get()

def task_in_an_empty_context():
    async def ask():
        return fetch("task_in_an_empty_context")
    async def wait():
        return await asyncio.get_running_loop().create_task(ask(), context=EMPTY())
    return asyncio.run(wait())

def callback_in_an_empty_context():
    async def wait():
        said = asyncio.Event()
        def ask():
            try:
                fetch("callback_in_an_empty_context")
            finally:
                said.set()
        asyncio.get_running_loop().call_soon(ask, context=EMPTY())
        await said.wait()
    return str(asyncio.run(wait()))

def generator_ended_elsewhere():
    def asking():
        try:
            yield
        finally:
            fetch("generator_ended_elsewhere")
    generator = asking()
    next(generator)
    EMPTY().run(generator.close)
    return "left"

def context_of_an_earlier_trial():
    HELD.append(contextvars.copy_context())
    return HELD[0].copy().run(fetch, "context_of_an_earlier_trial")

HELD = []

def lookup_of_ones_own():
    socket.getfqdn(HOST)
    socket.getfqdn()
    socket.getnameinfo((HOST, PORT), 0)
    try:
        socket.getaddrinfo(socket.gethostname(), PORT)
    except socket.gaierror:
        pass  # a machine need not know its own name
    return str([socket.getaddrinfo(name, PORT) for name in ("localhost", HOST)])

def at_exit():
    atexit.register(fetch, "at_exit")
    taken_back = atexit.register(lambda: fetch("taken_back"))
    atexit.unregister(taken_back)
    return "left"

def timer():
    threading.Timer(0.3, fetch, ["timer"]).start()
    time.sleep(0.1)
    return "left"

def answering():
    listening = socket.create_server((HOST, 0))
    def serve():
        with listening.accept()[0] as connection:
            connection.sendall(connection.recv(9) + b" Mina")
    threading.Thread(target=serve, daemon=True).start()
    asking = "import socket, sys; c = socket.create_connection(('127.0.0.1', int(sys.argv[1])));" \\
             "c.sendall(b'Hello'); print(c.makefile().read())"
    return subprocess.run([sys.executable, "-c", asking, str(listening.getsockname()[1])],
                          capture_output=True, text=True, timeout=120).stdout

def endless():
    while True:
        try:
            ask_standing("endless")
        except Exception:
            pass
        time.sleep(0.01)


WAYS = {{
    "pool": lambda: POOL.apply(fetch, ("pool",)),
    "mapped": lambda: str(POOL.map(fetch, ["mapped"])),
    "late_pool_again": lambda: late_pool(),
    "queue_of_a_thread": lambda: handed_over(WORK, "queue_of_a_thread"),
    "late_thread_again": lambda: late_thread(),
    "standing": lambda: ask_standing("standing"),
    "name": lambda: str(http.client.HTTPConnection("nowhere.invalid").request("GET", "/")),
    "lookup": lambda: str(socket.getaddrinfo("somewhere.invalid", 443)),
    "old_lookup": lambda: socket.gethostbyname("anywhere.invalid"),
    "long_old_lookup": lambda: socket.gethostbyname_ex("elsewhere.invalid")[0],
    "lookup_by_address": lambda: str(socket.gethostbyaddr("192.0.2.1")),
    "full_name": lambda: socket.getfqdn("192.0.2.2"),
    "name_of_pair": lambda: str(socket.getnameinfo(("192.0.2.3", 80), 0)),
    "copied_context": lambda: COPIED.run(fetch, "copied_context"),
    "empty_context": lambda: EMPTY().run(fetch, "empty_context"),
    "empty_context_of_a_pool":
        lambda: EMPTY().run(EXECUTOR.submit, fetch, "empty_context_of_a_pool").result(),
    "empty_context_in_a_pool":
        lambda: EXECUTOR.submit(EMPTY().run, fetch, "empty_context_in_a_pool").result(),
    "queue_of_a_thread_in_an_empty_context":
        lambda: EMPTY().run(handed_over, WORK, "queue_of_a_thread_in_an_empty_context"),
    "context_of_an_earlier_trial_again": lambda: context_of_an_earlier_trial(),
    "datagram": lambda: str(udp().sendto(b"datagram", (HOST, PORT))),
    "datagram_in_parts": lambda: str(udp().sendmsg([b"datagram"], [], 0, (HOST, PORT))),
}}


class Shared:
    loop = "shared"

    async def run(self, task_input, ctx):
        async def ask():
            return fetch("shared")
        return await asyncio.create_task(ask(), context=EMPTY())


class Own:
    def run(self, task_input, ctx):
        way = task_input["content"]
        return "Mina " + (WAYS.get(way) or globals()[way])()


def pytest_agenteval_register(registry):
    registry.agent("own", Own)
    registry.agent("shared", Shared)
"""
REFUSED = (
    "pool", "mapped", "late_pool", "late_pool_again", "bare_thread",
    "queue_of_a_thread", "late_thread", "late_thread_again",
    "standing", "raw", "datagram", "datagram_in_parts", "name", "lookup", "old_lookup", "long_old_lookup",
    "lookup_by_address", "full_name", "name_of_pair", "names_on_a_loop",
    "copied_context", "empty_context", "empty_context_of_a_pool", "empty_context_in_a_pool",
    "thread_of_an_empty_context", "task_in_an_empty_context", "callback_in_an_empty_context",
    "generator_ended_elsewhere", "queue_of_a_thread_in_an_empty_context", "context_of_an_earlier_trial",
    "context_of_an_earlier_trial_again",
)  # fmt: skip
LEFT_BEHIND = ("at_exit", "timer")
HERE = ("answering", "lookup_of_ones_own")
THREADS = ("-W", "error::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that counts what it is asked."""
    with serving() as started:
        yield started


@pytest.fixture
def datagrams(server: Server) -> Iterator[socket.socket]:
    """What is sent to the server's port without a connection."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", server.server_address[1]))
        listening.setblocking(False)
        yield listening


def prepare(pytester: pytest.Pytester, server: Server, *ways: str, **more: object) -> None:
    """Write a suite of agents that ask this server."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite()})
    write(pytester.path, {"evals/conftest.py": CONFTEST.format(port=server.server_address[1])})
    for way in ways:
        asking = task(way, agent="own", input={"content": way}, **more)
        write(pytester.path, {f"evals/{way}.yaml": asking})


def test_nothing_is_sent_by_detours(
    pytester: pytest.Pytester, server: Server, datagrams: socket.socket
) -> None:
    """Pools, queues, connections that stand since an import, bare threads, datagrams, names, empty contexts.

    What an agent leaves for later, or for the end of the process, asks nothing either, and is no news. A
    process that an agent started may be answered, and one's own address may be looked up.
    """
    prepare(pytester, server, *REFUSED, *LEFT_BEHIND, *HERE)

    result = pytester.runpytest_subprocess("evals", *THREADS, "--agent-concurrency=3", "--agent-record=none")

    assert server.asked == []
    with pytest.raises(BlockingIOError):
        datagrams.recv(99)
    result.assert_outcomes(errors=len(REFUSED), passed=len(LEFT_BEHIND) + len(HERE))
    causes = {name: line.get("cause") for name, line in finished(pytester.path).items()}
    # Where the trial whose context is used still runs, the refusal is that one's, and a crash here.
    at_once = {"context_of_an_earlier_trial", "context_of_an_earlier_trial_again"}
    missed = {name for name, cause in causes.items() if cause == "cassette_miss"}
    assert missed - at_once == set(REFUSED) - at_once
    assert missed & at_once
    output = result.stdout.str() + result.stderr.str()
    for request in (
        "GET http://nowhere.invalid/()",
        "CONNECT socket://somewhere.invalid:443()",
        "CONNECT socket://anywhere.invalid()",
        f"GET http://localhost:{server.server_address[1]}/standing()",
    ):
        assert request in output
    assert f"cassettes/raw.yaml: CONNECT socket://127.0.0.1:{server.server_address[1]}()" in output
    assert "ScopeClosed" not in output


def test_a_request_that_no_trial_can_be_told_of_is_refused(pytester: pytest.Pytester, server: Server) -> None:
    """On a loop of all trials an empty context leaves nothing to tell them by; let out, it is refused too."""
    prepare(pytester, server)
    write(pytester.path, {"evals/shared.yaml": task("shared", agent="shared")})

    result = pytester.runpytest_subprocess("evals", "--agent-live")

    assert server.asked == []
    result.assert_outcomes(errors=1)
    assert "an empty context" in result.stdout.str()


def test_a_forked_copy_of_the_process_sends_nothing(pytester: pytest.Pytester, server: Server) -> None:
    """It has our patches, and the trial's scope with them; alone, for copies of busy processes may hang."""
    prepare(pytester, server, "copies")

    result = pytester.runpytest_subprocess("evals", *THREADS)

    assert server.asked == []
    result.assert_outcomes(errors=1)
    assert "NothingSent: GET" in result.stdout.str()


def test_a_forked_copy_of_the_process_records_nothing_unseen(
    pytester: pytest.Pytester, server: Server
) -> None:
    """What it was answered would be in no cassette, and the run would look whole."""
    prepare(pytester, server, "copies")

    result = pytester.runpytest_subprocess("evals", *THREADS, "--agent-record=once")

    assert server.asked == []
    result.assert_outcomes(errors=1)
    assert "forked copy of the process" in result.stdout.str()


def test_a_standing_connection_is_of_no_use_after_the_trial(
    pytester: pytest.Pytester, server: Server
) -> None:
    """Let out, a connection is opened once: each request on it is looked at all the same."""
    prepare(pytester, server, "endless", limits={"seconds": 1})
    run(pytester, "evals", "--agent-live").assert_outcomes(failed=1)
    request_count = len(server.asked)
    assert request_count > 0
    time.sleep(0.5)
    assert len(server.asked) <= request_count + 1  # one may have been on its way


def test_importing_litellm_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its import asks GitHub for a list of prices, which would be an agent's first and only miss."""
    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP", raising=False)
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    with intercepted_requests(tuple):
        importlib.util.find_spec("litellm")
        assert os.environ.pop("LITELLM_LOCAL_MODEL_COST_MAP", "") == "True"
    importlib.util.find_spec("litellm")
    assert "LITELLM_LOCAL_MODEL_COST_MAP" not in os.environ
