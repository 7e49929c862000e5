"""Pages for whoever carries on are true: what they quote and name is there."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.source_code import imports, text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n# (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_there_are_three_examples() -> None:
    """Style is easier seen than said."""
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("file", "example"), EXAMPLES, ids=[file for file, _ in EXAMPLES])
def test_an_example_is_a_piece_of_our_code(file: str, example: str) -> None:
    """Word for word, so that whoever changes one is reminded of the other."""
    assert example.strip() in (ROOT / file).read_text(encoding="utf-8")


def test_what_workflows_run_is_there() -> None:
    """Each path and module that they name exists; they name each folder of tests/extended but mutants."""
    files = [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / ".ci").iterdir()]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    (parts,) = re.findall(r"part: \[(.*)\]", text)
    modules = [name.replace(".", "/") for name in re.findall(r"-m (tests(?:\.\w+)+)", text)]
    paths = re.findall(r"(?<![\w/])tests/\w+(?:/\w+)*(?:\.py)?", text)
    named = {*modules, *paths, *(f"tests/extended/{part}" for part in parts.split(", "))}

    assert [name for name in named if not (ROOT / name).exists() and not (ROOT / f"{name}.py").exists()] == []
    folders = {path.parent.name for path in (ROOT / "tests" / "extended").glob("*/__init__.py")}
    run = {name.split("/")[2] for name in named if name.startswith("tests/extended/")}
    assert folders - run == {"mutants"}  # which take hours


def test_what_only_the_workflow_runs_imports_what_is_there() -> None:
    """The README's command collects none of it, and a name that is gone would be missed by night only."""
    sources = [text(path) for path in (ROOT / "tests" / "extended").rglob("*.py")]
    named = {
        (module, name)
        for source in sources
        for module, names in imports(source)
        if module.split(".")[0] == "pytest_agenteval"
        for name in names
    }
    assert len(named) > 100
    assert [each for each in sorted(named) if not _is_there(*each)] == []


def _is_there(module: str, name: str) -> bool:
    try:
        return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
    except ModuleNotFoundError as missing:
        return not str(missing.name).startswith("pytest_agenteval")  # of an extra that is not installed


def test_what_is_to_be_run_is_there() -> None:
    """Programs, folders and modules of tests."""
    modules = re.findall(r"-m (tests(?:\.\w+)+)", PAGE)
    programs = re.findall(r"(?<![\w/])(\.ci/\w+|tests/\w+(?:/\w+)*(?:\.\w+)?)", PAGE)

    assert modules
    assert programs
    assert [name for name in modules if not (ROOT / name.replace(".", "/") / "__main__.py").is_file()] == []
    assert [name for name in programs if not (ROOT / name).exists()] == []


def test_the_readmes_test_command_runs_the_tests_and_no_evals() -> None:
    """Tests are named there: evals take ten seconds more, and tell nothing of a change to the code."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^ *python3 -m venv .* -m pytest (-q.*)$", readme, re.MULTILINE)

    assert "tests" in command.split()
