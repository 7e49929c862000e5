"""Cost of seeing an agent's own model calls of 100 kB: python -m tests.extended.performance.model_calls."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from pytest_agenteval.cassettes.cassette import RecordMode
from pytest_agenteval.cassettes.http.patches import intercepted_requests, remove
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.chat.model_traffic import ModelTape, ModelTraffic
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance
from pytest_agenteval.records.recorder import Recorder
from tests.loopback.served import serving

PROMPT, REPLY = 80_000, 20_000
CALLS, ROUNDS, GOAL_MS = 40, 9, 3.0
WORDS = """
the of a weather in Oslo is cold and windy today; what will it be like on Friday, or after?
`get_weather` gave {"temp_c": -7, "source": "https://api.example.com/v1/now?city=Oslo&units=metric"} for
task-1 and <b>met.no</b>:
x = max(day.temp for day in week)  # see docs/weather.md#units, 오늘 서울은 비가 와요
"""
_ANY = random.Random(1)
TURNS = [
    {"role": role, "content": " ".join(_ANY.choices(WORDS.split(), k=PROMPT // 160))}
    for role in ("user", "assistant") * 10
]
STREAMED_CHARS = 6_000
"""A stream says each few letters in an event of 200 bytes: 100 kB of it are 6,000 letters."""


def body(number: int, *, streamed: bool) -> dict[str, Any]:
    """Give a long conversation, in which another question is asked each time."""
    question = {"role": "user", "content": f"And what of {number}?"}
    return {"model": "m", "messages": [*TURNS, question], "stream": streamed}


@contextmanager
def seen(folder: Path, mode: RecordMode) -> Iterator[None]:
    """Open a trial's scope, as an agent runs in it, with a chat cassette."""
    library = Library(folder)
    chats, calls = (
        library.open(Path(name), mode, kind) for name, kind in (("c.yaml", "chat"), ("t.yaml", "tool"))
    )
    recorder = Recorder(lambda: 0.0)
    traffic = ModelTraffic(recorder, Budget(Allowance()), ModelTape(chats, ""), sends=True, refusal="")
    with intercepted_requests(lambda: [calls], traffic=traffic):
        yield
    library.save()


def ms_per_call(client: httpx.Client, url: str, *, streamed: bool) -> float:
    """Ask a round of questions, one after the other, and give the milliseconds of CPU of each."""
    bodies = [body(number, streamed=streamed) for number in range(CALLS)]
    begun = time.thread_time()
    for each in bodies:
        with client.stream("POST", url, json=each) as reply:
            assert reply.status_code == 200
            assert len(reply.read()) >= STREAMED_CHARS
    return 1000 * (time.thread_time() - begun) / CALLS


def costs(place: Path, base: str, *, streamed: bool) -> Iterator[tuple[str, float, float]]:
    """Give what, the client's own milliseconds, and those on top of them."""
    client, url = httpx.Client(), f"{base}/v1/chat/completions"
    taken: dict[str, list[float]] = {"": [], "live, recorded": [], "replayed": []}
    for number in range(ROUNDS):
        folder = place / f"{streamed}-{number}"
        taken[""].append(ms_per_call(client, url, streamed=streamed))
        for what, mode in (("live, recorded", "once"), ("replayed", "none")):
            with seen(folder, mode):  # type: ignore[arg-type]  # one of the two
                taken[what].append(ms_per_call(client, url, streamed=streamed))
        remove()
    bare = min(taken.pop(""))  # what other processes do to the caches only adds to it
    for what, each in taken.items():
        yield what, bare, min(each) - bare


def main(measure: Callable[..., Iterator[tuple[str, float, float]]] = costs) -> None:
    """Measure and print."""
    print(f"{'ms of CPU for one model call of 100 kB':44} {'client':>8} {'on top':>8} {'goal':>6}")
    for kind, length in (("whole", REPLY), ("streamed", STREAMED_CHARS)):
        with tempfile.TemporaryDirectory() as place, serving(text="It is so. " * (length // 10)) as base:
            for what, bare, extra in measure(Path(place), base, streamed=kind == "streamed"):
                holds = "holds" if extra <= GOAL_MS else "MISSED"
                print(f"{f'{kind}, {what}':44} {bare:8.2f} {extra:8.2f} {GOAL_MS:6.1f}  {holds}", flush=True)


if __name__ == "__main__":
    main()
