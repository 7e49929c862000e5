"""What importers are made from: arguments, source files with their problems, and runs that are stored."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pytest_agenteval import __version__
from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.interaction import Interaction, Response, tool_interaction
from pytest_agenteval.processes.files import read_pointer, replace_file
from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.record import Record
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.record_files import replace_link
from pytest_agenteval.store.run_folder import (
    LATEST,
    ROOT,
    RunHeader,
    RunModel,
    RunSuite,
    end_run,
    list_runs,
    new_run,
    planned_groups,
    write_planned,
)
from pytest_agenteval.tasks.file_names import PYTEST_SETTINGS
from pytest_agenteval.text.errors import Problem, ProblemsFound, UsageMistake
from pytest_agenteval.text.formatting import few_names

MOST_NAMED = 3


def add_common_arguments(parser: argparse.ArgumentParser, target: str) -> None:
    """Add an importer's options ``--to``, ``--mode`` and ``--force``; ``target`` is the help of ``--to``."""
    parser.add_argument("--to", required=True, metavar="DIR", help=target)
    parser.add_argument(
        "--mode",
        choices=("default", "upstream"),
        default="default",
        help="grade as the benchmark's docs say (default), or as its code does (upstream)",
    )
    parser.add_argument("--force", action="store_true", help="write over what was imported there before")


@contextmanager
def writing() -> Iterator[None]:
    """Turn an error of the file system into one sentence that names the file."""
    try:
        yield
    except KeyboardInterrupt:
        print("agenteval: the import is incomplete: repeat it with --force", file=sys.stderr)
        raise
    except OSError as refused:
        raise UsageMistake(f"{refused.filename}: {refused.strerror}") from None


def leftover_lines(others: Sequence[Path]) -> Iterator[str]:
    """Name the first few files in the target that this import did not write."""
    if others:
        yield f"not part of this import, not changed: {few_names(others, MOST_NAMED)}"


WIDTH = 110


def write_yaml(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a YAML file and its folders; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml_text(content), encoding="utf-8", newline="\n")
    return path


def yaml_text(content: Mapping[str, Any]) -> str:
    import yaml

    base: Any = yaml.SafeDumper
    # Without anchors and aliases, which are hard to read and to edit.
    dumper: Any = type("PlainDumper", (base,), {"ignore_aliases": lambda *_: True})
    return yaml.dump(content, Dumper=dumper, allow_unicode=True, sort_keys=False, width=WIDTH)


def make_project(folder: Path) -> None:
    """Write a pytest.ini if the folder has no pytest settings."""
    if not any((folder / name).exists() for name in PYTEST_SETTINGS):
        text = "[pytest]\ntestpaths = evals\n"
        (folder / "pytest.ini").write_text(text, encoding="utf-8", newline="\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; raises ProblemsFound with the line."""
    text = read_text(path)
    try:
        return json.loads(text)
    # JSON that is nested too deeply raises RecursionError, which has no line number.
    except (ValueError, RecursionError) as broken:
        raise ProblemsFound([not_json(path, broken)]) from None


def read_text(path: Path) -> str:
    """Read a UTF-8 text; raises ProblemsFound."""
    try:
        # ``-sig`` drops a byte order mark, at which ``json.loads`` would fail.
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as broken:
        line = path.read_bytes().count(b"\n", 0, broken.start) + 1
        raise ProblemsFound([Problem(str(path), line, (), "text in UTF-8", str(broken))]) from None
    except OSError as refused:
        found = refused.strerror or str(refused)
        raise ProblemsFound([Problem(str(path), None, (), "a file that can be read", found)]) from None


def not_json(path: Path, broken: Exception, line: int | None = None) -> Problem:
    return Problem(str(path), line or getattr(broken, "lineno", None), (), "JSON", str(broken))


def read_all(paths: Iterable[Path]) -> Iterator[tuple[Path, Any]]:
    """Read many JSON files; after the last one, raises ProblemsFound with the problems of all of them."""
    problems: list[Problem] = []
    for path in paths:
        try:
            yield path, read_json(path)
        except ProblemsFound as broken:
            problems += broken.problems
    if problems:
        raise ProblemsFound(problems)


def misshapen(path: Path, expected: str, found: object, *key: str | int, hint: str = "") -> ProblemsFound:
    """Make the error for JSON of the wrong shape, with the key."""
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)
    short = text if len(text) <= 80 else f"{text[:79]}…"
    return ProblemsFound([Problem(str(path), None, key, expected, short, hint)])


