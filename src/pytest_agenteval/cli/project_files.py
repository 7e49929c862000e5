"""The project that a first suite goes into: its root, its packaging, and files that all suites share.

``agenteval guide`` prints one of them: rules for coding agents that work on evals, for AGENTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_agenteval import __version__
from pytest_agenteval.cli.console import add_json_option, write_result
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.session.planning.suites import SuiteSearch, read_suite
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake, writing

PROGRAMS = ("agenteval", "pytest")


class GuidePage(Document, frozen=True, kw_only=True):
    """Rules for agents that work on evals: the page in Markdown, and the commands that it shows.

    ``package`` is the version that it is of.
    """

    package: str
    markdown: str
    commands: tuple[str, ...]


def guide_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the page; `agenteval guide >> AGENTS.md` adds it where coding agents look."
    add_json_option(parser)


def guide(args: argparse.Namespace) -> int:
    page = guide_page()
    write_result(args.json, page, page.markdown.splitlines())
    return 0


@cache
def guide_page() -> GuidePage:
    text = Path(__file__).with_name("guide.md").read_text(encoding="utf-8")
    markdown = text.replace("{version}", __version__)
    return GuidePage(package=__version__, markdown=markdown, commands=tuple(_commands(markdown)))


def _commands(markdown: str) -> Iterator[str]:
    """Give the commands in the page's blocks of code, without their comments."""
    # Every second part between fences is a block of code.
    for block in markdown.split("```")[1::2]:
        for line in block.splitlines():
            if line.startswith(PROGRAMS):
                yield line.partition(" #")[0].rstrip()


NO_PACKAGES = (
    "ci bin debian doc docs documentation manpages news newsfragments changelog test tests unit_test "
    "unit_tests example examples scripts tools util utils python build dist venv env requirements tasks "
    "fabfile site_scons benchmark benchmarks exercise exercises htmlcov"
)
# Top-level folders and modules that setuptools leaves out of a flat layout (setuptools.discovery).
NO_MODULES = (
    "setup conftest test tests example examples build toxfile noxfile pavement dodo tasks fabfile conanfile "
    "manage benchmark benchmarks exercise exercises SConstruct sconstruct"
)

GUIDE_MARK = "printed by `agenteval guide`"
RESULTS_FOLDER = ".agenteval/"
PACKAGE = "pytest-agenteval"
PYTEST_INI = "[pytest]\ntestpaths = {evals}\n"

FILL_IN = "PYTEST_AGENTEVAL"
# The one line of a workflow that its author has to fill in: where this package comes from.
FILL_IN_LINE = (
    f'env: {{{FILL_IN}: ""}}  # fill in what pip installs: a wheel in this repository, git+https://...\n'
)


class NewFile(FrozenValue, frozen=True):
    """A file and its whole content; ``adds`` says that it goes on from what was there."""

    path: Path
    content: bytes
    adds: bool = False


def refuse_existing(files: Iterable[NewFile], way_out: str) -> None:
    """Raise UsageMistake with each file that exists already and would be overwritten."""
    there = [short_path(file.path) for file in files if not file.adds and file.path.exists()]
    if there:
        verb = "is" if len(there) == 1 else "are"
        raise UsageMistake(f"{', '.join(there)} {verb} there already, and nothing was written; {way_out}")


def write_files(files: Sequence[NewFile]) -> None:
    """Write files, with their folders; raises UsageMistake where one cannot be written."""
    for file in files:
        with writing(short_path(file.path)):
            file.path.parent.mkdir(parents=True, exist_ok=True)
            file.path.write_bytes(file.content)


def _appended_file(path: Path, lines: str, mark: str) -> NewFile | None:
    """Give a file with lines added at its end; None where it contains ``mark`` already."""
    # Bytes that are no UTF-8 have to stay as they are.
    before = path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else ""
    # A second init adds nothing twice.
    if mark in before:
        return None
    between = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    content = f"{before}{between}{lines}".encode("utf-8", "surrogateescape")
    # The lines end as those of the file do.
    is_windows = path.is_file() and b"\r\n" in path.read_bytes()
    return NewFile(path, content.replace(b"\n", b"\r\n") if is_windows else content, adds=bool(before))


class Project(FrozenValue, frozen=True):
    """A project's folder: pytest's rootdir as soon as it has a configuration, where ``has_config`` says so.

    ``suites`` has the file of every suite, by the suite's name; ``repository`` is where Git has its top, the
    root itself where there is no Git.
    """

    root: Path
    has_config: bool
    suites: dict[str, Path]
    repository: Path

    @property
    def evals(self) -> Path:
        """The folder of suites: ``evals``, or where the project's first suite lies."""
        usual = self.root / "evals"
        if usual.is_dir() or not self.suites:
            return usual
        # A new suite goes beside those that the project has.
        folder = next(iter(self.suites.values())).parent
        return folder.parent if folder != self.root else usual


