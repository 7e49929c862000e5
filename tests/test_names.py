"""Names in the package say what a value is, and a class name means one thing."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "pytest_agenteval"
MODULES = [path for path in SOURCE.rglob("*.py") if "templates" not in path.parts]

HISTORY = {"told", "said", "asked", "kept", "odd", "begun"}
"""Words that tell what happened to a value and not what it is."""
STORED = {
    "odd": "a field of JSON documents, and of Run",
    "begun": "a field of Run",
    "kept": "a field of progress files and of a grade's details",
    "said": "a field of the calibration document",
    "add_asked_calls": "a public method of Recorder",
}
"""Names that users' files and code hold, so that they stay."""

TWICE = {
    "Agreement": "a figure, and its form in the calibration document",
    "Change": "a part of two published documents",
    "Confusion": "a figure, and its form in the calibration document",
    "Figure": "a part of two published documents",
    "JudgeNoise": "a figure, and its form in the calibration document",
    "Limits": "a part of two published schemas",
    "Suite": "the public suite in code, and the form of suite.yaml",
    "Task": "the public task in code, and the form of a task file",
}
"""Class names of two classes: users' files and published schemas hold them."""


def _identifiers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name


def test_no_identifier_tells_what_happened_to_a_value() -> None:
    """A reader learns from a name what the value is: ``unreadable``, and not ``odd``."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
    used = {(name, path.stem) for path, tree in trees.items() for name in {path.stem, *_identifiers(tree)}}
    words = {(name, file): set(re.findall("[a-z]+|[A-Z][a-z]*", name)) for name, file in used}
    named = {key for key, parts in words.items() if HISTORY & {part.lower() for part in parts}}
    assert {key for key in named if key[0] not in STORED} == set()
    assert {name for name, _ in named} == set(STORED)


def test_a_class_name_means_one_thing() -> None:
    """Whoever searches for a class by its name finds one."""
    names = Counter(
        node.name
        for path in MODULES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == set(TWICE)
