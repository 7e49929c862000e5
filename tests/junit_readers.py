"""What readers of JUnit files make of one, in a few lines each: which attributes they use, and for what.

Written from how these programs read, as it was at the end of 2026; their names say which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element


class ReadCase(NamedTuple):
    """A test case as a reader shows it; ``path`` and ``line`` are where it puts an annotation."""

    name: str
    status: str
    path: str | None = None
    line: int | None = None
    message: str = ""


def _cases(file: Path) -> Iterator[Element]:
    root = ElementTree.parse(file).getroot()
    for suite in [root] if root.tag == "testsuite" else root.findall("testsuite"):
        yield from suite.findall("testcase")


def dorny(file: Path, tracked: Iterable[str]) -> dict[str, ReadCase]:
    """Read as dorny/test-reporter does with the reporters python-xunit and java-junit.

    It knows no ``file`` and no ``line``: places come from the first line of a failure's text that is one of
    a Java stack trace and names a file that git tracks.
    """
    found = {}
    for case in _cases(file):
        name = case.attrib["name"].strip()
        broken = [*case.findall("failure"), *case.findall("error")]
        status = "failed" if broken else "skipped" if case.find("skipped") is not None else "success"
        found[name] = ReadCase(name, status)
        if broken:
            text = broken[0].text or ""
            path, line = _of_stack_trace(text, list(tracked))
            type, message = broken[0].get("type"), broken[0].attrib["message"]
            found[name] = ReadCase(name, status, path, line, f"{type}: {message}" if type else message)
    return found


def _of_stack_trace(text: str, tracked: list[str]) -> tuple[str | None, int | None]:
    for line in text.splitlines():
        match = re.match(r"^\s*at (.*)\((.*):(\d+)\)$", line)
        path = match and _tracked(match[1].split("."), match[2], tracked)
        if match and path:
            return path, int(match[3])
    return None, None


def _tracked(parts: list[str], name: str, tracked: list[str]) -> str | None:
    classes = [at for at, part in enumerate(parts) if part[:1] <= "Z"]
    packages = parts[: classes[0]] if classes else parts
    for path in tracked:
        folders = PurePosixPath(path).parent.parts
        if packages and PurePosixPath(path).name == name and tuple(packages) == folders[-len(packages) :]:
            return path
    return None


def mikepenz(file: Path) -> dict[str, ReadCase]:
    """Read as mikepenz/action-junit-report does: the case's own file and line, unless either says nothing.

    A line of 0 says nothing to it; the last part of the class's name stands for a file that is missing, and
    1 for a line, if the stack trace names none. Whatever is skipped is a notice, with its own name.
    """
    found = {}
    for case in _cases(file):
        name = case.attrib["name"]
        broken = [*case.findall("failure"), *case.findall("error")]
        skipped = case.find("skipped") is not None
        trace = (broken[0].text or "").strip() if broken else ""
        message = (broken[0].get("message") if broken else "") or "\n".join(trace.splitlines()[:2]) or name
        path = case.get("file") or case.attrib["classname"].split(".")[-1]
        line = int(case.get("line") or 0)
        if not line:
            hits = re.findall(rf" [^ ]*{re.escape(path)}.*?:(\d+)", trace)
            line = int(hits[-1]) if hits else 1
        status = "skipped" if skipped else "failure" if broken else "success"
        found[name] = ReadCase(name, status, path.removeprefix("./"), line, message.strip())
    return found


def gitlab(file: Path) -> dict[str, ReadCase]:
    """Read as GitLab's test report does: ``file`` links to the source, the text stands below the case."""
    found = {}
    for case in _cases(file):
        kinds = {"failure": "failed", "error": "error", "skipped": "skipped"}
        child = next((each for each in case if each.tag in kinds), None)
        status = "success" if child is None else kinds[child.tag]
        text = "" if child is None else child.text or child.get("message") or ""
        found[case.attrib["name"]] = ReadCase(
            case.attrib["name"], status, case.get("file"), None, text.strip()
        )
    return found
