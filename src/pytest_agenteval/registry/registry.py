"""What can be registered under a name, which task files, the command line and reports then use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pytest_agenteval.records.factories import AGENT, GRADER, Contract, is_registrable
from pytest_agenteval.registry.examples import Example
from pytest_agenteval.registry.name_table import NameTable, claimant, import_claim, located
from pytest_agenteval.registry.registered import RegisteredNames
from pytest_agenteval.registry.rubric_folders import Place
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    import argparse

    from pytest_agenteval.agents.agent import Agent, AgentFunction
    from pytest_agenteval.chat.chat import ChatFactory
    from pytest_agenteval.chat.offline.rules import RulesPlayer
    from pytest_agenteval.graders.grader import Grader, GraderFunction
    from pytest_agenteval.reports.scorecard import ReportFormat, ReportOption, ScorecardMaker
    from pytest_agenteval.tools.tool import Tool


T = TypeVar("T")


class Importer(Protocol):
    """Brings another benchmark's suites and runs in: ``agenteval import NAME ...``."""

    help: str
    """What it imports, in one line, for ``agenteval import --help``."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its own arguments, which stand behind its name."""

    def run(self, args: argparse.Namespace, registry: Registry) -> int:
        """Import, and say on the standard output what came of it.

        Gives the exit status: 0 when all of it can be used, 1 when not. Raises UsageMistake for what the
        user got wrong, which is told in one line.
        """


