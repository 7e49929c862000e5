"""``agenteval validate``: everything that is wrong with task files; nothing is run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_agenteval.cli.output import STDOUT, add_json_option, write_document

if TYPE_CHECKING:
    from pytest_agenteval.cli.collected_files import CollectedFiles
    from pytest_agenteval.store.run_schemas import Schema

INTERNAL_ERROR, USAGE_ERROR = 3, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    place = "a folder with task files, or one such file; by default what `pytest` collects here"
    parser.add_argument("paths", nargs="*", metavar="PATH", help=place)
    add_json_option(parser)


def validate(args: argparse.Namespace) -> int:
    """Print every problem of the files below the paths; 0 when there is something to run and no problem."""
    from pytest_agenteval.cli.collected_files import collect_files

    collected = collect_files(args.paths)
    is_usage_error = collected.status == USAGE_ERROR  # pytest said why
    if args.json and not is_usage_error:
        write_document(args.json, collected.document)
    if args.json != STDOUT:
        for line in _lines(collected):
            print(line)
    if is_usage_error:
        return 2
    document = collected.document
    return 1 if collected.texts or not (document.tasks or document.calibrations) else 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.cli.collected_files import ValidationDocument
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema("validate", ValidationDocument)


def _lines(collected: CollectedFiles) -> Iterator[str]:
    from pytest_agenteval.text.formatting import pluralize

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
