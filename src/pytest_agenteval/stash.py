"""What this plugin keeps on pytest's config, under keys that cost nothing to import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_agenteval.registry import Registry
    from pytest_agenteval.session.eval_session import EvalSession
    from pytest_agenteval.session.remarks import Remarks
    from pytest_agenteval.session.run_info import RunInfo

registry_key: pytest.StashKey[Registry] = pytest.StashKey()
eval_session_key: pytest.StashKey[EvalSession] = pytest.StashKey()
run_info_key: pytest.StashKey[RunInfo] = pytest.StashKey()
remarks_key: pytest.StashKey[Remarks] = pytest.StashKey()
uncollected_key: pytest.StashKey[list[Path]] = pytest.StashKey()