class Registry(RegisteredNames):
    """Everything that is known by a name; each name of a kind is taken once.

    Wherever a thing can be registered, the text ``package.module:attribute`` can be: it is imported when its
    name is first used. ``discover`` is called with the registry before the first look-up: it registers what
    installed benchmarks offer.
    """

    def __init__(self, discover: Callable[[Registry], None] | None = None) -> None:
        super().__init__(partial(discover, self) if discover else None)
        # An importer is given the registry, so that its table and its look-ups stand here.
        self._importers: NameTable[Importer] = NameTable("importer", self._complete, _instance)

    def agent(self, name: str, factory: Callable[..., Agent] | Agent | AgentFunction | str) -> None:
        """Offer an agent; the factory is called with the settings of suite and task as keywords.

        In its place may stand an agent that is made already, or a function ``(task_input, ctx)`` that acts.
        """
        _check(AGENT, name, factory)
        self._agents.take(name, factory, claimant())

    def agent_form(self, name: str, form: Mapping[str, Any]) -> None:
        """Take the agent that a suite says by a form; the same again changes nothing.

        Raises UsageMistake where the name is taken by another agent.
        """
        if name in self._agents:
            raise UsageMistake(f"a registered agent is called {name!r} too: give this one a `name`")
        self._forms.take(name, form)

    def agent_given(self, name: str, target: Any, paths: Sequence[str] = ()) -> None:
        """Take what Python code gives as an agent; ``paths`` are where other processes find its module."""
        self._given_agents.take(name, target, paths)

    def factory_of_form(self, name: str, form: Mapping[str, Any]) -> Callable[..., Agent]:
        """Take a plan's form, and find its factory: of what code gave here, else of what the form names."""
        given = self._given_agents.factory(form)
        if given is not None:
            return given
        self.agent_form(name, {key: value for key, value in form.items() if key != "given"})
        return self.agent_factory(name)

    def model(self, name: str, factory: ChatFactory | str) -> None:
        """Offer an offline model: one that needs no key and sends nothing.

        The factory is called with the model and the trial's plan, once for each trial.
        """
        self._models.take(name, factory, claimant())

    def grader(self, name: str, factory: Callable[..., Grader] | Grader | GraderFunction | str) -> None:
        """Offer a grader; the factory is called with the task's ``config`` as keywords.

        In its place may stand a grader that is made already, or a function ``(evidence)`` that grades.
        """
        _check(GRADER, name, factory)
        self._graders.take(name, factory, claimant())

    def grader_given(self, name: str, grader: Any) -> str:
        """Take a grader that Python code gives, and give the name that it has got.

        That is ``name``, with a number behind it where another grader was written at the same place.
        """
        numbered = self._given_graders.take(name, grader)
        if numbered not in self._graders:
            self.grader(numbered, grader)
        return numbered

    def grader_group(self, name: str, members: Sequence[tuple[str, str]]) -> None:
        """Offer several graders under one name; ``members`` holds each one's name and label.

        A task that names the group is graded by each of them, all with the same ``config``.
        """
        self._graders.take(name, f"a group: {name}", claimant())
        self._groups[name] = tuple(members)

    def tool(self, tool: Tool | str, *, name: str = "") -> None:
        """Offer a tool to every task, under its own name; a text that says where it is needs ``name``.

        For one that only some suites are to have, see ``toolset``.
        """
        if not isinstance(tool, str):
            self._tools.take(tool.spec.name, tool, claimant())
        elif name:
            self._tools.take(name, tool, claimant())
        else:
            raise UsageMistake(
                f"the tool {tool!r}: expected name=..., as it is not imported yet; by {claimant()}"
            )

    def toolset(self, name: str, files: Sequence[Place]) -> None:
        """Offer a set of tools, which a suite takes with ``tools: [name]``.

        ``files`` declare them, in YAML, JSON or Python, as a suite's own files do; they are read when a suite
        names the set, and its tools stand in the order of the files.
        """
        self._toolsets.take(name, _list_of(files, f"the toolset {name!r}", "files"), claimant())

    def rubrics(self, folder: Place) -> None:
        """Offer the rubrics of a folder: each of its ``.jinja`` files under its name without the ending."""
        self._rubrics.add(folder, claimant())

    def judge_panel(self, name: str, models: Sequence[str]) -> None:
        """Offer an ensemble of judges under one name: ``--agent-judge=NAME`` asks each of these models."""
        self._panels.take(name, _list_of(models, f"the judge panel {name!r}", "models"), claimant())

    def rules_player(self, tool: str, play: RulesPlayer | str) -> None:
        """Offer how the offline model ``rules`` plays wherever it is given the tool of this name.

        ``play(messages, tools)`` gives the next move, or None to repeat what the user said last. It sees what
        a model sees and nothing of the task behind it.
        """
        self._players.take(tool, play, claimant())

    def file_writer(self, agent: str, tool: str, *, path: str, text: str, root: str = "") -> None:
        """Offer how an agent writes a whole file: its tool, and the arguments for the path and the text.

        Audits write files in this way that nobody asked for. With a ``root``, a folder of the workspace,
        paths start there and begin with a slash.
        """
        self._writers.take(agent, (tool, path, text, root), claimant())

    def importer(self, name: str, importer: Importer | Callable[[], Importer] | str) -> None:
        """Offer ``agenteval import NAME``: a class or object as ``Importer`` says."""
        self._importers.take(name, importer, claimant())

    @property
    def importers(self) -> tuple[str, ...]:
        """The names of all importers; none of them is imported."""
        return self._importers.names

    def importer_named(self, name: str) -> Importer:
        """Find an importer; raises UnknownName."""
        return self._importers.get(name)

    def example(self, name: str, parts: Sequence[str], folders: Sequence[Place]) -> None:
        """Offer ``agenteval init --example NAME``: folders that are copied into somebody's project.

        ``parts`` name them as they lie there, the suite's own first; ``folders`` are where they may be
        copied from: the first that has all of them.
        """
        places = tuple(map(located, _list_of(folders, f"the example {name!r}", "folders")))
        claim = Example(name, _list_of(parts, f"the example {name!r}", "folders"), places)
        self._examples.take(name, claim, claimant())

    def report_format(self, name: str, write: ReportFormat | str, *, sends: bool = False) -> None:
        """Offer ``agenteval report --as NAME -o DIR``: ``write(runs, folder)`` gives the paths it wrote.

        With ``sends`` there need be no ``-o``: ``write(runs, None)`` sends runs somewhere, and gives a line
        on each thing that it sent.
        """
        self._formats.take(name, write, claimant())
        if sends:
            self._sending_formats.add(name)

    def scorecard(
        self,
        name: str,
        maker: ScorecardMaker | str,
        *,
        graders: Collection[str],
        options: Sequence[ReportOption] | str = (),
    ) -> None:
        """Offer what a benchmark makes of a suite's trials beside their scores.

        ``maker(entries, **options)`` gives a Scorecard or None; it is asked for suites in which a grade has
        one of the labels ``graders``. ``options`` are what ``agenteval report`` takes for it.
        """
        by = claimant()
        from pytest_agenteval.reports.scorecard import RegisteredScorecard

        load = partial(import_claim, maker, f"scorecard {name!r}", by)
        load_options = partial(import_claim, options, f"options of the scorecard {name!r}", by)
        labels = frozenset(_list_of(graders, f"the scorecard {name!r}", "labels of grades"))
        self._scorecards.take(name, RegisteredScorecard(name, labels, load, load_options), by)

    def executor(self, name: str, factory: Callable[..., Any] | str) -> None:
        """Offer where plans become trials: ``--agent-executor=NAME``, or ``NAME:ARGUMENT``.

        The factory is called with the registry, once in each process of pytest that tries anything.
        """
        self._executors.take(name, factory, claimant())


def _instance(importer: Any) -> Importer:
    instance: Importer = importer() if isinstance(importer, type) else importer
    for name in ("help", "add_arguments", "run"):
        if not hasattr(instance, name):
            expected = "an importer with help, add_arguments and run"
            raise UsageMistake(f"expected {expected}; found {instance!r:.80} without {name}")
    return instance


def _list_of(values: Iterable[T], what: str, noun: str) -> tuple[T, ...]:
    """Refuse one text in the place of a list of texts: it would be a list of its letters."""
    if isinstance(values, str):
        raise UsageMistake(f"{what}: expected a list of {noun}; found {values!r}, by {claimant(3)}")
    return tuple(values)


def _check(contract: Contract, name: str, claim: Any) -> None:
    """Refuse what no agent, or grader, can be made of."""
    if not is_registrable(contract, claim):
        expected = f"the {contract.word} {name!r}: expected {contract.how}"
        raise UsageMistake(f"{expected}; found {claim!r}, by {claimant(3)}")
