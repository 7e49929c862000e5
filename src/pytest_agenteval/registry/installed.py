"""What is registered without a conftest: the built-in names, and what installed benchmarks offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import TYPE_CHECKING, Any

from pytest_agenteval.registry.lazy_names import Deferred, NameTaken, exception_with_place
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    import pytest

    from pytest_agenteval.chat.chat import Chat
    from pytest_agenteval.graders.judge.grader import JudgeGrader
    from pytest_agenteval.records.plan import Model, Plan


PACKAGE = "pytest_agenteval"

AGENTS: Mapping[str, str] = {"tool_calling": "agents.loop:ToolCallingAgent"}
MODELS: Mapping[str, str] = {
    "oracle": "chat.offline.scripted:oracle",
    "nop": "chat.offline.scripted:nop",
    "scripted": "chat.offline.scripted:scripted",
    "spoiler": "chat.offline.scripted:spoiler",
}
EXECUTORS: Mapping[str, str] = {
    "local": "engine.local_executor:LocalExecutor",
    "processes": "engine.process_executor:ProcessExecutor",
    "ray": "engine.cluster.ray_executor:RayExecutor",
}
GRADERS: Mapping[str, str] = {
    "answer_contains": "graders.outcome.answer:AnswerContains",
    "answer_matches": "graders.outcome.answer:AnswerMatches",
    "answer_json": "graders.outcome.answer:AnswerJson",
    "file_exists": "graders.outcome.files:FileExists",
    "file_unchanged": "graders.outcome.files:FileUnchanged",
    "file_contains": "graders.outcome.file_contents:FileContains",
    "file_matches": "graders.outcome.file_contents:FileMatches",
    "file_value": "graders.outcome.file_contents:FileValue",
    "front_matter": "graders.outcome.file_contents:FrontMatter",
    "tool_called": "graders.transcript.tool_usage:ToolCalled",
    "tool_not_called": "graders.transcript.tool_usage:ToolNotCalled",
    "calls_in_order": "graders.transcript.tool_usage:CallsInOrder",
    "call_arguments": "graders.transcript.arguments:CallArguments",
    "step_ceiling": "graders.transcript.budgets:StepCeiling",
    "call_ceiling": "graders.transcript.budgets:CallCeiling",
    "token_ceiling": "graders.transcript.budgets:TokenCeiling",
}
REPORT_FORMATS: Mapping[str, str] = {"atif": "reports.exports.atif:write_trajectories"}


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer what is built in; each is imported when a task first names it."""
    for name, place in AGENTS.items():
        registry.agent(name, f"{PACKAGE}.{place}")
    registry.model("rules", partial(_rules, registry))
    for name, place in MODELS.items():
        registry.model(name, f"{PACKAGE}.{place}")
    for name, place in GRADERS.items():
        registry.grader(name, f"{PACKAGE}.{place}")
    registry.grader("judge", Deferred(partial(_judge, registry)))
    registry.rubrics(f"{PACKAGE}:graders/judge/rubrics")
    for name, place in EXECUTORS.items():
        registry.executor(name, f"{PACKAGE}.{place}")
    for name, place in REPORT_FORMATS.items():
        registry.report_format(name, f"{PACKAGE}.{place}")
    registry.report_format("otel", f"{PACKAGE}.reports.exports.otel:export_traces", sends=True)


def _rules(registry: Registry, model: Model, plan: Plan) -> Chat:
    """Make a trial's chat of the model made of rules: it plays by those that are registered."""
    from pytest_agenteval.chat.offline.rules import RulesChat

    return RulesChat(registry.player_of)


def _judge(registry: Registry) -> type[JudgeGrader]:
    """Give the grader by rubric, which finds rubrics by the names that are registered."""
    from pytest_agenteval.graders.judge.grader import JudgeGrader

    bound = {"__slots__": (), "rubric_named": staticmethod(registry.rubric)}
    return type("JudgeGrader", (JudgeGrader,), bound)


GROUP = "pytest_agenteval.benchmarks"
"""The group of entry points; each names a module with the hook ``pytest_agenteval_register``."""
BENCHMARK_HOOK = "pytest_agenteval_register"
BENCHMARK_PLUGIN = "agenteval-benchmark-"
"""How pytest's names of benchmarks begin: ``-p no:agenteval-benchmark-NAME`` leaves one out."""


def installed_registry() -> Registry:
    """Give all that is registered without a conftest: what is built in, and what benchmarks offer."""

    registry = Registry(discover=register_benchmarks)
    pytest_agenteval_register(registry)
    return registry


def register_benchmarks(registry: Registry) -> None:
    """Let every installed benchmark register; one that cannot is noted, and keeps no other from it."""
    _register(registry, lambda entry: _module_of(entry).pytest_agenteval_register(registry=registry))


def plug_in_benchmarks(plugins: pytest.PytestPluginManager, registry: Registry) -> None:
    """Do so in a pytest run, where each is a plugin: what it has of fixtures and other hooks is there too.

    The registering hook is historic: pytest calls that of every plugin that comes later.
    """

    def plug_in(entry: EntryPoint) -> None:
        name = f"{BENCHMARK_PLUGIN}{entry.name}"
        if plugins.is_blocked(name):  # not imported either: it may be left out because it is broken
            return
        module = _module_of(entry)
        if not plugins.is_registered(module):  # one that is a plugin of pytest anyway has registered
            plugins.register(module, name)

    _register(registry, plug_in)


def _register(registry: Registry, ask: Callable[[EntryPoint], None]) -> None:
    firsts: dict[str, EntryPoint] = {}
    for entry in _entries():
        try:
            first = firsts.setdefault(entry.name, entry)
            if first is not entry:
                raise UsageMistake(f"a benchmark{_distribution_suffix(first)} has the same name")
            ask(entry)
        except NameTaken as taken:  # the user decides which of the two goes
            way_out = f"-p no:{BENCHMARK_PLUGIN}{entry.name}"
            raise UsageMistake(f"{taken}; {way_out} leaves the latter out of a run of pytest") from None
        except Exception as raised:  # whatever an author's module raises
            why = exception_with_place(raised)
            registry.note_broken(
                f"the benchmark {entry.name!r}{_distribution_suffix(entry)} cannot be used: {why}"
            )


def _module_of(entry: EntryPoint) -> Any:
    module = entry.load()
    if not hasattr(
        module, BENCHMARK_HOOK
    ):  # pytest would take it for a plugin without hooks, and say nothing
        raise UsageMistake(f"{entry.value} has no {BENCHMARK_HOOK}(registry)")
    return module


def _entries() -> Iterator[EntryPoint]:
    """Find the entry points of the group.

    Their files are looked at as text first: to parse those of every distribution, as ``entry_points`` does,
    takes seven times as long, in every run.
    """
    names: dict[str, None] = {}
    for distribution in distributions():
        if GROUP in (distribution.read_text("entry_points.txt") or ""):
            names[distribution.name] = None
    for name in names:
        # By its name again: of one that stands on the path twice, what is imported is the first.
        yield from Distribution.from_name(name).entry_points.select(group=GROUP)


def _distribution_suffix(entry: EntryPoint) -> str:
    return f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
