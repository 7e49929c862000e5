"""What can be registered under a name, and what each name stands for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from pytest_agenteval.records.factories import AGENT, GRADER, Contract, factory_of, is_registrable
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.registry.lazy_names import (
    LazyNames,
    caller_place,
    import_claim,
    import_suite_agent,
    resolve_place,
)
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    import argparse

    from pytest_agenteval.agents.agent import Agent, AgentFunction
    from pytest_agenteval.chat.chat import ChatFactory
    from pytest_agenteval.chat.offline.rules import RulesPlayer
    from pytest_agenteval.graders.grader import Grader, GraderFunction
    from pytest_agenteval.graders.judge.rubric import Rubric
    from pytest_agenteval.reports.scorecard import (
        RegisteredScorecard,
        ReportFormat,
        ReportOption,
        ScorecardMaker,
    )
    from pytest_agenteval.tools.tool import Tool


T = TypeVar("T")
# A file or folder: its path, or ``package:path`` for one that is installed with a package.
Place: TypeAlias = "Path | str"

# Offline models that are given a mutated reference: they mean something in an audit only.
AUDIT_MODELS = frozenset({"spoiler"})


class Example(FrozenValue, frozen=True):
    """An example suite; ``parts`` are its folders, the suite's first.

    ``folders`` are where the parts may lie: in an installed package, or in a clone.
    """

    name: str
    parts: tuple[str, ...]
    folders: tuple[Path, ...]

    @property
    def folder(self) -> Path | None:
        """The first folder that has all of its parts; None where none has."""
        return next(
            (place for place in self.folders if all((place / part).is_dir() for part in self.parts)), None
        )


class Importer(Protocol):
    """Imports another benchmark's suites and runs: ``agenteval import NAME ...``."""

    help: str  # what it imports, in one line, for ``agenteval import --help``

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its own arguments, which stand behind its name."""

    def run(self, args: argparse.Namespace, registry: Registry) -> int:
        """Import, and write what came of it to the standard output.

        Returns the exit status: 0 when all of it can be used, 1 when not. Raises UsageMistake for what the
        user got wrong, which is shown in one line.
        """


class Registry:
    """Everything that is registered, by name; each name of a kind is unique.

    Wherever a thing can be registered, the text ``package.module:attribute`` can be: it is imported when its
    name is first used. ``discover`` is called with the registry before the first look-up: it registers what
    installed benchmarks offer.
    """

    def __init__(self, discover: Callable[[Registry], None] | None = None) -> None:
        self._discover = discover
        self._broken: list[str] = []
        self._mistake = ""
        done, agents, graders = self._complete, partial(factory_of, AGENT), partial(factory_of, GRADER)
        self._agents: LazyNames[Callable[..., Agent]] = LazyNames("agent", done, agents)
        self._suite_forms: dict[str, Mapping[str, Any]] = {}
        self._suite_agents: dict[str, Callable[..., Agent]] = {}
        self._code_agents: list[tuple[object, Callable[..., Agent]]] = []
        self._code_forms: dict[str, Mapping[str, Any]] = {}
        self._models: LazyNames[ChatFactory] = LazyNames("model", done)
        self._graders: LazyNames[Callable[..., Grader]] = LazyNames("grader", done, graders)
        self._code_graders: dict[str, Any] = {}
        self._groups: dict[str, tuple[tuple[str, str], ...]] = {}
        self._tools: LazyNames[Tool] = LazyNames("tool", done)
        self._toolsets: LazyNames[Sequence[Place]] = LazyNames("toolset", done)
        self._rubric_folders: list[tuple[Place, str]] = []
        self._rubrics: LazyNames[Path] = LazyNames("rubric", self._list_rubrics)
        self._panels: LazyNames[Sequence[str]] = LazyNames("judge panel", done)
        self._players: LazyNames[RulesPlayer] = LazyNames("player of the tool", done)
        self._writers: LazyNames[tuple[str, str, str, str]] = LazyNames("file writer of the agent", done)
        self._importers: LazyNames[Importer] = LazyNames("importer", done, _importer_instance)
        self._examples: LazyNames[Example] = LazyNames("example", done)
        self._formats: LazyNames[ReportFormat] = LazyNames("report format", done)
        self._sending_formats: set[str] = set()
        self._scorecards: LazyNames[RegisteredScorecard] = LazyNames("scorecard", done)
        self._executors: LazyNames[Callable[..., Any]] = LazyNames("executor", done)

    def _complete(self) -> Sequence[str]:
        """Let installed benchmarks register: once, and not again for what they look up meanwhile."""
        if self._discover is not None:
            discover, self._discover = self._discover, None
            try:
                discover(self)
            except UsageMistake as mistake:
                self._mistake = str(mistake)
        if self._mistake:  # raised at every look-up: some names are missing from now on
            raise UsageMistake(self._mistake)
        return self._broken

    def note_broken(self, line: str) -> None:
        """Note, in one line, an installed benchmark or a part of one that cannot be used."""
        if line not in self._broken:
            self._broken.append(line)

    @property
    def broken_benchmarks(self) -> tuple[str, ...]:
        """What is installed and could not register, in a line each, as far as any name was looked up."""
        return tuple(self._broken)

    def agent(self, name: str, factory: Callable[..., Agent] | Agent | AgentFunction | str) -> None:
        """Offer an agent; the factory is called with the settings of suite and task as keywords."""
        # In its place may stand an agent that is made already, or a function ``(task_input, ctx)`` that acts.
        _check_registrable(AGENT, name, factory)
        self._agents.take(name, factory)

    def agent_form(self, name: str, form: Mapping[str, Any]) -> None:
        """Take the agent that a suite describes in a form; the same again changes nothing."""
        # Raises UsageMistake where the name is taken by another agent.
        if name in self._agents:
            raise UsageMistake(f"a registered agent is called {name!r} too: give this one a `name`")
        if self._suite_forms.setdefault(name, form) != form:
            raise UsageMistake(f"another suite's agent is called {name!r} too: give one of them a `name`")

    def agent_given(self, name: str, target: Any, paths: Sequence[str] = ()) -> None:
        """Take what Python code gives as an agent; ``paths`` are where other processes find its module."""
        # Several may be written at one place, as functions of functions are: the name stands for the last,
        # and plans carry the number of theirs.
        targets = [given for given, _ in self._code_agents]
        number = next((at for at, given in enumerate(targets) if given is target), len(targets))
        if number == len(targets):
            from pytest_agenteval.agents.callable_agent import CallableFactory

            self._code_agents.append((target, CallableFactory(name, target)))
        self._code_forms[name] = {"call": name, "paths": list(paths), "given": number}

    def agent_form_of(self, name: str) -> Mapping[str, Any]:
        """Return the form of an agent that code has given; an empty map for any other."""
        return self._code_forms.get(name, NOTHING)

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents."""
        return self._agents.names

    def is_own_agent(self, name: str) -> bool:
        """Whether an agent is the user's own, and not built in; nothing is imported to see it."""
        return not self._agents.is_built_in(name)

    def agent_factory(self, name: str) -> Callable[..., Agent]:
        """Find an agent's factory; raises UnknownName, or UsageMistake for a form that names no agent."""
        code_agent = self._code_agent(self.agent_form_of(name))
        if code_agent is not None:
            return code_agent
        if name not in self._suite_forms:
            return self._agents.get(name)
        if name not in self._suite_agents:
            self._suite_agents[name] = import_suite_agent(self._suite_forms[name])
        return self._suite_agents[name]

    def factory_of_form(self, name: str, form: Mapping[str, Any]) -> Callable[..., Agent]:
        """Take a plan's form, and find its factory: of what code gave here, else of what the form names."""
        code_agent = self._code_agent(form)
        if code_agent is not None:
            return code_agent
        self.agent_form(name, {key: value for key, value in form.items() if key != "given"})
        return self.agent_factory(name)

    def _code_agent(self, form: Mapping[str, Any]) -> Callable[..., Agent] | None:
        # A plan may come from another process, whose code gave more than this one's.
        number = form.get("given", len(self._code_agents))
        return self._code_agents[number][1] if number < len(self._code_agents) else None

    def model(self, name: str, factory: ChatFactory | str) -> None:
        """Offer an offline model: one that needs no key and sends nothing."""
        # The factory is called with the model and the trial's plan, once for each trial.
        self._models.take(name, factory)

    @property
    def offline_models(self) -> frozenset[str]:
        """The names of all models that need no key, but for those of audits, which nobody names."""
        return frozenset(self._models.names) - AUDIT_MODELS

    def model_factory(self, name: str) -> ChatFactory:
        """Find an offline model's factory; raises UnknownName."""
        return self._models.get(name)

    def grader(self, name: str, factory: Callable[..., Grader] | Grader | GraderFunction | str) -> None:
        """Offer a grader; the factory is called with the task's ``config`` as keywords."""
        # In its place may stand a grader that is made already, or a function ``(evidence)`` that grades.
        _check_registrable(GRADER, name, factory)
        self._graders.take(name, factory)

    def grader_given(self, name: str, grader: Any) -> str:
        """Take a grader that Python code gives, and return the name that it has got."""
        # That is ``name``, with a number behind it where another grader was written at the same place.
        number, numbered = 1, name
        while self._code_graders.setdefault(numbered, grader) is not grader:
            number += 1
            numbered = f"{name}-{number}"
        if numbered not in self._graders:
            self.grader(numbered, grader)
        return numbered

    def grader_group(self, name: str, members: Sequence[tuple[str, str]]) -> None:
        """Offer several graders under one name; ``members`` holds each one's name and label."""
        # A task that names the group is graded by each of them, all with the same ``config``.
        self._graders.take(name, f"a group: {name}")
        self._groups[name] = tuple(members)

    @property
    def graders(self) -> tuple[str, ...]:
        """The names of all graders, and of all groups of graders."""
        return self._graders.names

    def grader_factory(self, name: str) -> Callable[..., Grader]:
        """Find a grader's factory; raises UnknownName."""
        return self._graders.get(name)

    def group(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return the names and labels of a group's graders; none where the name is no group's."""
        self._complete()
        return self._groups.get(name, ())

    def tool(self, tool: Tool | str, *, name: str = "") -> None:
        """Offer a tool to every task, under its own name; a text that says where it is needs ``name``."""
        # For one that only some suites are to have, see ``toolset``.
        if isinstance(tool, str) and not name:
            place = caller_place()
            raise UsageMistake(f"the tool {tool!r}: expected name=..., as it is not imported yet; by {place}")
        self._tools.take(name if isinstance(tool, str) else tool.spec.name, tool)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every tool that was registered by itself, by name."""
        return {name: self._tools.get(name) for name in self._tools.names}

    @property
    def tool_claimants(self) -> Mapping[str, str]:
        """Who registered each tool that was registered by itself: file and line, by its name."""
        return dict(self._tools.claimants)

    def toolset(self, name: str, files: Sequence[Place]) -> None:
        """Offer a set of tools, which a suite takes with ``tools: [name]``."""
        # ``files`` declare them, in YAML, JSON or Python, as a suite's own files do; they are read when a
        # suite names the set, and its tools stand in the order of the files.
        self._toolsets.take(name, _list_of(files, f"the toolset {name!r}", "files"))

    @property
    def toolsets(self) -> Mapping[str, tuple[Path, ...]]:
        """The files of each registered set of tools, but for sets of a package that is not there."""
        found: dict[str, tuple[Path, ...]] = {}
        for name in self._toolsets.names:
            try:
                found[name] = tuple(map(resolve_place, self._toolsets.get(name)))
            except UsageMistake as mistake:
                self.note_broken(f"the toolset {name!r} cannot be used: {mistake}")
        return found

    def rubrics(self, folder: Place) -> None:
        """Offer the rubrics of a folder: each of its ``.jinja`` files under its name without the ending."""
        self._rubric_folders.append((folder, caller_place()))

    @property
    def rubric_names(self) -> tuple[str, ...]:
        """The names of all registered rubrics, sorted."""
        return tuple(sorted(self._rubrics.names))

    def rubric(self, name: str) -> Rubric:
        """Read a registered rubric; raises UnknownName, or ProblemsFound with what is wrong with it."""
        from pytest_agenteval.graders.judge.rubric import read_rubric_file

        return read_rubric_file(self._rubrics.get(name))

    def _list_rubrics(self) -> Sequence[str]:
        """Take the names of the rubrics in folders whose disk was not read yet."""
        broken = self._complete()
        while self._rubric_folders:
            folder, claimant = self._rubric_folders[0]
            missing = ""
            try:
                path = resolve_place(folder)
                if not path.is_dir():
                    missing = f"expected a folder: {path}; found none"
            except UsageMistake as mistake:
                missing = str(mistake)
            if missing:  # noted, and no reason to withhold the rubrics of others
                self.note_broken(f"the rubrics that {claimant} registered cannot be used: {missing}")
            files = {} if missing else {file.stem: file for file in sorted(path.glob("*.jinja"))}
            # The folder stays in the list where one of its names is taken, so that every look-up says so.
            for name in sorted(files, key=lambda name: name not in self._rubrics):
                self._rubrics.take(name, files[name], claimant)
            del self._rubric_folders[0]
        return broken

    def judge_panel(self, name: str, models: Sequence[str]) -> None:
        """Offer an ensemble of judges under one name: ``--agent-judge=NAME`` asks each of these models."""
        self._panels.take(name, _list_of(models, f"the judge panel {name!r}", "models"))

    @property
    def judge_panels(self) -> Mapping[str, Sequence[str]]:
        """The models of each ensemble of judges, by its name."""
        return {name: self._panels.get(name) for name in self._panels.names}

    def rules_player(self, tool: str, play: RulesPlayer | str) -> None:
        """Offer how the offline model ``rules`` plays wherever it is given the tool of this name."""
        # ``play(messages, tools)`` returns the next move, or None to repeat the user's last message. It sees
        # what a model sees and nothing of the task behind it.
        self._players.take(tool, play)

    @property
    def own_players(self) -> tuple[RulesPlayer, ...]:
        """All who play ``rules`` for a tool, but those of this package: they are imported when they play."""
        return tuple(
            self._players.get(name) for name in self._players.names if not self._players.is_built_in(name)
        )

    def player_of(self, tools: Iterable[str]) -> RulesPlayer | None:
        """Find who plays the first of these tools that somebody registered rules for; None: nobody did."""
        played_tools = self._players.names
        return next((self._players.get(tool) for tool in tools if tool in played_tools), None)

    def file_writer(self, agent: str, tool: str, *, path: str, text: str, root: str = "") -> None:
        """Offer how an agent writes a whole file: its tool, and the arguments for the path and the text."""
        # Audits write files in this way that no task needs. With a ``root``, a folder of the workspace, paths
        # start there and begin with a slash.
        self._writers.take(agent, (tool, path, text, root))

    def file_writer_of(self, agent: str) -> tuple[str, str, str, str] | None:
        """Return how an agent writes a whole file: tool, two arguments, root; None where it is not known."""
        return self._writers.get(agent) if agent in self._writers.names else None

    def importer(self, name: str, importer: Importer | Callable[[], Importer] | str) -> None:
        """Offer ``agenteval import NAME``: a class or object as ``Importer`` says."""
        self._importers.take(name, importer)

    @property
    def importers(self) -> tuple[str, ...]:
        """The names of all importers; none of them is imported."""
        return self._importers.names

    def importer_named(self, name: str) -> Importer:
        """Find an importer; raises UnknownName."""
        return self._importers.get(name)

    def example(self, name: str, parts: Sequence[str], folders: Sequence[Place]) -> None:
        """Offer ``agenteval init --example NAME``: folders that are copied into somebody's project."""
        # ``parts`` name them as they lie there, the suite's own first; ``folders`` are where they may be
        # copied from: the first that has all of them.
        places = tuple(map(resolve_place, _list_of(folders, f"the example {name!r}", "folders")))
        self._examples.take(name, Example(name, _list_of(parts, f"the example {name!r}", "folders"), places))

    @property
    def examples(self) -> tuple[str, ...]:
        """The names of all examples."""
        return self._examples.names

    def example_named(self, name: str) -> Example:
        """Find an example; raises UnknownName."""
        return self._examples.get(name)

    def report_format(self, name: str, write: ReportFormat | str, *, sends: bool = False) -> None:
        """Offer ``agenteval report --as NAME -o DIR``: ``write(runs, folder)`` returns the paths it wrote."""
        # With ``sends`` there need be no ``-o``: ``write(runs, None)`` sends runs somewhere, and returns a
        # line on each thing that it sent.
        self._formats.take(name, write)
        if sends:
            self._sending_formats.add(name)

    @property
    def report_formats(self) -> tuple[str, ...]:
        """The names of all report formats; none of them is imported."""
        return self._formats.names

    @property
    def sending_report_formats(self) -> frozenset[str]:
        """The names of report formats that need no folder."""
        self._complete()
        return frozenset(self._sending_formats)

    def report_format_named(self, name: str) -> ReportFormat:
        """Find a report format; raises UnknownName."""
        return self._formats.get(name)

    def scorecard(
        self,
        name: str,
        maker: ScorecardMaker | str,
        *,
        graders: Collection[str],
        options: Sequence[ReportOption] | str = (),
    ) -> None:
        """Offer what a benchmark makes of a suite's trials beside their scores."""
        # ``maker(entries, **options)`` returns a Scorecard or None; it is called for suites in which a grade
        # has one of the labels ``graders``. ``options`` are what ``agenteval report`` takes for it.
        by = caller_place()
        from pytest_agenteval.reports.scorecard import RegisteredScorecard

        load = partial(import_claim, maker, f"scorecard {name!r}", by)
        load_options = partial(import_claim, options, f"options of the scorecard {name!r}", by)
        labels = frozenset(_list_of(graders, f"the scorecard {name!r}", "labels of grades"))
        self._scorecards.take(name, RegisteredScorecard(name, labels, load, load_options), by)

    def scorecards(self) -> tuple[RegisteredScorecard, ...]:
        """Return all scorecards; none of them is imported."""
        return tuple(map(self._scorecards.get, self._scorecards.names))

    def executor(self, name: str, factory: Callable[..., Any] | str) -> None:
        """Offer where plans become trials: ``--agent-executor=NAME``, or ``NAME:ARGUMENT``."""
        # The factory is called with the registry, once in each process of pytest that carries out trials.
        self._executors.take(name, factory)

    @property
    def executors(self) -> tuple[str, ...]:
        """The names of all executors."""
        return self._executors.names

    def executor_factory(self, name: str) -> Callable[..., Any]:
        """Find an executor's factory; raises UnknownName."""
        return self._executors.get(name)


def _importer_instance(importer: Any) -> Importer:
    instance: Importer = importer() if isinstance(importer, type) else importer
    for name in ("help", "add_arguments", "run"):
        if not hasattr(instance, name):
            expected = "an importer with help, add_arguments and run"
            raise UsageMistake(f"expected {expected}; found {instance!r:.80} without {name}")
    return instance


def _list_of(values: Iterable[T], what: str, noun: str) -> tuple[T, ...]:
    """Refuse one text in the place of a list of texts: it would be a list of its letters."""
    if isinstance(values, str):
        raise UsageMistake(f"{what}: expected a list of {noun}; found {values!r}, by {caller_place(3)}")
    return tuple(values)


def _check_registrable(contract: Contract, name: str, claim: Any) -> None:
    if not is_registrable(contract, claim):
        expected = f"the {contract.word} {name!r}: expected {contract.how}"
        raise UsageMistake(f"{expected}; found {claim!r}, by {caller_place(3)}")
