"""What people would use instead, each in an environment of its own.

``python -m tests.extended.performance.peers FOLDER`` makes them in that folder, with ``uv`` if there is one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

BESIDE = Path(__file__).parent / "beside"
"""What is run in those environments: programs that import nothing of ours."""

VERSIONS = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"


class Peer(NamedTuple):
    """A framework: the folder of its environment, what is installed there, and what is told of it."""

    folder: str
    requirements: tuple[str, ...]
    distributions: tuple[str, ...]


PEERS: Mapping[str, Peer] = {
    "inspect_ai": Peer("venv-inspect", ("inspect-ai", "openai"), ("inspect-ai", "openai")),
    "pydantic-evals": Peer(
        "venv-pydantic",
        ("pydantic-evals", "pydantic-ai-slim[openai]"),
        ("pydantic-evals", "pydantic-ai-slim", "openai"),
    ),
    "deepeval": Peer("venv-deepeval", ("deepeval", "openai"), ("deepeval", "openai")),
    "pytest-evals": Peer("venv-pytestevals", ("pytest", "pytest-evals"), ("pytest-evals", "pytest")),
}


class Installed(NamedTuple):
    """The Python of a peer's environment, and the versions that it has."""

    python: str
    versions: str


Found: TypeAlias = Mapping[str, Installed | str]
"""Every peer by name; of one that is not installed, the words that say so."""


def find(venvs: Path | None, peers: Mapping[str, Peer] = PEERS) -> Found:
    """Look for each peer in the folder of environments, then in this interpreter's."""
    return {name: _installed(venvs, peer) or "not installed" for name, peer in peers.items()}


def _installed(venvs: Path | None, peer: Peer) -> Installed | None:
    own = [] if venvs is None else [venvs.absolute() / peer.folder / "bin" / "python"]
    for python in map(str, [*own, sys.executable]):
        command = [python, "-c", VERSIONS, *peer.distributions]
        if Path(python).exists() and not (asked := _output(command)).returncode:
            pairs = zip(peer.distributions, asked.stdout.split(), strict=True)
            return Installed(python, ", ".join(f"{name} {version}" for name, version in pairs))
    return None


def _output(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def make(venvs: Path) -> None:
    """Make an environment for each peer, with the newest that there is."""
    uv = shutil.which("uv")
    for peer in PEERS.values():
        place = str(venvs / peer.folder)
        python = f"{place}/bin/python"
        if uv:
            subprocess.run([uv, "venv", "-q", "--python", sys.executable, place], check=True)
            install = [uv, "pip", "install", "-q", "--python", python]
        else:
            subprocess.run([sys.executable, "-m", "venv", place], check=True)
            install = [python, "-m", "pip", "install", "-q"]
        subprocess.run([*install, *peer.requirements], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(
            "python -m tests.extended.performance.peers FOLDER: name the folder of the environments"
        )
    make(Path(sys.argv[1]))
