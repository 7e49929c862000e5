"""What a greeting is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval import Check, Evidence, Grade


@dataclass(frozen=True)
class Greets:
    """Does the answer greet, and by name?"""

    name: str = "Mina"

    version: ClassVar[str] = "1"

    def grade(self, evidence: Evidence) -> Grade:
        """Half for the greeting, half for the name."""
        checks = [
            Check("it greets", "Hello" in evidence.answer, "Hello", evidence.answer),
            Check("it has the name", self.name in evidence.answer, self.name, evidence.answer),
        ]
        return Grade.from_checks("greets", checks)


def short(evidence: Evidence) -> float:
    """A greeting is short: 1 up to 20 characters, 0 beyond."""
    return 1.0 if len(evidence.answer) <= 20 else 0.0
