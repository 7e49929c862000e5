"""The project that a first suite goes into: its root, its packaging, and files that all suites share.

``agenteval guide`` prints one of them: rules for coding agents that work on evals, for AGENTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

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
    parser.description = "Print the page; `agenteval guide >> AGENTS.md` puts it where coding agents look."
    add_json_option(parser)


def guide(args: argparse.Namespace) -> int:
    page = guide_page()
    write_result(args.json, page, page.markdown.splitlines())
    return 0


@cache
def guide_page() -> GuidePage:
    text = files("pytest_agenteval.cli").joinpath("guide.md").read_text(encoding="utf-8")
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
    return _edited_file(path, f"{before}{between}{lines}")


def _edited_file(path: Path, text: str) -> NewFile:
    """Give a file with this text; its lines end as those of the file do."""
    before, content = path.read_bytes() if path.is_file() else b"", text.encode("utf-8", "surrogateescape")
    content = content.replace(b"\n", b"\r\n") if b"\r\n" in before else content
    return NewFile(path, content, adds=bool(before))


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


class Discovery(FrozenValue, frozen=True):
    """What setuptools finds at the top of a project that names no packages: folders, or else modules."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]

    @property
    def is_clear(self) -> bool:
        """Whether setuptools would use them: of several it demands a choice."""
        return len(self.packages or self.modules) <= 1

    def settings(self, *, in_toml: bool) -> Mapping[str, str]:
        """Give tables of pyproject.toml, or else setup.cfg, each with the key that names the packages."""
        if not self.packages and not self.modules:
            return {"[tool.setuptools]": "packages = []"} if in_toml else {"[options]": "packages ="}
        if not self.packages:
            modules = json.dumps(self.modules)
            py_modules = f"py_modules = {', '.join(self.modules)}"
            return {"[tool.setuptools]": f"py-modules = {modules}"} if in_toml else {"[options]": py_modules}
        (name,) = self.packages
        if in_toml:
            return {"[tool.setuptools.packages.find]": f"include = {json.dumps([name, f'{name}.*'])}"}
        tables = {"[options]": "packages = find_namespace:"}
        return tables | {"[options.packages.find]": f"include = {name}, {name}.*"}


class NamedPackages(FrozenValue, frozen=True):
    """Lines that name a project's own packages; ``file`` is None where they are to be added by hand."""

    name: str
    lines: tuple[str, ...]
    file: NewFile | None


def _is_installed_by_pip(root: Path) -> bool:
    project = _read_pyproject(root)
    metadata = "[metadata]" in _text(root / "setup.cfg")
    return "project" in project or "build-system" in project or metadata or (root / "setup.py").is_file()


def flat_layout(root: Path) -> Discovery | None:
    """Give what setuptools discovers in a flat layout; None where it discovers nothing by itself."""
    setuptools = _read_pyproject(root).get("tool", {}).get("setuptools", {})
    system = _read_pyproject(root).get("build-system", {})
    uses_setuptools = str(system.get("build-backend", "setuptools")).startswith("setuptools")
    # With a src folder setuptools looks only there, and new folders at the top do no harm.
    if not (_is_installed_by_pip(root) and uses_setuptools) or (root / "src").is_dir():
        return None
    options = re.search(r"^\[options\]$(.*?)(?=^\[|\Z)", _text(root / "setup.cfg"), re.MULTILINE | re.DOTALL)
    named = r"\b(packages|py_modules|package_dir|ext_modules)\s*="
    if (
        any(key in setuptools for key in ("packages", "py-modules", "package-dir", "ext-modules"))
        or (options and re.search(named, options[1]))
        or re.search(named, _text(root / "setup.py"))
    ):
        return None
    names = sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    packages = (name for name in names if name.isidentifier() and name not in NO_PACKAGES.split())
    modules = (path.stem for path in sorted(root.glob("*.py")) if path.stem not in NO_MODULES.split())
    return Discovery(
        tuple(name for name in packages if not name.startswith("_")),
        tuple(name for name in modules if not name.startswith((".", "_"))),
    )


