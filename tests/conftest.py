"""What every test starts from: pytest as a person runs it, whatever machine the tests run on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import httpcore  # noqa: F401  # pytester forgets what a pytest of its own imported first; httpx would not
import pytest
from hypothesis import HealthCheck, settings

from tests.installed import import_ours, remember_entry_points

import_ours()
remember_entry_points()

# How long an example takes says how busy the machine is, not whether the rule holds. And a rule that breaks
# does so within a few dozen examples: what a hundred cost in every run, other tests have more use for.
settings.register_profile(
    "any machine", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

MEMORY = Path("/dev/shm")
"""Where Linux has a folder in memory: thousands of small trees are made and removed there at once."""
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)

SECONDS: dict[str, float] = {
    "benchmarks/test_evals.py": 30,
    "session/test_ctrl_c.py": 20,
    "benchmarks/memex/evals/test_spoilt.py": 13,
    "benchmarks/ko_agentbench/importer/test_cache.py": 12,
    "test_xdist.py": 10,
    "registry/test_discovery.py": 8,
    "distribution/test_outside_benchmark.py": 7,
    "chat/test_retries.py": 7,
    "chat/test_streaming.py": 7,
    "chat/test_litellm_chat.py": 6,
    "session/test_canaries.py": 6,
    "engine/executors/test_processes.py": 6,
    "cli/test_calibrate.py": 5,
    "cassettes/test_candidate_index.py": 5,
    "loopback/test_litellm.py": 5,
    "chaos/test_scenarios.py": 4,
    "chat/test_broken_installs.py": 4,
    "calibration/test_replayed.py": 4,
    "session/test_own_requests.py": 4,
    "store/test_journal.py": 4,
    "benchmarks/memex/test_real_judges.py": 4,
    "chat/test_chat_tape.py": 4,
    "benchmarks/memex/evals/test_foreign_agents.py": 3,
    "calibration/test_calibration_item.py": 3,
    "engine/test_seconds.py": 3,
}
"""What some files take beyond what is guessed of their tests."""
TOGETHER = dict.fromkeys(
    ("benchmarks/ko_agentbench/importer/test_cache.py", "benchmarks/ko_agentbench/importer/test_shared.py"),
    "the whole benchmark",
)
"""Files that share what takes seconds to make: one worker has them all."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a file's tests together: what they share, such as a run with a hanging provider, is made once."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return TOGETHER.get(file.removeprefix("tests/"), file)

    config.option.loadscopereorder = False  # the order of files is ours, not that of their numbers of tests
    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With workers, begin the files that take longest first: one begun last would be waited for."""
    if hasattr(config, "workerinput"):
        here = Path(__file__).parent
        seconds = Counter({here / name: longer for name, longer in SECONDS.items()})
        for item in items:
            seconds[item.path] += _seconds(item)
        items.sort(key=lambda item: seconds[item.path], reverse=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs POSIX where the system is another."""
    if os.name != "posix" and item.get_closest_marker("posix"):
        pytest.skip("needs signals, links, modes or special files as POSIX has them")


def _seconds(item: pytest.Item) -> float:
    """Guess how long a test takes by what it starts: workers, a pytest of its own, or nothing."""
    if "two-workers" in item.name:
        return 2
    return 0.3 if "pytester" in getattr(item, "fixturenames", ()) else 0.01


@pytest.fixture(autouse=True)
def nobody_set_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what changes pytest's print or our settings: marks of a CI server, colours, options."""
    told_by_ci = ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
    colours = ("FORCE_COLOR", "NO_COLOR", "PY_COLORS")
    ours = [name for name in os.environ if name.startswith("AGENTEVAL_")]
    # Without bytecode each pytest that a test starts would compile the whole package anew.
    for name in (*told_by_ci, *colours, "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE", *ours):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def quick(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner runs of pytest know nothing but this plugin; pytester comes first, for it clears the options."""
    from tests.suites import only_our_plugin

    only_our_plugin(monkeypatch)


@pytest.fixture(params=[0, 2], ids=["one-process", "two-workers"])
def workers(request: pytest.FixtureRequest) -> int:
    """Every promise of the plugin holds with xdist and without."""
    count: int = request.param
    return count
