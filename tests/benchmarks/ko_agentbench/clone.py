"""Where the Korean benchmark's own data stands: beside this checkout, or where KO_AGENTBENCH_CLONE says.

Nothing of it is in this project. What needs it skips where it is not, and the skip names ``../shared``:
``.ci/run`` fails where that stands and something skipped all the same.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared"
_GIVEN = os.environ.get("KO_AGENTBENCH_CLONE", "")
CLONE = Path(_GIVEN).resolve() if _GIVEN else SHARED / "data" / "ko-agentbench"
TASKS, REPORTS = CLONE / "bench" / "tasks", CLONE / "reports"
LOGS = CLONE / "logs" / "benchmark_results" / "by_model"

if _GIVEN and not TASKS.is_dir():
    raise pytest.UsageError(f"KO_AGENTBENCH_CLONE: expected a clone of the benchmark, there is no {TASKS}")

needs_clone = pytest.mark.skipif(
    not TASKS.is_dir(), reason="the benchmark's data is not here: no ../shared/data, no KO_AGENTBENCH_CLONE"
)

Json = dict[str, Any]


@cache
def oracle() -> dict[str, Json]:
    """Read what the benchmark's own code gives for the logs of eight models, by model."""
    values_by_model: dict[str, Json] = json.loads(
        (ROOT / "tests/oracle/ko-recorded.json").read_text(encoding="utf-8")
    )
    return values_by_model


def recorded_models() -> list[str]:
    """Name the models whose runs are in the clone; a whole clone has more than the oracle."""
    return sorted(path.name for path in LOGS.iterdir()) if LOGS.is_dir() else []
