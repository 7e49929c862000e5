"""``agenteval leaks``: what of a suite's tasks stands in prompts, tool descriptions and agents' code."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_agenteval.cli.output import STDOUT, add_json_option, print_lines, write_document
from pytest_agenteval.loop.leaks.leak import Leak, LeakKind, LeaksDocument
from pytest_agenteval.loop.leaks.looked_at_files import files_of, old_files
from pytest_agenteval.loop.leaks.search import leaks_in
from pytest_agenteval.loop.leaks.suite_tasks import read_suites
from pytest_agenteval.reports.exports.document_text import document_schema
from pytest_agenteval.store.run_schemas import Schema
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine, one_line, pluralize

ADDED = 1
"""The exit status where something was added that leaks."""

MOST_BEFORE = 20
"""Warnings beyond which nobody reads on."""

MOST_QUOTED = 160
MOST_NAME = 200

KINDS: dict[LeakKind, str] = {
    "task_id": "the id",
    "expected_value": "what is expected",
    "reference_solution": "the reference solution",
    "input": "the input",
    "workspace": "the starting workspace",
}
"""Which part of a task stands in a prompt, in words."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    parser.description = (
        "Says where prompts hold what tasks ask and expect: ids, expected values, eight words of an input. "
        "Case, width, accents, spaces, punctuation and escapes hide nothing; a paraphrase is not seen. The "
        "exit status is 1 where something of it was added, 0 where it stood there before."
    )
    add = parser.add_argument
    add("--prompt", nargs="+", action="extend", default=[], metavar="GLOB", help="prompts: files, or globs with **")  # fmt: skip  # noqa: E501
    add("--files", nargs="+", action="extend", default=[], metavar="GLOB", help="tool descriptions and agents' code; of Python, texts and comments")  # fmt: skip  # noqa: E501
    add("--suite", required=True, metavar="DIR", help="the suite's folder, file or name, or a folder with several: all tasks, held-out ones too")  # fmt: skip  # noqa: E501
    add("--since", metavar="GIT_REV", help="what stands there since this commit is added (default: HEAD)")
    add_json_option(parser)


def leaks(args: argparse.Namespace) -> int:
    """Print what leaks; 1 where some of it was added."""
    globs = [*args.prompt, *args.files]
    if not globs:
        raise UsageMistake("nothing to look at: name files with --prompt GLOB or --files GLOB")
    places = _places(args.suite)
    suites = [each for place in places for each in read_suites(place)]
    new = files_of(globs)
    old = old_files(globs, new, args.since, places[0])
    document = LeaksDocument(
        since=old.commit,
        files=tuple(new),
        suites=tuple(each.suite.name for each in suites),
        tasks=sum(len(each.tasks) for each in suites),
        leaks=leaks_in(old.texts, new, suites, {*new}.difference(files_of(args.prompt))),
    )
    if args.json:
        write_document(args.json, document)
    if args.json != STDOUT:
        print_lines(_lines(document))
    return ADDED if any(leak.added for leak in document.leaks) else 0


def _places(named: str) -> list[Path]:
    """Give the path that is named, or the files of the suites of that name below here."""
    from pytest_agenteval.cli.suite_files import is_place_of_suite, suites_meant

    if is_place_of_suite(named):
        return [Path(named)]
    return [each.path for each in suites_meant(named)]


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    return document_schema("leaks", LeaksDocument)


def _lines(document: LeaksDocument) -> Iterator[StyledLine]:
    added = [leak for leak in document.leaks if leak.added]
    before = [leak for leak in document.leaks if not leak.added]
    yield from (StyledLine(_leak_text(leak), "red") for leak in added)
    for leak in before[:MOST_BEFORE]:
        yield StyledLine(f"warning: {_leak_text(leak)} (stood there before)", "yellow")
    if len(before) > MOST_BEFORE:
        yield StyledLine(f"warning: {len(before) - MOST_BEFORE} more from before; --json has all", "yellow")
    yield StyledLine(_count_text(document, added, before))
    if not document.since:
        yield StyledLine("no commit to compare with: every line counts as added", "dim")


def _leak_text(leak: Leak) -> str:
    task = one_line(leak.task, MOST_NAME) if leak.task else "a held-out task"
    place = f"{one_line(leak.file, MOST_NAME)}:{leak.line}"
    return f"{place}: {KINDS[leak.kind]} of {task}: {one_line(leak.text, MOST_QUOTED)}"


def _count_text(document: LeaksDocument, added: Sequence[Leak], before: Sequence[Leak]) -> str:
    since = f" since {document.since[:10]}" if document.since else ""
    counts = f"{pluralize(len(added), 'leak')} added{since}, {len(before)} from before"
    looked_at = f"{pluralize(len(document.files), 'file')}, {pluralize(document.tasks, 'task')}"
    return f"{counts}: {looked_at} of {one_line(', '.join(document.suites), MOST_NAME)}"
