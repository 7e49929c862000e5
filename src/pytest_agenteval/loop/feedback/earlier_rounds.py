"""What earlier rounds tried, without what any text of theirs quotes of a held-out task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.loop.feedback.content import EarlierRound
from pytest_agenteval.loop.feedback.todays_tasks import TodaysTasks
from pytest_agenteval.loop.leaks.leak import Leak
from pytest_agenteval.loop.leaks.search import leaks_in
from pytest_agenteval.loop.leaks.suite_tasks import SuiteTasks, read_suites
from pytest_agenteval.text.errors import AgentEvalError

TEXTS = ("summary", "decision", "diff", "sentence")
HIDDEN = "(a line that quotes a held-out task)"


def without_held_out(rounds: Sequence[EarlierRound], tasks: TodaysTasks) -> tuple[EarlierRound, ...]:
    """Take out each line that has a line of a held-out task, or what ``leaks`` would find of one."""
    if not rounds:
        return ()
    suites = [suite for folder in tasks.suite_folders for suite in _suites(folder)]
    texts = {
        f"{at}/{name}": _without_lines(getattr(each, name), tasks.held_out_texts)
        for at, each in enumerate(rounds)
        for name in TEXTS
    }
    clean = _without_leaks(texts, suites)
    return tuple(
        replace(each, **{name: clean[f"{at}/{name}"] for name in TEXTS}) for at, each in enumerate(rounds)
    )


def _suites(folder: Path) -> Iterator[SuiteTasks]:
    try:
        yield from read_suites(folder)
    except AgentEvalError:  # a suite with problems: its lines are known all the same
        return


def _without_lines(text: str, lines: frozenset[str]) -> str:
    if not any(line in text for line in lines):
        return text
    return "\n".join(HIDDEN if any(line in own for line in lines) else own for own in text.splitlines())


def _without_leaks(texts: Mapping[str, str], suites: Sequence[SuiteTasks]) -> dict[str, str]:
    """Hide lines until nothing is found: what stands over two lines is told at the first."""
    clean = dict(texts)
    while leaks := _held_out_leaks(clean, suites):
        for leak in leaks:
            lines = clean[leak.file].split("\n")
            lines[leak.line - 1] = HIDDEN
            clean[leak.file] = "\n".join(lines)
    return clean


def _held_out_leaks(texts: Mapping[str, str], suites: Sequence[SuiteTasks]) -> list[Leak]:
    """Give where a text quotes a held-out task; a line that is hidden already quotes nothing."""
    leaks = leaks_in({}, texts, suites)
    return [leak for leak in leaks if leak.split == "held_out" and leak.text != HIDDEN]
