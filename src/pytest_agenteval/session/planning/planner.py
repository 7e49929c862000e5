"""Planning the tasks of a file: loaded, checked, and put together with what their suite says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from pytest_agenteval.agents.agent import agent_trait
from pytest_agenteval.graders.grader import agent_of
from pytest_agenteval.processes.files import name_or_older, same_file_key, unportable_name_reason
from pytest_agenteval.records.plan import Allowance, Label, PlannedGrader, PlannedTask, Variant
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.registry.lazy_names import NotImported, UnknownName
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.parametrization import prompts_of_all
from pytest_agenteval.session.planning.registration_check import (
    ConfigProblem,
    RegistrationCheck,
    add_placement_hints,
    find_unread_prompts,
)
from pytest_agenteval.session.planning.suite_tools import ToolSources, replays_below
from pytest_agenteval.session.planning.suites import LoadedSuite, Suites, recordings_of
from pytest_agenteval.tasks.documents import path_in_root, read_bytes, read_document, short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES, folder_of, holds_baseline, is_task_name
from pytest_agenteval.tasks.load import DoubtfulFile, LoadedTask, load_own_tasks, load_tasks
from pytest_agenteval.tasks.referenced_files import grader_files, prompt_files, workspace_layers
from pytest_agenteval.tasks.suite_spec import NOTHING_ACTS, Suite, TaskSettings, resolve_settings
from pytest_agenteval.tasks.task_spec import AgentForm, Task
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound
from pytest_agenteval.text.formatting import pluralize

if TYPE_CHECKING:
    from pytest_agenteval.tools.mcp_tools import SchemaSource


DEFAULT_AGENT = "tool_calling"
STEPS, SECONDS = 50, 300.0  # what a trial may use where neither task nor suite sets a limit
OUTCOME = "expected_outcome"
_NAMES_LAYERS = frozenset({"base_fixture", "fixture_dir"})  # keys of an input
LABELS: dict[str, Label] = {"positive": "positive", "negative": "negative"}
MOST_GRADERS = 4096  # how many tasks' different graders are remembered: most tasks of a suite have equal ones

Graders: TypeAlias = tuple[PlannedGrader, ...]
PlannedTasks: TypeAlias = tuple[tuple[PlannedTask, TaskSettings], ...]


class _TaskInSuite(NamedTuple):
    """A task that is being planned, with its suite and what both of them set."""

    loaded: LoadedTask
    loaded_suite: LoadedSuite
    settings: TaskSettings
    agent: str

    @property
    def task(self) -> Task:
        return self.loaded.task

    @property
    def suite(self) -> Suite | None:
        return self.loaded_suite.suite


class Planner:
    """Turns task files into planned tasks; each suite is read once, each id is taken once for each suite.

    ``met`` holds the bucket and split of each suite's tasks that were planned.
    """

    def __init__(
        self,
        registry: Registry,
        root: Path,
        schemas: Callable[[Path], SchemaSource] = replays_below,
        variants: Sequence[Variant] = (),
    ) -> None:
        self._registry, self._root = registry, root
        self._names_in_variants = prompts_of_all(variants)
        self._checker = RegistrationCheck(registry)
        self.suites = Suites(root, ToolSources(registry, schemas))
        self.met: dict[str, dict[str, tuple[str, str]]] = {}
        self._ids: dict[tuple[str, str], tuple[str, Path, int]] = {}
        self._reported: set[tuple[str, KeyPath]] = set()
        self._not_tasks: list[Path] = []
        self._folders: dict[Path, bool] = {}  # of tasks; whether one of them is called task.*
        self._started_from: set[str] = set()
        # Graders by everything that they depend on.
        self._graders: dict[tuple[object, ...], Graders] = {}
        self._prompts: dict[tuple[tuple[str, Path], ...], Mapping[str, str]] = {}
        self._forms: dict[str, Mapping[str, Any]] = {}
        self._without_agent: dict[tuple[str, str], list[str]] = {}  # places, by wanted agent and a grader

    def tasks(self, path: Path, *, named: bool) -> PlannedTasks:
        """Plan every task of a file; raises ProblemsFound with all that its author has to mend."""
        # A broken suite is reported at the first file below it, and none of its files gives a task. Problems
        # that a file has whatever its suite says are reported too.
        loaded_suite = self.suites.suite_of(path)
        if isinstance(loaded_suite, ProblemsFound):
            wrong = add_placement_hints(loaded_suite.problems, self._checker, DEFAULT_AGENT)
            self._raise((*wrong, *self._without_suite(path, named)))
            return ()
        if not named and path in loaded_suite.names:
            return ()
        loaded = self._load(path, loaded_suite, named)
        if loaded:
            folder = folder_of(path)
            self._folders[folder] = is_task_name(path) or self._folders.get(folder, False)
        elif loaded_suite.suite is not None and not holds_baseline(path):
            self._not_tasks.append(path)
        return self.plan(loaded, loaded_suite)

    def plan(self, loaded: Sequence[LoadedTask], loaded_suite: LoadedSuite) -> PlannedTasks:
        """Plan tasks of a suite that were read already; raises ProblemsFound."""
        problems: list[Problem] = []
        # A conftest further down may have registered more tools, beside which a name that graders look for
        # proves to be misspelt.
        tools = (loaded_suite.resources.names, len(self._registry.tool_claimants)) if loaded else ()
        planned = [self._plan(task, loaded_suite, tools, problems) for task in loaded]
        self._raise(problems)
        tasks = tuple(task for task in planned if task is not None)
        for task, _ in tasks:
            self.met.setdefault(task.suite, {})[task.id] = task.bucket, task.split
        return tasks

    def unknown_promoted(self, collected: Iterable[Path] | None = None) -> list[Problem]:
        """Give the promoted or gated names that no task of their suite has.

        With ``collected``, only suites below these paths are looked at.
        """
        return self.suites.unknown_promoted(self.met, collected)

    def not_tasks(self) -> list[Path]:
        """Give the files below suites that hold no task and that no suite or task names."""
        return [path for path in self._not_tasks if not self.suites.is_named(path)]

    def unused_workspaces(self) -> list[Path]:
        """Give each folder ``workspace/`` beside tasks from which none of them starts."""
        beside = [folder / "workspace" for folder, own in self._folders.items() if not own]
        return [path for path in beside if str(path) not in self._started_from and path.is_dir()]

    def missing_agents(self) -> list[str]:
        """Name the places where graders look at the work of an agent that neither task nor suite names."""
        return [
            f"{places[0]}: {grader} grades what agent {agent} does; no agent is named, "
            f"so {DEFAULT_AGENT} acts: write 'agent: {agent}' into the task, or into a suite.yaml above it"
            + (f" (the same in {pluralize(len(places) - 1, 'more task')})" if len(places) > 1 else "")
            for (agent, grader), places in self._without_agent.items()
        ]

    def _without_suite(self, path: Path, named: bool) -> Sequence[Problem]:
        """Give the problems of a file below an unreadable suite that it has whatever that suite says."""
        # A stand-in for the suite, which requires nothing of its tasks.
        suite = Suite(name="unreadable")
        try:
            if path.name in SUITE_NAMES:
                load_own_tasks(read_document(path), suite)
            else:
                load_tasks(path, suite, self._root, named=named)
        except ProblemsFound as wrong:
            # The suite may name a doubtful file as data; an empty file is no data.
            is_meant = named or is_task_name(path) or not read_bytes(path).strip()
            return wrong.problems if is_meant or not isinstance(wrong, DoubtfulFile) else ()
        return ()

    def _load(self, path: Path, loaded_suite: LoadedSuite, named: bool) -> tuple[LoadedTask, ...]:
        suite = loaded_suite.suite
        try:
            return load_tasks(
                path, suite, loaded_suite.folder or self._root, named=named, alone=suite is None
            )
        except DoubtfulFile:
            if named or is_task_name(path) or not self.suites.is_named(path):
                raise
            return ()
        except ProblemsFound as wrong:
            agent = (suite.agent_name if suite else None) or DEFAULT_AGENT
            raise ProblemsFound(add_placement_hints(wrong.problems, self._checker, agent)) from None

    def _raise(self, problems: Sequence[Problem]) -> None:
        """Raise the problems of a file, its suite or its tools that were not reported before."""
        fresh = [problem for problem in problems if (problem.file, problem.path) not in self._reported]
        self._reported.update((problem.file, problem.path) for problem in fresh)
        if fresh:
            raise ProblemsFound(dict.fromkeys(fresh))

    def _plan(
        self,
        loaded: LoadedTask,
        loaded_suite: LoadedSuite,
        tools: tuple[object, ...],
        problems: list[Problem],
    ) -> tuple[PlannedTask, TaskSettings] | None:
        """Plan one task; one with problems, which are added to ``problems``, gives None.

        ``tools`` are those that its graders are checked beside.
        """
        settings = resolve_settings(loaded.task, loaded_suite.suite)
        agent = settings.agent or DEFAULT_AGENT
        # Most tasks of a suite have equal graders, and to check and plan them again would be slow. Equal
        # values of a file have equal bytes.
        key = agent, *tools, msgspec.json.encode((loaded.task.graders, _outcome_of(loaded.task)))
        graders = self._graders.get(key)
        wrong: list[Problem] = []
        task = loaded.task
        if graders is None:
            with _adding_problems(wrong, loaded):
                loaded = _inline_file_settings(loaded, self._checker, loaded_suite.folder, self._root)
        # Without the texts of its files a grader would be refused for settings that it has.
        is_readable = not wrong
        one = _TaskInSuite(loaded, loaded_suite, settings, agent)
        wrong += self._own_problems(one)
        if unfit := self._form_problems(one):
            wrong += unfit
        elif is_readable:
            wrong += self._agent_problems(one)
        if is_readable and graders is None:
            wrong += self._grader_problems(one)
        layers, prompts = self._layers_of(one, wrong), self._prompts_of(one, wrong)
        # Which prompts an agent reads is known only if the agent can be made.
        if prompts and not wrong:
            wrong += self._places(find_unread_prompts(self._registry.agent_factory(agent), prompts), one)
        problems += wrong
        if wrong:
            return None
        if graders is None:
            graders = self._plan_graders(loaded.task)
            if loaded.task is task:  # the key does not hold the texts of files, which may differ elsewhere
                if len(self._graders) > MOST_GRADERS:
                    self._graders.clear()
                self._graders[key] = graders
        if settings.agent is None:
            self._note_missing_agent(graders, loaded)
        return self._planned_task(one, graders, layers, prompts), settings

    def _plan_graders(self, task: Task) -> Graders:
        """Give a task's graders, a group as its members."""
        graders = []
        outcome = _outcome_of(task)
        for spec in task.graders:
            members = self._registry.group(spec.name) or ((spec.name, "" if spec.label else spec.name),)
            for name, own in members:
                config: Mapping[str, Any] = spec.config or NOTHING
                if outcome and OUTCOME not in config and self._checker.takes(name, OUTCOME):
                    config = {**config, OUTCOME: outcome}
                label = ": ".join(filter(None, (spec.label, own)))
                graders.append(PlannedGrader(name, label, config, spec.weight, spec.threshold, spec.require))
        return tuple(graders)

    def _note_missing_agent(self, graders: Graders, loaded: LoadedTask) -> None:
        """Note that graders of another agent's work would score what the default agent did."""
        for grader in graders:
            if wanted := agent_of(self._registry.grader_factory(grader.name)):
                place = f"{short_path(loaded.file)}:{loaded.line}"
                self._without_agent.setdefault((wanted, grader.name), []).append(place)
                return

    def _planned_task(
        self, one: _TaskInSuite, graders: Graders, layers: tuple[str, ...], prompts: Mapping[str, str]
    ) -> PlannedTask:
        loaded, loaded_suite, settings, agent = one
        task, suite, resources = loaded.task, loaded_suite.suite, loaded_suite.resources
        task_input, texts = _complete_input(self._registry, agent, graders, task, settings.clock, layers)
        limits = settings.limits
        row_file = loaded.place.file if loaded.place else None
        is_row = row_file is not None and row_file != loaded.file
        return PlannedTask(
            suite=suite.name if suite else "",
            id=task.id,
            agent=agent,
            kind=suite.kind_of(task.id, loaded.bucket) if suite else "mixed",
            bucket=loaded.bucket,
            graders=graders,
            input=task_input,
            file=short_path(loaded.file),
            line=loaded.line,
            row_file=path_in_root(row_file, self._root) if row_file and is_row else "",
            file_in_root=path_in_root(loaded.file, self._root),
            tags=settings.tags,
            description=task.description,
            settings=settings.settings or NOTHING,
            prompts=prompts,
            layers=layers,
            texts=texts,
            limits=Allowance(
                limits.steps or STEPS, limits.seconds or SECONDS, limits.tokens, limits.cost_usd
            ),
            clock=settings.clock,
            reference=None if task.reference_solution is None else task.reference_solution.to_json(),
            script=None if task.script is None else tuple([entry.to_json() for entry in task.script]),
            split=task.split,
            user=NOTHING if task.user is None else task.user.to_json(),
            repetitions=settings.trials,
            cassette=_cassette_of(loaded, self._root),
            shared=resources.shared,
            tools=resources.tools,
            faults=tuple([fault.to_json() for fault in task.faults]),
            on_miss=suite.on_miss if suite else "error",
            live=suite.live if suite else False,
            label=LABELS.get(task.metadata.get("label", ""), "")
            if suite and suite.acts != NOTHING_ACTS
            else "",
            acting_files=suite.acts.files if suite else (),
            acting_tools=suite.acts.tools if suite else (),
            form=self._form_of(one) if settings.form else self._registry.agent_form_of(agent),
            proxy=suite.proxy if suite else NOTHING,
            model_hosts=suite.http.models if suite else (),
            ignored_hosts=suite.http.ignore if suite else (),
        )

    def _layers_of(self, one: _TaskInSuite, problems: list[Problem]) -> tuple[str, ...]:
        file = one.loaded.file
        layers: tuple[str, ...] = ()
        # A ``workspace/`` folder lies only beside a file that is called task.*.
        if not _NAMES_LAYERS.isdisjoint(one.loaded.task.input_map) or is_task_name(file):
            with _adding_problems(problems, one.loaded):
                found = workspace_layers(one.loaded.task, one.loaded_suite.folder, file, self._root)
                layers = tuple(map(str, found))
                self._started_from.update(layers)
        return layers

    def _prompts_of(self, one: _TaskInSuite, problems: list[Problem]) -> Mapping[str, str]:
        prompts: Mapping[str, str] = NOTHING
        if one.settings.prompts:
            with _adding_problems(problems, one.loaded):
                suite = one.loaded_suite
                files = prompt_files(one.task, one.suite, suite.folder, one.loaded.file, self._root)
                key = tuple(files.items())
                if key not in self._prompts:
                    self._prompts[key] = {name: _text_of(path) for name, path in key}
                prompts = self._prompts[key]
        return prompts

    def _form_of(self, one: _TaskInSuite) -> Mapping[str, Any]:
        suite = one.suite
        if suite is None or not isinstance(suite.agent, AgentForm):
            return NOTHING
        if suite.name not in self._forms:
            folder = one.loaded_suite.folder or self._root
            self._forms[suite.name] = _form_data(suite.agent, suite, folder, self._root)
        return self._forms[suite.name]

    def _own_problems(self, one: _TaskInSuite) -> Iterator[Problem]:
        """Give the problems of the task's label, and of an id that its suite cannot take."""
        loaded, id, suite = one.loaded, one.task.id, one.suite.name if one.suite else ""
        here = ((loaded.place and loaded.place.file) or loaded.file, loaded.line)
        if trouble := unportable_name_reason(id):
            yield loaded.problem(("id",), "an id that every file system allows", f"{id!r}, {trouble}")
        else:
            first, file, line = self._ids.setdefault((suite, same_file_key(id)), (id, *here))
            if (file, line) != here:
                also = "is also" if first == id else f"some file systems do not distinguish from {first!r}"
                found = f"{id!r}, which {also} in {short_path(file)}:{line}"
                yield loaded.problem(("id",), "an id that no other task of the suite has", found)
        label = one.task.metadata.get("label")
        if label is not None and label not in LABELS and one.suite and one.suite.acts != NOTHING_ACTS:
            # A misspelt label would silently be left out of every figure.
            yield loaded.problem(("metadata", "label"), " or ".join(LABELS), repr(label))

    def _form_problems(self, one: _TaskInSuite) -> list[Problem]:
        """Register the agent that a suite defines by a form, before tasks are checked with it."""
        name = one.settings.agent
        if one.settings.form is None or name is None:
            return []
        return list(self._places(self._checker.form(name, self._form_of(one)), one))

    def _agent_problems(self, one: _TaskInSuite) -> Iterator[Problem]:
        settings, task, tools = one.settings.settings, one.task, one.loaded_suite.resources.names
        prompts = (*one.settings.prompts, *self._names_in_variants)
        yield from self._places(self._checker.agent(one.agent, settings, task.input_map, tools, prompts), one)
        if not task.faults:
            return
        # The suite's tools are offered where the agent's class has tools and no settings choose among them.
        try:
            takes_tools = agent_trait(self._registry.agent_factory(one.agent), "tools") is not None
        except (UnknownName, NotImported):  # which is reported already
            takes_tools = False
        offered = settings.get("tools", tools if takes_tools else ())
        for index, fault in enumerate(task.faults):
            if offered and fault.tool not in offered:  # it would never strike
                wrong = ConfigProblem(
                    ("faults", index, "tool"), f"one of {', '.join(offered)}", repr(fault.tool)
                )
                yield from self._places([wrong], one)

    def _grader_problems(self, one: _TaskInSuite) -> Iterator[Problem]:
        tools = one.loaded_suite.resources.names
        for index, spec in enumerate(one.task.graders):
            wrong = self._checker.grader(spec) or self._checker.misnamed_tools(spec, one.agent, tools)
            yield from self._places([each.below("graders", index) for each in wrong], one)

    def _places(self, mismatches: Iterable[ConfigProblem], one: _TaskInSuite) -> Iterator[Problem]:
        """Give each problem with its place, in the task's file or in the suite's."""
        loaded = one.loaded
        for path, *rest in mismatches:
            above = _key_in_suite(path, one.task, one.suite)
            file = self.suites.file_of(loaded.file.parent) if above and not one.loaded_suite.in_code else None
            if above and file:
                yield Problem(short_path(file), read_document(file).line_of(above), above, *rest)
            else:
                yield loaded.problem(path, *rest)


