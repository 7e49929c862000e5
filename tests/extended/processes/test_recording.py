"""Several processes that record into one file at once, in each mode and without the system's locks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cassettes.test_recording_processes import check_recorded, start


@pytest.mark.parametrize(("mode", "more"), [("once", ()), ("all", ()), ("new_episodes", ("portable",))])
def test_processes_that_record_one_file_at_once_lose_nothing(
    tmp_path: Path, mode: str, more: tuple[str, ...]
) -> None:
    """Each saves twenty times meanwhile: all calls are kept, those of both once, and nothing else stays."""
    path = tmp_path / "a.yaml"
    started = time.time()
    workers = [start(path, mode, me, started, *more) for me in (1, 2)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "open\n"
    for worker in workers:
        worker.communicate("go\n")
        assert worker.returncode == 0

    check_recorded(path)
