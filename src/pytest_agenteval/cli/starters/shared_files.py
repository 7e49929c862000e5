"""What a first suite needs beside itself: pytest's configuration, a workflow, AGENTS.md, .gitignore."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from pytest_agenteval.cli.guide import guide_page
from pytest_agenteval.cli.starters.project import Project
from pytest_agenteval.cli.starters.starter import fill, shared_template
from pytest_agenteval.cli.starters.writing import NewFile, with_lines

GUIDE_MARK = "printed by `agenteval guide`"
RESULTS = ".agenteval/"
PACKAGE = "pytest-agenteval"
PYTEST_INI = "[pytest]\ntestpaths = {evals}\n"


def shared_files(project: Project) -> Iterator[NewFile]:
    """Give the files that every first suite needs, so far as the project has none."""
    if not project.has_config:  # else where pytest is started would say which folder is the root
        evals = project.evals.relative_to(project.root).as_posix()
        yield NewFile(project.root / "pytest.ini", PYTEST_INI.format(evals=evals).encode())
    yield from filter(
        None,
        (
            with_lines(project.root / ".gitignore", f"{RESULTS}\n", RESULTS.rstrip("/")),
            with_lines(project.root / "AGENTS.md", guide_page().markdown, GUIDE_MARK),
        ),
    )


def workflow_file(project: Project) -> Path:
    """Give the place of the workflow that runs evals: at the top of the repository, where GitHub looks."""
    return project.repository / ".github" / "workflows" / "evals.yml"


def workflow(project: Project, suite: str, command: str) -> NewFile:
    """Give a workflow for GitHub that runs a suite offline, as ``command`` does from the project's root."""
    inner = project.root.relative_to(project.repository).as_posix()
    folder = "" if inner == "." else f'    defaults: {{run: {{working-directory: "{inner}"}}}}\n'
    prefix = "" if inner == "." else f"{inner}/"
    words = {
        "suite": suite,
        "command": command,
        "folder": folder,
        "install": "".join(f"      - run: {line}\n" for line in _install_commands(project.root)),
        "prefix": prefix,
    }
    return NewFile(workflow_file(project), fill(shared_template("evals.yml"), words).encode())


def _install_commands(root: Path) -> Iterator[str]:
    yield f"pip install {_source()}" if is_installable() else f"pip install {PACKAGE}{_FROM_WHERE}"
    if (root / "requirements.txt").is_file():
        yield "pip install -r requirements.txt"
    project_file = root / "pyproject.toml"
    if (root / "setup.py").is_file() or (
        project_file.is_file() and "[project]" in project_file.read_text(encoding="utf-8", errors="replace")
    ):
        yield "pip install -e ."


_FROM_WHERE = "  # or a wheel of it, or git+https://..."


def is_installable() -> bool:
    """Whether others can install this package from where it was installed: an index, Git, an address."""
    return not str(_origin().get("url", "")).startswith("file:")


def _source() -> str:
    """Say where this package was installed from, as pip takes it: its address, or its name in an index."""
    origin = _origin()
    vcs = origin.get("vcs_info")
    address = f"{vcs['vcs']}+{origin['url']}@{vcs['commit_id']}" if vcs else origin.get("url")
    return f'"{PACKAGE} @ {address}"' if address else PACKAGE


def _origin() -> dict[str, Any]:
    """Read what installers write of packages that came from no index (PEP 610)."""
    try:
        origin: dict[str, Any] = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return origin
