"""litellm as the oracle of what is asked directly."""

from __future__ import annotations

import os
from importlib.metadata import version

import pytest

HELD = (1, 110)
"""The release whose requests ours are: others write some of them otherwise."""

NIGHTLY = "AGENTEVAL_TEST_NEWEST_LITELLM"
"""The variable under which any later release is compared too, as the nightly workflow does."""


def _is_compared() -> bool:
    installed = tuple(map(int, version("litellm").split(".")[:2]))
    return installed == HELD or (installed > HELD and bool(os.environ.get(NIGHTLY)))


held_against_litellm = pytest.mark.skipif(
    not _is_compared(),
    reason=f"compared with litellm {HELD[0]}.{HELD[1]}; set {NIGHTLY}=1 to compare a later one",
)
