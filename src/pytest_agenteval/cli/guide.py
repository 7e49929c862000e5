"""``agenteval guide``: one page of rules for an agent that works on evals, to be put into its AGENTS.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from pytest_agenteval import __version__
from pytest_agenteval.cli.console import STDOUT, add_json_option, write_document, write_text
from pytest_agenteval.records.record import Document

PROGRAMS = ("agenteval", "pytest")


class GuidePage(Document, frozen=True, kw_only=True):
    """Rules for agents that work on evals: the page in Markdown, and the commands that it shows.

    ``package`` is the version that it is of.
    """

    package: str
    markdown: str
    commands: tuple[str, ...]


def guide_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.description = "Print the page; `agenteval guide >> AGENTS.md` puts it where coding agents look."
    add_json_option(parser)


def guide(args: argparse.Namespace) -> int:
    """Print the page."""
    page = guide_page()
    if args.json:
        write_document(args.json, page)
    if args.json != STDOUT:
        write_text(STDOUT, page.markdown)
    return 0


@cache
def guide_page() -> GuidePage:
    """Give the page of this version."""
    text = files("pytest_agenteval.cli").joinpath("guide.md").read_text(encoding="utf-8")
    markdown = text.replace("{version}", __version__)
    return GuidePage(package=__version__, markdown=markdown, commands=tuple(_commands(markdown)))


def _commands(markdown: str) -> Iterator[str]:
    """Give the commands of the page's blocks of code, without their comments."""
    for block in markdown.split("```")[1::2]:
        for line in block.splitlines():
            if line.startswith(PROGRAMS):
                yield line.partition(" #")[0].rstrip()
