"""Planning the tasks of a file: loaded, checked, and put together with what their suite says."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from pytest_agenteval.agents.agent import prepares_input, tools_of
from pytest_agenteval.graders.grader import agent_of
from pytest_agenteval.processes.files import name_or_older, name_trouble, same_file_key
from pytest_agenteval.records.plan import Allowance, Label, PlannedGrader, PlannedTask, Variant
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.registry.lazy_names import NotImported, UnknownName
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.prompt_variants import find_unread_prompts, prompts_of_all
from pytest_agenteval.session.planning.registration_check import (
    MOST_REMEMBERED,
    RegistrationCheck,
    add_placement_hints,
)
from pytest_agenteval.session.planning.setting_problems import ConfigProblem
from pytest_agenteval.session.planning.suite_tools import ToolSources
from pytest_agenteval.session.planning.suites import LoadedSuite, PromotedNames, Suites, recordings_of
from pytest_agenteval.tasks.agent_specs import AgentForm
from pytest_agenteval.tasks.documents import path_in_root, read_bytes, read_document, short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES, folder_of, holds_baseline, is_task_name
from pytest_agenteval.tasks.load import DoubtfulFile, LoadedTask, load_tasks
from pytest_agenteval.tasks.referenced_files import grader_files, prompt_files, workspace_layers
from pytest_agenteval.tasks.suite_spec import NOTHING_ACTS, Suite
from pytest_agenteval.tasks.task_settings import TaskSettings, resolve_settings
from pytest_agenteval.tasks.task_spec import GraderSpec, Task
from pytest_agenteval.text.canonical import canonical
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound
from pytest_agenteval.text.formatting import pluralize

if TYPE_CHECKING:
    from pytest_agenteval.tools.mcp_tools import SchemaSource


KEY = "label"
LABELS: dict[str, Label] = {"positive": "positive", "negative": "negative"}


def label_of(task: Task, suite: Suite | None) -> Label:
    """Give the task's label; none where it has none, or its suite does not say what acting is."""
    return LABELS.get(task.metadata.get(KEY, ""), "") if _says_acting(suite) else ""


def label_problems(task: Task, suite: Suite | None) -> Sequence[ConfigProblem]:
    """Say which label is none: a misspelt one would be left out of every figure in silence."""
    label = task.metadata.get(KEY)
    if label is None or label in LABELS or not _says_acting(suite):
        return ()
    return [ConfigProblem(("metadata", KEY), " or ".join(LABELS), repr(label))]


def _says_acting(suite: Suite | None) -> bool:
    return suite is not None and suite.acts != NOTHING_ACTS


class SuiteAgentForms:
    """Works each suite's form out once, so that all its tasks share one value."""

    def __init__(self) -> None:
        self._forms: dict[str, Mapping[str, Any]] = {}

    def of(self, suite: Suite, folder: Path, root: Path) -> Mapping[str, Any]:
        """Give what a suite's form says, with what its agent needs of the suite.

        ``paths`` are where modules of ``call`` may lie, ``folder`` where a command's own files do.
        """
        form = suite.agent
        if not isinstance(form, AgentForm):
            return NOTHING
        if suite.name not in self._forms:
            self._forms[suite.name] = {**_written_keys(form), **_form_places(form, suite, folder, root)}
        return self._forms[suite.name]


def _written_keys(form: AgentForm) -> Mapping[str, Any]:
    """Give the keys that differ from their default, and `as` by that name."""
    default = AgentForm().to_json()
    return {key: value for key, value in form.to_json().items() if value != default[key]}


def _form_places(form: AgentForm, suite: Suite, folder: Path, root: Path) -> Mapping[str, Any]:
    if form.call:
        # The suite's own folder only where the module lies there: else the same agent in two suites is one.
        module = form.call.partition(":")[0].partition(".")[0]
        beside = any((folder / name).exists() for name in (module, f"{module}.py"))
        places = {"paths": [str(root), *([str(folder)] if beside and folder != root else [])]}
        return places | _idle_variables(suite)
    if not form.command:
        return _idle_variables(suite)
    return {"folder": str(folder), **_command_variables(suite), "ignored_hosts": list(suite.http.ignore)}


