"""What this plugin keeps on pytest's config, under keys that cost nothing to import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_agenteval.engine.executors.executor import UnusedRecordings
    from pytest_agenteval.registry import Registry
    from pytest_agenteval.session.eval_session import EvalSession
    from pytest_agenteval.session.run_info import RunInfo

registry_key: pytest.StashKey[Registry] = pytest.StashKey()
eval_session_key: pytest.StashKey[EvalSession] = pytest.StashKey()
run_info_key: pytest.StashKey[RunInfo] = pytest.StashKey()
blocking_fixtures_key: pytest.StashKey[dict[str, int]] = pytest.StashKey()
remarks_key: pytest.StashKey[dict[str, None]] = pytest.StashKey()
uncollected_key: pytest.StashKey[list[Path]] = pytest.StashKey()
unused_recordings_key: pytest.StashKey[Mapping[str, UnusedRecordings]] = pytest.StashKey()
