"""The keys under which a session stores its state with pytest; importing them costs nothing."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

# Holds files without tasks; hints about misnamed suite files are looked for among them.
uncollected_key: pytest.StashKey[list[Path]] = pytest.StashKey()
# Undoes what is to last only until everything is collected.
until_collected_key: pytest.StashKey[ExitStack] = pytest.StashKey()

# Holds True once all that is to be run is collected and selected.
all_collected_key: pytest.StashKey[bool] = pytest.StashKey()

settings_key: pytest.StashKey[Any] = pytest.StashKey()  # holds ``session.settings.Settings``
eval_session_key: pytest.StashKey[Any] = pytest.StashKey()  # holds ``session.eval_session.EvalSession``
run_info_key: pytest.StashKey[Any] = pytest.StashKey()  # holds ``session.run_info.RunInfo``

# Holds ``session.worker_messages.WorkerMessages``.
worker_messages_key: pytest.StashKey[Any] = pytest.StashKey()

run_end_key: pytest.StashKey[Any] = pytest.StashKey()  # holds ``session.run_end.RunEnd``

progress_key: pytest.StashKey[Any] = pytest.StashKey()  # holds ``session.panel.ProgressLines``

# Holds ``engine.run_budget.RunBudget``, or None where nothing limits the run.
budget_key: pytest.StashKey[Any] = pytest.StashKey()

# Holds the ``processes.files.PresenceLock`` of the run that this process is at work on.
held_run_key: pytest.StashKey[Any] = pytest.StashKey()

# The attribute of a test item that says how often the test's body runs.
MARKED_TEST = "agenteval_marked_test"
