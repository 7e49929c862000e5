"""Spoilers that do too much: a stray file, a file replaced, an act where there is nothing to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os.path import commonpath
from typing import Any

from pytest_agenteval.chat.offline.spoilers.solution import Solution, Spoilt
from pytest_agenteval.chat.offline.spoilers.turns import Turns, replaced

STRAY_NAME, STRAY_TEXT = "More Thoughts", "# More thoughts\n\nTo be filled in later.\n"
OVERWRITTEN_TEXT = "# Notes\n\nRewritten.\n"


def stray_file(solution: Solution) -> Iterator[Spoilt]:
    """Write one file more, beside the last that is to be written."""
    if solution.writer is not None and solution.written_files:
        folder, _, name = solution.written_files[-1].rpartition("/")
        path = f"{folder}/{STRAY_NAME}.{name.rpartition('.')[2]}".lstrip("/")
        call = solution.writer.call(path, STRAY_TEXT)
        yield Spoilt(f"{path} written too", (), _before_last_act(solution, call))


def neighbour_overwritten(solution: Solution) -> Iterator[Spoilt]:
    """Replace a file that the reference leaves alone: the nearest to what is to be written."""
    writer, written = solution.writer, solution.written_files
    if writer is None or not written:
        return
    kind = written[-1].rpartition(".")[2]
    others = [
        path
        for path in solution.tree.texts
        if path not in written and path.startswith(writer.root) and path.endswith(f".{kind}")
    ]
    if others:
        nearest = max(others, key=lambda path: len(commonpath([path, written[-1]])))
        call = writer.call(nearest, OVERWRITTEN_TEXT)
        yield Spoilt(f"{nearest} replaced", (), _before_last_act(solution, call))


def act_on_nothing(solution: Solution) -> Iterator[Spoilt]:
    """Act where there is nothing to do: file the question, or make a call again that was made already."""
    if not solution.calls and solution.given_calls:
        given = solution.given_calls[0]
        yield Spoilt(f"{given['tool']} called again", (), _first(solution, given["tool"], given.get("args")))
    writer = solution.writer
    if writer is not None and not solution.written_files and solution.question:
        path = f"{writer.root}/Notes.md".lstrip("/")
        call = writer.call(path, f"# Notes\n\n{solution.question}\n")
        yield Spoilt(f"the question written into {path}", (), _first(solution, call["tool"], call["args"]))


def _first(solution: Solution, tool: str, args: Mapping[str, Any] | None) -> Turns:
    return [{"text": "", "calls": [{"tool": tool, "args": dict(args or {})}]}, *replaced(solution.turns, {})]


def _before_last_act(solution: Solution, call: dict[str, Any]) -> Turns:
    turns = replaced(solution.turns, {})
    turn, place = solution.acting[-1]
    turns[turn]["calls"].insert(place, call)
    return turns
