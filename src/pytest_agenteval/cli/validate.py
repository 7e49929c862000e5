"""``agenteval validate``, ``audit`` and ``leaks``: what is wrong with tasks, graders and prompts.

To validate, pytest collects task files, because conftests may register graders; nothing is run. An audit runs
pytest on references, whole and mutated.
"""

from __future__ import annotations

import argparse
import glob
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.console import (
    STDOUT,
    add_json_option,
    print_lines,
    terminal_width,
    write_document,
    write_result,
    write_text,
)
from pytest_agenteval.cli.suite_files import EvalPlaces, evals_below, places_meant, suites_meant
from pytest_agenteval.loop.contamination import Leak, LeakKind, LeaksDocument, prompt_leaks
from pytest_agenteval.loop.improve.repository import GitFailed, Repository
from pytest_agenteval.loop.todays_tasks import suite_with_tasks
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.registry.registration import get_registry
from pytest_agenteval.reports.audit_report import Audit, audit_lines, audit_markdown, audit_of
from pytest_agenteval.session.inner_pytest import pytest_here
from pytest_agenteval.session.stash import uncollected_key
from pytest_agenteval.session.worker_messages import uncollected_files, unknown_promoted
from pytest_agenteval.store.run_documents import RunAudit
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES
from pytest_agenteval.tasks.globs import matches
from pytest_agenteval.text.errors import AgentEvalError, Problem, UsageMistake, key_path_text
from pytest_agenteval.text.formatting import StyledLine, one_line, pluralize, printable
from pytest_agenteval.text.redaction import KNOWN_SECRETS

INTERNAL_ERROR = pytest.ExitCode.INTERNAL_ERROR


def validate_arguments(parser: argparse.ArgumentParser) -> None:
    place = "a folder with task files, or one such file; by default all suites that `pytest` would find here"
    parser.add_argument("paths", nargs="*", metavar="PATH", help=place)
    add_json_option(parser)


def validate(args: argparse.Namespace) -> int:
    """Print every problem of the files below the paths; 0 if there is something to run and no problem."""
    status, found = _collect_files(args.paths)
    if status == pytest.ExitCode.USAGE_ERROR:  # pytest has printed why
        return 2
    document = found.document()
    if args.json:
        write_document(args.json, document)
    if args.json != STDOUT:
        lines = (*found.texts, *document.hints, *(f"warning: {each}" for each in document.broken_benchmarks))
        print("\n".join([*lines, *([] if status == INTERNAL_ERROR else [_counts(document)])]))
    # Nothing to run is a mistake too, such as a mistyped folder.
    return 1 if found.texts or not (document.tasks or document.calibrations) else 0


