"""How pip installs a project, and what keeps setuptools from taking new folders for its packages."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import Path
from typing import Any

from pytest_agenteval.cli.starters.writing import NewFile, edited_file
from pytest_agenteval.records.record import FrozenValue

NO_PACKAGES = (
    "ci bin debian doc docs documentation manpages news newsfragments changelog test tests unit_test "
    "unit_tests example examples scripts tools util utils python build dist venv env requirements tasks "
    "fabfile site_scons benchmark benchmarks exercise exercises htmlcov"
)
NO_MODULES = (
    "setup conftest test tests example examples build toxfile noxfile pavement dodo tasks fabfile conanfile "
    "manage benchmark benchmarks exercise exercises SConstruct sconstruct"
)
"""Top-level folders and modules that setuptools leaves out of a flat layout (setuptools.discovery)."""


class Discovery(FrozenValue, frozen=True):
    """What setuptools finds at the top of a project that names no packages: folders, or else modules."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]

    @property
    def is_clear(self) -> bool:
        """Whether setuptools takes them; of several it asks which."""
        return len(self.packages or self.modules) <= 1

    def settings(self, *, in_toml: bool) -> Mapping[str, str]:
        """Give tables of pyproject.toml, or else setup.cfg, each with the key that names what is found."""
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


def is_installed_by_pip(root: Path) -> bool:
    """Whether the project is one that ``pip install`` takes."""
    project = read_pyproject(root)
    metadata = "[metadata]" in _text(root / "setup.cfg")
    return "project" in project or "build-system" in project or metadata or (root / "setup.py").is_file()


def flat_layout(root: Path) -> Discovery | None:
    """Give what setuptools discovers in a flat layout; None where it discovers nothing by itself."""
    setuptools = read_pyproject(root).get("tool", {}).get("setuptools", {})
    if not (is_installed_by_pip(root) and _uses_setuptools(root)) or (root / "src").is_dir():
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
    if not new.difference(discovery.packages, NO_PACKAGES.split()):
        return None
    in_toml = "project" in read_pyproject(root)  # else setuptools before 68 wants a [project] there
    path = root / ("pyproject.toml" if in_toml else "setup.cfg")
    settings = discovery.settings(in_toml=in_toml)
    before = after = _text(path)
    for table, key in settings.items():
        after = _with_key(after, table, key)
    try:
        tomllib.loads(after) if in_toml else ConfigParser(interpolation=None).read_string(after)
    except (tomllib.TOMLDecodeError, ConfigParserError):
        after = before
    lines = tuple(line for setting in settings.items() for line in setting)
    return NamedPackages(path.name, lines, edited_file(path, after) if after != before else None)


def _with_key(text: str, table: str, key: str) -> str:
    """Put a key into a table, which is added at the end where it is not there."""
    if header := re.search(rf"^{re.escape(table)}[ \t]*(#.*)?$", text, re.MULTILINE):
        return f"{text[: header.end()]}\n{key}{text[header.end() :]}"
    between = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{between}{table}\n{key}\n"


def declaring_commands(root: Path, package: str) -> Iterator[str]:
    """Give what installs the package with pip by what the project itself requires."""
    wanted = re.compile(rf"^\s*{re.sub('-', '[-_.]', package)}(?![\w.-])", re.MULTILINE | re.IGNORECASE)
    for file in sorted((*root.glob("*requirements*.txt"), *root.glob("requirements/*.txt"))):
        if wanted.search(_text(file)):
            yield f"pip install -r {file.relative_to(root).as_posix()}"
    pyproject = read_pyproject(root)
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


def read_pyproject(root: Path) -> dict[str, Any]:
    """Read pyproject.toml; empty where there is none, or it cannot be read."""
    try:
        return tomllib.loads(_text(root / "pyproject.toml"))
    except tomllib.TOMLDecodeError:
        return {}


def _uses_setuptools(root: Path) -> bool:
    system = read_pyproject(root).get("build-system", {})
    return str(system.get("build-backend", "setuptools")).startswith("setuptools")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
