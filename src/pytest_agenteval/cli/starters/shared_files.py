"""What a first suite needs beside itself: pytest's configuration, a workflow, AGENTS.md, .gitignore."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pytest_agenteval.cli.guide import guide_page
from pytest_agenteval.cli.starters.packaging import declaring_commands, flat_layout, is_installed_by_pip
from pytest_agenteval.cli.starters.project import Project
from pytest_agenteval.cli.starters.starter import fill, shared_template
from pytest_agenteval.cli.starters.writing import NewFile, with_lines

GUIDE_MARK = "printed by `agenteval guide`"
RESULTS = ".agenteval/"
PACKAGE = "pytest-agenteval"
PYTEST_INI = "[pytest]\ntestpaths = {evals}\n"

FILL_IN = "PYTEST_AGENTEVAL"
FILL_IN_LINE = (
    f'env: {{{FILL_IN}: ""}}  # fill in what pip installs: a wheel in this repository, git+https://...\n'
)
"""The one line of a workflow that nobody but its author can know: where this package comes from."""


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
    commands = list(install_commands(project.root))
    words = {
        "suite": suite,
        "command": command,
        "folder": folder,
        "install": "".join(f"      - run: {line}\n" for line in commands),
        "fill_in": FILL_IN_LINE if any(FILL_IN in line for line in commands) else "",
        "python": "{}.{}".format(*sys.version_info),
        "prefix": prefix,
    }
    return NewFile(workflow_file(project), fill(shared_template("evals.yml"), words).encode())


def install_commands(root: Path) -> Iterable[str]:
    """Give what installs this package and the project, in one environment.

    The package comes by what the project itself requires, else from where it was installed here; where
    neither is known the workflow stops at a line that is to be filled in, and says so.
    """
    commands = list(declaring_commands(root, PACKAGE))
    if not commands:
        source = package_source() or f"${{{FILL_IN}:?fill in {FILL_IN} at the top of this workflow}}"
        commands = [f'pip install "{source}"']
    if (root / "requirements.txt").is_file():
        commands.append("pip install -r requirements.txt")
    layout = flat_layout(root)
    installed = any(command.startswith("pip install -e ") for command in commands)
    if is_installed_by_pip(root) and (layout is None or layout.is_clear) and not installed:
        commands.append("pip install -e .")
    return dict.fromkeys(commands)


def package_source() -> str:
    """Say where others can install this package from, as pip takes it; empty where that is not known.

    That is an address or a commit in Git, this installation's own or that of the clone that it was installed
    from. A name alone could be a stranger's package in an index.
    """
    try:
        origin: dict[str, Any] = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    url, vcs = str(origin.get("url", "")), origin.get("vcs_info")
    if vcs:
        return _requirement(f"{vcs['vcs']}+{url}@{vcs['commit_id']}")
    if "dir_info" in origin and url.startswith("file:"):
        return _requirement(_published_commit(Path(url2pathname(urlsplit(url).path))))
    return _requirement(url)


def _requirement(address: str) -> str:
    """Give a requirement, where its address is one that a runner of GitHub's can reach without a key."""
    parts = urlsplit(address)
    is_local = parts.hostname in (None, "localhost") or parts.hostname.startswith("127.")
    return f"{PACKAGE} @ {address}" if parts.scheme in ("https", "git+https") and not is_local else ""


def _published_commit(clone: Path) -> str:
    """Give the address of a clone's commit at its origin; empty where origin is not known to have it."""
    if not (clone / ".git").exists():
        return ""
    commit, remote = _git(clone, "rev-parse", "HEAD"), _git(clone, "remote", "get-url", "origin")
    if not commit or not _git(clone, "branch", "--remotes", "--contains", commit):
        return ""
    remote = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", remote)
    return f"git+{remote}@{commit}" if not urlsplit(remote).username else ""


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
