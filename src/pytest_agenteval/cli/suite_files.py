"""Which suites a verb is about, by name, by path or all below this folder."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

from pytest_agenteval.loop.promotion import SuiteTask
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.session.planning.suites import Suites, SuiteSearch, read_suite, tasks_of_suite
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES, find_suite, is_calibration_name
from pytest_agenteval.tasks.load import load_suite
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake, did_you_mean


class SuiteFile(FrozenValue, frozen=True):
    """A suite and the file that it stands in."""

    path: Path
    suite: Suite


def suites_meant(name: str | None) -> list[SuiteFile]:
    """Give the suites of that name or at that path, or all that pytest would collect from here.

    Raises UsageMistake where there is none, and ProblemsFound for a suite's file that has problems. For a
    name the problems of other suites do not count.
    """
    here = Path.cwd()
    path = Path(os.path.normpath(here / (name or "")))
    if path.is_file():
        if path.name not in SUITE_NAMES:
            raise UsageMistake(f"{short_path(path)}: expected a folder, or one of {', '.join(SUITE_NAMES)}")
        return [SuiteFile(path, load_suite(path))]
    if suites := _suites_below(path) if path.is_dir() else []:
        return suites
    if name is None:
        raise UsageMistake(f"there is no suite.yaml below {here}")
    search, names, broken = SuiteSearch(here), list[str](), list[ProblemsFound]()
    of_name: list[SuiteFile] = []
    # All files below, also those that pytest would not collect: a name still finds its suite.
    for file in search.all:
        try:
            suite = read_suite(file, here)
        except ProblemsFound as wrong:
            broken.append(wrong)
            continue
        if suite is not None:
            names.append(suite.name)
            of_name += [SuiteFile(file, suite)] if suite.name == name else []
    if of_name:
        # The same name may stand in a folder that pytest leaves out, as a copy or a template.
        return [each for each in of_name if each.path in search.collected] or of_name
    # The suite of that name may be the one that cannot be read.
    if broken:
        raise broken[0]
    if (here / name).is_dir():
        raise UsageMistake(f"there is no suite.yaml below {name}, and no suite of that name below {here}")
    there = f"suites there: {', '.join(names)}" if names else "no suite.yaml found here: name its folder"
    raise UsageMistake(f"there is no suite {name!r} below {here}; {did_you_mean(name, names) or there}")


def _suites_below(folder: Path) -> list[SuiteFile]:
    suites = ((file, read_suite(file, Path.cwd())) for file in SuiteSearch(folder).collected)
    return [SuiteFile(file, suite) for file, suite in suites if suite is not None]


class EvalPlaces(FrozenValue, frozen=True):
    """Where evals lie: folders of suites, and calibrations and modules with suites outside of these.

    ``others`` are JSON and YAML files that lie outside too; ``options`` of pytest let it look from here.
    """

    places: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()
    options: tuple[str, ...] = ()


def evals_below(folder: Path) -> EvalPlaces:
    """Find what pytest has to collect to find all evals that a bare ``pytest`` in this folder would.

    No other test, and no conftest of other tests, has to be imported then. Nothing is given where there are
    no suites' files, and where pytest cannot read its settings.
    """
    search = SuiteSearch(folder)
    suites = {file.parent for file in search.collected}
    if search.config is None or not suites:
        return EvalPlaces()
    places = [each for each in sorted(suites) if suites.isdisjoint(each.parents)]
    others: list[Path] = []
    modules = search.config.getini("python_files")
    for file in search.files(lambda name: name.endswith((".json", ".yaml", ".yml", ".py"))):
        if not suites.isdisjoint(file.parents):
            continue
        if file.suffix == ".py":
            is_test = any(fnmatch(file.name, pattern) for pattern in modules)
            places += [file] if is_test and _may_hold_suite(file) else []
        elif is_calibration_name(file):
            places.append(file)
        else:
            others.append(file)
    return EvalPlaces(tuple(places), tuple(others), (f"--rootdir={search.config.rootpath}",))


def _may_hold_suite(module: Path) -> bool:
    try:
        text = module.read_bytes()
    except OSError:
        return True  # pytest says why
    return b"pytest_agenteval" in text and b"uite" in text


def one_suite(named: str) -> SuiteFile:
    """Give the suite that is named; raises UsageMistake for a folder with several."""
    suite, *others = suites_meant(named)
    if others:
        names = ", ".join(each.suite.name for each in (suite, *others))
        raise UsageMistake(f"one suite at a time: {named} holds {names}")
    return suite


def places_meant(name: str | None) -> list[Path]:
    """Give the named file, or folder with a suite above or below it; else the files of suites so named."""
    if name:
        path = Path(os.path.normpath(Path.cwd() / name))
        has_suite = path.is_dir() and (find_suite(path, Path.cwd()) or SuiteSearch(path).all)
        if has_suite or path.is_file():
            return [Path(name)]
    return [each.path for each in suites_meant(name)]


def todays_tasks(file: SuiteFile) -> list[SuiteTask]:
    """Read the tasks of a suite; raises ProblemsFound for a file that has a task with problems."""
    loaded = tasks_of_suite(Suites(Path.cwd()), file.path, file.suite)
    return [SuiteTask(each.task.id, each.bucket, each.task.split == "held_out") for each in loaded]