def _cassette_of(loaded: LoadedTask, root: Path) -> str:
    """Give where a task's recordings lie: below cassettes/, at the task's path below evals/."""
    recordings = recordings_of(loaded.file, root)
    if not loaded.at:
        return recordings
    # A task in a suite's file is recorded as if it had a file of its own beside it.
    if loaded.place is None and loaded.file.name in SUITE_NAMES:
        recordings = str(Path(recordings).parent)
    return name_or_older(recordings, loaded.task.id, ".yaml", ".chat")


@contextmanager
def _adding_problems(problems: list[Problem], loaded: LoadedTask) -> Iterator[None]:
    """Add the problems that are raised to those of the task, and go on."""
    try:
        yield
    except ProblemsFound as raised:
        problems += map(loaded.at_place, raised.problems)


def _key_in_suite(path: KeyPath, task: Task, suite: Suite | None) -> KeyPath | None:
    """Give the key of the suite's file that a value comes from; None where the task itself sets it."""
    if suite is None:
        return None
    if path[0] == "agent":
        return path if task.agent is None else None
    if path[0] in ("env", "env_pass", "proxy"):  # keys that only a suite has
        return path
    if path[0] == "prompts":
        return path if path[1] not in task.prompts else None
    if path[0] != "settings" or len(path) < 2 or path[1] in task.settings:
        return None
    if path[1] in suite.defaults.settings:
        return ("defaults", *path)
    return path if path[1] in suite.settings else None


