"""``agenteval import``: importers of benchmarks, and what their mistakes cost."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import pytest

from pytest_agenteval.cli.init import import_
from pytest_agenteval.cli.main import main
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import UsageMistake


class Clashes:
    """Declares an argument that every command has."""

    help = "clashes"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare it."""
        parser.add_argument("--help")

    def run(self, args: argparse.Namespace, registry: Registry) -> Any:
        """Forget to say how it went."""


class Forgets(Clashes):
    """Says nothing of how it went."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare nothing."""


class Tells(Clashes):
    """Says what came of it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare a folder."""
        parser.add_argument("folder")

    def run(self, args: argparse.Namespace, registry: Registry) -> int:
        """Print two lines."""
        print(f"{args.folder}: 2 tasks\n1 cannot run")
        return 1


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install four importers, of which one cannot be imported."""
    installed = Registry()
    installed.importer("broken", "no.such.module:Importer")
    installed.importer("clashes", Clashes)
    installed.importer("forgets", Forgets)
    installed.importer("tells", Tells)
    monkeypatch.setattr("pytest_agenteval.cli.init.installed_registry", lambda: installed)


def run_import(name: str | None) -> int:
    """Do what the verb does."""
    return import_(argparse.Namespace(importer=name, rest=[], json=None))


def test_one_that_cannot_be_imported_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    """The list has a line for each."""
    assert run_import(None) == 0
    broken, *others = capsys.readouterr().out.splitlines()
    assert broken.startswith("broken: cannot be used: expected 'no.such.module:Importer', which ")
    assert others == ["clashes: clashes", "forgets: clashes", "tells: clashes"]


def test_what_an_importer_says_is_in_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    """``--json`` stands before its name or behind; beside a file its lines are printed as ever."""
    for place in (["--json", "-", "tells", "here"], ["tells", "here", "--json", "-"]):
        assert main(["import", *place]) == 1
        imported = json.loads(capsys.readouterr().out)["imported"]
        assert (imported["importer"], imported["lines"]) == ("tells", ["here: 2 tasks", "1 cannot run"])
        assert imported["exit_status"] == 1

    assert main(["import", "tells", "here", "--json", os.devnull]) == 1
    assert capsys.readouterr().out == "here: 2 tasks\n1 cannot run\n"


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("clashes", "the importer 'clashes' declares an argument twice: argument --help: conflicting"),
        ("forgets", "the importer 'forgets': expected an exit status, 0 or 1; found None"),
    ],
)
def test_what_its_author_has_wrong_is_one_line(name: str, mistake: str) -> None:
    """Without a traceback through our code."""
    with pytest.raises(UsageMistake, match=mistake):
        run_import(name)
