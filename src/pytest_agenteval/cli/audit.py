"""``agenteval audit``: pytest is started on references, whole and spoilt; what did the graders see?"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.cli.output import STDOUT, add_json_option, print_lines, write_document, write_text
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake
from pytest_agenteval.text.formatting import printable
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.reports.audit_report import Audit
    from pytest_agenteval.store.run_schemas import Schema

LEAST = 0.9
RUN = "audit"
OUTPUT = "pytest.txt"
MOST_SHOWN = 30
"""Lines of pytest's own output that are shown where it left nothing to read."""
ENDED = (0, 1)
"""Exit statuses of a pytest that came to its end: all passed, or some failed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    add(
        "suite",
        nargs="?",
        metavar="SUITE",
        help="a suite's name, or a path; without it every suite below here",
    )
    add(
        "--least",
        type=float,
        default=LEAST,
        metavar="SHARE",
        help=f"the share of spoilers that a suite's graders have to see, 0 to 1; {LEAST}, if not said",
    )
    add("--judge", action="append", default=[], metavar="MODEL", help="who judges; several are an ensemble")
    add("--keep", metavar="DIR", help="keep the audited run in this folder; else it goes again")
    add("-o", "--output", metavar="FILE", help="write the tables in Markdown too")
    add_json_option(parser)


def audit(args: argparse.Namespace) -> int:
    """Audit suites: 0 where all is sound, 1 where a task or its graders are not, 2 where nothing can be."""
    from pytest_agenteval.reports.audit_report import audit_lines, audit_markdown
    from pytest_agenteval.text.formatting import clamp_width

    if not 0 <= args.least <= 1:
        raise UsageMistake(f"--least: expected a number from 0 to 1; found {args.least}")
    paths = _paths(args.suite)
    with _results(args.keep) as results:
        result = _audited(paths, args, results)
    if args.json:
        write_document(args.json, result)
    if args.output:
        write_text(args.output, audit_markdown(result))
    if args.json != STDOUT and args.output != STDOUT:
        width = clamp_width(shutil.get_terminal_size().columns)
        print_lines(audit_lines(result, width, tells_unseen=True))
    return 0 if result.is_sound else 1


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.reports.audit_report import Audit
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema("audit", Audit)


def _paths(named: str | None) -> list[str]:
    """Give the path that is named, or the folders of the suites of that name, or of all below here."""
    from pytest_agenteval.cli.suite_files import is_place_of_suite, suites_meant
    from pytest_agenteval.tasks.file_names import SUITE_NAMES

    if named is not None and Path(named).name not in SUITE_NAMES and is_place_of_suite(named):
        return [named]
    return [str(suite.path.parent) for suite in suites_meant(named)]


@contextmanager
def _results(named: str | None) -> Iterator[Path]:
    """Give the folder for the run: one that is named and kept, or one that goes again."""
    if named is not None:
        folder = Path(named).resolve()
        if (folder / RUN).exists():
            raise UsageMistake(f"--keep: there is an audit in {folder} already: {RUN}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as refused:
            raise UsageMistake(f"--keep: {folder} cannot be made ({refused.strerror})") from None
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="agenteval-audit-") as place:
        yield Path(place)


def _audited(paths: Sequence[str], args: argparse.Namespace, results: Path) -> Audit:
    """Have pytest act out every reference, and read what came of it."""
    from pytest_agenteval.reports.audit_report import audit_of
    from pytest_agenteval.session.inner_pytest import InnerPytest, last_line
    from pytest_agenteval.store.run_audit import read_audit
    from pytest_agenteval.store.run_reader import load_run

    options = ["--agent-audit", "-m", "agenteval_audit", *(f"--agent-judge={judge}" for judge in args.judge)]
    output = results / OUTPUT
    print("acting out the references, whole and spoilt …", file=sys.stderr)
    pytest = InnerPytest([*options, *paths], folder=Path.cwd(), results=results, name=RUN, output=output)
    try:
        status = pytest.wait()
    except AgentEvalError:
        _refuse_empty(output)
        _show_end(output)
        raise
    if status not in ENDED:
        _show_end(output)
        raise AgentEvalError(f"pytest did not end well (exit status {status}): {last_line(output)}")
    run = load_run(results / RUN)
    audited = read_audit(run.folder)
    if audited is None:
        raise AgentEvalError(f"pytest audited nothing: {last_line(output)}")
    return audit_of(run, audited, args.least)


def _refuse_empty(output: Path) -> None:
    """Say that no task could be audited, where that is why pytest left no run."""
    if "no tests ran" in output.read_text(encoding="utf-8", errors="replace"):
        raise UsageMistake(
            "nothing can be audited: no task there has a reference_solution with turns"
        ) from None


def _show_end(output: Path) -> None:
    """Show how pytest ended: it says best what is wrong with task files."""
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()[-MOST_SHOWN:]
    for line in lines:
        print(KNOWN_SECRETS.text(printable(line)), file=sys.stderr)
