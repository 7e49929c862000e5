"""What every test starts from: pytest as a person runs it, whatever machine the tests run on."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import httpcore  # noqa: F401  # pytester forgets what a pytest of its own imported first; httpx would not
import pytest
from hypothesis import HealthCheck, settings

from tests.installed import import_ours
from tests.plugins_of_pytest import look_once

# Modules and items stay, and runs leave trees of objects: to look for garbage after every 700 takes a tenth.
gc.set_threshold(20_000, *gc.get_threshold()[1:])
# Whoever wants no bytecode has the asserts of every test file rewritten in each worker: most of collecting.
sys.dont_write_bytecode = False
import_ours()
look_once()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what it puts into the background; what a test starts would never hear a Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is, not whether the rule holds. And a rule that breaks
# does so within two dozen examples: more of them are drawn every night, with --hypothesis-profile=thorough.
settings.register_profile(
    "any machine", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("any machine"), max_examples=300)
settings.load_profile("any machine")

MEMORY = Path("/dev/shm")
"""Where Linux has a folder in memory: thousands of small trees are made and removed there at once."""
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)

SECONDS: dict[str, float] = {
    "tools/mcp/test_served_tools.py": 3,
    "chat/test_retries.py": 4,
    "session/test_gate.py": 6,
    "chat/test_streaming.py": 7,
    "session/test_extra_repetitions.py": 4,
    "session/test_judges.py": 5,
    "engine/test_process_executor.py": 3,
    "session/test_own_requests.py": 5,
    "session/test_selection.py": 4,
    "cassettes/http/test_taped_clients.py": 4,
    "session/test_canaries.py": 4,
    "test_xdist.py": 4,
    "engine/test_seconds.py": 3,
    "session/test_interrupt.py": 3,
    "calibration/test_calibration_item.py": 3,
}
"""What some files take beyond what is guessed of their tests."""
TOGETHER: dict[str, str] = {
    **dict.fromkeys(
        (
            "benchmarks/memex/test_real_judges.py",
            "benchmarks/memex/test_real_models.py",
            "calibration/test_replayed.py",
            "chat/test_alias_parameters.py",
            "chat/test_asking.py",
            "chat/test_chat_tape.py",
            "chat/test_closing.py",
            "chat/test_litellm_chat.py",
            "chat/test_odd_replies.py",
            "chat/test_prices.py",
            "chat/test_streaming.py",
            "engine/test_openai_client.py",
            "session/test_dry_run.py",
        ),
        "litellm",
    ),
    **dict.fromkeys(
        (
            "cli/test_json.py",
            "cli/test_sql.py",
            "distribution/test_data_page.py",
            "reports/exports/test_row_files.py",
            "session/test_unknown_figures.py",
            "store/test_rows.py",
        ),
        "duckdb, pandas and pyarrow",
    ),
}
"""Files that share what takes seconds to make or to import: one worker has them all."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Let ``-n auto`` have one worker more than there are processors: many tests wait for clocks."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a file's tests together: what they share, such as a run with a hanging provider, is made once."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _scope(str(super()._split_scope(nodeid)).removeprefix("tests/"))

    config.option.loadscopereorder = False  # the order of files is ours, not that of their numbers of tests
    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With workers, begin the files that take longest first: one begun last would be waited for."""
    if hasattr(config, "workerinput"):
        here = Path(__file__).parent
        scopes = {item.path: _scope(os.path.relpath(item.path, here)) for item in items}
        seconds = Counter[str]()
        for name, longer in SECONDS.items():
            seconds[_scope(name)] += longer
        for item in items:
            seconds[scopes[item.path]] += _seconds(item)
        items.sort(key=lambda item: seconds[scopes[item.path]], reverse=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs POSIX where the system is another."""
    if os.name != "posix" and item.get_closest_marker("posix"):
        pytest.skip("needs signals, links, modes or special files as POSIX has them")


def _scope(name: str) -> str:
    """Give the name of what is tested by one worker, whatever the system's separator."""
    name = name.replace(os.sep, "/")
    return TOGETHER.get(name, name)


def _seconds(item: pytest.Item) -> float:
    """Guess how long a test takes by what it starts: workers, a pytest of its own, or nothing."""
    if "two-workers" in item.name:
        return 0.3
    return 0.1 if "pytester" in getattr(item, "fixturenames", ()) else 0.01


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


@pytest.fixture
def forked(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pytest in a process of its own is forked from one that has imported everything, which is quick."""
    from tests.forked_workers import fork_pytests

    fork_pytests(monkeypatch)


@pytest.fixture(params=[0, 2], ids=["one-process", "two-workers"])
def workers(request: pytest.FixtureRequest) -> int:
    """Every promise of the plugin holds with xdist and without."""
    count: int = request.param
    return count
