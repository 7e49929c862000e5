"""One case of the matrix from beginning to end: recorded, replayed, unasked, endless."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.extended.frameworks import expectations
from tests.extended.frameworks.catalogue import UNREAD, Case, Framework, addresses
from tests.extended.frameworks.child_runs import ChildRun, run_pytest
from tests.extended.frameworks.environments import Environment
from tests.extended.frameworks.examples import MOST_LINES, read_examples, read_tool
from tests.extended.frameworks.model_server import Serving, serving
from tests.extended.frameworks.project import BOTS, SUITES, write_project
from tests.extended.frameworks.weather_model import WEATHER

EXAMPLE = "docs"
RECORD = ("--agent-record=once", "--agent-record-chat=once")
ELSEWHERE = "http://192.0.2.1"
"""An address of another machine, which no network has: requests to this machine need no option."""

REPLAY = ("--agent-record=none", "--agent-record-chat=none")


class Result(NamedTuple):
    """What came of one case: no fault is a pass; ``trials`` were recorded and replayed."""

    trials: int
    faults: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Matrix:
    """Cases of frameworks, each in a project of its own below ``place``."""

    place: Path
    repetitions: int
    repetitions_of_docs: int

    def try_case(self, framework: Framework, age: str, environment: Environment, case: Case) -> Result:
        """Write the case's project and see whether all that has to be true of it is."""
        began = time.monotonic()
        project = self.place / f"{framework.name}-{age}-{case.function}"
        of_docs = case.function == EXAMPLE
        repetitions = 1 if framework.slow else self.repetitions_of_docs if of_docs else self.repetitions
        faults = [*_line_faults(framework, case)]
        with serving() as server:
            suite = _suite(framework, case, server.address)
            write_project(project, _files(framework, age, case), suite, framework.tool)
            if framework.node:
                (project / "node_modules").symlink_to(environment.node_modules)
            faults += _faults(server, project, environment.python, framework, case, repetitions)
        trials = len(WEATHER) * repetitions
        return Result(trials, tuple(faults), time.monotonic() - began)


def _target(case: Case) -> str:
    """Name a model of another wire format than the way's own."""
    # The loopback model reads a schema in OpenAI's place for it alone.
    is_openai = case.structured or case.format == "anthropic.messages"
    return "gpt" if is_openai else "claude"


def cases(framework: Framework) -> Iterator[Case]:
    """Give the example of the docs, if there is one, then the framework's other ways."""
    first = framework.cases[0]
    if framework.name in read_examples():
        yield Case(EXAMPLE, first.format, first.streamed)
    yield from framework.cases


def _files(framework: Framework, age: str, case: Case) -> Mapping[str, str]:
    example = read_examples()[framework.name] if case.function == EXAMPLE else None
    if framework.node:
        program = example.module if example else _bot(f"{framework.bot}.mjs")
        return {f"evals/{suite}/agent.mjs": program for suite in SUITES}
    if example:
        return {"bot.py": example.module, "weather.py": read_tool()}
    of_age = f"{framework.bot}_{age.replace('-', '_')}.py"  # where it was written otherwise then
    name = of_age if (BOTS / of_age).exists() else f"{framework.bot}.py"
    return {"bot.py": _bot(name), "weather.py": _bot("weather.py")}


def _bot(name: str) -> str:
    return (BOTS / name).read_text(encoding="utf-8")


def _suite(framework: Framework, case: Case, address: str) -> dict[str, Any]:
    if case.function == EXAMPLE:
        suite: dict[str, Any] = yaml.safe_load(read_examples()[framework.name].suite)
        return {**suite, "proxy": {"WEATHER_API": address}} if "proxy" in suite else suite
    if framework.node:
        command = ["node", "agent.mjs", case.function]
        return {"agent": {"command": command}, "proxy": {"WEATHER_API": address}}
    settings = {"settings": {"library": framework.module}} if framework.shared_bot else {}
    return {"agent": {"call": f"bot:{case.function}"}, **settings}


def _line_faults(framework: Framework, case: Case) -> Iterator[str]:
    if case.function == EXAMPLE:
        lines = read_examples()[framework.name].lines
        if lines > MOST_LINES:
            yield f"{lines} lines of the user's, expected {MOST_LINES} or fewer"


def _faults(
    server: Serving, project: Path, python: Path, framework: Framework, case: Case, repetitions: int
) -> Iterator[str]:
    traffic = server.traffic

    def run(suite: str, *options: str, base: str = server.address) -> ChildRun:
        traffic.clear()
        return run_pytest(python, project, addresses(base), f"evals/{suite}", *options)

    if case.function == next(cases(framework)).function:  # the other ways are kept in by the same door
        yield from expectations.default_faults(run("weather", base=ELSEWHERE), traffic.asks)
    recorded = run("weather", *RECORD, f"--repetitions={repetitions}")
    trials = len(WEATHER) * repetitions
    yield from expectations.recorded_faults(recorded, framework, case, traffic.asks, trials)
    yield from (f"unknown request: {path}" for path in dict.fromkeys(traffic.others))
    if case.loops:
        yield from expectations.endless_faults(run("loops", *RECORD, "--agent-concurrency=1"), traffic.asks)
    bridged = run("weather", *RECORD, f"--repetitions={repetitions}", f"--agent-model={_target(case)}")
    yield from expectations.bridged_faults(bridged, recorded, _target(case), framework, case, traffic.asks)
    server.stop()
    replayed = run("weather", *REPLAY, f"--repetitions={repetitions}")
    yield from expectations.replayed_faults(replayed, recorded)
    if case.format not in UNREAD:
        again = run("weather", *REPLAY, f"--repetitions={repetitions}", f"--agent-model={_target(case)}")
        yield from expectations.replayed_faults(again, bridged)
