"""``agenteval import``: other benchmarks' suites and runs, by the importers that are registered."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_agenteval.errors import UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.registry import Registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told: an importer's name, and what that one declares itself."""
    parser.add_argument("importer", nargs="?", metavar="NAME", help="which importer; none lists them")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its own arguments")


def import_(args: argparse.Namespace) -> int:
    """Let the importer of this name import; without a name, list the importers.

    0 when all that was imported can be used, else 1. Only the importer that is named is imported itself.
    """
    from pytest_agenteval.discovery import installed_registry

    registry = installed_registry()
    if args.importer is None:
        print("\n".join(_list(registry)))
        return 0
    importer = registry.importer_named(args.importer)
    parser = argparse.ArgumentParser(prog=f"agenteval import {args.importer}", description=importer.help)
    try:
        importer.add_arguments(parser)
    except argparse.ArgumentError as taken:
        raise UsageMistake(f"the importer {args.importer!r} declares an argument twice: {taken}") from None
    status: object = importer.run(parser.parse_args(args.rest), registry)
    if not isinstance(status, int):
        raise UsageMistake(
            f"the importer {args.importer!r}: expected an exit status, 0 or 1; found {status!r:.80}"
        )
    return status


def _list(registry: Registry) -> Iterator[str]:
    if not registry.importers:
        yield "there are no importers: no benchmark that brings one is installed"
    for name in registry.importers:
        try:
            yield f"{name}: {registry.importer_named(name).help}"
        except UsageMistake as broken:
            yield f"{name}: cannot be used: {broken}"
    yield from registry.broken_benchmarks
