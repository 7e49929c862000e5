"""What each name means that somebody registered: what the engine, the session and reports look up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.records.factories import AGENT, GRADER, factory_of
from pytest_agenteval.registry.agent_forms import AgentForms
from pytest_agenteval.registry.examples import Example
from pytest_agenteval.registry.given_by_code import GivenAgents, GivenGraders
from pytest_agenteval.registry.name_table import OURS, NameTable, located
from pytest_agenteval.registry.rubric_folders import Place, RubricFolders
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.agents.agent import Agent
    from pytest_agenteval.chat.chat import ChatFactory
    from pytest_agenteval.chat.offline.rules import RulesPlayer
    from pytest_agenteval.graders.grader import Grader
    from pytest_agenteval.graders.judge.prompt import Rubric
    from pytest_agenteval.reports.scorecard import RegisteredScorecard, ReportFormat
    from pytest_agenteval.tools.tool import Tool


AUDITS_OWN = frozenset({"spoiler"})
"""Offline models that are given a reference that was spoilt: they mean something in an audit only."""


class RegisteredNames:
    """The tables of a registry, and the look-ups in them.

    ``discover`` is called before the first look-up: it registers what installed benchmarks offer.
    """

    def __init__(self, discover: Callable[[], None] | None = None) -> None:
        self._discover = discover
        self._broken: list[str] = []
        self._mistake = ""
        complete = self._complete
        self._agents: NameTable[Callable[..., Agent]] = NameTable(
            "agent", complete, partial(factory_of, AGENT)
        )
        self._forms = AgentForms()
        self._given_agents, self._given_graders = GivenAgents(_callable_factory), GivenGraders()
        self._graders: NameTable[Callable[..., Grader]] = NameTable(
            "grader", complete, partial(factory_of, GRADER)
        )
        self._groups: dict[str, tuple[tuple[str, str], ...]] = {}
        self._models: NameTable[ChatFactory] = NameTable("model", complete)
        self._tools: NameTable[Tool] = NameTable("tool", complete)
        self._toolsets: NameTable[Sequence[Place]] = NameTable("toolset", complete)
        self._rubrics = RubricFolders(complete, self.note_broken)
        self._panels: NameTable[Sequence[str]] = NameTable("judge panel", complete)
        self._players: NameTable[RulesPlayer] = NameTable("player of the tool", complete)
        self._writers: NameTable[tuple[str, str, str, str]] = NameTable("file writer of the agent", complete)
        self._examples: NameTable[Example] = NameTable("example", complete)
        self._formats: NameTable[ReportFormat] = NameTable("report format", complete)
        self._sending_formats: set[str] = set()
        self._scorecards: NameTable[RegisteredScorecard] = NameTable("scorecard", complete)
        self._executors: NameTable[Callable[..., Any]] = NameTable("executor", complete)

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents."""
        return self._agents.names

    @property
    def graders(self) -> tuple[str, ...]:
        """The names of all graders, and of all groups of graders."""
        return self._graders.names

    def agent_factory(self, name: str) -> Callable[..., Agent]:
        """Find an agent's factory; raises UnknownName, or UsageMistake for a form that names no agent."""
        given = self._given_agents.factory(self._given_agents.form(name))
        if given is not None:
            return given
        return self._forms.factory(name) if name in self._forms else self._agents.get(name)

    def is_own_agent(self, name: str) -> bool:
        """Whether an agent is the user's own, and none of ours; nothing is imported to see it."""
        claim = self._agents.claim_of(name)
        module = claim if isinstance(claim, str) else getattr(claim, "__module__", "")
        return not str(module).startswith(f"{OURS}.")

    def agent_form_of(self, name: str) -> Mapping[str, Any]:
        """Give the form of an agent that code has given; an empty map for any other."""
        return self._given_agents.form(name)

    def model_factory(self, name: str) -> ChatFactory:
        """Find an offline model's factory; raises UnknownName."""
        return self._models.get(name)

    def grader_factory(self, name: str) -> Callable[..., Grader]:
        """Find a grader's factory; raises UnknownName."""
        return self._graders.get(name)

    def group(self, name: str) -> tuple[tuple[str, str], ...]:
        """Give the names and labels of a group's graders; none where the name is no group's."""
        self._complete()
        return self._groups.get(name, ())

    @property
    def offline_models(self) -> frozenset[str]:
        """The names of all models that need no key, but for those of audits, which nobody names."""
        return frozenset(self._models.names) - AUDITS_OWN

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every tool that was registered by itself, by name."""
        return {name: self._tools.get(name) for name in self._tools.names}

    @property
    def tool_claimants(self) -> Mapping[str, str]:
        """Who registered each tool that was registered by itself: file and line, by its name."""
        return {name: self._tools.claimant_of(name) for name in self._tools.names}

    @property
    def toolsets(self) -> Mapping[str, tuple[Path, ...]]:
        """The files of each registered set of tools, but for sets of a package that is not there."""
        found: dict[str, tuple[Path, ...]] = {}
        for name in self._toolsets.names:
            try:
                found[name] = tuple(map(located, self._toolsets.get(name)))
            except UsageMistake as mistake:
                self.note_broken(f"the toolset {name!r} cannot be used: {mistake}")
        return found

    @property
    def rubric_names(self) -> tuple[str, ...]:
        """The names of all registered rubrics, sorted."""
        return tuple(sorted(self._rubrics.files.names))

    def rubric(self, name: str) -> Rubric:
        """Read a registered rubric; raises UnknownName, or ProblemsFound with what is wrong with it."""
        from pytest_agenteval.graders.judge.rubric import read_rubric_file

        return read_rubric_file(self._rubrics.files.get(name))

    @property
    def judge_panels(self) -> Mapping[str, Sequence[str]]:
        """The models of each ensemble of judges, by its name."""
        return {name: self._panels.get(name) for name in self._panels.names}

    @property
    def own_players(self) -> tuple[RulesPlayer, ...]:
        """All who play ``rules`` for a tool, but those of this package: they are imported when they play."""
        names = (name for name in self._players.names if not self._is_ours(self._players.claim_of(name)))
        return tuple(map(self._players.get, names))

    @staticmethod
    def _is_ours(claim: object) -> bool:
        return isinstance(claim, str) and claim.startswith(f"{OURS}.")

    def player_of(self, tools: Iterable[str]) -> RulesPlayer | None:
        """Find who plays the first of these tools that somebody registered rules for; None: nobody did."""
        played_tools = self._players.names
        return next((self._players.get(tool) for tool in tools if tool in played_tools), None)

    def file_writer_of(self, agent: str) -> tuple[str, str, str, str] | None:
        """Give how an agent writes a whole file: tool, two arguments, root; None: nobody said."""
        return self._writers.get(agent) if agent in self._writers.names else None

    @property
    def examples(self) -> tuple[str, ...]:
        """The names of all examples."""
        return self._examples.names

    def example_named(self, name: str) -> Example:
        """Find an example; raises UnknownName."""
        return self._examples.get(name)

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

    def scorecards(self) -> tuple[RegisteredScorecard, ...]:
        """Give all scorecards; none of them is imported."""
        return tuple(map(self._scorecards.get, self._scorecards.names))

    @property
    def executors(self) -> tuple[str, ...]:
        """The names of all executors."""
        return self._executors.names

    def executor_factory(self, name: str) -> Callable[..., Any]:
        """Find an executor's factory; raises UnknownName."""
        return self._executors.get(name)

    def note_broken(self, line: str) -> None:
        """Note, in one line, an installed benchmark or a part of one that cannot be used."""
        if line not in self._broken:
            self._broken.append(line)

    @property
    def broken_benchmarks(self) -> tuple[str, ...]:
        """What is installed and could not register, in a line each, as far as any name was looked up."""
        return tuple(self._broken)

    def _complete(self) -> Sequence[str]:
        """Let installed benchmarks register: once, and not again for what they look up meanwhile.

        A name that two of them take is said at every look-up: some names of theirs are missing from then on.
        """
        if self._discover is not None:
            discover, self._discover = self._discover, None
            try:
                discover()
            except UsageMistake as mistake:
                self._mistake = str(mistake)
        if self._mistake:
            raise UsageMistake(self._mistake)
        return self._broken


def _callable_factory(name: str, target: Any) -> Callable[..., Agent]:
    from pytest_agenteval.agents.adapters.callable import CallableFactory

    return CallableFactory(name, target)
