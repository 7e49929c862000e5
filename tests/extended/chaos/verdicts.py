"""What is said of a scenario: that nothing was lost, that something was, or that its run was too slow."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pytest_agenteval.records.record import NOTHING
from tests.extended.chaos.project import TooSlow

OK = "ok"
LOST = "LOST"
NO_VERDICT = "no verdict: the run was too slow"
TRIES = 2


class Findings(NamedTuple):
    """What went wrong, and what was counted: ``{"requests": 204, "trials": 200}``."""

    wrong: list[str]
    figures: Mapping[str, float] = NOTHING


CarriedOut: TypeAlias = Callable[[Path], list[str] | Findings]
"""Carries a scenario out in a folder of its own."""


class Verdict(NamedTuple):
    """What became of a scenario, the reasons, and what was counted."""

    word: str
    reasons: list[str]
    seconds: float
    figures: Mapping[str, float] = NOTHING


def verdict(scenario: CarriedOut) -> Verdict:
    """Carry a scenario out, and once more where its run was too slow to tell."""
    began = time.monotonic()
    word, reasons, figures = _verdict(scenario)
    return Verdict(word, reasons, time.monotonic() - began, figures)


def _verdict(scenario: CarriedOut) -> tuple[str, list[str], Mapping[str, float]]:
    slow: list[str] = []
    for _ in range(TRIES):
        try:
            wrong, figures = _carried_out(scenario)
        except TooSlow as why:
            slow.append(str(why))
        else:
            return LOST if wrong else OK, wrong + [f"at first too slow: {each}" for each in slow], figures
    return NO_VERDICT, slow, NOTHING


def _carried_out(scenario: CarriedOut) -> Findings:
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        try:
            findings = scenario(Path(folder) / "project")
        except TooSlow:
            raise
        except Exception as raised:
            return Findings([f"{type(raised).__name__}: {raised}"])
        return findings if isinstance(findings, Findings) else Findings(findings)
