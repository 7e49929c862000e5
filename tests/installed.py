"""What is the same for every run of pytest inside a test: our modules, and what is installed beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from importlib import import_module, metadata
from pkgutil import walk_packages
from typing import Any

import pytest_agenteval

LATE = ("jinja2.sandbox", "jsonschema")
"""Libraries that ours import on first use, which many tests are."""


def import_ours() -> None:
    """Import every module of ours: pytester forgets what was first imported during a run of its own.

    What is left for later is looked at in processes of their own, which start from nothing.
    """
    for name in LATE:
        import_module(name)
    for module in walk_packages(pytest_agenteval.__path__, f"{pytest_agenteval.__name__}."):
        # Of what a benchmark names as a plugin of pytest, pytest 8 says that it was imported too early.
        # Ray is an extra: what imports it is imported only where it was chosen.
        if not module.name.endswith(("__main__", "memex.plugin", "ray_cluster")):
            import_module(module.name)


def remember_distributions() -> None:
    """Read once what the distributions say that are there now; what a test installs is read as ever."""
    there = {_place(each) for each in metadata.distributions()}
    for name in ("entry_points", "metadata"):
        setattr(metadata.Distribution, name, _remembered(getattr(metadata.Distribution, name).fget, there))
    read = metadata.PathDistribution.read_text
    known: dict[tuple[str, str], str | None] = {}

    def read_text(distribution: metadata.PathDistribution, filename: str | os.PathLike[str]) -> str | None:
        key = (_place(distribution), str(filename))
        if key[0] not in there:
            return read(distribution, filename)
        if key not in known:
            known[key] = read(distribution, filename)
        return known[key]

    metadata.PathDistribution.read_text = read_text  # type: ignore[method-assign]


def _remembered(read: Callable[[metadata.Distribution], Any], there: Collection[str]) -> property:
    known: dict[str, Any] = {}

    def value(distribution: metadata.Distribution) -> Any:
        place = _place(distribution)
        if place not in there:
            return read(distribution)
        if place not in known:
            known[place] = read(distribution)
        return known[place]

    return property(value)


def _place(distribution: metadata.Distribution) -> str:
    return str(distribution._path)  # its folder's name is nowhere said in public
