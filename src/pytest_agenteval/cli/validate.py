"""``agenteval validate``: everything that is wrong with task files; nothing is run.

pytest collects them, because conftests may register graders.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from pytest_agenteval.cli.console import STDOUT, add_json_option, write_document
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.registry.registration import get_registry
from pytest_agenteval.session.inner_pytest import pytest_here
from pytest_agenteval.session.worker_messages import uncollected_files, unknown_promoted
from pytest_agenteval.text.errors import Problem, key_path_text
from pytest_agenteval.text.formatting import pluralize

INTERNAL_ERROR, USAGE_ERROR = 3, 4


def validate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    place = "a folder with task files, or one such file; by default what `pytest` collects here"
    parser.add_argument("paths", nargs="*", metavar="PATH", help=place)
    add_json_option(parser)


def validate(args: argparse.Namespace) -> int:
    """Print every problem of the files below the paths; 0 when there is something to run and no problem."""
    collected = collect_files(args.paths)
    is_usage_error = collected.status == USAGE_ERROR  # pytest has printed why
    if args.json and not is_usage_error:
        write_document(args.json, collected.document)
    if args.json != STDOUT:
        for line in _validation_lines(collected):
            print(line)
    if is_usage_error:
        return 2
    document = collected.document
    return 1 if collected.texts or not (document.tasks or document.calibrations) else 0


def _validation_lines(collected: CollectedFiles) -> Iterator[str]:
    document = collected.document
    yield from collected.texts
    yield from document.hints
    yield from (f"warning: {line}" for line in document.broken_benchmarks)
    if collected.status in (INTERNAL_ERROR, USAGE_ERROR):
        return
    calibrations = document.calibrations
    also = f"{pluralize(calibrations, 'calibration')}, " if calibrations else ""
    problems = f"{pluralize(len(collected.texts), 'file')} with problems"
    yield f"{pluralize(document.tasks, 'task')}, {also}{problems}"


class FileProblem(FrozenValue, frozen=True):
    """One thing wrong with a file; ``key`` says where: ``graders[1].weight``, or nothing for all of it."""

    file: str
    line: int | None
    key: str
    expected: str
    found: str
    hint: str


class UnreadableFile(FrozenValue, frozen=True):
    """A file that could not be collected for another reason, and what pytest says of it."""

    file: str
    text: str


class ValidationDocument(Document, frozen=True, kw_only=True):
    """How many tasks and calibrations files hold, and everything that is wrong with them.

    ``hints`` name files that are no task and may be meant as one; ``broken_benchmarks`` say which installed
    benchmarks could not be loaded, so that their graders are not known.
    """

    tasks: int
    calibrations: int
    files_with_problems: int
    problems: tuple[FileProblem, ...]
    unreadable: tuple[UnreadableFile, ...]
    hints: tuple[str, ...]
    broken_benchmarks: tuple[str, ...]


class _CollectionListener:
    """Hears what was collected, what could not be, and what was left alone."""

    def __init__(self) -> None:
        self.tasks: set[tuple[str, str]] = set()
        self.calibrations = 0
        self.texts: list[str] = []
        self.problems: list[Problem] = []
        self.unreadable: list[UnreadableFile] = []
        self.hints: list[str] = []
        self.broken: tuple[str, ...] = ()
        self.interrupted = False
        self._of_files: dict[str, Iterable[Problem]] = {}

    def pytest_keyboard_interrupt(self) -> None:
        """Take note of Ctrl-C: what pytest gives as its status is the same where a file is broken."""
        self.interrupted = True

    def pytest_exception_interact(self, call: pytest.CallInfo[Any], report: Any) -> None:
        """Keep the problems of a file one by one, before the report comes, which has them as one text."""
        if call.excinfo is not None:
            self._of_files[report.nodeid] = getattr(call.excinfo.value, "problems", ())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what is wrong with a file."""
        if report.failed:
            text, problems = str(report.longrepr), self._of_files.get(report.nodeid, ())
            self.texts.append(text)
            self.problems += problems
            self.unreadable += [] if problems else [UnreadableFile(report.nodeid, text)]

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
        for wrong in unknown_promoted(session.config):
            self.texts.append(str(wrong))
            self.problems += wrong.problems
        self.hints = uncollected_files(session.config)
        self.broken = tuple(get_registry(session.config).broken_benchmarks)


class CollectedFiles(FrozenValue, frozen=True):
    """What pytest collected: its exit status, the document, and each file's problems as one text."""

    status: int
    document: ValidationDocument
    texts: tuple[str, ...]


def collect_files(paths: Sequence[str]) -> CollectedFiles:
    """Have pytest collect what is below the paths, in this process; nothing is run, and nothing printed.

    For a mistake in use, status 4, pytest says why. Ctrl-C raises KeyboardInterrupt.
    """
    listener = _CollectionListener()
    status, output = pytest_here(("--collect-only", "--continue-on-collection-errors", *paths), listener)
    if listener.interrupted:
        raise KeyboardInterrupt
    if status == pytest.ExitCode.INTERNAL_ERROR:
        listener.texts.append(output)
        listener.unreadable.append(UnreadableFile("", output))
    return CollectedFiles(
        status,
        ValidationDocument(
            tasks=len(listener.tasks),
            calibrations=listener.calibrations,
            files_with_problems=len(listener.texts),
            problems=tuple(map(_file_problem, listener.problems)),
            unreadable=tuple(listener.unreadable),
            hints=tuple(listener.hints),
            broken_benchmarks=listener.broken,
        ),
        tuple(listener.texts),
    )


def _file_problem(problem: Problem) -> FileProblem:
    return FileProblem(
        file=problem.file,
        line=problem.line,
        key=key_path_text(problem.path),
        expected=problem.expected,
        found=problem.found,
        hint=problem.hint,
    )