def _command_variables(suite: Suite) -> dict[str, Any]:
    """Give what a suite says of the environment of a command."""
    return {"env": dict(suite.env), "env_pass": list(suite.env_pass), "proxy": dict(suite.proxy)}


def _idle_variables(suite: Suite) -> dict[str, Any]:
    """Give what of it an agent that is no command leaves unused, which is a problem of its form."""
    return {key: value for key, value in _command_variables(suite).items() if value}


OUTCOME = "expected_outcome"

Graders: TypeAlias = tuple[PlannedGrader, ...]
GradersKey: TypeAlias = tuple[str, tuple[str, ...], bytes]
"""Agent, tools of the suite, and what the task says of its graders: what their checks and plans hang on."""


def graders_key(task: Task, agent: str, tools: tuple[str, ...]) -> GradersKey:
    """Give what a task asks for; of what a file can hold only what is the same has the same bytes."""
    return agent, tools, msgspec.json.encode((task.graders, _outcome_of(task)))


class GraderPlanning:
    """Plans graders: equal ones are one object for all tasks, and so have one digest."""

    def __init__(self, registry: Registry, checker: RegistrationCheck) -> None:
        self._registry, self._checker = registry, checker
        self._equal_graders: dict[tuple[Hashable, ...], Graders] = {}
        self._by_key: dict[GradersKey, Graders] = {}

    def cached(self, key: GradersKey) -> Graders | None:
        """Give the graders that an earlier task was given for this, if there was one and they were right."""
        return self._by_key.get(key)

    def cache(self, key: GradersKey, task: Task, graders: Graders) -> None:
        """Take a task's graders, with which nothing is wrong, for every later task that asks for the same."""
        # A conftest further down may register a tool, of whose name one that is named here is a misspelling.
        if any(map(self._checker.tool_names, task.graders)):
            return
        if len(self._by_key) > MOST_REMEMBERED:
            self._by_key.clear()
        self._by_key[key] = graders

    def plan(self, task: Task) -> Graders:
        """Give a task's graders; all of them are registered."""
        graders = tuple(grader for spec in task.graders for grader in self._members(spec, task))
        if len(self._equal_graders) > MOST_REMEMBERED:
            self._equal_graders.clear()
        return self._equal_graders.setdefault(tuple(map(_grader_key, graders)), graders)

    def _members(self, spec: GraderSpec, task: Task) -> Iterator[PlannedGrader]:
        """Give the grader that is asked for, or each one of the group."""
        members = self._registry.group(spec.name)
        for name, label in members:
            label_in_group = f"{spec.label}: {label}" if spec.label else label
            yield self._with_outcome(replace(_grader(spec), name=name, label=label_in_group), task)
        if not members:
            yield self._with_outcome(_grader(spec), task)

    def _with_outcome(self, planned: PlannedGrader, task: Task) -> PlannedGrader:
        """Tell a grader that has such a setting what the task says will be true afterwards."""
        outcome = _outcome_of(task)
        if not outcome or OUTCOME in planned.config or not self._checker.takes(planned.name, OUTCOME):
            return planned
        return replace(planned, config={**planned.config, OUTCOME: outcome})


def _outcome_of(task: Task) -> object:
    return task.reference_solution.expected_outcome if task.reference_solution else None


def _grader(spec: GraderSpec) -> PlannedGrader:
    return PlannedGrader(
        spec.name, spec.label or spec.name, spec.config or NOTHING, spec.weight, spec.threshold, spec.require
    )


def _grader_key(grader: PlannedGrader) -> Hashable:
    # The text of a configuration: True is not 1 there.
    config = canonical(grader.config) if grader.config else ""
    return grader.name, grader.label, config, grader.weight, grader.threshold, grader.required


STEPS, SECONDS = 50, 300.0
"""What a trial may use where neither task nor suite says anything."""


