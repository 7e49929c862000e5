"""What is registered without a conftest: the built-in names, and what installed benchmarks offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import TYPE_CHECKING

from pytest_agenteval.registry.lazy_names import PACKAGE, Deferred, NameTaken, exception_with_place
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    import pytest

    from pytest_agenteval.chat.chat import Chat
    from pytest_agenteval.graders.judge.judge_grader import JudgeGrader
    from pytest_agenteval.records.plan import Model, Plan


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
    "answer_contains": "graders.answers:AnswerContains",
    "answer_matches": "graders.answers:AnswerMatches",
    "answer_json": "graders.answers:AnswerJson",
    "file_exists": "graders.workspace_files:FileExists",
    "file_unchanged": "graders.workspace_files:FileUnchanged",
    "file_contains": "graders.workspace_files:FileContains",
    "file_matches": "graders.workspace_files:FileMatches",
    "file_value": "graders.workspace_files:FileValue",
    "front_matter": "graders.workspace_files:FrontMatter",
    "tool_called": "graders.tool_calls:ToolCalled",
    "tool_not_called": "graders.tool_calls:ToolNotCalled",
    "calls_in_order": "graders.tool_calls:CallsInOrder",
    "call_arguments": "graders.tool_calls:CallArguments",
    "step_ceiling": "graders.tool_calls:StepCeiling",
    "call_ceiling": "graders.tool_calls:CallCeiling",
    "token_ceiling": "graders.tool_calls:TokenCeiling",
}
REPORT_FORMATS: Mapping[str, str] = {"atif": "reports.exports.atif:write_trajectories"}


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer what is built in; each is imported when a task first names it."""
    registry.model("rules", partial(_rules, registry))
    offers: Sequence[tuple[Callable[[str, str], None], Mapping[str, str]]] = (
        (registry.agent, AGENTS),
        (registry.model, MODELS),
        (registry.grader, GRADERS),
        (registry.executor, EXECUTORS),
        (registry.report_format, REPORT_FORMATS),
    )
    for offer, places in offers:
        for name, place in places.items():
            offer(name, f"{PACKAGE}.{place}")
    registry.grader("judge", Deferred(_judge, registry))
    registry.rubrics(f"{PACKAGE}:graders/judge/rubrics")
    registry.report_format("otel", f"{PACKAGE}.reports.exports.otel:export_traces", sends=True)


def _rules(registry: Registry, model: Model, plan: Plan) -> Chat:
    from pytest_agenteval.chat.offline.rules import RulesChat

    return RulesChat(registry.player_of)


def _judge(registry: Registry) -> type[JudgeGrader]:
    """Return the grader by rubric, which finds rubrics by the names that are registered."""
    from pytest_agenteval.graders.judge.judge_grader import JudgeGrader

    bound = {"__slots__": (), "rubric_named": staticmethod(registry.rubric)}
    return type("JudgeGrader", (JudgeGrader,), bound)


# The group of entry points; each names a module with the hook ``pytest_agenteval_register``.
GROUP = "pytest_agenteval.benchmarks"
HOOK = pytest_agenteval_register.__name__
# How pytest's names of benchmarks begin: ``-p no:agenteval-benchmark-NAME`` leaves one out.
BENCHMARK_PLUGIN = "agenteval-benchmark-"


def installed_registry() -> Registry:
    """Return all that is registered without a conftest: what is built in, and what benchmarks offer."""
    registry = Registry(discover=register_benchmarks)
    pytest_agenteval_register(registry)
    return registry


def register_benchmarks(registry: Registry, plugins: pytest.PytestPluginManager | None = None) -> None:
    """Let every installed benchmark register; one that cannot is noted, and keeps no other from it."""
    # In a pytest run each is one of its ``plugins``, so that its fixtures and other hooks are there too. The
    # registering hook is historic: pytest calls that of every plugin that comes later.
    firsts: dict[str, EntryPoint] = {}
    for entry in _benchmark_entries():
        name = f"{BENCHMARK_PLUGIN}{entry.name}"
        try:
            first = firsts.setdefault(entry.name, entry)
            if first is not entry:
                raise UsageMistake(f"a benchmark{_of_distribution(first)} has the same name")
            if plugins is not None and plugins.is_blocked(name):
                continue  # not imported either: it may be left out because it is broken
            module = entry.load()
            if not hasattr(module, HOOK):  # pytest would take it for a plugin without hooks, and say nothing
                raise UsageMistake(f"{entry.value} has no {HOOK}(registry)")
            if plugins is None:
                module.pytest_agenteval_register(registry=registry)
            elif not plugins.is_registered(module):  # one that is a plugin of pytest anyway has registered
                plugins.register(module, name)
        except NameTaken as taken:  # the user decides which of the two goes
            raise UsageMistake(f"{taken}; -p no:{name} leaves the latter out of a run of pytest") from None
        except Exception as raised:  # whatever an author's module raises
            benchmark = f"the benchmark {entry.name!r}{_of_distribution(entry)}"
            registry.note_broken(f"{benchmark} cannot be used: {exception_with_place(raised)}")


def _benchmark_entries() -> Iterator[EntryPoint]:
    # Entry points are looked at as text first: to parse those of every distribution, as importlib's
    # entry_points does, takes seven times as long, in every run.
    names: dict[str, None] = {}
    for distribution in distributions():
        if GROUP in (distribution.read_text("entry_points.txt") or ""):
            names[distribution.name] = None
    for name in names:
        # By its name again: of one that stands on the path twice, what is imported is the first.
        yield from Distribution.from_name(name).entry_points.select(group=GROUP)


def _of_distribution(entry: EntryPoint) -> str:
    return f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
