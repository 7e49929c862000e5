"""The digest of an agent's own code: of the source files in which its class or its function is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import NamedTuple

from pytest_agenteval.agents.agent import is_adapter
from pytest_agenteval.records.factories import AGENT, FunctionAdapter, InstanceFactory
from pytest_agenteval.text.canonical import digest, digest_text

OURS = "pytest_agenteval"
INSTALLED = {"site-packages", "dist-packages"}
STANDARD_LIBRARY = str(Path(os.__file__).parent) + os.sep


class CodePlace(NamedTuple):
    """Where a piece of code is written: the name of its module, and the file."""

    module: str
    file: str


def code_digest(agent: object, factory: object) -> str:
    """Give 16 hex digits of all source files of an agent; empty where its code stands in none.

    They are those of its class and of the classes this inherits from, or of the function that is the agent,
    and of the function that makes it, if one does. The standard library and what others have installed are
    left out, and so is whatever these files import. Where a file lies and how its lines end changes nothing.
    """
    if own := getattr(agent, "files_digest", None):  # of one that is no Python
        return str(own())
    try:
        files = {place.file for thing in _registered(agent, factory) for place in _own_places(thing)}
        texts = sorted(set(_text_digests(files)))
    except Exception:  # an author's class that says odd things of itself is still one that can be tried
        return ""
    return digest(texts) if texts else ""


def own_files(thing: object) -> set[str]:
    """Give the source files of a class, a function or an object, without ours and installed ones."""
    places = _own_places(thing)
    return {place.file for place in places if _top(place.module) != OURS and place.file.endswith(".py")}


def _registered(agent: object, factory: object) -> Iterator[object]:
    if is_adapter(agent):
        yield agent.implementation  # type: ignore[attr-defined]  # which is_adapter looked for
        return
    yield vars(agent)[AGENT.method] if isinstance(agent, FunctionAdapter) else type(agent)
    if not isinstance(factory, type | InstanceFactory):
        yield factory


def _own_places(thing: object) -> Iterator[CodePlace]:
    function = thing
    while isinstance(function, partial):
        function = function.func
    packages = {OURS, _top(getattr(function, "__module__", ""))}
    for place in _places(thing):
        is_foreign = place.file.startswith(STANDARD_LIBRARY) or INSTALLED.intersection(Path(place.file).parts)
        if _top(place.module) in packages or not is_foreign:
            yield place


def _places(thing: object) -> Iterator[CodePlace]:
    """Give the places of a class, of a function and whatever it wraps, or of what else can be called."""
    if isinstance(thing, type):
        for kind in thing.__mro__:
            if not vars(kind).get("_is_protocol"):  # which only says what a class has
                yield from _class_places(kind)
    elif isinstance(thing, FunctionType):
        yield CodePlace(thing.__globals__.get("__name__", ""), thing.__code__.co_filename)
        yield from _places(vars(thing).get("__wrapped__"))
    elif isinstance(thing, partial):
        yield from _places(thing.func)
    elif isinstance(thing, MethodType):
        owner = thing.__self__
        yield from _places(owner if isinstance(owner, type) else type(owner))
    elif thing is not None:
        yield from _places(type(thing))


def _class_places(kind: type) -> Iterator[CodePlace]:
    # Of conftests, which all may be called "conftest", sys.modules knows the last: functions know their own.
    module = vars(sys.modules.get(kind.__module__, sys))
    if any(value is kind for value in tuple(module.values())):  # other threads may import meanwhile
        yield CodePlace(kind.__module__, module.get("__file__") or "")
    for member in vars(kind).values():
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        function = function.fget if isinstance(function, property) else function
        if isinstance(function, FunctionType):
            yield from _places(function)


def _text_digests(files: Iterable[str]) -> Iterator[str]:
    for file in files:
        if file.endswith(".py"):
            with suppress(OSError):
                # Read as text, in which every line ends alike.
                yield digest_text(Path(file).read_text(encoding="utf-8", errors="surrogateescape"))


def _top(module: object) -> str:
    return str(module).partition(".")[0]