def find_project(folder: str | None) -> Project:
    """Give the project at a named folder, or else the one that the current folder lies in.

    Raises UsageMistake where the name is that of a file, and where pytest cannot read its settings.
    """
    place = Path(os.path.abspath(folder or ""))
    if place.exists() and not place.is_dir():
        raise UsageMistake(f"{folder}: expected a folder; found a file")
    there = next(each for each in (place, *place.parents) if each.is_dir())
    search = SuiteSearch(there)
    if search.config is None:
        raise UsageMistake(f"{there}: pytest cannot read its settings; `pytest --collect-only` says why")
    root = place if folder else search.rootdir or _repository_above(place) or place
    suites: dict[str, Path] = {}
    for file in SuiteSearch(root).all if root.is_dir() else ():
        # A broken suite is passed over: init neither needs nor mends it.
        with suppress(ProblemsFound):
            if suite := read_suite(file, root):
                suites[suite.name] = file
    return Project(root, search.rootdir == root, suites, _repository_above(root) or root)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _repository_above(place: Path) -> Path | None:
    return next((folder for folder in (place, *place.parents) if (folder / ".git").exists()), None)


def module_name(suite: str) -> str:
    return re.sub(r"\W", "_", suite)


def fill(text: str, words: Mapping[str, str]) -> str:
    """Replace ``{{name}}`` by the word of that name."""
    for name, word in words.items():
        text = text.replace("{{" + name + "}}", word)
    return text


def _is_installed_by_pip(root: Path) -> bool:
    project = _read_pyproject(root)
    metadata = "[metadata]" in _text(root / "setup.cfg")
    return "project" in project or "build-system" in project or metadata or (root / "setup.py").is_file()


def _discovered(root: Path) -> tuple[Sequence[str], Sequence[str]] | None:
    """Give the packages and modules that setuptools finds at the top; None where it does not look there."""
    pyproject = _read_pyproject(root)
    system, named = pyproject.get("build-system", {}), pyproject.get("tool", {}).get("setuptools", {})
    uses_setuptools = str(system.get("build-backend", "setuptools")).startswith("setuptools")
    keys = ("packages", "py-modules", "package-dir", "ext-modules")
    others = f"{_text(root / 'setup.cfg')}\n{_text(root / 'setup.py')}"
    is_named = any(key in named for key in keys) or re.search(
        r"\b(packages|py_modules|package_dir|ext_modules)\s*=", others
    )
    # With a src folder setuptools looks only there, and new folders at the top do no harm.
    if not (_is_installed_by_pip(root) and uses_setuptools) or is_named or (root / "src").is_dir():
        return None
    folders = sorted(path.name for path in root.iterdir() if path.is_dir())
    packages = [name for name in folders if name.isidentifier() and _is_package(name)]
    return packages, [path.stem for path in sorted(root.glob("*.py")) if path.stem not in NO_MODULES.split()]


def packaging_lines(root: Path, files: Iterable[NewFile]) -> tuple[str, ...]:
    """Give a settings file, and the lines in it that name a project's own packages or modules.

    Empty where setuptools would not take the folders of new files for more packages.
    """
    if (discovered := _discovered(root)) is None:
        return ()
    packages, modules = discovered
    parts = [file.path.relative_to(root).parts for file in files if file.path.is_relative_to(root)]
    added = {each[0] for each in parts if len(each) > 1 and each[0].isidentifier() and _is_package(each[0])}
    # Of several packages setuptools installs none, so such a project is not installed anyway.
    if added <= {*packages} or len(packages or modules) > 1:
        return ()
    # setuptools before 68 demands a [project] in a pyproject.toml that configures it.
    if "project" not in _read_pyproject(root):
        found = ("[options.packages.find]", f"include = {packages[0]}, {packages[0]}.*") if packages else ()
        key = "packages = find_namespace:" if packages else f"py_modules = {modules[0]}" if modules else ""
        return "setup.cfg", "[options]", key or "packages =", *found
    if packages:
        include = json.dumps([packages[0], f"{packages[0]}.*"])
        return "pyproject.toml", "[tool.setuptools.packages.find]", f"include = {include}"
    key = f"py-modules = {json.dumps(modules)}" if modules else "packages = []"
    return "pyproject.toml", "[tool.setuptools]", key


def _is_package(name: str) -> bool:
    return name not in NO_PACKAGES.split() and not name.startswith("_")