def _counts(document: ValidationDocument) -> str:
    calibrations = document.calibrations
    also = f"{pluralize(calibrations, 'calibration')}, " if calibrations else ""
    problems = f"{pluralize(document.files_with_problems, 'file')} with problems"
    return f"{pluralize(document.tasks, 'task')}, {also}{problems}"


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
    """A pytest plugin that records what was collected, what could not be, and what was passed over.

    ``others`` are files that pytest does not see, which may be meant as tasks.
    """

    def __init__(self, others: Iterable[Path] = ()) -> None:
        self._others = others
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
        # pytest's exit status is the same where a file is broken.
        self.interrupted = True

    def pytest_exception_interact(self, call: pytest.CallInfo[Any], report: Any) -> None:
        if call.excinfo is not None:
            # pytest calls this before the report, which has all problems as one text.
            self._of_files[report.nodeid] = getattr(call.excinfo.value, "problems", ())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            text, problems = str(report.longrepr), self._of_files.get(report.nodeid, ())
            self.texts.append(text)
            self.problems += problems
            self.unreadable += [] if problems else [UnreadableFile(report.nodeid, text)]

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Count calibrations and tasks, also those that a run would leave out."""
        task = getattr(item, "task", None)
        if task is not None:
            self.tasks.add((task.suite, task.id))
        self.calibrations += hasattr(item, "calibration")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """List files below suites that are no task, tasks outside of suites, and broken benchmarks.

        What a suite has promoted is looked up in all of its files, those too that are not validated.
        """
        for wrong in unknown_promoted(session.config):
            self.texts.append(str(wrong))
            self.problems += wrong.problems
        session.config.stash.setdefault(uncollected_key, []).extend(self._others)
        self.hints = uncollected_files(session.config)
        self.broken = tuple(get_registry(session.config).broken_benchmarks)

    def document(self) -> ValidationDocument:
        return ValidationDocument(
            tasks=len(self.tasks),
            calibrations=self.calibrations,
            files_with_problems=len(self.texts),
            problems=tuple(
                FileProblem(
                    each.file, each.line, key_path_text(each.path), each.expected, each.found, each.hint
                )
                for each in self.problems
            ),
            unreadable=tuple(self.unreadable),
            hints=tuple(self.hints),
            broken_benchmarks=self.broken,
        )


def _collect_files(paths: Sequence[str]) -> tuple[int, _CollectionListener]:
    """Let pytest collect everything below the paths, in this process; nothing is run or printed.

    Without a path these are the suites below this folder. For a mistake in use, status 4, pytest prints why.
    Ctrl-C raises KeyboardInterrupt.
    """
    evals = EvalPlaces() if paths else evals_below(Path.cwd())
    listener = _CollectionListener(evals.others)
    options = ("--collect-only", "--continue-on-collection-errors", *evals.options)
    status, output = pytest_here((*options, *(paths or map(str, evals.places))), listener)
    if listener.interrupted:
        # An interrupted collection must not report that there are no problems.
        raise KeyboardInterrupt
    if status == INTERNAL_ERROR:
        listener.texts.append(output)
        listener.unreadable.append(UnreadableFile("", output))
    return status, listener


LEAST_SHARE = 0.9
AUDIT_RUN = "audit"
PYTEST_OUTPUT = "pytest.txt"
# How many lines of pytest's own output are shown if it left nothing to read.
MOST_SHOWN = 30
# Exit statuses of a pytest that completed: all passed, or some failed.
COMPLETED = (0, 1)

# The exit status if something was added that leaks.
ADDED = 1

# How many warnings are shown: nobody reads more.
MOST_BEFORE = 20

MOST_QUOTED = 160
MOST_NAME = 200

# The parts of a task that may be found in a prompt, in words.
LEAK_KINDS: dict[LeakKind, str] = {
    "task_id": "the id",
    "expected_value": "what is expected",
    "reference_solution": "the reference solution",
    "input": "the input",
    "workspace": "the starting workspace",
}


def audit_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("suite", nargs="?", metavar="SUITE", help="a suite's name or path (default: every suite below this folder)")  # fmt: skip  # noqa: E501
    add("--least", type=float, default=LEAST_SHARE, metavar="SHARE", help=f"the share of planted mistakes that a suite's graders must catch (default: {LEAST_SHARE})")  # fmt: skip  # noqa: E501
    add(
        "--judge",
        action="append",
        default=[],
        metavar="MODEL",
        help="the judge model; several form an ensemble",
    )
    add("--keep", metavar="DIR", help="store the audited run in this folder (default: it is deleted)")
    add("-o", "--output", metavar="FILE", help="write the tables in Markdown too")
    add_json_option(parser)


def audit(args: argparse.Namespace) -> int:
    """Audit suites: 0 if all is sound, 1 if a task or its graders are not, 2 if nothing can be audited."""
    if not 0 <= args.least <= 1:
        raise UsageMistake(f"--least: expected a number from 0 to 1; found {args.least}")
    paths = [str(place.parent if place.name in SUITE_NAMES else place) for place in places_meant(args.suite)]
    with _audit_folder(args.keep) as results:
        result = _run_audit(paths, args, results)
    if args.json:
        write_document(args.json, result)
    if args.output:
        write_text(args.output, audit_markdown(result))
    if args.json != STDOUT and args.output != STDOUT:
        print_lines(audit_lines(result, terminal_width(), tells_unseen=True))
    return 0 if result.is_sound else 1


def _run_audit(paths: Sequence[str], args: argparse.Namespace, results: Path) -> Audit:
    from pytest_agenteval.session.inner_pytest import InnerPytest, last_line

    options = ["--agent-audit", "-m", "agenteval_audit", *(f"--agent-judge={judge}" for judge in args.judge)]
    output = results / PYTEST_OUTPUT
    print("running the references, as they are and with planted mistakes …", file=sys.stderr)
    arguments = [*options, *paths]
    pytest = InnerPytest(arguments, folder=Path.cwd(), results=results, name=AUDIT_RUN, output=output)
    try:
        status = pytest.wait()
    except AgentEvalError:
        # Without a task that has a reference pytest selects no item, and leaves no run.
        if "no tests ran" in output.read_text(encoding="utf-8", errors="replace"):
            none = "nothing to audit: no task there has a reference_solution with turns"
            raise UsageMistake(none) from None
        _print_end(output)
        raise
    if status not in COMPLETED:
        _print_end(output)
        raise AgentEvalError(f"pytest did not end well (exit status {status}): {last_line(output)}")
    run = load_run(results / AUDIT_RUN)
    audited = RunAudit.read(run.folder)
    if audited is None:
        raise AgentEvalError(f"pytest audited nothing: {last_line(output)}")
    return audit_of(run, audited, args.least)


@contextmanager
def _audit_folder(named: str | None) -> Iterator[Path]:
    """Give the folder for the run: the named one, or a temporary one."""
    if named is not None:
        folder = Path(named).resolve()
        if (folder / AUDIT_RUN).exists():
            raise UsageMistake(f"--keep: there is an audit in {folder} already: {AUDIT_RUN}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as refused:
            raise UsageMistake(f"--keep: {folder} cannot be made ({refused.strerror})") from None
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="agenteval-audit-") as place:
        yield Path(place)


def _print_end(output: Path) -> None:
    """Print the end of pytest's output, which says best what is wrong with task files."""
    for line in output.read_text(encoding="utf-8", errors="replace").splitlines()[-MOST_SHOWN:]:
        print(KNOWN_SECRETS.text(printable(line)), file=sys.stderr)