class ImportedRun(Record, frozen=True):
    """One model's imported trials in one suite, with start and end (ISO 8601).

    ``judges`` are who judged, by name, each with a note that is shown beside it (``verdicts as published``).
    """

    model: str
    suite: str
    kind: Kind
    agent: str
    started_at: str
    ended_at: str
    trials: tuple[Trial, ...]
    judges: tuple[tuple[str, str], ...] = ()


def imported_runs(target: Path, command: Sequence[str]) -> list[Path]:
    """Return the folders of the runs below ``target`` whose command starts with ``command``."""
    begin = tuple(command)
    runs = list_runs(target / ROOT)
    return [run.path for run in runs if run.header.command[: len(begin)] == begin]


def replace_imported_runs(
    target: Path, begin: Sequence[str], runs: Sequence[ImportedRun], command: Sequence[str]
) -> list[Path]:
    """Replace the runs that a command starting with ``begin`` imported; return their folders.

    ``command`` is what was typed now, stored in each run's header. If ``latest`` points to a run that was
    made here, it still does afterwards: no import counts as newer.
    """
    root, earlier = target / ROOT, imported_runs(target, begin)
    root.mkdir(parents=True, exist_ok=True)
    others = {path.name for path in root.iterdir()}.difference(folder.name for folder in earlier)
    place = Path(mkdtemp(prefix="importing-", dir=root.parent))
    # Written before the earlier ones go: a full disk or Ctrl-C leaves those as they are.
    try:
        written = [_write(place, run, command, others) for run in runs]
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    for folder in earlier:
        replace_file(folder, place / f"earlier-{folder.name}")
    for folder in written:
        replace_file(folder, root / folder.name)
    shutil.rmtree(place, ignore_errors=True)
    if written and read_pointer(root / LATEST) not in others:
        replace_link(root / LATEST, written[-1].name)
    return [root / folder.name for folder in written]


def _write(root: Path, run: ImportedRun, command: Sequence[str], taken: Collection[str]) -> Path:
    header = RunHeader(
        started_at=run.started_at,
        command=tuple(command),
        models=(RunModel(run.model, run.model),),
        variants=("",),
        suites=(RunSuite(run.suite, run.kind, run.agent),),
        repetitions=1,
        package=__version__,
        judges=tuple(RunModel(name, name, note=note) for name, note in run.judges),
    )
    folder = new_run(root, header, taken)
    write_planned(folder, planned_groups((trial.key, trial.bucket) for trial in run.trials))
    journal = JournalWriter(folder, "import")
    try:
        journal.finished([redact_trial(trial) for trial in run.trials])
    finally:
        journal.close()
    end_run(folder, run.ended_at, exit_status=0)
    return folder


class RecordedCall(Record, frozen=True):
    """One tool call with its result as JSON; ``remarks`` are further keys of the stored response."""

    tool: str
    args: Mapping[str, Any]
    result: Any
    remarks: Mapping[str, Any] = {}


def write_tool_cassette(path: Path, calls: Iterable[RecordedCall]) -> Path:
    """Write a cassette file, JSON or YAML by its suffix; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    interactions = []
    for call in calls:
        made = tool_interaction(call.tool, call.args, result=call.result)
        answer = made.response
        response = Response(answer.status, answer.message, answer.headers, answer.body, dict(call.remarks))
        interactions.append(Interaction(made.request, response))
    write_cassette(path, CassetteContent(tuple(interactions)))
    return path