def named_packages(root: Path, files: Iterable[NewFile]) -> NamedPackages | None:
    """Name a project's own packages where setuptools would take folders of new files for more of them."""
    discovery = flat_layout(root)
    if discovery is None or not discovery.is_clear:
        return None
    parts = [file.path.relative_to(root).parts for file in files if file.path.is_relative_to(root)]
    new = {each[0] for each in parts if len(each) > 1 and each[0].isidentifier()}
    # Folders that setuptools uses already, or leaves out anyway, change nothing.
    if not new.difference(discovery.packages, NO_PACKAGES.split()):
        return None
    # setuptools before 68 demands a [project] in a pyproject.toml that configures it.
    in_toml = "project" in _read_pyproject(root)
    path = root / ("pyproject.toml" if in_toml else "setup.cfg")
    settings = discovery.settings(in_toml=in_toml)
    before = after = _text(path)
    for table, key in settings.items():
        after = _with_key(after, table, key)
    try:
        tomllib.loads(after) if in_toml else ConfigParser(interpolation=None).read_string(after)
    # An edit that would break the file is not made: its lines are shown instead.
    except (tomllib.TOMLDecodeError, ConfigParserError):
        after = before
    lines = tuple(line for setting in settings.items() for line in setting)
    return NamedPackages(path.name, lines, _edited_file(path, after) if after != before else None)


def _with_key(text: str, table: str, key: str) -> str:
    """Put a key into a table; a missing table is added at the end."""
    if header := re.search(rf"^{re.escape(table)}[ \t]*(#.*)?$", text, re.MULTILINE):
        return f"{text[: header.end()]}\n{key}{text[header.end() :]}"
    between = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{between}{table}\n{key}\n"


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
    template = (files(__package__) / "templates" / "shared" / "evals.yml").read_text(encoding="utf-8")
    # GitHub looks for workflows at the top of the repository only.
    place = project.repository / ".github" / "workflows" / "evals.yml"
    return NewFile(place, fill(template, words).encode())


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
    layout = flat_layout(root)
    installed = any(command.startswith("pip install -e ") for command in commands)
    # Of several packages setuptools installs none, and the step would fail.
    if _is_installed_by_pip(root) and (layout is None or layout.is_clear) and not installed:
        commands.append("pip install -e .")
    return dict.fromkeys(commands)


def package_source() -> str:
    """Give a requirement by which others can install this package; empty where none is known.

    It is an address or a commit in Git: this installation's own, or that of the clone that it was installed
    from.
    """
    try:
        # pip writes this file for an installation that comes from no index (PEP 610).
        origin: dict[str, Any] = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    url, vcs = str(origin.get("url", "")), origin.get("vcs_info")
    if vcs:
        return _public_requirement(f"{vcs['vcs']}+{url}@{vcs['commit_id']}")
    # Installed from a folder, which may be a clone.
    if "dir_info" in origin and url.startswith("file:"):
        return _public_requirement(_published_commit(Path(url2pathname(urlsplit(url).path))))
    # Never the name alone: that could be a stranger's package in an index.
    return _public_requirement(url)


def _public_requirement(address: str) -> str:
    """Give a requirement for an address that GitHub's runners reach without a key; else nothing."""
    parts = urlsplit(address)
    is_local = parts.hostname in (None, "localhost") or parts.hostname.startswith("127.")
    return f"{PACKAGE} @ {address}" if parts.scheme in ("https", "git+https") and not is_local else ""


def _published_commit(clone: Path) -> str:
    if not (clone / ".git").exists():
        return ""
    commit, remote = _git(clone, "rev-parse", "HEAD"), _git(clone, "remote", "get-url", "origin")
    # A commit that was never pushed is nowhere to be had.
    if not commit or not _git(clone, "branch", "--remotes", "--contains", commit):
        return ""
    # A runner has no key for SSH, and public repositories are served by HTTPS too.
    remote = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", remote)
    return f"git+{remote}@{commit}" if not urlsplit(remote).username else ""


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
