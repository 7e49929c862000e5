"""What others import: every name is there, typed, said in a docstring, and costs nothing until it is used."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

import pytest_agenteval
from tests.source_code import MODULES, imports, parsed, place, text
from tests.suites import run, write

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
FACE = ROOT / "src" / "pytest_agenteval" / "__init__.py"
PAGE = ROOT / "docs" / "reference" / "python.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def _first_sentence(name: str) -> str:
    """Give the first sentence of a docstring; that of an alias stands below it in its module."""
    value, module = getattr(pytest_agenteval, name), pytest_agenteval._MODULE_OF[name]
    if inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value)):
        docstring = inspect.getdoc(value) or ""
    else:
        tree = parsed(FACE.parent / f"{module.replace('.', '/')}.py").body
        at = next(number for number, node in enumerate(tree) if name in _assigned(node))
        below = tree[at + 1]
        docstring = str(getattr(getattr(below, "value", None), "value", ""))
    return re.split(r"(?<=\.)\s", " ".join(docstring.split()))[0]


def _assigned(node: ast.stmt) -> set[str]:
    targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
    return {target.id for target in targets if isinstance(target, ast.Name)}


def names_page() -> str:
    """Give docs/reference/python.md with each name's sentence as its docstring has it now."""

    def current(row: re.Match[str]) -> str:
        return f"|`{row[1]}`|{_first_sentence(row[1])}|"

    return re.sub(r"^\|`(\w+)`\|.*$", current, PAGE.read_text("utf-8"), flags=re.MULTILINE)


def test_a_public_name_says_in_a_sentence_what_it_is() -> None:
    """Each public name has a docstring whose first sentence ends, and a row in docs/reference/python.md.

    ``python -m tests.face.test_public_face`` writes the sentences into the page.
    """
    sentences = {name: _first_sentence(name) for name in sorted(pytest_agenteval._MODULE_OF)}
    assert [each for each in sentences.items() if not each[1].endswith(".")] == []
    rows = set(PAGE.read_text("utf-8").splitlines())
    assert [row for name, text in sentences.items() if (row := f"|`{name}`|{text}|") not in rows] == []


def test_what_a_public_class_can_do_is_described() -> None:
    """Each method of its own that others may call has a docstring."""
    silent = [
        f"{name}.{method}"
        for name in sorted(pytest_agenteval._MODULE_OF)
        if inspect.isclass(offered := getattr(pytest_agenteval, name))
        for method, value in vars(offered).items()
        if not method.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, (property, cached_property)))
        and (getattr(value, "__module__", None) or offered.__module__) == offered.__module__
        and not inspect.getdoc(getattr(value, "__func__", value))
    ]
    assert silent == []


def test_the_page_of_names_lists_no_other() -> None:
    """docs/reference/python.md has a row for each public name, and none for what is no longer there."""
    rows = re.findall(r"^\|`(\w+)`\|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(pytest_agenteval._MODULE_OF)


def test_nothing_is_imported_before_it_is_used() -> None:
    """The package imports none of its modules, a name only what stands behind it, and a star all."""
    code = """
import sys, pytest_agenteval
assert "Grade" in dir(pytest_agenteval)
names = pytest_agenteval.__all__
print([name for name in sys.modules if name.startswith("pytest_agenteval.")])
from pytest_agenteval import Grade
print("pytest_agenteval.records.evidence" in sys.modules, "pytest_agenteval.registry.registry" in sys.modules)
from pytest_agenteval import *
print(set(names) <= globals().keys(), "litellm" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False", "True False"]


def test_a_name_that_is_not_offered_is_an_attribute_error() -> None:
    """`hasattr` and `from … import` say of unknown names what they say of any module."""
    assert not hasattr(pytest_agenteval, "Grdae")


def _codes() -> Iterator[tuple[str, str]]:
    """Give what is shown to users, and what is written as they write: pages, evals, code of tests."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        yield from ((page.name, code) for code in BLOCK.findall(page.read_text("utf-8")))
    folders = ("evals", "fixtures", "tests/outside_benchmark", "tests/face/user_code.py")
    files = [file for folder in folders for file in [ROOT / folder, *(ROOT / folder).rglob("*.py")]]
    yield from ((str(file), file.read_text("utf-8")) for file in files if file.is_file())


def test_what_is_shown_to_users_imports_from_the_face_only() -> None:
    """README, docs, evals and the outside benchmark do as users are told: one place to import from."""
    imported = [(where, name) for where, code in _codes() for name, _ in imports(code)]
    assert [each for each in imported if each[1].startswith("pytest_agenteval.")] == []


def test_what_pages_name_below_the_package_is_public() -> None:
    """Outside of code, too: a module of ours that a page names is one that a user would import from."""
    dotted = re.compile(r"`(?:from )?pytest_agenteval\.(\w+(?:\.\w+)*)")
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [(page.name, name) for page in pages for name in dotted.findall(page.read_text("utf-8"))]
    public = {*pytest_agenteval._MODULE_OF, "benchmarks"}  # that is a group of entry points
    assert [each for each in found if each[1] not in public] == []


def test_what_public_docstrings_name_is_public() -> None:
    """Whoever reads of a protocol to keep, or an error to catch, can import it."""
    modules = sorted(set(pytest_agenteval._MODULE_OF.values()))
    trees = {module: parsed(FACE.parent / f"{module.replace('.', '/')}.py") for module in modules}
    ours = {name for file in MODULES for name in re.findall(r"^class (\w+)", text(file), re.MULTILINE)}
    hidden = {
        (node.name, word)
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, _DOCUMENTED) and pytest_agenteval._MODULE_OF.get(node.name) == module
        for docstring in _docstrings(node)
        for word in re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", docstring)
        if word in ours and word not in pytest_agenteval._MODULE_OF
    }
    assert hidden == set()


_DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _docstrings(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    yield ast.get_docstring(node) or ""
    for inner in node.body:
        if isinstance(inner, _DOCUMENTED) and not inner.name.startswith("_"):
            yield ast.get_docstring(inner) or ""


def test_benchmarks_of_ours_take_what_is_public_from_the_face() -> None:
    """What is offered to everybody is imported by the benchmarks that come with the package as by anybody."""
    past_the_face = [
        f"{place(file)}: {name}"
        for file in MODULES
        if place(file).startswith("benchmarks/")
        for module, names in imports(text(file))
        for name in names
        if module == f"pytest_agenteval.{pytest_agenteval._MODULE_OF.get(name)}"
    ]
    assert past_the_face == []


TASK = """
id: {id}
input: {{content: "Please, how many knots are 50 km/h?"}}
agent: {agent}
graders: [{{name: polite}}, {{name: short}}, {{name: second_opinion}}]
script: [{{text: "27 knots, if you please.", calls: [{{tool: knots, args: {{kilometres_per_hour: 50}}}}]}}]
"""


def test_what_a_user_writes_runs_as_it_is_typed(pytester: pytest.Pytester, quick: None) -> None:
    """The code that type checkers pass (see .ci/run) is a conftest that works: agents, graders, a tool."""
    write(
        pytester.path,
        {
            "conftest.py": (Path(__file__).parent / "user_code.py").read_text("utf-8"),
            "evals/suite.yaml": "name: own\nkind: regression\n",
            **{f"evals/{agent}.yaml": TASK.format(id=agent, agent=agent) for agent in ("careful", "plain")},
        },
    )
    result = run(pytester, "evals", "--agent-model=scripted", "-v")
    result.assert_outcomes(passed=2)


if __name__ == "__main__":
    PAGE.write_text(names_page(), encoding="utf-8")
