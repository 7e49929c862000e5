"""``agenteval import``: other benchmarks' suites and runs, by the importers that are registered."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, TextIO

from pytest_agenteval.cli.console import STDOUT, add_json_option, write_document
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.registry.registry import Registry


class ListedImporter(FrozenValue, frozen=True):
    """An importer, what it is for, and why it cannot be used: empty where it can."""

    name: str
    help: str
    problem: str


class Import(FrozenValue, frozen=True):
    """What an importer was asked for and printed; its exit status is 0 where all of it can be used."""

    importer: str
    arguments: tuple[str, ...]
    exit_status: int
    lines: tuple[str, ...]


class ImportDocument(Document, frozen=True, kw_only=True):
    """What was imported; ``imported`` is null where no importer was named, and ``importers`` lists all then.

    ``broken_benchmarks`` say which installed benchmarks could not be loaded.
    """

    importers: tuple[ListedImporter, ...]
    broken_benchmarks: tuple[str, ...]
    imported: Import | None


class _Tee(io.StringIO):
    """What an importer prints, also passed on as it comes where there is a screen."""

    def __init__(self, screen: TextIO | None) -> None:
        super().__init__()
        self._screen = screen

    def write(self, text: str) -> int:
        """Take a text, and pass it on."""
        if self._screen is not None:
            self._screen.write(text)
        return super().write(text)


def import_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments: an importer's name, and what that one declares itself."""
    parser.add_argument("importer", nargs="?", metavar="NAME", help="which importer; none lists them")
    parser.add_argument(
        "rest", nargs=argparse.REMAINDER, metavar="...", help="its own arguments: import NAME -h"
    )
    add_json_option(parser)


def import_(args: argparse.Namespace) -> int:
    """Let the importer of this name import; without a name, list the importers.

    0 when all that was imported can be used, else 1. Only the importer that is named is imported itself.
    """
    from pytest_agenteval.registry.installed import installed_registry

    registry = installed_registry()
    if args.importer is None:
        listed = tuple(_listed_importers(registry))
        broken = tuple(registry.broken_benchmarks)
        document = ImportDocument(importers=listed, broken_benchmarks=broken, imported=None)
        if args.json != STDOUT:
            print("\n".join(_list_lines(document)))
    else:
        importer = registry.importer_named(args.importer)
        parser = argparse.ArgumentParser(prog=f"agenteval import {args.importer}", description=importer.help)
        try:
            importer.add_arguments(parser)
        except argparse.ArgumentError as taken:
            raise UsageMistake(
                f"the importer {args.importer!r} declares an argument twice: {taken}"
            ) from None
        try:
            add_json_option(parser)
            options = parser.parse_args(args.rest)
            args.json = options.json or args.json
        except argparse.ArgumentError:  # it means something else by it
            options = parser.parse_args(args.rest)
        heard = _Tee(None if args.json == STDOUT else sys.stdout)
        with redirect_stdout(heard):
            status: object = importer.run(options, registry)
        if not isinstance(status, int):
            raise UsageMistake(
                f"the importer {args.importer!r}: expected an exit status, 0 or 1; found {status!r:.80}"
            )
        imported = Import(args.importer, tuple(args.rest), status, tuple(heard.getvalue().splitlines()))
        document = ImportDocument(importers=(), broken_benchmarks=(), imported=imported)
    if args.json:
        write_document(args.json, document)
    return document.imported.exit_status if document.imported else 0


def _listed_importers(registry: Registry) -> Iterator[ListedImporter]:
    for name in registry.importers:
        try:
            yield ListedImporter(name, registry.importer_named(name).help, "")
        except UsageMistake as broken:
            yield ListedImporter(name, "", str(broken))


def _list_lines(document: ImportDocument) -> Iterator[str]:
    if not document.importers:
        yield "there are no importers: no benchmark that brings one is installed"
    for each in document.importers:
        yield f"{each.name}: {f'cannot be used: {each.problem}' if each.problem else each.help}"
    yield from document.broken_benchmarks
