"""Which marks the tags of a file become, each declared to pytest as it comes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

RESERVED = frozenset(
    {"skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings"}  # pytest's own
    | {
        "anyio",
        "asyncio",
        "dependency",
        "django_db",
        "flaky",
        "freeze_time",
        "order",
        "repeat",
        "timeout",
        "vcr",
    }
)
"""Tags that would mean something else as a mark; they are keywords only."""

OURS = ("agenteval", "capability", "regression", "mixed")
"""Marks that the plugin declares when pytest starts."""

_declared: pytest.StashKey[set[str]] = pytest.StashKey()


def marks_of(tags: Iterable[str]) -> tuple[str, ...]:
    """Give the marks that tags become: Python names that mean nothing else to pytest."""
    names = (tag.replace("-", "_").replace(".", "_") for tag in tags)
    return tuple(
        name for name in names if name.isidentifier() and not name.startswith("_") and name not in RESERVED
    )


def declare_marks(config: pytest.Config, names: Iterable[str], files: str) -> None:
    """Declare those marks of the tags of ``files`` that are new, as ``--strict-markers`` wants."""
    declared = config.stash.setdefault(_declared, set(OURS))
    for name in names:
        if name not in declared:
            declared.add(name)
            config.addinivalue_line("markers", f"{name}: a tag of {files} (pytest-agenteval)")
