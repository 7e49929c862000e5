"""Versions of the package in environments of their own, and servers from the registries."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

OLDEST_ALLOWED = "2.0.0"
"""What pyproject.toml says; a test looks."""
VERSIONS = (OLDEST_ALLOWED, "newest")
"""Of the package ``mcp``."""

NODE_SERVERS = ("@modelcontextprotocol/server-everything@2026.8.31",)


def place() -> Path:
    """Give the folder that keeps what is installed: ``AGENTEVAL_MCP_SERVERS``, or a temporary one."""
    default = Path(tempfile.gettempdir(), "agenteval-mcp-servers")
    return Path(os.environ.get("AGENTEVAL_MCP_SERVERS") or default)


def python_with(*requirements: str) -> Path:
    """Give the interpreter of an environment with these packages, which is made where there is none."""
    folder = place() / "-".join(requirements).replace("==", "-")
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    ready = folder / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements], check=True)
        ready.touch()
    return python


def packages_of(python: Path) -> Path:
    """Give the folder of an environment's packages."""
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([str(python), "-c", asked], text=True).strip())


def node_server() -> Path:
    """Give the program of a server written in JavaScript, with the protocol's own package for it."""
    folder = place() / "node"
    program = folder / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        npm = "npm.cmd" if sys.platform == "win32" else "npm"
        subprocess.run([npm, "install", "--no-audit", "--no-fund", *NODE_SERVERS], cwd=folder, check=True)
    return program
