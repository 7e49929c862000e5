"""litellm as the oracle of what is asked directly, and a record of what agreed with it.

Asking litellm takes most of the time of such a test. So ``compared.json`` holds a digest of each value that
agreed with litellm: where our value is still the same, litellm is not asked. A value that changed is compared
with litellm at once. ``AGENTEVAL_LITELLM=compare`` compares all values, as the nightly workflow does;
``AGENTEVAL_LITELLM=record`` also writes the digests (run it with ``-n 0``).
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

HELD = (1, 110)
"""The release whose requests ours are: others write some of them otherwise."""

NIGHTLY = "AGENTEVAL_TEST_NEWEST_LITELLM"
"""The variable under which any later release is compared too, as the nightly workflow does."""

SWITCH = "AGENTEVAL_LITELLM"
RECORDINGS = Path(__file__).with_name("compared.json")
MODE = os.environ.get(SWITCH, "")  # read here: while a test runs no such variable is set


def _is_compared() -> bool:
    installed = tuple(map(int, version("litellm").split(".")[:2]))
    return installed == HELD or (installed > HELD and bool(os.environ.get(NIGHTLY)))


held_against_litellm = pytest.mark.skipif(
    not _is_compared(),
    reason=f"compared with litellm {HELD[0]}.{HELD[1]}; set {NIGHTLY}=1 to compare a later one",
)


class Compared:
    """Digests of the values of one file of tests that agreed with litellm, by the names of its cases."""

    def __init__(self, tests: str) -> None:
        self._tests = tests
        self._digests = _recorded().get(tests, {})

    def agreed(self, case: str, ours: Any) -> bool:
        """Whether this very value agreed with litellm when it was recorded."""
        return not MODE and self._digests.get(case) == _digest(ours)

    def record(self, case: str, ours: Any) -> None:
        """Record a value that agrees with litellm, or fail where another one is recorded."""
        if MODE == "record":
            recorded = _recorded()
            recorded.setdefault(self._tests, {})[case] = _digest(ours)
            text = json.dumps(recorded, indent=0, sort_keys=True, ensure_ascii=False)
            RECORDINGS.write_text(f"{text}\n", encoding="utf-8", newline="\n")
        elif self._digests.get(case) != _digest(ours):
            pytest.fail(
                f"{case} changed and agrees with litellm; record it: {SWITCH}=record pytest tests/chat"
            )


def _recorded() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(RECORDINGS.read_text(encoding="utf-8"))
    return found


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
