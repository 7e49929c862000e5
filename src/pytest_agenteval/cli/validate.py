"""``agenteval validate``: pytest collects the files, for conftests may offer graders; nothing is run."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from contextlib import redirect_stdout

import pytest

from pytest_agenteval.conftests import without_addopts
from pytest_agenteval.session.remarks import uncollected_files, unknown_promoted
from pytest_agenteval.stash import registry_key

COLLECT = ("--collect-only", "--continue-on-collection-errors", "-o", "addopts=", "-p", "no:cacheprovider")


class _Listener:
    """Hears what was collected, what could not be, and what was left alone."""

    def __init__(self) -> None:
        self.tasks: set[tuple[str, str]] = set()
        self.calibrations = 0
        self.problems: list[str] = []
        self.beside: list[str] = []
        self.broken: Sequence[str] = ()
        self.interrupted = False

    def pytest_keyboard_interrupt(self) -> None:
        """Take note of Ctrl-C: what pytest gives as its status is the same where a file is broken."""
        self.interrupted = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what is wrong with a file."""
        if report.failed:
            self.problems.append(str(report.longrepr))

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Count tasks, also those that a run would leave out, and calibrations."""
        task = getattr(item, "task", None)
        if task is not None:
            self.tasks.add((task.suite, task.id))
        self.calibrations += hasattr(item, "calibration")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """List what is no task and lies below a suite, or is one and lies in none; and broken benchmarks.

        What a suite has promoted is looked up in all of its files, those too that are not validated.
        """
        self.problems += unknown_promoted(session.config)
        self.beside = uncollected_files(session.config)
        self.broken = session.config.stash[registry_key].broken_benchmarks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a folder, or a file")


def validate(args: argparse.Namespace) -> int:
    """Print every problem of the files below the paths; 0 when there is something to run and no problem."""
    listener, output = _Listener(), io.StringIO()
    with redirect_stdout(output), without_addopts():
        status = pytest.main([*COLLECT, *args.paths], plugins=[listener])
    if listener.interrupted:
        raise KeyboardInterrupt
    for problem in listener.problems:
        print(problem)
    for line in listener.beside:
        print(line)
    for line in listener.broken:
        print(f"warning: {line}")
    if status == pytest.ExitCode.USAGE_ERROR:  # pytest said why
        return 2
    if status == pytest.ExitCode.INTERNAL_ERROR:
        print(output.getvalue())
        return 1
    calibrations = listener.calibrations
    also = f"{_number_of(calibrations, 'calibration')}, " if calibrations else ""
    problems = f"{_number_of(len(listener.problems), 'file')} with problems"
    print(f"{_number_of(len(listener.tasks), 'task')}, {also}{problems}")
    return 1 if listener.problems or not (listener.tasks or calibrations) else 0


def _number_of(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
