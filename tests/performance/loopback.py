"""What the server on this machine adds to one call of a model: a program's requests, with and without it."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pytest_agenteval.cassettes.http.loopback import trial_address
from pytest_agenteval.cassettes.http.loopback_address import Upstream
from pytest_agenteval.cassettes.http.scope import Scope
from pytest_agenteval.cassettes.library import Library
from tests.loopback.served import serving

CALLS = 200
BODY = 100_000


class Overhead(NamedTuple):
    """Milliseconds of one call: asked straight; by the server, sent on, recorded too, and played."""

    straight: float
    sent_on: float
    recorded: float
    played: float


def overhead(place: Path) -> Overhead:
    """Ask a model server with 100 kB: straight, by a trial's address, and played there."""
    library = Library(place)
    passing = Scope(passing=True)
    recording = Scope((library.open(Path("calls.yaml"), "all", "tool"),))
    with serving(text="It is so. " * 100) as base:
        upstream = Upstream("openai", f"{base}/v1", version="v1")
        with trial_address(passing, [upstream]) as open_one, trial_address(recording, [upstream]) as taped:
            bases = (f"{base}/v1", open_one.url("openai"), taped.url("openai"))
            # Interleaved: whatever else the machine does meets all of them.
            rows = list(zip(*map(_milliseconds, bases), strict=True))
    library.save()
    playing = Scope((Library(place).open(Path("calls.yaml"), "none", "tool"),))
    with trial_address(playing, [upstream]) as address:
        played = statistics.median(_milliseconds(address.url("openai")))
    return Overhead(*(statistics.median(column) for column in zip(*rows, strict=True)), played)


def _milliseconds(base: str) -> Iterator[float]:
    """Ask one after the other on one connection; give what each took."""
    root = urlsplit(base)
    line = http.client.HTTPConnection(root.netloc, timeout=60)
    for number in range(CALLS):
        words = f"{number} {'so it is. ' * (BODY // 10)}"
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": words}]})
        began = time.perf_counter()
        line.request("POST", f"{root.path}/chat/completions", body, {"Content-Type": "application/json"})
        answer = line.getresponse()
        answer.read()
        yield 1000 * (time.perf_counter() - began)
        assert answer.status == 200, answer.status
