"""What this plugin keeps on pytest's config, under keys that cost nothing to import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_agenteval.registry import Registry
    from pytest_agenteval.session.evals import Evals

registry_key: pytest.StashKey[Registry] = pytest.StashKey()
evals_key: pytest.StashKey[Evals] = pytest.StashKey()
place_key: pytest.StashKey[Mapping[str, Any]] = pytest.StashKey()
held_up_key: pytest.StashKey[dict[str, int]] = pytest.StashKey()
remarks_key: pytest.StashKey[dict[str, None]] = pytest.StashKey()
left_alone_key: pytest.StashKey[list[Path]] = pytest.StashKey()
leftovers_key: pytest.StashKey[Mapping[str, Mapping[str, Any]]] = pytest.StashKey()

STOP = "stop"
"""The file in a run's folder by which the controller tells its workers to end early."""

LOST = "lost"
"""The file in a run's folder that names the workers that have died."""
