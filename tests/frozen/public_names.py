"""Every public name with its signature, and what is registered: hooks, fixtures, names for task files."""

from __future__ import annotations

import builtins
import inspect
import json
import re
import typing
from collections import abc
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import msgspec

import pytest_agenteval
from tests.frozen.commands import PROJECTS, Scratch, pytest

PUBLIC = frozenset(pytest_agenteval.__all__)
FOREIGN = {"ArgumentParser", "Item", "Namespace", "Path", "PathLike"}
KNOWN = {*PUBLIC, *FOREIGN, *dir(builtins), *dir(typing), *dir(abc)}
"""Types that are shown by name; others are private, and shown as ``?``."""

FUNCTIONS = (classmethod, staticmethod)
MODULES = re.compile(r"\b(?:pytest_agenteval|_?pytest|[a-z]\w*)(?:\.[a-z_]\w*)*\.(?=[A-Z])")
ADDRESS = re.compile(r"<(?:built-in )?(?:function|class|bound method) '?([\w.]+)[^>]*>| at 0x[0-9a-f]+")


def names(scratch: Scratch) -> dict[str, str]:
    """Give the public names, one a line, and below each class its members."""
    return {"public.txt": "\n".join(line for name in sorted(PUBLIC) for line in _lines(name))}


def _lines(name: str) -> Iterator[str]:
    value = getattr(pytest_agenteval, name)
    if inspect.isclass(value):
        bases = [each for each in value.__mro__[1:-1] if each.__name__ in {*PUBLIC, *dir(builtins)}]
        yield f"class {name}({', '.join(base.__name__ for base in bases)})"
        yield f"    {name}{_signature(value)}"
        yield from (f"    {line}" for line in sorted(_members(value)))
    elif inspect.isfunction(value):
        yield f"{_word(value)} {name}{_signature(value)}"
    elif isinstance(value, Mapping):
        yield from (f"{name}:", *(f"    {key}: {text}" for key, text in value.items()))
    else:
        yield f"{name} = {value.value!r}" if isinstance(value, Enum) else f"{name} = {_bare(repr(value))}"


def _members(kind: type) -> Iterator[str]:
    """Give fields with their types, properties and methods, also those of private bases."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("pytest_agenteval"):
            continue
        for name, annotation in inspect.get_annotations(base).items():
            found[name] = f"{name}: {_annotation(annotation)}"
        for name, value in vars(base).items():
            if isinstance(value, property) and value.fget:
                returned = inspect.get_annotations(value.fget).get("return", "?")
                found[name] = f"{name} -> {_annotation(returned)}"
            elif isinstance(value, FUNCTIONS) or inspect.isfunction(value):
                function = inspect.unwrap(value.__func__ if isinstance(value, FUNCTIONS) else value)
                decorator = f"@{type(value).__name__} " if isinstance(value, FUNCTIONS) else ""
                found[name] = f"{decorator}{_word(function)} {name}{_signature(function)}"
    yield from (text for name, text in found.items() if not name.startswith("_"))


def _word(function: Any) -> str:
    return "async def" if inspect.iscoroutinefunction(function) else "def"


def _signature(value: Any) -> str:
    if hasattr(value, "__struct_fields__"):
        # Its own signature would evaluate annotations that are imported for type checkers alone.
        names, defaults = value.__struct_fields__, value.__struct_defaults__
        required = names[: len(names) - len(defaults)]
        optional = zip(names[len(required) :], defaults, strict=True)
        return f"({', '.join([*required, *(name + _default(default) for name, default in optional)])})"
    try:
        return _bare(str(inspect.signature(value)))
    except ValueError:  # of an exception that is made as Python's own are
        return "(...)"


def _default(default: Any) -> str:
    if default is msgspec.NODEFAULT:
        return ""
    return f"={_bare(repr(getattr(default, 'factory', default)))}"


def _annotation(annotation: Any) -> str:
    return _bare(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def _bare(text: str) -> str:
    """Leave out where things are defined, quotes of annotations, and private types."""
    text = re.sub(r"ForwardRef\('([^']*)'\)|(?<=[:>] )'([^']*)'", r"\1\2", text)
    text = MODULES.sub("", ADDRESS.sub(r"\1", text))
    return re.sub(r"(?<![\w'])_?[A-Z]\w+(?![\w'])", lambda word: word[0] if word[0] in KNOWN else "?", text)


def registered(scratch: Scratch) -> dict[str, str]:
    """Give hooks, fixtures, markers, and every name that a task file or an option may use."""
    folder = scratch.project(PROJECTS / "surface")
    markers = pytest(folder, "--markers").out
    fixtures = pytest(folder, "--fixtures", "-v").out
    found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    ours = r"^-+ fixtures defined from pytest_agenteval\S* -+\n((?:(?!-+ |=+ ).*\n)*)"
    text = "".join(re.findall(ours, fixtures, re.MULTILINE))
    listed = re.findall(r"^\S.*\n(?:    .*\n?)*", text, re.MULTILINE)
    tables = [f"{kind}: {name}" for kind, table in found["tables"].items() for name in table]
    return {
        "hooks.txt": "\n\n".join(f"{name}\n{text}" for name, text in found["hooks"].items()),
        "fixtures.txt": re.sub(r" -- \S+:\d+", "", "".join(sorted(listed))),
        "markers.txt": "\n".join(sorted(re.findall(r"^@.*\(pytest-agenteval\)$", markers, re.MULTILINE))),
        "names.txt": "\n".join(tables),
    }
