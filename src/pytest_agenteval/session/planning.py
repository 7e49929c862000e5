"""From a file to planned tasks: loaded, checked against what is registered, and put together with their suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_agenteval.canonical import canonical
from pytest_agenteval.errors import KeyPath, Problem, ProblemsFound, nearest
from pytest_agenteval.records.plan import Allowance, PlannedGrader, PlannedTask
from pytest_agenteval.records.transcript import NOTHING
from pytest_agenteval.registry import Registry, UnknownName
from pytest_agenteval.tasks.discover import find_suite, is_task_path
from pytest_agenteval.tasks.documents import read_document, shown
from pytest_agenteval.tasks.effective import TaskSettings, effective
from pytest_agenteval.tasks.layers import prompt_files, starting_tree
from pytest_agenteval.tasks.load import LoadedTask, load_suite, load_tasks
from pytest_agenteval.tasks.spec import GraderSpec, Suite

DEFAULT_AGENT = "tool_calling"
STEPS, SECONDS = 50, 300.0
"""What a trial may use where neither task nor suite says anything."""


@dataclass(frozen=True, slots=True)
class FoundSuite:
    """A suite and the folder it rules; a file without a suite has an unnamed one of kind ``mixed``."""

    suite: Suite | None
    folder: Path | None


NO_SUITE = FoundSuite(None, None)


class Planner:
    """Turns task files into planned tasks; each suite is read once, each id is taken once for each suite."""

    def __init__(self, registry: Registry, root: Path) -> None:
        self._registry = registry
        self._root = root
        self._suites: dict[Path, FoundSuite | ProblemsFound] = {}
        self._folders: dict[Path, Path | None] = {}
        self._ids: dict[tuple[str, str], tuple[Path, int]] = {}
        self._told: set[Path] = set()
        self._checked: dict[tuple[str, str], list[tuple[KeyPath, str, str, str]]] = {}

    def may_hold_tasks(self, path: Path) -> bool:
        """Whether a file may hold tasks, by its name and the suite above it."""
        suite = self._suite_file(path.parent)
        return is_task_path(path, suite.parent if suite else None)

    def tasks(self, path: Path, *, named: bool) -> tuple[tuple[PlannedTask, TaskSettings], ...]:
        """Plan every task of a file; raises ProblemsFound with all that its author has to mend."""
        found = self._suite_of(path)
        loaded = load_tasks(path, found.suite, found.folder, named=named)
        problems: list[Problem] = []
        planned = [self._planned(each, found, problems) for each in loaded]
        if problems:
            raise ProblemsFound(problems)
        return tuple(each for each in planned if each is not None)

    def pass_threshold(self, task: PlannedTask) -> float:
        """Give the mean score at which the task's suite counts a task as passed."""
        for found in self._suites.values():
            if isinstance(found, FoundSuite) and found.suite is not None and found.suite.name == task.suite:
                return found.suite.task_pass_threshold
        return 1.0

    def _suite_file(self, folder: Path) -> Path | None:
        if folder not in self._folders:
            try:
                self._folders[folder] = find_suite(folder, self._root)
            except ProblemsFound as wrong:
                self._folders[folder] = next(iter(sorted(folder.glob("suite.*"))), None)
                if self._folders[folder] is not None:
                    self._suites[self._folders[folder]] = wrong  # type: ignore[index]  # just seen not to be None
        return self._folders[folder]

    def _suite_of(self, path: Path) -> FoundSuite:
        file = self._suite_file(path.parent)
        if file is None:
            return NO_SUITE
        if file not in self._suites:
            self._suites[file] = self._loaded(file)
        found = self._suites[file]
        if isinstance(found, FoundSuite):
            return found
        if file in self._told:  # all of it was said at the first file below
            raise ProblemsFound([Problem(shown(file), None, (), "a suite without problems", "see above")])
        self._told.add(file)
        raise found

    def _loaded(self, file: Path) -> FoundSuite | ProblemsFound:
        try:
            return FoundSuite(load_suite(file), file.parent)
        except ProblemsFound as wrong:
            return wrong

    def _planned(
        self, loaded: LoadedTask, found: FoundSuite, problems: list[Problem]
    ) -> tuple[PlannedTask, TaskSettings] | None:
        task, suite = loaded.task, found.suite
        said = effective(task, suite)
        name = suite.name if suite else ""
        wrong = self._taken(name, loaded) + self._unknown(loaded, said)
        layers = self._tried(wrong, lambda: starting_tree(task, found.folder, loaded.file, self._root), ())
        prompts = self._tried(wrong, lambda: self._prompts(loaded, found), NOTHING)
        problems += wrong
        if wrong:
            return None
        planned = PlannedTask(
            suite=name,
            id=task.id,
            agent=said.agent or DEFAULT_AGENT,
            kind=suite.kind if suite else "mixed",
            bucket=loaded.bucket,
            graders=tuple(map(_grader, task.graders)),
            input=task.input,
            file=shown(loaded.file),
            line=loaded.line,
            tags=said.tags,
            description=task.description,
            settings=said.settings or NOTHING,
            prompts=prompts,
            layers=tuple(map(str, layers)),
            limits=_allowance(said),
            clock=said.clock,
            reference=_dumped(task.reference_solution),
            script=None if task.script is None else tuple(entry.model_dump() for entry in task.script),
            split=task.split,
            repetitions=said.trials,
            cassette=self._cassette(loaded),
            on_miss=suite.on_miss if suite else "error",
        )
        return planned, said

    def _tried(self, wrong: list[Problem], find: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return find()
        except ProblemsFound as found:
            wrong += found.problems
            return otherwise

    def _taken(self, suite: str, loaded: LoadedTask) -> list[Problem]:
        """Say so when another file of the suite has a task of this id."""
        here = (loaded.file, loaded.line)
        first = self._ids.setdefault((suite, loaded.task.id), here)
        if first == here:
            return []
        found = f"{loaded.task.id!r}, which is also in {shown(first[0])}:{first[1]}"
        return [_problem(loaded, ("id",), "an id that no other task of the suite has", found)]

    def _unknown(self, loaded: LoadedTask, said: TaskSettings) -> list[Problem]:
        """Say which names are not registered and which settings do not fit."""
        wrong = self._agent_problems(loaded, said)
        for index, spec in enumerate(loaded.task.graders):
            for path, expected, found, hint in self._grader_problems(spec):
                wrong.append(_problem(loaded, ("graders", index, *path), expected, found, hint))
        return wrong

    def _agent_problems(self, loaded: LoadedTask, said: TaskSettings) -> list[Problem]:
        try:
            factory: Any = self._registry.agent_factory(said.agent or DEFAULT_AGENT)
        except UnknownName as unknown:
            known = f"one of {', '.join(unknown.known)}"
            return [_problem(loaded, ("agent",), known, repr(unknown.name), unknown.hint)]
        wrong = [
            _problem(loaded, ("settings", *path), expected, found, hint)
            for path, expected, found, hint in _misfits(factory, said.settings)
        ]
        input_problems = getattr(factory, "input_problems", None)
        for path, expected, found in input_problems(loaded.task.input) if input_problems else ():
            wrong.append(_problem(loaded, ("input", *path), expected, found))
        return wrong

    def _grader_problems(self, spec: GraderSpec) -> list[tuple[KeyPath, str, str, str]]:
        key = (spec.name, canonical(spec.config))
        if key not in self._checked:
            if len(self._checked) > 4096:
                self._checked.clear()
            self._checked[key] = self._check_grader(spec)
        return self._checked[key]

    def _check_grader(self, spec: GraderSpec) -> list[tuple[KeyPath, str, str, str]]:
        try:
            factory = self._registry.grader_factory(spec.name)
        except UnknownName as unknown:
            return [(("name",), f"one of {', '.join(unknown.known)}", repr(spec.name), unknown.hint)]
        misfits = _misfits(factory, spec.config)
        if misfits:
            return [(("config", *path), *rest) for path, *rest in misfits]  # type: ignore[misc]  # four parts
        try:
            factory(**spec.config)
        except Exception as refused:  # the grader says what it wants of its settings
            return [(("config",), f"settings that {spec.name} takes", str(refused), "")]
        return []

    def _prompts(self, loaded: LoadedTask, found: FoundSuite) -> Mapping[str, str]:
        if not loaded.task.prompts and not (found.suite and found.suite.prompts):
            return NOTHING
        files = prompt_files(loaded.task, found.suite, found.folder, loaded.file, self._root)
        return {name: path.read_text(encoding="utf-8") for name, path in files.items()}

    def _cassette(self, loaded: LoadedTask) -> str:
        """Give where the task's recordings lie: ``cassettes/`` and the task's path below ``evals/``."""
        file = loaded.file
        below = file.relative_to(self._root) if file.is_relative_to(self._root) else Path(file.name)
        parts = below.parts[1:] if below.parts[0] == "evals" and len(below.parts) > 1 else below.parts
        place = Path(*parts).with_suffix("")
        place = place.parent if place.name == "task" and len(place.parts) > 1 else place
        place = place if loaded.index is None else place / loaded.task.id
        return str(self._root / "cassettes" / place)


def _problem(loaded: LoadedTask, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
    path = path if loaded.index is None else (loaded.index, *path)
    line = read_document(loaded.file).line_of(path)
    return Problem(shown(loaded.file), line, path, expected, found, hint)


def _grader(spec: GraderSpec) -> PlannedGrader:
    return PlannedGrader(
        spec.name, spec.label or spec.name, spec.config or NOTHING, spec.weight, spec.threshold, spec.require
    )


def _allowance(said: TaskSettings) -> Allowance:
    limits = said.limits
    return Allowance(limits.steps or STEPS, limits.seconds or SECONDS, limits.tokens, limits.cost_usd)


def _dumped(reference: Any) -> Mapping[str, Any] | None:
    return None if reference is None else reference.model_dump()


def _misfits(factory: Any, config: Mapping[str, Any]) -> list[tuple[KeyPath, str, str, str]]:
    """Say which settings a class has not, lacks, or has with another type; a plain function is not looked into."""
    if not is_dataclass(factory) or not isinstance(factory, type):
        return []
    wanted = {field.name: field for field in fields(factory) if field.init}
    wrong: list[tuple[KeyPath, str, str, str]] = []
    known = f"one of {', '.join(wanted)}" if wanted else "nothing"
    for key in config:
        if key not in wanted:
            wrong.append(((key,), known, f"unknown key {key!r}", nearest(key, wanted)))
    if wrong:
        return wrong
    return _mistyped(factory, config)


def _mistyped(factory: type, config: Mapping[str, Any]) -> list[tuple[KeyPath, str, str, str]]:
    from pydantic import ValidationError

    from pytest_agenteval.tasks.explain import in_words

    try:
        _adapter(factory).validate_python(dict(config))
    except ValidationError as error:
        return [
            (
                tuple(each["loc"]),
                each["msg"].removeprefix("Value error, ").lower(),
                "nothing" if each["type"].startswith("missing") else in_words(each["input"]),
                "",
            )
            for each in error.errors()
        ]
    return []


@cache
def _adapter(factory: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(factory)