def _form_data(form: AgentForm, suite: Suite, folder: Path, root: Path) -> Mapping[str, Any]:
    """Give what a suite's form sets, with what its agent needs of the suite."""
    # ``paths`` are folders in which modules of ``call`` may lie; ``folder`` is where the files of a command
    # lie.
    default = AgentForm().to_json()
    written = {key: value for key, value in form.to_json().items() if value != default[key]}
    variables = {"env": dict(suite.env), "env_pass": list(suite.env_pass), "proxy": dict(suite.proxy)}
    if (form.command or form.cli) and not form.call:
        return {**written, "folder": str(folder), **variables, "ignored_hosts": list(suite.http.ignore)}
    if form.call:
        # The suite's own folder is added only where the module lies there: otherwise the same agent in two
        # suites would count as two agents.
        module = form.call.partition(":")[0].partition(".")[0]
        beside = any((folder / name).exists() for name in (module, f"{module}.py"))
        written["paths"] = [str(root), *([str(folder)] if beside and folder != root else [])]
    # Only a command uses variables. For another agent they stay in the form, which then reports them as a
    # problem.
    return {**written, **{key: value for key, value in variables.items() if value}}


def _outcome_of(task: Task) -> object:
    return task.reference_solution.expected_outcome if task.reference_solution else None


