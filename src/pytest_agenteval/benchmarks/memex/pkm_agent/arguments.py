"""Reading what a tool was called with; what is wrong is said to the agent.

The tools check their own arguments: a null is as good as nothing, and a complaint names the argument, what
it must be and what it was, without repeating a long value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval.benchmarks.memex.journal.naming import named
from pytest_agenteval.errors import nearest
from pytest_agenteval.tools.tool import ToolFailed

ROOT = "/"


def refuse(message: str) -> ToolFailed:
    """Make the error that tells an agent which argument to mend."""
    return ToolFailed(message, "bad_arguments")


def text(args: Mapping[str, Any], name: str) -> str:
    """Read a text that must be given and may be empty."""
    given = args.get(name)
    if not isinstance(given, str):
        raise refuse(f"{name} must be a text, not {_found(given)}")
    return _writable(name, given)


def telling(args: Mapping[str, Any], name: str) -> str:
    """Read a text that must say something."""
    given = text(args, name)
    if not given.strip():
        raise refuse(f"{name} must not be empty")
    return given


def folder(args: Mapping[str, Any], name: str) -> str:
    """Read a path that need not be given: the root, then."""
    return ROOT if args.get(name) in (None, "") else text(args, name)


def optional(args: Mapping[str, Any], name: str) -> str | None:
    """Read a text that need not be given; an empty one is none."""
    return None if args.get(name) in (None, "") else text(args, name)


def texts(args: Mapping[str, Any], name: str) -> list[str]:
    """Read a list of texts that need not be given; a text by itself is a list of one."""
    given = args.get(name)
    listed = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(listed, list | tuple) or not all(isinstance(one, str) for one in listed):
        raise refuse(f"{name} must be a list of texts, not {_found(given)}")
    return [_writable(name, one) for one in listed]


def number(args: Mapping[str, Any], name: str, least: int) -> int | None:
    """Read a whole number that need not be given."""
    given = args.get(name)
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise refuse(f"{name} must be a whole number from {least}, not {_found(given)}")
    return given


def flag(args: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """Read a yes or no that need not be given."""
    given = args.get(name)
    if given is None:
        return default
    if not isinstance(given, bool):
        raise refuse(f"{name} must be true or false, not {_found(given)}")
    return given


def one_of(args: Mapping[str, Any], name: str, known: Sequence[str]) -> str | None:
    """Read a word out of a few, which need not be given."""
    given = optional(args, name)
    if given is None or given in known:
        return given
    hint = nearest(given, known)
    raise refuse("; ".join(filter(None, (f"{name} must be one of {', '.join(known)}", hint))))


def _found(given: Any) -> str:
    return "nothing" if given is None else named(given)


def _writable(name: str, given: str) -> str:
    """Refuse half a character, which JSON can write and no file can hold."""
    try:
        given.encode("utf-8")
    except UnicodeEncodeError:
        raise refuse(f"{name} holds half a character (a lone surrogate); leave it out") from None
    return given
