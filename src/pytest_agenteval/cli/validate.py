"""``agenteval validate``: pytest collects the files, for conftests may offer graders; nothing is run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


class _Listener:
    """Hears what was collected and what could not be."""

    def __init__(self) -> None:
        self.tasks: set[tuple[str, str]] = set()
        self.problems: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what is wrong with a file."""
        if report.failed:
            self.problems.append(str(report.longrepr))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Count tasks before any is left out."""
        for item in items:
            task = getattr(item, "task", None)
            if task is not None:
                self.tasks.add((task.suite, task.id))


def validate(paths: Sequence[str]) -> int:
    """Print every problem of the files below the paths; 0 when there is none."""
    listener = _Listener()
    options = ["--collect-only", "--continue-on-collection-errors", "-o", "addopts=", "-p", "no:terminal"]
    status = pytest.main([*options, *paths], plugins=[listener])
    for problem in listener.problems:
        print(problem)
    if status == pytest.ExitCode.USAGE_ERROR:  # pytest said why
        return 2
    files = len(listener.problems)
    print(f"{len(listener.tasks)} tasks, {files} file{'' if files == 1 else 's'} with problems")
    return 1 if listener.problems or not listener.tasks else 0
