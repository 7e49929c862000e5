"""A virtual environment per framework and age, with pytest-agenteval beside the framework."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.extended.frameworks.catalogue import Framework

ROOT = Path(__file__).parents[3]
YEAR_OLD = "2025-11-22"

LEFT_OUT = ((), ("litellm",), ("litellm", "mcp"), ("litellm", "mcp", "aiohttp"))
"""What is left out where our own dependencies forbid the version: the least that helps."""

_NICE = ("nice", "-n", "10") if shutil.which("nice") else ()


class NotInstalled(Exception):
    """No environment holds the version, whatever is left out."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment: ``versions`` as ``name==version``, and what of ours it had to do without."""

    folder: Path
    versions: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def python(self) -> Path:
        """The interpreter that has pytest-agenteval."""
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    @property
    def node_modules(self) -> Path:
        """The packages from npm, if there are any."""
        return self.folder / "node_modules"


def environment(framework: Framework, age: str, place: Path) -> Environment:
    """Make the environment, or give the one that is there; raises NotInstalled."""
    folder = place / f"{framework.name}-{age}"
    notes = folder / "left-out.txt"
    if not notes.exists():
        left_out = _install(folder, framework, age)
        notes.write_text(" ".join(left_out), encoding="utf-8", newline="\n")
    installed = _installed_of_node(folder) if framework.node else _installed(folder)
    versions = tuple(f"{name}=={installed[name]}" for name in map(_bare, framework.packages))
    return Environment(folder, versions, tuple(notes.read_text(encoding="utf-8").split()))


def _install(folder: Path, framework: Framework, age: str) -> tuple[str, ...]:
    """Install the framework of that day and ours in one resolver call, as a user does.

    Its versions are those that it would have alone: a resolver left free takes years old ones in silence.
    """
    _uv("venv", "-q", "--clear", "-p", sys.executable, str(folder))
    if framework.node:
        _install_from_npm(folder, framework, age)
    theirs = () if framework.node else _pins(folder, framework, age)
    refusal = ""
    for left_out in LEFT_OUT:
        try:
            _install_together(folder, theirs, left_out)
        except subprocess.CalledProcessError as error:
            refusal = error.stderr
        else:
            return left_out
    raise NotInstalled(f"{framework.name}: {refusal.strip()[-400:]}")


def _pins(folder: Path, framework: Framework, age: str) -> tuple[str, ...]:
    """Give ``name==version`` of the framework's packages alone; a year old, of all that they need, too."""
    wanted = folder / "wanted.txt"
    wanted.write_text("\n".join(framework.packages), encoding="utf-8", newline="\n")
    day = ("--exclude-newer", YEAR_OLD) if age == "year-old" else ()
    how = ("-q", "--no-header", "--no-annotate", "--no-strip-extras", "-p", str(folder))
    pins = _uv("pip", "compile", *how, *day, str(wanted)).split("\n")
    names = {_bare(package).lower() for package in framework.packages}
    return tuple(pin for pin in pins if pin and (age == "year-old" or _bare(pin).lower() in names))


def _install_together(folder: Path, theirs: Sequence[str], left_out: tuple[str, ...]) -> None:
    overrides = folder / "overrides.txt"
    pins = {_bare(pin): pin for pin in theirs}
    instead = [pins.get(name, f"{name} ; python_version < '3'") for name in left_out]
    overrides.write_text("\n".join(instead), encoding="utf-8", newline="\n")
    _uv("pip", "install", "-q", "-p", str(folder), "--overrides", str(overrides), *theirs, "-e", str(ROOT))


def _installed(folder: Path) -> dict[str, str]:
    lines = _uv("pip", "freeze", "-p", str(folder)).splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def _install_from_npm(folder: Path, framework: Framework, age: str) -> None:
    day = [f"--before={YEAR_OLD}T23:59:59Z"] if age == "year-old" else []
    (folder / "package.json").write_text('{"private": true}', encoding="utf-8", newline="\n")
    npm = shutil.which("npm") or "npm"
    quietly = ("--no-audit", "--no-fund", "--loglevel=error")
    _output([*_NICE, npm, "install", "--prefix", str(folder), *quietly, *day, *framework.packages])


def _installed_of_node(folder: Path) -> dict[str, str]:
    lock = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    inside = "node_modules/"
    return {name.removeprefix(inside): each["version"] for name, each in lock["packages"].items() if name}


def _bare(requirement: str) -> str:
    return re.split(r"[\[=<>]", requirement)[0]


def _uv(*arguments: str) -> str:
    """Run uv, whether it is a program or a module here; raises CalledProcessError with what it said."""
    uv = [sys.executable, "-m", "uv"] if find_spec("uv") else ["uv"]
    return _output([*_NICE, *uv, *arguments])


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
