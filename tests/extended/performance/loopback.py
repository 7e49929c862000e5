"""What the server on this machine adds to one call of a model: a program's requests, with and without it."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pytest_agenteval.cassettes.cassette import RecordMode
from pytest_agenteval.cassettes.http.loopback import open_address
from pytest_agenteval.cassettes.http.loopback_address import Upstream
from pytest_agenteval.cassettes.http.scope import Scope
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.chat.model_traffic import ModelTape, ModelTraffic
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance
from pytest_agenteval.records.recorder import Recorder
from tests.loopback.served import serving

CALLS = 200
WORDS = 100_000


class Overhead(NamedTuple):
    """Milliseconds of one call of a model: asked straight; and by a trial's address, for each way."""

    straight: float
    sent_on: float
    read: float
    recorded: float
    played: float


def overhead(place: Path) -> Overhead:
    """Ask a model server with 100 kB: straight, sent on unread, read, recorded too, and played."""
    library = Library(place)
    with serving(text="It is so. " * 100) as base:
        upstream = [Upstream("openai", f"{base}/v1", version="v1")]
        with (
            closing(open_address(Scope(passing=True), upstream)) as unread,
            closing(open_address(_scope(), upstream)) as read,
            closing(open_address(_scope(library, "all"), upstream)) as taped,
        ):
            bases = (f"{base}/v1", *(address.url("openai") for address in (unread, read, taped)))
            # Interleaved: whatever else the machine does meets all of them.
            rows = list(zip(*map(_milliseconds, bases), strict=True))
    library.save()
    with closing(open_address(_scope(Library(place), "none"), upstream)) as address:
        played = statistics.median(_milliseconds(address.url("openai")))
    return Overhead(*(statistics.median(column) for column in zip(*rows, strict=True)), played)


def _scope(library: Library | None = None, mode: RecordMode = "none") -> Scope:
    """Give the scope of a trial that reads what its models are asked, with a tape or without one."""
    budget = Budget(Allowance())
    tape = None if library is None else ModelTape(library.open(Path("chat.yaml"), mode, "chat"), "")
    return Scope(traffic=ModelTraffic(Recorder(lambda: budget.at), budget, tape, sends=True, refusal=""))


def _milliseconds(base: str) -> Iterator[float]:
    """Ask one after the other on one connection; give what each took."""
    root = urlsplit(base)
    line = http.client.HTTPConnection(root.netloc, timeout=60)
    for number in range(CALLS):
        words = f"{number} {'so it is. ' * (WORDS // 10)}"
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": words}]})
        began = time.perf_counter()
        line.request("POST", f"{root.path}/chat/completions", body, {"Content-Type": "application/json"})
        answer = line.getresponse()
        answer.read()
        yield 1000 * (time.perf_counter() - began)
        assert answer.status == 200, answer.status
