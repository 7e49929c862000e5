"""CPU of a replayed call, in cassettes of 10 and of 5,000: python -m tests.extended.performance.replays."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.http.patches import taped_http
from pytest_agenteval.cassettes.interaction import (
    Interaction,
    Request,
    Response,
    tool_interaction,
    with_http_request,
)
from pytest_agenteval.cassettes.tape import Library, Tape
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import Tool, ToolResult
from pytest_agenteval.tools.tool_tape import ToolTape

SIZES = (10, 5_000)
ASKS, ROUNDS, GOAL_MS = 300, 7, 0.2
SCHEMA = {"properties": {"q": {"type": "string"}, "x": {"type": "number"}, "size": {"type": "integer"}}}
MATCHING = {"q": "folded", "x": {"number": 0.01}}
Ask = Callable[[int], Any]


class Cost(NamedTuple):
    """One way to ask, and what it took on average, in ms, by size of the cassette."""

    what: str
    by_size: tuple[float, ...]

    def __str__(self) -> str:
        few, many = self.by_size
        holds = "holds" if max(self.by_size) <= GOAL_MS else "MISSED"
        return f"{self.what:40} {few:9.3f} {many:9.3f} ms {many / few:7.2f} x  {holds}"


class _Wire:
    """A provider that is asked by GET."""

    def request(self, args: Mapping[str, Any]) -> Request:
        return Request("GET", f"https://provider.test/find?{urlencode(args)}")

    def result(self, response: Response, args: Mapping[str, Any]) -> ToolResult:
        return ToolResult(response.body)

    async def send(self, args: Mapping[str, Any]) -> Response:
        raise AssertionError("nothing is sent")


def _args(n: int) -> dict[str, Any]:
    return {"q": f"word {n}", "x": 127.5, "size": n % 7}


def _other(n: int) -> dict[str, Any]:
    """The same question in other words, for the rules to see through."""
    return {**_args(n), "q": f"WORD{n}", "x": "127.504"}


def by_name(
    tape: Tape,
    args: Callable[[int], dict[str, Any]],
    wire: _Wire | None,
) -> Ask:
    """Ask as the tool box does."""
    tool = Tool(ToolSpec("find", parameters=SCHEMA, taped=True), lambda args: None, wire, matching=MATCHING)
    box = ToolTape(tape, retry_command="")
    return lambda n: box.play(ToolCall("c", 1, 0, "find", args(n)), tool)


def _beyond(what: str, whole: Cost, part: Cost) -> Cost:
    return Cost(what, tuple(each - less for each, less in zip(whole.by_size, part.by_size, strict=True)))


def _costs(place: Path, what: str, held: Callable[[int], Interaction], ask: Callable[[Tape], Ask]) -> Cost:
    asks = []
    for size in SIZES:
        write_cassette(place / f"{size}.json", CassetteContent(tuple(map(held, range(size)))))
        tape = Library(place).open(Path(f"{size}.json"), "none", "tool")
        asks.append(partial(_ms_per_ask, ask(tape), size))
    taken = [tuple(measure() for measure in asks) for _ in range(ROUNDS)]  # in turn: noise falls on both
    return Cost(what, tuple(statistics.median(column) for column in zip(*taken, strict=True)))


def _ms_per_ask(ask: Ask, size: int) -> float:
    begun = time.thread_time()
    for n in range(ASKS):
        assert ask(n * 7919 % size) is not None
    return 1000 * (time.thread_time() - begun) / ASKS


def _over_httpx(tape: Tape) -> Ask:
    import httpx

    client, wire = httpx.Client(), _Wire()

    def ask(n: int) -> Any:
        with taped_http(tape):
            return client.get(wire.request(_args(n)).uri)

    return ask


def _mocked(tape: Tape) -> Ask:
    """What the client takes by itself, as the answer comes from nowhere."""
    import httpx

    def answer(request: Any) -> Any:
        return httpx.Response(200, headers={"Content-Length": "8"}, stream=httpx.ByteStream(b'{"n": 1}'))

    client, wire = httpx.Client(transport=httpx.MockTransport(answer)), _Wire()
    return lambda n: client.get(wire.request(_args(n)).uri)


def replays(place: Path) -> list[Cost]:
    """Measure every way in which a call can be found."""

    def called(n: int) -> Interaction:
        return tool_interaction("find", _args(n), result={"n": n})

    def sent(n: int) -> Interaction:
        return Interaction(_Wire().request(_args(n)), Response(200, "OK", body=f'{{"n": {n}}}'))

    def recorded(n: int) -> Interaction:
        return Interaction(called(n).request, with_http_request(sent(n).response, _Wire().request(_args(n))))

    wire = _Wire()
    return [
        _costs(place, "a tool, the very call", called, lambda tape: by_name(tape, _args, None)),
        _costs(place, "a tool, by the rules of parameters", called, lambda tape: by_name(tape, _other, None)),
        _costs(place, "an HTTP tool, the very call", recorded, lambda tape: by_name(tape, _args, wire)),
        _costs(place, "an HTTP tool, by the rules", recorded, lambda tape: by_name(tape, _other, wire)),
        _beyond(
            "user code over httpx, beyond the client",
            _costs(place, "", sent, _over_httpx),
            _costs(place, "", sent, _mocked),
        ),
    ]


def main() -> None:
    """Measure and print."""
    print(f"{'median ms for one replayed call':40} {SIZES[0]:9,} {SIZES[1]:9,}")
    with tempfile.TemporaryDirectory() as place:
        for cost in replays(Path(place)):
            print(cost, flush=True)


if __name__ == "__main__":
    main()
