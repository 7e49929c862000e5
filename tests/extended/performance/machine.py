"""When, on what machine and with which versions something was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.extended.performance.peers import Found

ROOT = Path(__file__).parents[3]
OWN = ("pytest-agenteval", "pytest", "pytest-xdist", "aiohttp", "litellm", "openai")


def told(peers: Found | None) -> str:
    """Say it in a few lines."""
    lines = [
        f"Measured {date.today().isoformat()} on {processor()}, {os.cpu_count()} cores, load {_load()} at "
        f"first; {platform.system()} {platform.release()}, {platform.python_implementation()} "
        f"{platform.python_version()}.",
        f"Versions: {', '.join(_own())}.",
    ]
    for name, found in (peers or {}).items():
        lines.append(f"{name}: {found if isinstance(found, str) else found.versions}.")
    return "  \n".join(lines)


def processor() -> str:
    """Name the processor as the system does."""
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _own() -> list[str]:
    found = []
    for name in OWN:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return [f"{found[0]}{_commit()}", *found[1:]]


def _commit() -> str:
    """Name the commit of this checkout, and whether its sources differ from it."""
    try:
        commit = _git("rev-parse", "--short=10", "HEAD")
        changed = _git("status", "--porcelain", "src")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" at {commit}{' with changes' if changed else ''}"


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