def inline_file_settings(
    loaded: LoadedTask, checker: RegistrationCheck, suite_dir: Path | None, root: Path
) -> LoadedTask:
    """Put the texts of files in the place of their names; raises ProblemsFound where one cannot be read."""
    texts: dict[int, Mapping[str, str]] = {}
    for index, spec in enumerate(loaded.task.graders):
        endings = checker.files_of(spec.name) if spec.config else None
        if endings:
            files = grader_files(loaded.task, index, endings, suite_dir, loaded.file, root)
            texts[index] = {key: text_of(path) for key, path in files.items()}
    if not any(texts.values()):
        return loaded
    graders = tuple(
        replace(spec, config={**spec.config, **texts.get(index, {})})
        for index, spec in enumerate(loaded.task.graders)
    )
    return replace(loaded, task=replace(loaded.task, graders=graders))


def text_of(path: Path) -> str:
    """Read a file that has to be text in UTF-8."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as broken:
        found = f"the byte 0x{broken.object[broken.start]:02x}"
        raise ProblemsFound([Problem(short_path(path), None, (), "a text in UTF-8", found)]) from None


Prepare = Callable[
    [Mapping[str, Any], str, str | None, Callable[[str], str | None]],
    tuple[Mapping[str, Any], Mapping[str, str]],
]


def complete_input(
    registry: Registry,
    agent: str,
    graders: Sequence[PlannedGrader],
    task: Task,
    clock: str | None,
    layers: Sequence[str],
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Give a task's whole input, and what is written into its starting workspace.

    The agent's class has the say; of an agent that has none, that agent for whose work the graders are made.
    """
    prepare = _preparer(registry, agent, graders)
    if prepare is None:
        return task.input, NOTHING
    return prepare(task.input, task.id, clock, partial(_read, layers))


def _preparer(registry: Registry, agent: str, graders: Sequence[PlannedGrader]) -> Prepare | None:
    agent_factory = registry.agent_factory(agent)
    if prepares_input(agent_factory):
        return agent_factory.prepared
    for grader in graders:
        name = agent_of(registry.grader_factory(grader.name))
        if name:
            graded_agent_factory = registry.agent_factory(name)
            return graded_agent_factory.prepared if prepares_input(graded_agent_factory) else None
    return None