def _inline_file_settings(
    loaded: LoadedTask, checker: RegistrationCheck, suite_dir: Path | None, root: Path
) -> LoadedTask:
    """Put the texts of files in the place of their names; raises ProblemsFound where one cannot be read."""
    texts: dict[int, Mapping[str, str]] = {}
    for index, spec in enumerate(loaded.task.graders):
        endings = checker.files_of(spec.name) if spec.config else None
        if endings:
            files = grader_files(loaded.task, index, endings, suite_dir, loaded.file, root)
            texts[index] = {key: _text_of(path) for key, path in files.items()}
    if not any(texts.values()):
        return loaded
    graders = tuple(
        replace(spec, config={**spec.config, **texts.get(index, {})})
        for index, spec in enumerate(loaded.task.graders)
    )
    return replace(loaded, task=replace(loaded.task, graders=graders))


def _text_of(path: Path) -> str:
    """Read a file that has to be text in UTF-8."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as broken:
        found = f"the byte 0x{broken.object[broken.start]:02x}"
        raise ProblemsFound([Problem(short_path(path), None, (), "a text in UTF-8", found)]) from None


def _complete_input(
    registry: Registry,
    agent: str,
    graders: Sequence[PlannedGrader],
    task: Task,
    clock: str | None,
    layers: Sequence[str],
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Give a task's whole input, and what is written into its starting workspace."""
    # The agent's class prepares the input. If it does not, the class of the agent does for whose work the
    # graders are made.
    prepare = agent_trait(registry.agent_factory(agent), "prepared")
    if prepare is None:
        graded = (agent_of(registry.grader_factory(grader.name)) for grader in graders)
        name = next(filter(None, graded), None)
        if name is None or (prepare := agent_trait(registry.agent_factory(name), "prepared")) is None:
            return task.input_map, NOTHING
    prepared: tuple[Mapping[str, Any], Mapping[str, str]] = prepare(
        task.input_map, task.id, clock, partial(_read_from, layers)
    )
    return prepared


def _read_from(layers: Sequence[str], path: str) -> str | None:
    """Read a file of the starting workspace from the highest layer that has it; None if no layer does."""
    for layer in reversed(layers):
        try:
            return Path(layer, path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return None