def _declaring_commands(root: Path, package: str) -> Iterator[str]:
    # pip takes "-", "_" and "." in a name for the same (PEP 503).
    wanted = re.compile(rf"^\s*{re.sub('-', '[-_.]', package)}(?![\w.-])", re.MULTILINE | re.IGNORECASE)
    for file in sorted((*root.glob("*requirements*.txt"), *root.glob("requirements/*.txt"))):
        if wanted.search(_text(file)):
            yield f"pip install -r {file.relative_to(root).as_posix()}"
    pyproject = _read_pyproject(root)
    project: Mapping[str, Any] = pyproject.get("project", {})
    if any(map(wanted.match, _texts(project.get("dependencies")))):
        yield "pip install -e ."
    for extra, requirements in project.get("optional-dependencies", {}).items():
        if any(map(wanted.match, _texts(requirements))):
            yield f'pip install -e ".[{extra}]"'
    for group, requirements in pyproject.get("dependency-groups", {}).items():
        if any(map(wanted.match, _texts(requirements))):
            yield f"pip install --group {group}"


def _texts(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _read_pyproject(root: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(root / "pyproject.toml"))
    except tomllib.TOMLDecodeError:
        return {}


def shared_files(project: Project) -> Iterator[NewFile]:
    """Give the files that every first suite needs and that the project lacks."""
    # Without a configuration the root would depend on the folder in which pytest is started.
    if not project.has_config:
        evals = project.evals.relative_to(project.root).as_posix()
        yield NewFile(project.root / "pytest.ini", PYTEST_INI.format(evals=evals).encode())
    ignored = _appended_file(project.root / ".gitignore", f"{RESULTS_FOLDER}\n", RESULTS_FOLDER.rstrip("/"))
    guide = _appended_file(project.root / "AGENTS.md", guide_page().markdown, GUIDE_MARK)
    yield from filter(None, (ignored, guide))


def workflow(project: Project, suite: str, command: str) -> NewFile:
    """Give a GitHub workflow that runs a suite offline, by ``command`` from the project's root."""
    inner = project.root.relative_to(project.repository).as_posix()
    folder = "" if inner == "." else f'    defaults: {{run: {{working-directory: "{inner}"}}}}\n'
    prefix = "" if inner == "." else f"{inner}/"
    commands = list(_install_commands(project.root))
    words = {
        "suite": suite,
        "command": command,
        "folder": folder,
        "install": "".join(f"      - run: {line}\n" for line in commands),
        "fill_in": FILL_IN_LINE if any(FILL_IN in line for line in commands) else "",
        "python": "{}.{}".format(*sys.version_info),
        "prefix": prefix,
    }
    template = Path(__file__).parent / "templates" / "shared" / "evals.yml"
    # GitHub looks for workflows at the top of the repository only.
    place = project.repository / ".github" / "workflows" / "evals.yml"
    return NewFile(place, fill(template.read_text(encoding="utf-8"), words).encode())


def _install_commands(root: Path) -> Iterable[str]:
    """Give the commands that install this package and the project in one environment.

    The package comes from the project's own requirements, else from where it was installed here. Where
    neither is known the workflow stops at a line that the author has to fill in.
    """
    commands = list(_declaring_commands(root, PACKAGE))
    if not commands:
        source = package_source() or f"${{{FILL_IN}:?fill in {FILL_IN} at the top of this workflow}}"
        commands = [f'pip install "{source}"']
    if (root / "requirements.txt").is_file():
        commands.append("pip install -r requirements.txt")
    installed = any(command.startswith("pip install -e ") for command in commands)
    packages, modules = _discovered(root) or ((), ())
    # Of several packages setuptools installs none, and the step would fail.
    if _is_installed_by_pip(root) and len(packages or modules) <= 1 and not installed:
        commands.append("pip install -e .")
    return dict.fromkeys(commands)


def package_source() -> str:
    """Give a requirement by which GitHub's runners can install this package; empty where none is known.

    It is the address, or the commit in Git, that pip installed it from.
    """
    try:
        # pip writes this file for an installation that comes from no index (PEP 610).
        origin: dict[str, Any] = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    # Never the name alone: that could be a stranger's package in an index.
    address, vcs = str(origin.get("url", "")), origin.get("vcs_info")
    if vcs:
        address = f"{vcs['vcs']}+{address}@{vcs['commit_id']}"
    parts = urlsplit(address)
    is_local = parts.hostname in (None, "localhost") or parts.hostname.startswith("127.")
    return f"{PACKAGE} @ {address}" if parts.scheme in ("https", "git+https") and not is_local else ""