def _read(layers: Sequence[str], path: str) -> str | None:
    """Read a file of the starting workspace: the highest layer that has it."""
    for layer in reversed(layers):
        try:
            return Path(layer, path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return None


def allowance_of(settings: TaskSettings) -> Allowance:
    """Give what each trial of a task may use; equal ones are one object, for most tasks have the same."""
    limits = settings.limits
    return _shared_allowance(limits.steps or STEPS, limits.seconds or SECONDS, limits.tokens, limits.cost_usd)


@cache
def _shared_allowance(steps: int, seconds: float, tokens: int | None, cost_usd: float | None) -> Allowance:
    return Allowance(steps, seconds, tokens, cost_usd)


T = TypeVar("T")

DEFAULT_AGENT = "tool_calling"
UNREADABLE = Suite(name="unreadable")
"""In the place of a suite that cannot be read: it asks nothing of its tasks."""
_FIXTURES = frozenset({"base_fixture", "fixture_dir"})
OF_SUITES = ("env", "env_pass", "proxy")
"""Keys that only a suite has."""
NO_PROMPTS: Mapping[str, str] = NOTHING


class _TaskSource(FrozenValue, frozen=True):
    """What the tasks of one file have in common."""

    file: Path
    short_path: str
    file_in_root: str
    own_folder: bool
    cassette: str


class _Resolved(NamedTuple):
    """What stands behind the names in a task: its graders, starting trees and prompts."""

    graders: Graders
    layers: tuple[str, ...]
    prompts: Mapping[str, str]


class Planner:
    """Turns task files into planned tasks; each suite is read once, each id is taken once for each suite."""

    def __init__(
        self,
        registry: Registry,
        root: Path,
        schemas: Callable[[Path], SchemaSource] | None = None,
        variants: Sequence[Variant] = (),
    ) -> None:
        self._registry = registry
        self._names_in_variants = prompts_of_all(variants)
        self._checker = RegistrationCheck(registry)
        self._graders = GraderPlanning(registry, self._checker)
        self._root = root
        sources = ToolSources(
            lambda: registry.toolsets, lambda: registry.broken_benchmarks, lambda: registry.tool_claimants
        )
        self.suites = Suites(root, sources if schemas is None else replace(sources, schemas=schemas))
        self.promoted = PromotedNames(self.suites)
        self._ids: dict[tuple[str, str], tuple[str, Path, int]] = {}
        self._reported: set[tuple[str, KeyPath]] = set()
        self._not_tasks: list[Path] = []
        self.met: dict[str, dict[str, tuple[str, str]]] = {}  # bucket and split of each suite's tasks
        self._places: dict[tuple[str, str], tuple[str, str]] = {}  # what thousands of tasks share of it
        self._folders: dict[Path, bool] = {}  # of tasks; whether one of them is called task.*
        self._started_from: set[str] = set()
        self._last: _TaskSource | None = None
        self._prompts: dict[tuple[tuple[str, Path], ...], Mapping[str, str]] = {}
        self._forms = SuiteAgentForms()
        self._without_agent: dict[tuple[str, str], list[str]] = {}  # places, by wanted agent and a grader

    def tasks(self, path: Path, *, named: bool) -> tuple[tuple[PlannedTask, TaskSettings], ...]:
        """Plan every task of a file; raises ProblemsFound with all that its author has to mend.

        What is wrong with a suite is said at the first file below it; no file gives a task then, but what is
        wrong with each, whatever its suite says, is told.
        """
        loaded_suite = self.suites.of(path)
        if isinstance(loaded_suite, ProblemsFound):
            wrong = add_placement_hints(loaded_suite.problems, self._checker, DEFAULT_AGENT)
            self._raise((*wrong, *self._without_suite(path, named)))
            return ()
        if not named and path in loaded_suite.names:
            return ()
        loaded = self._load(path, loaded_suite, named)
        if not loaded and loaded_suite.suite is not None and not holds_baseline(path):
            self._not_tasks.append(path)
        if loaded:
            self.promoted.meet(loaded_suite, loaded)
            folder = folder_of(path)
            self._folders[folder] = is_task_name(path) or self._folders.get(folder, False)
        return self.plan(loaded, loaded_suite)

    def plan(
        self, loaded: Sequence[LoadedTask], loaded_suite: LoadedSuite
    ) -> tuple[tuple[PlannedTask, TaskSettings], ...]:
        """Plan tasks of a suite that were read already; raises ProblemsFound."""
        problems: list[Problem] = []
        planned = [self._plan(task, loaded_suite, problems) for task in loaded]
        self._raise(problems)
        tasks = tuple(task for task in planned if task is not None)
        for task, _ in tasks:
            place = task.bucket, task.split
            self.met.setdefault(task.suite, {})[task.id] = self._places.setdefault(place, place)
        return tasks

    def not_tasks(self) -> list[Path]:
        """Give the files below suites that were met and are no tasks, and that nobody names."""
        return [path for path in self._not_tasks if not self.suites.is_named(path)]

    def unused_workspaces(self) -> list[Path]:
        """Give each folder ``workspace/`` beside tasks from which none of them starts."""
        beside = [folder / "workspace" for folder, own in self._folders.items() if not own]
        return [path for path in beside if str(path) not in self._started_from and path.is_dir()]

    def missing_agents(self) -> list[str]:
        """Say where graders look at the work of an agent that neither the task nor its suite names."""
        return [
            f"{places[0]}: {grader} grades what agent {agent} does; no agent is named, "
            f"so {DEFAULT_AGENT} acts: write 'agent: {agent}' into the task, or into a suite.yaml above it"
            + (f" (the same in {pluralize(len(places) - 1, 'more task')})" if len(places) > 1 else "")
            for (agent, grader), places in self._without_agent.items()
        ]

    def _note_missing_agent(self, loaded: LoadedTask, graders: Graders) -> None:
        wanted = ((agent_of(self._registry.grader_factory(grader.name)), grader.name) for grader in graders)
        agent, name = next(((agent, name) for agent, name in wanted if agent), ("", ""))
        if agent:
            place = f"{short_path(loaded.file)}:{loaded.line}"
            self._without_agent.setdefault((agent, name), []).append(place)

    def _without_suite(self, path: Path, named: bool) -> Sequence[Problem]:
        """Give what is wrong with a file of a suite that cannot be read, whatever that says."""
        if path.name in SUITE_NAMES:
            return ()
        try:
            load_tasks(path, UNREADABLE, self._root, named=named)
        except DoubtfulFile as doubtful:  # the suite may name it as data, but for a file of nothing
            told = named or is_task_name(path) or not read_bytes(path).strip()
            return doubtful.problems if told else ()
        except ProblemsFound as wrong:
            return wrong.problems
        return ()

    def _load(self, path: Path, loaded_suite: LoadedSuite, named: bool) -> tuple[LoadedTask, ...]:
        try:
            top = loaded_suite.folder or self._root
            return load_tasks(path, loaded_suite.suite, top, named=named, alone=loaded_suite.suite is None)
        except DoubtfulFile:
            if named or is_task_name(path) or not self.suites.is_named(path):
                raise
            return ()
        except ProblemsFound as wrong:
            agent = (loaded_suite.suite.agent_name if loaded_suite.suite else None) or DEFAULT_AGENT
            raise ProblemsFound(add_placement_hints(wrong.problems, self._checker, agent)) from None

    def _raise(self, problems: Sequence[Problem]) -> None:
        """Raise the problems of a file, its suite or its tools that were not said before."""
        if not problems:
            return
        fresh = [problem for problem in problems if (problem.file, problem.path) not in self._reported]
        self._reported.update((problem.file, problem.path) for problem in fresh)
        if fresh:
            raise ProblemsFound(dict.fromkeys(fresh))

    def _plan(
        self, loaded: LoadedTask, loaded_suite: LoadedSuite, problems: list[Problem]
    ) -> tuple[PlannedTask, TaskSettings] | None:
        task, suite = loaded.task, loaded_suite.suite
        settings = resolve_settings(task, suite)
        agent = settings.agent or DEFAULT_AGENT
        key = graders_key(task, agent, loaded_suite.resources.names)
        graders = self._graders.cached(key)
        unread: list[Problem] = []
        if graders is None:
            loaded = self._with_problems(unread, self._with_file_texts, loaded, loaded_suite, loaded)
        wrong = [*unread, *self._id_conflict(suite.name if suite else "", loaded)]
        wrong += self._problems_of(label_problems(task, suite), loaded, loaded_suite)
        unfit = list(self._form_problems(loaded, settings, loaded_suite))
        wrong += unfit
        if not unread:
            wrong += () if unfit else self._agent_problems(loaded, settings, loaded_suite)
            wrong += self._grader_problems(loaded, agent, loaded_suite) if graders is None else ()
        layers: tuple[str, ...] = self._with_problems(wrong, self._layers_of, loaded, loaded_suite, ())
        prompts: Mapping[str, str] = self._with_problems(
            wrong, self._prompts_of, loaded, loaded_suite, NOTHING
        )
        if prompts and not wrong:
            mismatches = find_unread_prompts(self._registry.agent_factory(agent), prompts)
            wrong += self._problems_of(mismatches, loaded, loaded_suite)
        problems += wrong
        if wrong:
            return None
        if graders is None:
            graders = self._graders.plan(loaded.task)
            if loaded.task is task:  # texts of files, which lie elsewhere for other tasks, are not in them
                self._graders.cache(key, task, graders)
        if settings.agent is None:
            self._note_missing_agent(loaded, graders)
        resolved = _Resolved(graders, layers, prompts)
        return self._planned_task(loaded, loaded_suite, settings, resolved), settings

    def _planned_task(
        self, loaded: LoadedTask, loaded_suite: LoadedSuite, settings: TaskSettings, resolved: _Resolved
    ) -> PlannedTask:
        task, suite, resources = loaded.task, loaded_suite.suite, loaded_suite.resources
        reference = task.reference_solution
        agent, graders, layers = settings.agent or DEFAULT_AGENT, resolved.graders, resolved.layers
        task_input, texts = complete_input(self._registry, agent, graders, task, settings.clock, layers)
        source = self._source_of(loaded.file)
        return PlannedTask(
            suite=suite.name if suite else "",
            id=task.id,
            agent=agent,
            kind=suite.kind_of(task.id, loaded.bucket) if suite else "mixed",
            bucket=loaded.bucket,
            graders=graders,
            input=task_input,
            file=source.short_path,
            line=loaded.line,
            row_file=self._row_file(loaded),
            file_in_root=source.file_in_root,
            tags=settings.tags,
            description=task.description,
            settings=settings.settings or NOTHING,
            prompts=resolved.prompts,
            layers=layers,
            texts=texts,
            limits=allowance_of(settings),
            clock=settings.clock,
            reference=None if reference is None else reference.to_json(),
            script=None if task.script is None else tuple([entry.to_json() for entry in task.script]),
            split=task.split,
            user=NOTHING if task.user is None else task.user.to_json(),
            repetitions=settings.trials,
            cassette=self._cassette(loaded),
            shared=resources.shared,
            tools=resources.tools,
            faults=tuple([fault.to_json() for fault in task.faults]),
            on_miss=suite.on_miss if suite else "error",
            live=suite.live if suite else False,
            label=label_of(task, suite),
            acting_files=suite.acts.files if suite else (),
            acting_tools=suite.acts.tools if suite else (),
            form=self._forms.of(suite, loaded_suite.folder or self._root, self._root)
            if suite and settings.form
            else self._registry.agent_form_of(agent),
            proxy=suite.proxy if suite else NOTHING,
            model_hosts=suite.http.models if suite else (),
            ignored_hosts=suite.http.ignore if suite else (),
        )

    def _with_problems(
        self,
        wrong: list[Problem],
        find: Callable[[LoadedTask, LoadedSuite], T],
        loaded: LoadedTask,
        loaded_suite: LoadedSuite,
        otherwise: T,
    ) -> T:
        try:
            return find(loaded, loaded_suite)
        except ProblemsFound as raised:
            wrong += map(loaded.at_place, raised.problems)
            return otherwise

    def _with_file_texts(self, loaded: LoadedTask, loaded_suite: LoadedSuite) -> LoadedTask:
        return inline_file_settings(loaded, self._checker, loaded_suite.folder, self._root)

    def _layers_of(self, loaded: LoadedTask, loaded_suite: LoadedSuite) -> tuple[str, ...]:
        if not self._source_of(loaded.file).own_folder and _FIXTURES.isdisjoint(loaded.task.input):
            return ()  # nothing is named, and nothing can lie beside it
        layers = tuple(map(str, workspace_layers(loaded.task, loaded_suite.folder, loaded.file, self._root)))
        self._started_from.update(layers)
        return layers

    def _id_conflict(self, suite: str, loaded: LoadedTask) -> list[Problem]:
        """Say so where an id names no file on some system, or another task of the suite has it there."""
        here = ((loaded.place and loaded.place.file) or loaded.file, loaded.line)
        id = loaded.task.id
        if trouble := name_trouble(id):
            return [loaded.problem(("id",), "an id that files of any system may have", f"{id!r}, {trouble}")]
        first, file, line = self._ids.setdefault((suite, same_file_key(id)), (id, *here))
        if (file, line) == here:
            return []
        also = "is also" if first == id else f"some systems take for {first!r}"
        found = f"{id!r}, which {also} in {short_path(file)}:{line}"
        return [loaded.problem(("id",), "an id that no other task of the suite has", found)]

    def _agent_problems(
        self, loaded: LoadedTask, settings: TaskSettings, loaded_suite: LoadedSuite
    ) -> Iterator[Problem]:
        """Say what is wrong with agent, settings, input and faults."""
        agent, task = settings.agent or DEFAULT_AGENT, loaded.task
        prompts = (*settings.prompts, *self._names_in_variants)
        mismatches = self._checker.agent(
            agent, settings.settings, task.input, loaded_suite.resources.names, prompts
        )
        if task.faults:
            offered = settings.settings.get("tools", self._offered_tools(settings, loaded_suite))
            mismatches += _idle_faults(task, offered)
        return self._problems_of(mismatches, loaded, loaded_suite)

    def _form_problems(
        self, loaded: LoadedTask, settings: TaskSettings, loaded_suite: LoadedSuite
    ) -> Iterator[Problem]:
        """Offer the agent that a suite says by a form, and say what is wrong with it."""
        if settings.form is None or loaded_suite.suite is None or settings.agent is None:
            return iter(())
        suite, folder = loaded_suite.suite, loaded_suite.folder or self._root
        mismatches = self._checker.form(settings.agent, self._forms.of(suite, folder, self._root))
        return self._problems_of(mismatches, loaded, loaded_suite)

    def _grader_problems(
        self, loaded: LoadedTask, agent: str, loaded_suite: LoadedSuite
    ) -> Iterator[Problem]:
        """Say which graders cannot be made, or name tools that nobody offers."""
        for index, spec in enumerate(loaded.task.graders):
            wrong = self._checker.grader(spec) or self._checker.misnamed_tools(
                spec, agent, loaded_suite.resources.names
            )
            below = [mismatch.below("graders", index) for mismatch in wrong]
            yield from self._problems_of(below, loaded, loaded_suite)

    def _problems_of(
        self, mismatches: Sequence[ConfigProblem], loaded: LoadedTask, loaded_suite: LoadedSuite
    ) -> Iterator[Problem]:
        """Say where each stands: in the task's file, or in the suite's."""
        for path, *rest in mismatches:
            above = _key_in_suite(path, loaded.task, loaded_suite.suite)
            file = self.suites.file_of(loaded.file.parent) if above and not loaded_suite.in_code else None
            if above and file:
                yield Problem(short_path(file), read_document(file).line_of(above), above, *rest)
            else:
                yield loaded.problem(path, *rest)

    def _offered_tools(self, settings: TaskSettings, loaded_suite: LoadedSuite) -> Sequence[str]:
        """Give the tools that are offered where no settings name any, as far as the suite alone decides."""
        if not loaded_suite.resources.names:
            return ()
        try:
            agent = self._registry.agent_factory(settings.agent or DEFAULT_AGENT)
        except (UnknownName, NotImported):  # which is told
            return ()
        return loaded_suite.resources.names if tools_of(agent) is not None else ()

    def _prompts_of(self, loaded: LoadedTask, loaded_suite: LoadedSuite) -> Mapping[str, str]:
        if not loaded.task.prompts and not (loaded_suite.suite and loaded_suite.suite.prompts):
            return NO_PROMPTS
        files = prompt_files(loaded.task, loaded_suite.suite, loaded_suite.folder, loaded.file, self._root)
        key = tuple(files.items())
        if key not in self._prompts:
            self._prompts[key] = {name: text_of(path) for name, path in key}
        return self._prompts[key]

    def _cassette(self, loaded: LoadedTask) -> str:
        """Give where the task's recordings lie: ``cassettes/`` and the task's path below ``evals/``."""
        base = self._source_of(loaded.file).cassette
        return base if loaded.index is None else name_or_older(base, loaded.task.id, ".yaml", ".chat")

    def _row_file(self, loaded: LoadedTask) -> str:
        file = loaded.place.file if loaded.place else None
        return path_in_root(file, self._root) if file is not None and file != loaded.file else ""

    def _source_of(self, file: Path) -> _TaskSource:
        """Give what all tasks of a file have of it, worked out once."""
        if self._last is None or self._last.file is not file:
            names = short_path(file), path_in_root(file, self._root)
            self._last = _TaskSource(file, *names, is_task_name(file), recordings_of(file, self._root))
        return self._last


def _idle_faults(task: Task, offered: Sequence[str] | None) -> list[ConfigProblem]:
    """Say which faults would never strike, because their tool is not offered."""
    if not offered:
        return []
    return [
        ConfigProblem(("faults", index, "tool"), f"one of {', '.join(offered)}", repr(fault.tool))
        for index, fault in enumerate(task.faults)
        if fault.tool not in offered
    ]


def _key_in_suite(path: KeyPath, task: Task, suite: Suite | None) -> KeyPath | None:
    """Give the key of the suite's file that a value comes from; None where the task says it itself."""
    if suite is None:
        return None
    if path[0] == "agent":
        return path if task.agent is None else None
    if path[0] in OF_SUITES:
        return path
    if path[0] == "prompts":
        return path if path[1] not in task.prompts else None
    if path[0] != "settings" or len(path) < 2 or path[1] in task.settings:
        return None
    if path[1] in suite.defaults.settings:
        return ("defaults", *path)
    return path if path[1] in suite.settings else None
