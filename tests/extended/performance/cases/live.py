"""Trials that ask a model on this machine, which takes its time: directly, through litellm, with a tool."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.extended.performance import suites
from tests.extended.performance.bench import Bench, Case
from tests.extended.performance.measuring import ProgramFailed
from tests.extended.performance.program import Program, Programs, Rounds
from tests.extended.performance.rows import Row, alone, beyond, ratio
from tests.loopback.served import serving

QUESTIONS, AT_ONCE = 500, 64
LOOPS, ITEMS = 200, 2_000
OWN_TRIALS, OWN_ASKS = 20, 25
ANSWER = "The answer is 42."
PEERS = {"pydantic-evals": 0.3, "inspect_ai": 0.12, "deepeval": None}
LOOP_PEERS = {"pydantic-evals": 0.6, "inspect_ai": None}
BESIDE = {
    "pydantic-evals": "pydantic-evals with pydantic-ai",
    "inspect_ai": "inspect_ai",
    "deepeval": "deepeval behind a loop over openai's client",
}


class Provider:
    """A model server in a process of its own, and what it counts."""

    def __init__(self, address: str) -> None:
        self.address = f"{address}/v1"
        self._root = address

    def reset(self) -> None:
        """Count from zero."""
        self._get("reset")

    def counted(self, requests: int) -> Callable[[], Mapping[str, float]]:
        """Give what is called after a program that has to have asked so often."""

        def counts() -> Mapping[str, float]:
            counts = self._get("stats")
            if counts["requests"] != requests:
                raise ProgramFailed(f"asked {counts['requests']} times, not {requests}")
            return counts

        return counts

    def _get(self, what: str) -> dict[str, float]:
        with urllib.request.urlopen(f"{self._root}/{what}", timeout=5) as reply:
            return dict(json.load(reply))


@contextmanager
def served_model(latency_ms: int, *, tools: bool = False) -> Iterator[Provider]:
    """Serve a model in a process of its own; with ``tools`` it calls a tool before it answers."""
    tool = ("add", '{"a": 40, "b": 2}') if tools else None
    with serving(latency_ms, ANSWER, tool) as address:
        yield Provider(address)


def asking(bench: Bench, provider: Provider, way: str, count: int, *, tools: bool = False) -> Program | str:
    """Give our run of so many questions; or why it cannot be asked that way."""
    said = bench.ways()[way]
    if isinstance(said, str):
        return said
    model = {"id": "openai/loop", "api_base": provider.address, **said}
    folder = suites.write_asked(bench.place / f"asked_{way}_{count}", count, model, tools=tools)
    flags = ("--agent-model=loop", f"--agent-concurrency={AT_ONCE}")
    program = bench.ours(folder, "evals", *flags, passed=count)
    counted = provider.counted(count * (2 if tools else 1))
    return replace(program, before=provider.reset, after=lambda: _since_collection(folder, counted()))


def _since_collection(folder: Path, counts: Mapping[str, float]) -> Mapping[str, float]:
    collected_at = float((folder / "collected_at").read_text())
    return {**counts, "first": counts["first_request_at"] - collected_at}


def _asked(provider: Provider, requests: int) -> dict[str, Any]:
    return {"before": provider.reset, "after": provider.counted(requests)}


@contextmanager
def _direct(bench: Bench) -> Iterator[Programs]:
    with served_model(200) as provider:
        asked, more = provider.address, _asked(provider, QUESTIONS)
        yield {
            "bare aiohttp": bench.bare("aiohttp", "chat", QUESTIONS, asked, **more),
            "ours, direct": asking(bench, provider, "direct", QUESTIONS),
            **dict(bench.beside(tuple(PEERS), "chat", QUESTIONS, asked, **more)),
        }


def _direct_rows(rounds: Rounds) -> Iterator[Row]:
    what = "500 x 200 ms at 64, direct"
    yield from _beside(rounds, what, "ours, direct", ("bare aiohttp", "bare aiohttp loop", 1.3))
    for name, goal in PEERS.items():
        yield from _beside(rounds, what, "ours, direct", (f"{name} {QUESTIONS}", BESIDE[name], goal))
    yield alone(f"{what}: peak", rounds.each("ours, direct", "peak"), "MiB", 100)
    yield alone("first live request after collection, direct", rounds.each("ours, direct", "first"), "s", 0.5)


def _beside(rounds: Rounds, what: str, ours: str, other: tuple[str, str, float | None]) -> Iterator[Row]:
    """Give the walls, which have a goal, and the CPU, which tells more on a busy machine."""
    program, name, goal = other
    if program in rounds:
        for figure, word, limit in (("wall", "wall", goal), ("cpu", "CPU", None)):
            theirs = rounds.each(program, figure)
            yield ratio(f"{what}: {word}", rounds.each(ours, figure), theirs, name, "s", limit)


@contextmanager
def _litellm(bench: Bench) -> Iterator[Programs]:
    with served_model(200) as provider:
        more = _asked(provider, QUESTIONS)
        yield {
            "bare litellm": bench.bare("litellm", "chat", QUESTIONS, provider.address, **more),
            "ours, litellm": asking(bench, provider, "litellm", QUESTIONS),
        }


def _litellm_rows(rounds: Rounds) -> Iterator[Row]:
    what = "500 x 200 ms at 64, through litellm"
    yield from _beside(rounds, what, "ours, litellm", ("bare litellm", "bare litellm loop", 1.15))
    ours, bare = (rounds.each(name, "peak") for name in ("ours, litellm", "bare litellm"))
    yield ratio(f"{what}: peak", ours, bare, "bare litellm loop", "MiB")


@contextmanager
def _tools(bench: Bench) -> Iterator[Programs]:
    beside = {count: suites.write(bench.place / f"beside_{count}", count, 100) for count in (1, ITEMS)}
    plain = {f"pytest {count}": bench.plain(folder, "test_plain.py") for count, folder in beside.items()}
    with served_model(50, tools=True) as provider:
        asked, more = provider.address, _asked(provider, 2 * LOOPS)
        yield {
            "bare aiohttp, tool": bench.bare("aiohttp", "tools", LOOPS, asked, **more),
            "ours, tool": asking(bench, provider, "direct", LOOPS, tools=True),
            **dict(bench.beside(tuple(LOOP_PEERS), "tools", LOOPS, asked, **more)),
            **plain,
        }


def _tools_rows(rounds: Rounds) -> Iterator[Row]:
    what = "200 tool loops of 2 turns x 50 ms at 64, direct"
    ours, bare = (rounds.each(name, "cpu") / LOOPS * 1000 for name in ("ours, tool", "bare aiohttp, tool"))
    yield beyond(f"{what}: CPU per trial", ours, bare, "bare aiohttp loop", "ms")
    item = (rounds.each(f"pytest {ITEMS}", "cpu") - rounds.each("pytest 1", "cpu")) / (ITEMS - 1) * 1000
    yield ratio(f"{what}: CPU per trial beyond that loop", ours - bare, item, "plain item", "ms", 3.3)
    for name, goal in LOOP_PEERS.items():
        yield from _beside(rounds, what, "ours, tool", (f"{name} {LOOPS}", BESIDE[name], goal))


@contextmanager
def _bridge(bench: Bench) -> Iterator[Programs]:
    with serving(0, ANSWER) as root:
        provider, model = Provider(root), {"id": "anthropic/claude-haiku-4-5", "api_base": root}
        folder = suites.write_own(bench.place / "bridge", OWN_TRIALS, OWN_ASKS, provider.address, model)
        more = {"passed": OWN_TRIALS, **_asked(provider, OWN_TRIALS * OWN_ASKS)}
        flags = ("evals", "--agent-concurrency=1")
        yield {
            "own requests": bench.ours(folder, *flags, "--agent-model=own", **more),
            "bridged requests": bench.ours(folder, *flags, "--agent-model=loop", **more),
        }


def _bridge_rows(rounds: Rounds) -> Iterator[Row]:
    asks = OWN_TRIALS * OWN_ASKS
    own, bridged = (rounds.each(f"{kind} requests", "cpu") / asks * 1000 for kind in ("own", "bridged"))
    what = "a request of an own agent, answered in Anthropic's format"
    yield ratio(f"{what}: CPU", bridged, own, "sent directly", "ms")


DIRECT = Case(5, _direct, _direct_rows)
LITELLM = Case(3, _litellm, _litellm_rows)
TOOLS = Case(5, _tools, _tools_rows)
BRIDGE = Case(5, _bridge, _bridge_rows)
