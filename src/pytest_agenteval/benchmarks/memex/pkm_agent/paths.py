"""Reading the paths that an agent writes: all of them start at the root of the knowledge base."""

from __future__ import annotations

import re

from pytest_agenteval.tools.tool import ToolFailed

MOST_LEVELS = 64
"""Nobody files that deep; a tree without end could no longer be walked."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DRIVE = re.compile(r"[A-Za-z]:(?:/|$)")


def parts_of(path: str) -> tuple[str, ...]:
    """Give the names that lead from the root to a path; none for the root itself.

    A path may start with ``/`` or not; ``.`` and doubled slashes mean nothing, and ``..`` goes up. Names are
    kept letter by letter as they are written: no Unicode form is made of another, so a composed and a
    decomposed ``é`` are two names, as they are on the disk.

    Raises ToolFailed for what can be no path of the knowledge base.
    """
    if path.startswith("~") or "/~/" in path or path.endswith("/~"):
        raise outside(path, "~ means no folder here")
    if "\\" in path or _DRIVE.match(path):
        raise outside(path, "names are parted by /, and there are no drives")
    if _CONTROL.search(path):
        raise outside(path, "a name must not hold control characters")
    parts = _resolved(path)
    if len(parts) > MOST_LEVELS:
        raise outside(path, f"a path has at most {MOST_LEVELS} levels")
    return tuple(parts)


def virtual(parts: tuple[str, ...]) -> str:
    """Write a path as the agent is shown it.

    A name on the disk that no agent could write, since it is not UTF-8 or holds a control character, is shown
    with a question mark in its place: a list of paths has one on each line.
    """
    written = "/" + "/".join(parts)
    return _CONTROL.sub("?", written.encode("utf-8", "replace").decode("utf-8"))


def outside(path: str, why: str) -> ToolFailed:
    """Make the error for a path that is refused."""
    shown = virtual((path[:80],))[1:]
    message = f"no path in the knowledge base: {shown!r}: {why}; write it from the root, like /Areas/Bread.md"
    return ToolFailed(message, "outside")


def _resolved(path: str) -> list[str]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise outside(path, ".. leads out of the root")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts
