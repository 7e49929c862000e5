"""Reading what the journal and its tools show of the knowledge base."""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"^ *([0-9]+)\t(.*)$")


def files_of(tree: str) -> list[str]:
    """Give the paths of all Markdown files of a tree drawn by indenting, in its order."""
    open_folders: list[tuple[int, str]] = []
    found = []
    for line in tree.splitlines():
        name = line.strip()
        depth = len(line) - len(line.lstrip(" "))
        while open_folders and open_folders[-1][0] >= depth:
            open_folders.pop()
        if name.endswith("/"):
            open_folders.append((depth, name.strip("/")))
        elif name.endswith(".md"):
            found.append("/" + "/".join([*(folder for _, folder in open_folders if folder), name]))
    return found


def paths_in(text: str) -> list[str]:
    """Give the Markdown files that a list of paths names, each on a line of its own."""
    return [line.strip() for line in text.splitlines() if line.strip().endswith(".md")]


def lines_read(text: str) -> list[str]:
    """Give a file's lines out of numbered ones; what is not numbered is not the file's."""
    found = (_NUMBERED.match(line) for line in text.split("\n"))
    return [line[2] for line in found if line is not None]


def unique_end(lines: list[str]) -> str | None:
    """Give the shortest run of whole last lines that stands only once in the file; None: there is none."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    whole = "\n".join(lines)
    for first in range(len(lines) - 1, -1, -1):
        end = "\n".join(lines[first:])
        if whole.find(end) == len(whole) - len(end):  # not count(), which leaves out what overlaps
            return end
    return None
