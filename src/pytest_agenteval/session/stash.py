"""What the session keeps on pytest's config, under keys that cost nothing to import."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

uncollected_key: pytest.StashKey[list[Path]] = pytest.StashKey()
until_collected_key: pytest.StashKey[ExitStack] = pytest.StashKey()
"""What ends when everything is collected."""

all_collected_key: pytest.StashKey[bool] = pytest.StashKey()
"""Holds True once all that is to be run is collected and selected."""

eval_session_key: pytest.StashKey[Any] = pytest.StashKey()
"""Holds ``session.eval_session.EvalSession``."""

run_info_key: pytest.StashKey[Any] = pytest.StashKey()
"""Holds ``session.run_info.RunInfo``."""

worker_messages_key: pytest.StashKey[Any] = pytest.StashKey()
"""Holds ``session.worker_messages.WorkerMessages``."""

verdict_key: pytest.StashKey[Any] = pytest.StashKey()
"""Holds ``session.run_verdict.RunVerdict``."""

report_paths_key: pytest.StashKey[tuple[Path, ...]] = pytest.StashKey()
"""Holds the report files that were written."""

progress_key: pytest.StashKey[Any] = pytest.StashKey()
"""Holds ``session.panel.ProgressPanel``."""

budget_key: pytest.StashKey[Any] = pytest.StashKey()
"""Holds ``engine.run_budget.RunBudget``, or None where nothing limits the run."""

held_run_key: pytest.StashKey[Any] = pytest.StashKey()
"""Holds the ``processes.shared_state.PresenceLock`` of the run that this process is at work on."""
