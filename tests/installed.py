"""What is the same for every run of pytest inside a test: our modules, and what is installed beside them."""

from __future__ import annotations

from importlib import import_module, metadata
from pkgutil import walk_packages

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
        if not module.name.endswith("__main__"):
            import_module(module.name)


def remember_entry_points() -> None:
    """Read once what the distributions offer that are there now; what a test installs is read as ever."""
    known = {_place(each): each.entry_points for each in metadata.distributions()}
    read = metadata.Distribution.entry_points.fget

    def entry_points(distribution: metadata.Distribution) -> metadata.EntryPoints:
        place = _place(distribution)
        return known[place] if place in known else read(distribution)

    metadata.Distribution.entry_points = property(entry_points)


def _place(distribution: metadata.Distribution) -> str:
    return str(distribution._path)  # its folder's name is nowhere said in public
