"""Which marks the tags of a file become."""

from __future__ import annotations

from collections.abc import Iterable

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


def marks_of(tags: Iterable[str]) -> tuple[str, ...]:
    """Give the marks that tags become: Python names that mean nothing else to pytest."""
    names = (tag.replace("-", "_").replace(".", "_") for tag in tags)
    return tuple(
        name for name in names if name.isidentifier() and not name.startswith("_") and name not in RESERVED
    )
