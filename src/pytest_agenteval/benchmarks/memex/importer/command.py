"""``agenteval import memex``: a folder of Memex's suites becomes suites of the user's own."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from pytest_agenteval import AgentEvalError, Registry, add_common_arguments
from pytest_agenteval.benchmarks.memex.importer.importing import (
    ImportedSuite,
    RegisteredNames,
    import_folder,
)
from pytest_agenteval.importers.command import leftover_lines, writing

LICENCE = "Memex's texts are under GPL-3.0: the copies are for your own use, as the originals are."


class MemexImporter:
    """Imports suites of task.json files with their fixtures."""

    help = "a folder of Memex's suites: task.json files and their fixtures"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the folder."""
        parser.add_argument("source", metavar="DIR", help="the folder")
        add_common_arguments(parser, "the suite's new folder; several suites become folders in it")

    def run(self, args: argparse.Namespace, registry: Registry) -> int:
        """Import, and say what came of it; 1 where a task cannot run."""
        graders = [name for name in registry.graders if not registry.group(name)]
        known = RegisteredNames(
            sorted(registry.agents), sorted(graders), _refusal(registry), _has_mode(registry)
        )
        with writing():
            imported = import_folder(
                Path(args.source), Path(args.to), known, force=args.force, mode=args.mode
            )
        for suite in imported:
            _print_suite(suite)
        print(LICENCE)
        return 1 if any(suite.problems for suite in imported) else 0


def _print_suite(imported: ImportedSuite) -> None:
    for problem in imported.problems:
        print(problem)
    suite = imported.suite
    print(f"{suite.name}: {len(suite.tasks)} task files, {imported.broken} cannot run: {imported.folder}")
    for change in (*suite.changes, *imported.fixtures):
        print(f"  {change}")
    for line in leftover_lines(imported.others):
        print(line)


def _has_mode(registry: Registry) -> Callable[[str], bool]:
    """Say whether a grader counts in modes."""

    def of(name: str) -> bool:
        try:
            return "mode" in signature(registry.grader_factory(name)).parameters
        except (AgentEvalError, TypeError, ValueError):
            return False

    return of


def _refusal(registry: Registry) -> Callable[[str, Mapping[str, Any]], str]:
    """Say why a grader does not take a configuration."""

    def of(name: str, config: Mapping[str, Any]) -> str:
        try:
            registry.grader_factory(name)(**config)
        except (AgentEvalError, TypeError, ValueError) as refused:
            return str(refused)
        return ""

    return of
