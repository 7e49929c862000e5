"""Python's audit events: what happens in this process, looked at before it does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

_TABLES = "_agenteval_audit_tables"

Watchers: TypeAlias = Mapping[str, Callable[..., None]]
"""What is called with an event's arguments, by the event's name; what it raises forbids the event."""


def watch(watchers: Watchers) -> None:
    """Have these called from now on.

    By an audit hook, as guards of other people, pytest-socket's for one, put what they find in the class of
    sockets in place of what we would put there. A hook stays for the life of the process: there is one.
    """
    tables: list[Watchers] | None = getattr(sys, _TABLES, None)
    if tables is None:
        tables = []
        setattr(sys, _TABLES, tables)
        sys.addaudithook(_hook(tables))
    if watchers not in tables:
        tables.append(watchers)


def look_away(watchers: Watchers) -> None:
    """Have these called no more."""
    tables: list[Watchers] = getattr(sys, _TABLES, [])
    if watchers in tables:
        tables.remove(watchers)


def _hook(tables: list[Watchers]) -> Callable[[str, tuple[Any, ...]], None]:
    def hook(event: str, args: tuple[Any, ...]) -> None:
        for watchers in tables:  # every import and every file that is opened comes by
            if event in watchers:
                watchers[event](*args)

    return hook