def leaks_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Finds texts of tasks in prompts: ids, expected values, eight words in a row of an input. "
        "Case, width, accents, spaces, punctuation and escapes are ignored; paraphrases are not found. The "
        "exit status is 1 if a leak was added, 0 if all were there before."
    )
    add = parser.add_argument
    add("--prompt", nargs="+", action="extend", default=[], metavar="GLOB", help="prompts: files, or globs with **")  # fmt: skip  # noqa: E501
    add("--files", nargs="+", action="extend", default=[], metavar="GLOB", help="tool descriptions and agents' code, where ordinary words do not count")  # fmt: skip  # noqa: E501
    add("--suite", required=True, metavar="DIR", help="the suite's folder, file or name, or a folder of suites; held-out tasks count too")  # fmt: skip  # noqa: E501
    add("--since", metavar="GIT_REV", help="leaks that this commit did not have are new (default: HEAD)")
    add_json_option(parser)


def leaks(args: argparse.Namespace) -> int:
    """Print what leaks; 1 where some of it was added."""
    globs = [*args.prompt, *args.files]
    if not globs:
        raise UsageMistake("no files to check: name some with --prompt GLOB or --files GLOB")
    # A task with problems raises here: its texts could not be searched for, and would leak unseen.
    suites = [suite_with_tasks(each.path) for each in suites_meant(args.suite)]
    new = read_files(globs)
    since, old = files_at_commit(globs, args.since, [each.file.parent for each in suites])
    document = LeaksDocument(
        since=since,
        files=tuple(new),
        suites=tuple(each.suite.name for each in suites),
        tasks=sum(len(each.tasks) for each in suites),
        # A file that both options name is a prompt.
        leaks=prompt_leaks(old, new, suites, {*new}.difference(read_files(args.prompt))),
    )
    write_result(args.json, document, _leak_lines(document))
    return ADDED if any(leak.added for leak in document.leaks) else 0


