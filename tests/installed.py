"""What is the same for every run of pytest inside a test: our modules."""

from __future__ import annotations

from importlib import import_module
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
        # Of what a benchmark names as a plugin of pytest, pytest 8 says that it was imported too early.
        # Ray is an extra: what imports it is imported only where it was chosen.
        if not module.name.endswith(("__main__", "memex.plugin", "ray_cluster")):
            import_module(module.name)
