"""What is said of a scenario: that nothing was lost, that something was, or that its run was too slow."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.chaos.project import TooSlow

OK = "ok"
LOST = "LOST"
NO_VERDICT = "no verdict: the run was too slow"
TRIES = 2


class Verdict(NamedTuple):
    """What became of a scenario, and the reasons."""

    word: str
    reasons: list[str]
    seconds: float


def verdict(scenario: Callable[[Path], list[str]]) -> Verdict:
    """Carry a scenario out, and once more where its run was too slow to tell."""
    began = time.monotonic()
    word, reasons = _verdict(scenario)
    return Verdict(word, reasons, time.monotonic() - began)


def _verdict(scenario: Callable[[Path], list[str]]) -> tuple[str, list[str]]:
    slow: list[str] = []
    for _ in range(TRIES):
        try:
            wrong = _carried_out(scenario)
        except TooSlow as why:
            slow.append(str(why))
        else:
            return LOST if wrong else OK, wrong + [f"at first too slow: {each}" for each in slow]
    return NO_VERDICT, slow


def _carried_out(scenario: Callable[[Path], list[str]]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        try:
            return scenario(Path(folder) / "project")
        except TooSlow:
            raise
        except Exception as raised:
            return [f"{type(raised).__name__}: {raised}"]