def _leak_lines(document: LeaksDocument) -> Iterator[StyledLine]:
    added = [leak for leak in document.leaks if leak.added]
    before = [leak for leak in document.leaks if not leak.added]
    yield from (StyledLine(_leak_text(leak), "red") for leak in added)
    for leak in before[:MOST_BEFORE]:
        yield StyledLine(f"warning: {_leak_text(leak)} (was there before)", "yellow")
    if len(before) > MOST_BEFORE:
        yield StyledLine(f"warning: {len(before) - MOST_BEFORE} more from before; --json has all", "yellow")
    since = f" since {document.since[:10]}" if document.since else ""
    counts = f"{pluralize(len(added), 'leak')} added{since}, {len(before)} from before"
    looked_at = f"{pluralize(len(document.files), 'file')}, {pluralize(document.tasks, 'task')}"
    yield StyledLine(f"{counts}: {looked_at} of {one_line(', '.join(document.suites), MOST_NAME)}")
    if not document.since:
        yield StyledLine("no commit to compare with: every line counts as added", "dim")


def _leak_text(leak: Leak) -> str:
    task = one_line(leak.task, MOST_NAME) if leak.task else "a held-out task"
    place = f"{one_line(leak.file, MOST_NAME)}:{leak.line}"
    return f"{place}: {LEAK_KINDS[leak.kind]} of {task}: {one_line(leak.text, MOST_QUOTED)}"


def read_files(globs: Iterable[str]) -> dict[str, str]:
    """Give the texts of the files that globs name, from the current folder, by their paths.

    Raises UsageMistake for a glob that names none, and for a file that cannot be read.
    """
    texts: dict[str, str] = {}
    for pattern in globs:
        named = [path for path in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(path)]
        if not named:
            why = f"no file there; write a glob from {Path.cwd()}, in quotes"
            if os.path.isdir(pattern):
                why = f"a folder; for the files below it write {os.path.join(pattern, '**')!r}"
            raise UsageMistake(f"{pattern}: {why}")
        for path in map(Path, named):
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError as refused:
                raise UsageMistake(f"{path}: cannot be read ({refused.strerror})") from None
            texts[short_path(Path(os.path.abspath(path)))] = text
    return texts


def files_at_commit(
    globs: Sequence[str], since: str | None, suites: Iterable[Path]
) -> tuple[str, dict[str, str]]:
    """Give a commit, and the texts of the files that globs named there, or that are gone since.

    What is gone may have moved to a prompt, unless it lay in the folders of ``suites``. ``since`` is HEAD
    where it is None. Without git, and before the first commit, nothing is old. Raises UsageMistake for a
    commit that there is not.
    """
    try:
        repository = Repository.around(Path.cwd())
        commit = repository.commit_of(since or "HEAD")
    except (GitFailed, UsageMistake) as missing:
        if since:
            why = "no such commit" if isinstance(missing, GitFailed) else "there is no git repository here"
            raise UsageMistake(f"--since {since}: {why}") from None
        return "", {}
    root, names = repository.root, repository.files(commit)
    # git names files from the top of the repository.
    patterns = [os.path.relpath(os.path.abspath(pattern), root) for pattern in globs]
    folders = {*map(str, suites)}
    suffixes = tuple(os.path.splitext(pattern)[1] for pattern in globs)
    gone = (name for name in names if name.endswith(suffixes) and not os.path.lexists(root / name))
    known = [name for name in names if any(matches(pattern, name) for pattern in patterns)]
    known += [name for name in gone if folders.isdisjoint(map(str, (root / name).parents))]
    texts: dict[str, str] = {}
    for name in known:
        # A repository inside is no file.
        with suppress(GitFailed):
            texts |= repository.texts(commit, [name])
    return commit, texts
