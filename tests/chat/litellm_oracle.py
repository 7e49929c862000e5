"""litellm as the oracle of what is asked directly."""

from __future__ import annotations

from importlib.metadata import version

import pytest

SINCE = (1, 109)
"""The release whose requests ours are: earlier ones wrote some of them otherwise."""

held_against_litellm = pytest.mark.skipif(
    tuple(map(int, version("litellm").split(".")[:2])) < SINCE,
    reason=f"what is asked directly is held against litellm {'.'.join(map(str, SINCE))} and newer",
)
