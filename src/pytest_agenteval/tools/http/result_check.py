"""What no model can see of a result: whether its paths are paths, and its names those of parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from pytest_agenteval.errors import KeyPath, nearest
from pytest_agenteval.tasks.validation_errors import in_words
from pytest_agenteval.tools.http.declaration import ErrorSpec, PartSpec
from pytest_agenteval.tools.http.schema_check import Wrong
from pytest_agenteval.tools.http.values import compiled

_PLACE = re.compile(r"(?!\$[.\[])(?:[^.\[\]]+|\[\d+\])(?:\.[^.\[\]]+|\[\d+\])*")


def wrong_in_result(part: PartSpec, names: Collection[str], path: KeyPath = ()) -> Iterator[Wrong]:
    """Give place, expected, found and hint of what no response can be made into."""
    yield from _place((*path, "path"), part.path)
    for index, one in enumerate(part.join):
        yield from _place((*path, "join", index), one)
    if part.where is not None:
        yield from _place((*path, "where", "path"), part.where.path)
        yield from _unknown((*path, "where", "starts"), part.where.starts, names)
    yield from _unknown((*path, "limit"), part.limit, names)
    for key, below in (("fields", part.fields or {}), ("each", part.each or {})):
        for name, inner in below.items():
            here: KeyPath = (*path, key, name)
            if isinstance(inner, PartSpec):
                yield from wrong_in_result(inner, names, here)
            elif compiled(inner).names:
                yield from _unknown(here, inner, names)
            else:
                yield from _place(here, inner)


def wrong_in_error(error: ErrorSpec) -> Iterator[Wrong]:
    """Give what is wrong with one way of telling that a call failed."""
    if not error.path and not error.pattern:
        yield (), "a `path` or a `pattern`: what tells that a call failed", "neither", ""
    yield from _place(("path",), error.path)
    yield from _place(("message",), error.message)
    try:
        re.compile(error.pattern)
    except re.error as wrong:
        yield ("pattern",), "a regular expression", f"{error.pattern!r}: {wrong}", ""


def _place(path: KeyPath, given: str) -> Iterator[Wrong]:
    if given and not _PLACE.fullmatch(given):
        yield path, "keys and indexes, as documents[0].address", in_words(given), ""


def _unknown(path: KeyPath, given: Any, names: Collection[str]) -> Iterator[Wrong]:
    for name in compiled(given).names:
        if name not in names:
            yield path, "a parameter of the tool", f"unknown name {name!r}", nearest(name, names)
