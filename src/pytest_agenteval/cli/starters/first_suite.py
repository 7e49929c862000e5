"""What ``agenteval init`` is about to write, and what it says of it: a first suite, or a shipped one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval.cli.starters.commands import program, way_to
from pytest_agenteval.cli.starters.example_suite import example_files, example_named
from pytest_agenteval.cli.starters.packaging import flat_layout, named_packages
from pytest_agenteval.cli.starters.project import Project
from pytest_agenteval.cli.starters.shared_files import FILL_IN, shared_files, workflow
from pytest_agenteval.cli.starters.starter import STARTERS, fill, starter_files
from pytest_agenteval.cli.starters.writing import NewFile, refuse_existing
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import path_in_root, short_path
from pytest_agenteval.text.errors import UsageMistake

_SUITE_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


class InitPlan(FrozenValue, frozen=True):
    """Files to be written, paths of those to be left, and what to say of the suite."""

    project: Project
    suite: str
    files: tuple[NewFile, ...]
    left: tuple[Path, ...]
    run: str
    change: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give what is said of the plan, with paths from the project's root."""
        return {
            "root": str(self.project.root),
            "suite": self.suite,
            "written": self._names(file.path for file in self.files if not file.adds),
            "added_to": self._names(file.path for file in self.files if file.adds),
            "left": self._names(self.left),
            "run": self.run,
            "change": self.change,
        }

    def _names(self, paths: Iterable[Path]) -> tuple[str, ...]:
        return tuple(path_in_root(path, self.project.root) for path in paths)


def plan_first_suite(project: Project, kind: str, *, suite: str | None, force: bool) -> InitPlan:
    """Plan a first suite; raises UsageMistake where its name cannot be taken, or files are there already."""
    starter = STARTERS[kind]
    name = suite or starter.suite
    if not _SUITE_NAME.fullmatch(name):
        raise UsageMistake(f"--suite={name}: expected letters, digits, _ and -, with a letter first")
    folder = project.evals / name
    _refuse_taken_name(project, name, folder)
    files = starter_files(kind, name, project)
    if not force:
        refuse_existing(files, "--force writes over them, --suite NAME gives the suite another name")
    below = path_in_root(folder, project.root)
    arguments = shlex.join([below, *starter.options])
    of_github = workflow(project, name, f"pytest {arguments}")
    stays = of_github.path.exists() and not force
    pytest = program("pytest", project.root)
    change = [fill(line, {"folder": below, "pytest": pytest}) for line in starter.change]
    packaging, said = _packaging(project.root, files)
    return InitPlan(
        project,
        name,
        files=(*files, *shared_files(project), *packaging, *(() if stays else (of_github,))),
        left=(of_github.path,) if stays else (),
        run=f"{way_to(project.root)}{pytest} {arguments}",
        change=(*change, *said, *_of_workflow(project, of_github, arguments, stays=stays)),
    )


def _packaging(root: Path, files: Sequence[NewFile]) -> tuple[Sequence[NewFile], Sequence[str]]:
    """Name the project's own packages where new folders would be taken for more; say so."""
    named = named_packages(root, files)
    if named is None:
        return (), ()
    shown = [f"  {line}" for line in named.lines]
    if named.file is None:
        return (), (f"packaging: add to {named.name}, else setuptools finds several packages", *shown)
    return (named.file,), (
        f"packaging: without this in {named.name} setuptools finds several packages",
        *shown,
    )


def _of_workflow(project: Project, workflow: NewFile, arguments: str, *, stays: bool) -> Iterator[str]:
    """Say what is to be done about the workflow, if anything."""
    name = path_in_root(workflow.path, project.root)
    if stays:
        yield f"the workflow: `- run: pytest {arguments}` among the steps of {name}"
        return
    if FILL_IN in workflow.content.decode():
        yield f"the workflow: {FILL_IN} in {name}: where pip gets pytest-agenteval from"
    layout = flat_layout(project.root)
    if layout is not None and not layout.is_clear:
        names = ", ".join(layout.packages or layout.modules)
        yield f"the workflow: it does not install the project: setuptools finds several packages ({names})"


def plan_example(project: Project, name: str, *, suite: str | None, force: bool) -> InitPlan:
    """Plan the copy of a shipped suite; raises UsageMistake where it is not there, or files of its are."""
    from pytest_agenteval.registry.installed import installed_registry

    if suite:
        raise UsageMistake("--suite: an example keeps its name, by which its recordings are found")
    example = example_named(name, installed_registry())
    below = example.parts[0]
    _refuse_taken_name(project, name, project.root / below)
    files = example_files(example, project)
    if not force:
        refuse_existing(files, "--force writes over them")
    run = f"{way_to(project.root)}{program('pytest', project.root)} {below}"
    packaging, said = _packaging(project.root, files)
    return InitPlan(project, name, (*files, *shared_files(project), *packaging), (), run, tuple(said))


def _refuse_taken_name(project: Project, name: str, folder: Path) -> None:
    """Raise UsageMistake where a suite in another folder has this name: pytest would refuse both."""
    file = project.suites.get(name)
    if file is not None and file.parent != folder:
        place = short_path(file)
        raise UsageMistake(
            f"a suite is called {name!r} already: {place}; --suite NAME gives this one another"
        )
