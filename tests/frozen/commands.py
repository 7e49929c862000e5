"""Commands run in copies of projects, and what they print without what no two runs have alike."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

import pytest as its_module  # noqa: PT013 - the command below has its name

import pytest_agenteval

ROOT = Path(__file__).parents[2]
PROJECTS = Path(__file__).parent / "projects"
PACKAGE = Path(pytest_agenteval.__file__).parent
PROGRAMS = Path(sys.executable).parent
AGENTEVAL = entry_points(group="console_scripts", name="agenteval")
NEEDED = ("HOME", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "USERPROFILE", "VIRTUAL_ENV")
FIXED = {
    "COLUMNS": "100",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "LC_ALL": "C.UTF-8",
    "LINES": "40",
    "PATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")]),
    "PYTEST_ADDOPTS": "-p no:cacheprovider --no-header -W ignore::pytest.PytestAssertRewriteWarning",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "agenteval",
    "PYTHONPATH": str(PACKAGE.parent),
    "PYTHONUTF8": "1",
    "TERM": "dumb",
    "TZ": "UTC",
}

WIDTH = 110
CHANGING: tuple[tuple[str, str], ...] = (
    (r"\b\d{8}-\d{6}(?:-[a-z_-]+)?-[0-9a-f]{4}\b", "RUN"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?", "MOMENT"),
    (r" *\b\d+(?:\.\d+)?(?:e-\d+)? s\b", " ? s"),
    # Two times may be equal, and then no change is shown.
    (r"(wall|agents) \? s(?: -> \? s)?(?: \((?:[+-][\d.]+ %|\d+ times)\))?", r"\1 ? s"),
    (r" in \d+\.\d+s\b", " in ?s"),
    (r"(?m)^=+ (.+?) =+$", r"== \1 =="),
    (r"(?m)^-+ generated (.+?) -+$", r"-- generated \1 --"),
    (r"(?m)^platform .*\n(?:(?:rootdir|configfile|plugins|cachedir): .*\n)*", ""),
    (r"-main-\d+\.", "-main-PID."),
    (r"\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b(?=\.\.)", "COMMIT"),
    (r"\blitellm \d+\.\d+\.\d+", "litellm VERSION"),
)
"""What no two runs have alike, and what stands instead."""


def fix_environment() -> None:
    """Give this process, and those it starts, the same environment everywhere."""
    kept = {name: os.environ[name] for name in NEEDED if name in os.environ}
    os.environ.clear()
    os.environ.update(kept | FIXED)
    if hasattr(time, "tzset"):
        time.tzset()


class Printed(NamedTuple):
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    def __str__(self) -> str:
        """Give all of it as one text."""
        errors = f"\nstandard error:\n{self.err.rstrip()}" if self.err.strip() else ""
        return f"exit status {self.status}\n{self.out.rstrip()}{errors}"


class Scratch:
    """A folder of a part's own, for copies of projects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def project(self, *sources: Path, runs: Path | None = None, name: str = "project") -> Path:
        """Make a project: a copy of one of ``projects``, or of single folders; with stored runs."""
        target = self.folder / name
        target.mkdir(parents=True)
        for source in sources:
            whole = source.parent == PROJECTS
            shutil.copytree(source, target if whole else target / source.name, dirs_exist_ok=True)
        (target / "pytest.ini").touch()
        if runs is not None:
            shutil.copytree(runs, target / ".agenteval" / "runs")
        return target


def agenteval(folder: Path, *args: str) -> Printed:
    """Run the command in this process, which saves half a second."""
    (command,) = {script.load() for script in AGENTEVAL}
    return _printed(folder, lambda: command(list(args)))


def pytest_here(folder: Path, *args: str) -> Printed:
    """Run pytest in this process, which saves a second; all such runs have to be of one project."""
    return _printed(folder, lambda: its_module.main([*args]))


def _printed(folder: Path, run: Callable[[], int]) -> Printed:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = int(run())
        except SystemExit as ended:
            status = int(ended.code or 0)
        except Exception as crash:  # whose traceback would name private modules
            status = 1
            print(f"{type(crash).__name__}: {crash}", file=err)
    return Printed(status, out.getvalue(), err.getvalue())


def pytest(folder: Path, *args: str) -> Printed:
    """Run pytest in a process of its own."""
    return started(folder, [sys.executable, "-m", "pytest", *args])


def started(folder: Path, command: Sequence[str]) -> Printed:
    """Run any command in a process of its own."""
    program = shutil.which(command[0]) or command[0]
    done = subprocess.run([program, *command[1:]], cwd=folder, capture_output=True, timeout=300, check=False)
    out, err = (stream.decode("utf-8").replace("\r\n", "\n") for stream in (done.stdout, done.stderr))
    return Printed(done.returncode, out, err)


def placed(text: object, folder: Path) -> str:
    """Give a text without places of this machine and the version of this package."""
    found = str(text)
    places = {folder.resolve(): "PROJECT", folder: "PROJECT", PACKAGE: "PACKAGE"}
    for place, word in {**places, ROOT: "ROOT", PROGRAMS: "BIN"}.items():
        found = found.replace(str(place), word)
    return re.sub(rf"(?<![\d.]){re.escape(pytest_agenteval.__version__)}(?![\d.])", "VERSION", found)


def steady(text: object, folder: Path) -> str:
    """Give what a run printed without places, times and names of runs."""
    found = placed(text, folder)
    for pattern, word in CHANGING:
        found = re.sub(pattern, word, found)
    return found


def steady_document(text: str, folder: Path) -> str:
    """Give a document of a run without what changes, and without how many seconds anything took."""
    return steady(compact(json.dumps(_without_seconds(json.loads(text)))), folder)


def _without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "?" if key.endswith("seconds") else _without_seconds(value[key]) for key in value}
    return [_without_seconds(inner) for inner in value] if isinstance(value, list) else value


def compact(text: str) -> str:
    """Lay out a JSON document: what fits into a line stands in one."""
    return _laid_out(json.loads(text), 0)


def _laid_out(value: Any, depth: int) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(line) + depth <= WIDTH:
        return line
    if isinstance(value, dict):
        names = {key: json.dumps(key, ensure_ascii=False) for key in value}
        parts = [f"{names[key]}: {_laid_out(value[key], depth + 1)}" for key in value]
    else:
        parts = [_laid_out(inner, depth + 1) for inner in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inside = ",\n".join(" " * (depth + 1) + part for part in parts)
    return f"{opening}\n{inside}\n{' ' * depth}{closing}"


def latest(folder: Path) -> Path:
    """Give the folder of a project's latest run."""
    return (folder / ".agenteval" / "runs" / "latest").resolve()


def shows(page: str, screen: str) -> str:
    """Say whether a page shows a screen as it is printed."""
    return "shows this screen" if screen.strip() and screen.strip() in page else "shows another screen"
