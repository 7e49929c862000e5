"""``agenteval cassettes migrate``: recorded requests of HTTP tools become calls of these tools."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_agenteval.cassettes.cassette_files import JSON, YAML, read_cassette, write_cassette
from pytest_agenteval.cassettes.interaction import is_http_exchange
from pytest_agenteval.registry.registration import get_registry
from pytest_agenteval.session.inner_pytest import pytest_here
from pytest_agenteval.session.planning.suites import SuiteSearch, read_suite
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.tools.http_recordings import as_calls
from pytest_agenteval.tools.tool import Tool
from pytest_agenteval.tools.toolsets import load_tools


def cassettes_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["migrate"], help="update recordings made by an earlier version")
    place = "a cassette, or a folder of them (default: cassettes)"
    parser.add_argument("paths", nargs="*", default=["cassettes"], metavar="PATH", help=place)
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")


def cassettes(args: argparse.Namespace) -> int:
    """Rewrite each recorded request of a tool as its call, the request below it; 1 for an unreadable file."""
    paths = list(_files(args.paths))
    tools = _project_tools()
    verb = "would become" if args.dry_run else "became"
    status = changed_files = 0
    for path in paths:
        name = short_path(path)
        try:
            content = read_cassette(path, name)
        except ProblemsFound as wrong:
            print(wrong, file=sys.stderr)
            status = 1
            continue
        migrated = tuple(as_calls(content.interactions, tools))
        changed = sum(new is not old for new, old in zip(migrated, content.interactions, strict=True))
        others = sum(is_http_exchange(each) and each in content.interactions for each in migrated)
        if changed:
            changed_files += 1
            beside = f"; of no tool: {others}" if others else ""
            calls = "a call" if changed == 1 else "calls"
            print(f"{name}: {pluralize(changed, 'request')} {verb} {calls}{beside}")
            if not args.dry_run:
                write_cassette(path, replace(content, interactions=migrated), name)
    outcome = "to change" if args.dry_run else "changed"
    print(f"{pluralize(changed_files, 'cassette')} of {len(paths)} {outcome}")
    return status


def _files(names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        path = Path(name)
        if not path.exists():
            raise UsageMistake(f"there is no cassette {name}")
        for place, folders, files in os.walk(path):
            folders.sort()
            yield from (Path(place, file) for file in sorted(files) if file.endswith((*YAML, *JSON)))
        if path.is_file():
            yield path


class _ToolListener:
    """A pytest plugin that takes what conftests and installed benchmarks register, and tools of suites."""

    def __init__(self, suites: Sequence[Path]) -> None:
        self._suites = suites
        self.tools: list[Tool] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        registry, here = get_registry(session.config), Path.cwd()
        self.tools += registry.tools.values()
        for file in self._suites:
            suite = read_suite(file, here)
            for entry in suite.tools if suite is not None else ():
                if isinstance(entry, str):
                    self.tools += load_tools(entry, file.parent, here, toolsets=registry.toolsets).values()


def _project_tools() -> list[Tool]:
    """Give the tools that are HTTP requests, those of suites below this folder and registered ones."""
    suites = SuiteSearch(Path.cwd()).collected
    listener = _ToolListener(suites)
    folders = (str(file.parent) for file in suites)
    status, _ = pytest_here(("--collect-only", "--continue-on-collection-errors", *folders), listener)
    if status == pytest.ExitCode.USAGE_ERROR:  # pytest has printed why
        raise UsageMistake("the tools of this project cannot be read: run pytest here to see the problem")
    # Several suites may name one file of tools, which is read once.
    return list({id(tool): tool for tool in listener.tools if tool.wire is not None}.values())
