"""From what a user asks to an improvement that can begin, or to the one line that says why it cannot."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.loop.improve.coding_agent import missing_command
from pytest_agenteval.loop.improve.edit_check import pathspecs_of
from pytest_agenteval.loop.improve.log import LOG, STATE, read_state
from pytest_agenteval.loop.improve.progress import Improvement, Limits
from pytest_agenteval.loop.improve.repository import Repository
from pytest_agenteval.loop.improve.suite_tasks import SuiteTasks, read_suite_tasks
from pytest_agenteval.loop.improve.trying import start_run
from pytest_agenteval.processes.process_groups import end_processes_with_variable, is_running
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.store.run_folder import find_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import UsageMistake, did_you_mean, nearest_names
from pytest_agenteval.text.formatting import one_line, pluralize

PLACE = Path(".agenteval") / "improve"
BRANCH = "agenteval/improve-"
MOST_NAMES = 5
MOST_NAME = 200
LATEST = "latest"
WORKS_FOR = "AGENTEVAL_IMPROVEMENT"
GRACE_S = 5.0
"""Seconds that processes which nobody waits for have to end once they are asked to."""

OWN_OPTIONS = (
    *("--repetitions", "--collect-only", "--co", "--agent-split", "--agent-prompt", "--agent-results"),
    *("--agent-run-name", "--agent-only", "--agent-regrade", "--agent-baseline", "--agent-gate"),
    *("--agent-report", "--agent-comment", "--agent-max-trials", "--rootdir", "-h", "--help", "--version"),
    "--reruns",
)
"""Options of pytest that an improvement gives itself, or that leave nothing to compare."""

STOPPING = ("--exitfirst", "--maxfail", "--lf", "--last-failed", "--sw", "--stepwise")
"""Options of pytest by which old and new would not be tried on the same tasks."""


class Request(FrozenValue, frozen=True):
    """What a user asks for; ``here`` is where he stands, ``run`` a stored run for the first feedback."""

    here: Path
    suite_file: Path
    command: str
    globs: tuple[str, ...]
    focus: tuple[str, ...]
    repetitions: int
    limits: Limits
    options: tuple[str, ...]
    results: Path
    run: str = ""


def begin(request: Request) -> tuple[Repository, Path, Improvement, list[str]]:
    """Make the folder of an improvement; give it with the repository, and what the user should know.

    Raises UsageMistake where it cannot begin; then nothing was made.
    """
    suite_file = Path(os.path.realpath(request.suite_file))
    repository = Repository.around(suite_file.parent)
    _refuse_changes(repository)
    _refuse_options(request.options)
    if missing := missing_command(request.command, request.here):
        raise UsageMistake(f"--coding-agent: there is no command {missing!r}")
    start = repository.commit_of("HEAD")
    inside = suite_file.relative_to(os.path.realpath(repository.root)).as_posix()
    if inside not in repository.files(start, [f":(top,literal){inside}"]):
        raise UsageMistake(f"{request.suite_file}: expected a suite that is committed; git does not know it")
    tasks = read_suite_tasks(repository.root, inside)
    folder = _folder(request.here, repository.root)
    _check_globs(repository, start, request.globs, folder, tasks, inside)
    _check_focus(request.focus, tasks)
    improvement = Improvement(
        name=f"{datetime.now():%Y%m%d-%H%M%S}-{os.urandom(2).hex()}",
        started_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        command=request.command,
        suite=tasks.name,
        suite_file=inside,
        folder=folder,
        globs=request.globs,
        focus=request.focus,
        repetitions=request.repetitions,
        limits=request.limits,
        options=request.options,
        results=str(request.results),
        branch="",
        start=start,
        kept=start,
    )
    improvement = replace(improvement, branch=f"{BRANCH}{improvement.name}")
    if request.run:
        improvement = _with_run(improvement, request)
    place = _make_folder(repository.root, improvement.name)
    return repository, place, improvement, list(_remarks(repository, tasks, inside))


def take_up(here: Path, name: str) -> tuple[Repository, Path, Improvement]:
    """Find an improvement that was interrupted: the newest, or the one whose name begins so.

    Raises UsageMistake where there is none, or it has ended.
    """
    repository = Repository.around(here)
    places = sorted((repository.root / PLACE).glob(f"*/{STATE}"))
    folders = {path.parent.name: path.parent for path in places}
    if name == LATEST:
        for folder in reversed(folders.values()):
            if not (improvement := read_state(folder)).outcome:
                return repository, folder, improvement
        raise UsageMistake(f"no improvement in {repository.root / PLACE} was interrupted")
    meant = [each for each in folders if each.startswith(name)]
    if len(meant) != 1:
        names = nearest_names(name, folders) or "there is none"
        raise UsageMistake(f"--continue {name!r}: expected the name of one improvement: {names}")
    improvement = read_state(folders[meant[0]])
    if improvement.outcome:
        log = folders[meant[0]] / LOG
        raise UsageMistake(f"{improvement.name} has ended ({improvement.outcome}): {log}")
    return repository, folders[meant[0]], improvement


@contextmanager
def at_work(folder: Path) -> Iterator[None]:
    """Note that this process carries an improvement on; raises UsageMistake where another one does.

    What it starts knows for which one it works: what one before it started, and was killed before it could
    end, is ended first.
    """
    mark = folder / "process"
    with suppress(OSError, ValueError):
        other = int(mark.read_text(encoding="utf-8"))
        if other != os.getpid() and is_running(other):
            raise UsageMistake(
                f"{folder.name} is carried on by process {other}; where that is none of ours, delete {mark}"
            )
    try:
        mark.write_text(f"{os.getpid()}\n", encoding="utf-8", newline="\n")
    except OSError as refused:
        raise UsageMistake(f"{mark}: cannot be written ({refused.strerror})") from None
    outer = os.environ.get(WORKS_FOR)
    if outer != folder.name:
        end_processes_with_variable(f"{WORKS_FOR}={folder.name}", GRACE_S)
    os.environ[WORKS_FOR] = folder.name
    try:
        yield
    finally:
        os.environ.pop(WORKS_FOR)
        if outer is not None:
            os.environ[WORKS_FOR] = outer
        mark.unlink(missing_ok=True)


def _refuse_changes(repository: Repository) -> None:
    if changed := repository.uncommitted():
        names = _listed(changed)
        rule = "expected no uncommitted changes, for trees are made of commits"
        raise UsageMistake(f"{rule}; found {names}; commit or stash them")


def _refuse_options(options: Sequence[str]) -> None:
    for option in options:
        if option.partition("=")[0] in OWN_OPTIONS:
            raise UsageMistake(f"-- {option}: improve says this to pytest itself")
        if option.partition("=")[0] in STOPPING or re.fullmatch("-[lqsv]*x[lqsvx]*", option):
            raise UsageMistake(f"-- {option}: old and new have to be tried on the same tasks, to the last")


def _check_globs(
    repository: Repository, start: str, globs: Sequence[str], folder: str, tasks: SuiteTasks, suite: str
) -> None:
    for glob in globs:
        outside = os.path.isabs(glob) or os.path.normpath(os.path.join(folder, glob)).startswith("..")
        files = [] if outside else repository.files(start, pathspecs_of([glob], folder))
        if not files:
            raise UsageMistake(f"--prompts {glob!r}: expected files that git tracks; it matches none")
        asking = {suite, *(task.file for task in tasks.tasks)}
        if own := sorted(asking.intersection(files)):
            raise UsageMistake(f"--prompts {glob!r}: expected prompts only; it matches {_listed(own)}")


def _check_focus(focus: Sequence[str], tasks: SuiteTasks) -> None:
    buckets = tasks.dev_buckets
    if not tasks.dev:
        raise UsageMistake(f"{tasks.name} has no task of split dev: there is nothing to work with")
    for name in focus:
        if name not in buckets:
            hint = did_you_mean(name, buckets) or f"buckets: {nearest_names(name, buckets)}"
            raise UsageMistake(f"--focus {name!r}: {tasks.name} has no such bucket of split dev; {hint}")


def _with_run(improvement: Improvement, request: Request) -> Improvement:
    folder = find_run(request.results, request.run)
    run = load_run(folder)
    entries = [entry for entry in run.entries if entry.key.suite == improvement.suite]
    own = [entry for entry in entries if entry.split != "held_out"]
    if not own:
        raise UsageMistake(f"--run {request.run}: it has no trial of {improvement.suite}, split dev")
    variants = [entry.key.variant for entry in own]
    return replace(
        improvement,
        start_run=replace(start_run(run, improvement.suite, 0.0), run=str(folder.absolute())),
        feedback_run=str(folder.absolute()),
        feedback_variant="" if "" in variants else variants[0],
    )


def _folder(here: Path, root: Path) -> str:
    """Give where the user stands, from the top; the top itself where he stands elsewhere."""
    real, top = Path(os.path.realpath(here)), Path(os.path.realpath(root))
    return real.relative_to(top).as_posix() if real.is_relative_to(top) else "."


def _make_folder(root: Path, name: str) -> Path:
    place = root / PLACE / name
    try:
        place.mkdir(parents=True)
        ignore = root / PLACE.parent / ".gitignore"
        if not ignore.exists():
            replace_text(ignore, "*\n")
    except OSError as refused:
        raise UsageMistake(f"{place}: cannot be made ({refused.strerror})") from None
    return place


def _remarks(repository: Repository, tasks: SuiteTasks, suite: str) -> list[str]:
    """Say what the user might not expect."""
    remarks = []
    beside = repository.untracked([f":(top,literal){Path(suite).parent.as_posix()}"])
    if beside:
        files = pluralize(len(beside), "file")
        remarks.append(f"{files} of the suite that git does not know take no part: {_listed(beside)}")
    if not tasks.held_out:
        remarks.append(f"{tasks.name} has no held-out task (split: held_out): nothing can be confirmed")
    return remarks


def _listed(names: Sequence[str]) -> str:
    left = len(names) - MOST_NAMES
    lines = [one_line(name, MOST_NAME) for name in names[:MOST_NAMES]]
    return ", ".join([*lines, *([f"and {left} more"] if left > 0 else [])])
