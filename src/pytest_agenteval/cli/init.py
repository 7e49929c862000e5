"""``agenteval init``: a first suite that passes at once, offline, or a copy of one that is shipped."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_agenteval.cli.output import STDOUT, add_json_option, write_document
from pytest_agenteval.records.record import Document

if TYPE_CHECKING:
    from pytest_agenteval.store.run_schemas import Schema

KINDS = ("python", "command", "tools", "workspace")
MOST_NAMED = 12
"""Files of a folder beyond which they are counted, not named."""


class InitDocument(Document, frozen=True, kw_only=True):
    """What was written: a suite of somebody's own, or an example, and what to type next.

    ``written``, ``added_to`` and ``left`` are paths from ``root``, the project's folder: new files, files
    that got lines added at their end, and those that were left as they are. ``run`` is the command that tries
    the suite; ``change`` says what to change first. With ``dry_run`` nothing was written.
    """

    root: str
    suite: str
    written: tuple[str, ...]
    added_to: tuple[str, ...]
    left: tuple[str, ...]
    run: str
    change: tuple[str, ...]
    dry_run: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told; which examples there are, installed benchmarks say."""
    from pytest_agenteval.registry.installed import installed_registry

    names = ", ".join(installed_registry().examples) or "none is installed"
    parser.add_argument(
        "folder", nargs="?", metavar="FOLDER", help="the project's folder (default: that which you are in)"
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--agent", choices=KINDS, default="python", help="what acts (default: python)")
    kinds.add_argument("--example", metavar="NAME", help=f"copy a shipped suite instead: {names}")
    parser.add_argument("--suite", metavar="NAME", help="the suite's name (default: one for each --agent)")
    parser.add_argument("--force", action="store_true", help="write over files that are there")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be written")
    add_json_option(parser)


def init(args: argparse.Namespace) -> int:
    """Write the suite, and say what to type next."""
    from pytest_agenteval.cli.starters.first_suite import plan_example, plan_first_suite
    from pytest_agenteval.cli.starters.project import find_project
    from pytest_agenteval.cli.starters.writing import write_files

    project = find_project(args.folder)
    if args.example:
        plan = plan_example(project, args.example, suite=args.suite, force=args.force)
    else:
        plan = plan_first_suite(project, args.agent, suite=args.suite, force=args.force)
    document = InitDocument(dry_run=args.dry_run, **plan.to_json())
    if args.json:
        write_document(args.json, document)
    if not args.dry_run:
        write_files(plan.files)
    if args.json != STDOUT:
        for line in _lines(document):
            print(line)
    return 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema("init", InitDocument)


def _lines(document: InitDocument) -> Iterator[str]:
    from pytest_agenteval.text.formatting import printable

    verb = "would write" if document.dry_run else "wrote"
    yield printable(f"{verb}, in {document.root}")
    yield from (f"  {printable(line)}" for line in _folders(document.written))
    for name in document.added_to:
        yield f"  {name} (lines at its end)"
    for name in document.left:
        yield f"left as it is: {name}"
    yield "run it, offline and without a key"
    yield f"  {printable(document.run)}"
    if document.change:
        yield "change first"
        yield from (f"  {printable(line)}" for line in document.change)


def _folders(names: tuple[str, ...]) -> Iterator[str]:
    """Name files by the two upper folders that they lie in, and those that lie in none last."""
    folders: dict[str, list[str]] = {}
    for name in names:
        parts = name.split("/")
        depth = min(2, len(parts) - 1)
        folders.setdefault("/".join(parts[:depth]), []).append("/".join(parts[depth:]))
    for folder, files in sorted(folders.items(), key=lambda item: item[0] == ""):
        listed = ", ".join(files) if len(files) <= MOST_NAMED else f"{len(files)} files"
        yield f"{folder}/  {listed}" if folder else listed
