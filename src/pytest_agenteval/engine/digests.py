"""The digests that tell whether two trials may be compared, and what has changed where they differ."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar

from pytest_agenteval.agents.agent import is_adapter
from pytest_agenteval.graders.grader import Grader, asks_judges, own_threshold, rubric_digest_of, version_of
from pytest_agenteval.records.factories import AGENT, FunctionAdapter, InstanceFactory
from pytest_agenteval.records.plan import OWN_MODEL, McpServer, Model, Plan, PlannedGrader, PlannedTask
from pytest_agenteval.records.record import NOTHING, FrozenMap, Record
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.trial import NO_TOOLS, Digests
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.tasks.workspace.snapshot import snapshot_layers, with_texts
from pytest_agenteval.text.canonical import canonical, digest, digest_text
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS
from pytest_agenteval.tools.toolsets import files_of_tools

PACKAGE = "pytest_agenteval"
INSTALLED = {"site-packages", "dist-packages"}
STANDARD_LIBRARY = str(Path(os.__file__).parent) + os.sep


class CodePlace(NamedTuple):
    """Where a piece of code is written: the name of its module, and the file."""

    module: str
    file: str


def code_digest(agent: object, factory: object) -> str:
    """Give 16 hex digits of all source files of an agent; empty where its code stands in none.

    They are those of its class and of the classes this inherits from, or of the function that is the agent,
    and of the function that makes it, if one does. The standard library and what others have installed are
    left out, and so is whatever these files import. Where a file lies and how its lines end changes nothing.
    """
    if own := getattr(agent, "files_digest", None):  # of one that is no Python
        return str(own())
    try:
        files = {place.file for thing in _registered(agent, factory) for place in _own_places(thing)}
        texts = sorted(set(_file_digests(files)))
    except Exception:  # an author's class that says odd things of itself is still one that can be tried
        return ""
    return digest(texts) if texts else ""


def own_files(thing: object) -> set[str]:
    """Give the source files of a class, a function or an object, without ours and installed ones."""
    places = _own_places(thing)
    return {place.file for place in places if _top(place.module) != PACKAGE and place.file.endswith(".py")}


def _registered(agent: object, factory: object) -> Iterator[object]:
    if is_adapter(agent):
        yield agent.implementation  # type: ignore[attr-defined]  # which is_adapter looked for
        return
    yield vars(agent)[AGENT.method] if isinstance(agent, FunctionAdapter) else type(agent)
    if not isinstance(factory, type | InstanceFactory):
        yield factory


def _own_places(thing: object) -> Iterator[CodePlace]:
    function = thing
    while isinstance(function, partial):
        function = function.func
    packages = {PACKAGE, _top(getattr(function, "__module__", ""))}
    for place in _places(thing):
        is_foreign = place.file.startswith(STANDARD_LIBRARY) or INSTALLED.intersection(Path(place.file).parts)
        if _top(place.module) in packages or not is_foreign:
            yield place


def _places(thing: object) -> Iterator[CodePlace]:
    """Give the places of a class, of a function and whatever it wraps, or of what else can be called."""
    if isinstance(thing, type):
        for kind in thing.__mro__:
            if not vars(kind).get("_is_protocol"):  # which only says what a class has
                yield from _class_places(kind)
    elif isinstance(thing, FunctionType):
        yield CodePlace(thing.__globals__.get("__name__", ""), thing.__code__.co_filename)
        yield from _places(vars(thing).get("__wrapped__"))
    elif isinstance(thing, partial):
        yield from _places(thing.func)
    elif isinstance(thing, MethodType):
        owner = thing.__self__
        yield from _places(owner if isinstance(owner, type) else type(owner))
    elif thing is not None:
        yield from _places(type(thing))


def _class_places(kind: type) -> Iterator[CodePlace]:
    # Of conftests, which all may be called "conftest", sys.modules knows the last: functions know their own.
    module = vars(sys.modules.get(kind.__module__, sys))
    if any(value is kind for value in tuple(module.values())):  # other threads may import meanwhile
        yield CodePlace(kind.__module__, module.get("__file__") or "")
    for member in vars(kind).values():
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        function = function.fget if isinstance(function, property) else function
        if isinstance(function, FunctionType):
            yield from _places(function)


def _file_digests(files: Iterable[str]) -> Iterator[str]:
    for file in files:
        if file.endswith(".py"):
            with suppress(OSError):
                # Read as text, in which every line ends alike.
                yield digest_text(Path(file).read_text(encoding="utf-8", errors="surrogateescape"))


def _top(module: object) -> str:
    return str(module).partition(".")[0]


RULES, NOP = "rules", "nop"
"""Offline models of ours that know nothing of the task; all others may act out what it says."""


def tool_code_digest(task: PlannedTask, specs: Sequence[ToolSpec], registry: Registry) -> str:
    """Give the digest of the files that the tools of a task are written in; empty where there are none.

    They are the suite's files of tools, and those of registered tools among ``specs``. Of a server of tools
    it is what the suite says of it, and the files that its command names. What these files import is left
    out.
    """
    registered = registry.tools
    files = {
        file
        for spec in specs
        if spec.name in registered
        for file in _own_files(registered[spec.name].function)
    }
    servers = []
    for entry in task.tools:
        if isinstance(entry, McpServer):
            servers.append(_server(entry))
            files.update(entry_file for part in entry.command for entry_file in _file_of_command(entry, part))
        else:
            places = registry.toolsets.get(entry) or (Path(entry),)
            files.update(str(file) for place in places for file in files_of_tools(place))
    return _digest_of_files(files, *servers)


def acted_out(plan: Plan) -> tuple[Any, ...]:
    """Give what an offline model acts out of a task: a script, the reference, or both where nobody knows."""
    model, task = plan.model, plan.task
    if not model.offline or model.id in (RULES, NOP):
        return ()
    whole = {"scripted": (task.script,), "oracle": (task.reference,)}
    return tuple(part for part in whole.get(model.id, (task.script, task.reference)) if part)


def player_code_digest(model: Model, registry: Registry) -> str:
    """Give the digest of the files of an offline model that is somebody's own, or of who plays ``rules``."""
    if model.id == RULES:
        return _digest_of_files(file for player in registry.own_players for file in _own_files(player))
    with suppress(UsageMistake):  # a model that nobody has registered breaks its trial
        return _digest_of_files(_own_files(registry.model_factory(model.id)))
    return ""


def grader_code_digest(grader: object) -> str:
    """Give the digest of the files of a grader's class or function; empty for those of ours."""
    return _digest_of_files(_own_files(grader))


def _own_files(thing: object) -> set[str]:
    try:
        return own_files(thing)
    except Exception:  # a class that says odd things of itself is still one that can be used
        return set()


def _digest_of_files(files: Iterable[str], *more: Any) -> str:
    texts = sorted(set(_source_digests(files)))
    more = tuple(each for each in more if each)
    return digest([texts, *more])[:16] if texts or more else ""


def _source_digests(files: Iterable[str]) -> Iterator[str]:
    for file in files:
        with suppress(OSError):
            # Read as text, in which every line ends alike.
            yield digest_text(Path(file).read_text(encoding="utf-8", errors="surrogateescape"))


def _server(server: McpServer) -> Any:
    """Give what a suite says of a server of tools, but not where the project lies."""
    own = server.to_json()
    return KNOWN_SECRETS.value({key: value for key, value in own.items() if key not in ("folder", "schemas")})


def _file_of_command(server: McpServer, part: str) -> Iterator[str]:
    file = Path(server.folder, server.cwd, part)
    with suppress(OSError, ValueError):
        if file.is_file():
            yield str(file)


class AgentDigests(Record, frozen=True):
    """Digests of what stands on an agent's side before it acts, as its trial would have them.

    ``tools`` are those that it is offered; it may offer others itself. ``prompts`` holds the digest of each
    prompt's text by its name, of which ``prompt`` is the digest of all. ``tool_code`` covers the files that
    tools are written in.
    """

    prompt: str = ""
    code: str = ""
    tools: str = ""
    prompts: Mapping[str, str] = NOTHING
    tool_code: str = ""


class DigestsAgents(Protocol):
    """An executor that can say what an agent would be in a trial, so that the agent is made only there."""

    async def agent_side(self, plan: Plan) -> AgentDigests:
        """Make the agent if need be, and say what it is; raises what keeps it from being made."""
        ...


def digests_agents(executor: object) -> TypeGuard[DigestsAgents]:
    """Whether an executor can say what an agent would be."""
    return hasattr(executor, "agent_side")


PLAN_DIGESTS = {
    "input": "task input",
    "fixture": "fixture",
    "settings": "settings, clock or limits",
    "model": "model",
    "acted_out": "script",
}
"""Digests of what an agent sees, and which model it is, as far as the plan tells; and what people call it."""


class DigestChanges(NamedTuple):
    """What is not what it was, in words: of what the ``agent`` sees and is, and of the ``ruler``."""

    agent: tuple[str, ...] = ()
    ruler: tuple[str, ...] = ()


def digest_diff(
    old: Digests, new: Digests, side: AgentDigests, prompts_read: Mapping[str, str]
) -> DigestChanges:
    """Say what has changed since a trial; ``side`` is what its agent would be today.

    ``prompts_read`` are the digests of the prompts that the trial is known to have read, by name.
    """
    agent = tuple(_agent_changes(old, new, side, prompts_read))
    return DigestChanges(agent, tuple(_ruler_changes(old, new)) if not agent else ())


def _agent_changes(old: Digests, new: Digests, side: AgentDigests, read: Mapping[str, str]) -> Iterator[str]:
    for name, words in PLAN_DIGESTS.items():
        if getattr(old, name) != getattr(new, name):
            yield f"{words} changed"
    if old.prompt != side.prompt:
        yield f"{_changed_prompts(read, side.prompts)} changed"
    if old.code != side.code:
        yield "agent code changed"
    before = old.tools if not old.offered else "" if old.offered == NO_TOOLS else old.offered
    if before != side.tools:
        yield "tools changed"
    elif old.tool_code != side.tool_code:
        yield "tool code changed"


def _changed_prompts(read: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Name the prompts whose texts are others, as far as the trial has read them."""
    names = [name for name, digest in read.items() if now.get(name) != digest]
    return f"prompt {_joined(names)}" if names else "prompts"


def _ruler_changes(old: Digests, new: Digests) -> Iterator[str]:
    if old.ruler == new.ruler:
        if named := [label for label in new.grader_code if _code_changed(label, old, new)]:
            yield f"code of grader {_joined(named)}"
        return
    before, after = old.graders, new.graders
    named = [
        _grader_change(label, before.get(label, ""), after.get(label, "")) for label in {**before, **after}
    ]
    words = [word for word in named if word]
    yield f"grader {_joined(words)}" if words else "graders changed"


def _code_changed(label: str, old: Digests, new: Digests) -> bool:
    return old.grader_code.get(label, "") != new.grader_code[label]


def _grader_change(label: str, before: str, after: str) -> str:
    if before == after:
        return ""
    if not before:
        return f"{label} is new"
    if not after:
        return f"{label} is gone"
    was, now = before.rpartition(":")[0], after.rpartition(":")[0]
    return f"{label} {was} -> {now}" if was != now else f"{label} configured or judged otherwise"


def _joined(names: Collection[str]) -> str:
    return ", ".join(names)


T = TypeVar("T")
GraderFor: TypeAlias = Callable[[PlannedGrader], Grader]


class DigestCache:
    """Digests already worked out, each remembered with the object it was worked out from.

    Most of what a trial is made of is shared by many trials; writing it as canonical JSON each time would
    cost more than the trial.
    """

    def __init__(self) -> None:
        self._digests: dict[tuple[Hashable, ...], tuple[object, Any]] = {}

    def of(self, what: str, thing: object, value: Callable[[], Any], beside: Hashable = None) -> str:
        """Give the digest of ``value()``, worked out once for each thing and what stands ``beside`` it."""
        return self.once(what, thing, lambda: digest(value()), beside)

    def once(self, what: str, thing: object, value: Callable[[], T], beside: Hashable = None) -> T:
        """Give ``value()``, worked out once for each thing and what stands ``beside`` it.

        Two tuples of the very same members are one thing: each trial has its own of its suite's tools.
        """
        # What is remembered is held, and its members with it: nothing else gets their ids.
        key = (what, tuple(map(id, thing)) if type(thing) is tuple else id(thing), beside)
        entry = self._digests.get(key)
        if entry is None:
            if len(self._digests) > 512:
                self._digests.clear()
            entry = self._digests[key] = (thing, value())
        known: T = entry[1]
        return known


class GraderDigests(NamedTuple):
    """What a trial's grades depend on beside the trial: all of it as one digest, and each by its label.

    ``code`` is that of graders that are somebody's own, by label.
    """

    ruler: str
    by_label: Mapping[str, str]
    code: Mapping[str, str] = NOTHING


def digests_of(
    plan: Plan,
    grader_for: GraderFor,
    prompt: str,
    code: str,
    specs: tuple[ToolSpec, ...],
    own_models: tuple[str, ...],
    cache: DigestCache,
    offered: str = "",
    tool_code: str = "",
    acted_out: str = "",
    sent: Mapping[str, str] = NOTHING,
) -> Digests:
    """Give what this trial was made of, as digests; ``grader_for`` gives the grader of a planned one.

    ``own_models`` are those that the agent asked by itself. ``offered`` is the digest of the tools that there
    were before it acted, where others have come since. ``tool_code`` and ``acted_out`` are those of
    ``own_code``, ``sent`` are those of ``sent_prompts``.
    """
    task, model, graders = plan.task, plan.model, grader_digests(plan, grader_for, cache)
    limits = task.limits.steps, task.limits.seconds, task.limits.tokens, task.limits.cost_usd
    return Digests(
        input=input_digest(task, cache),
        fixture=_fixture_digest(task, cache) if task.layers or task.texts else "",
        prompt=prompt,
        settings=cache.of(
            "settings",
            task.settings,
            lambda: [
                task.agent,
                task.settings,
                task.clock,
                limits,
                task.on_miss,
                *task.faults,
                *_form_parts(task),
            ],
            (
                task.agent,
                task.clock,
                limits,
                task.on_miss,
                canonical(task.faults) if task.faults else "",
                id(task.form),
            ),
        ),
        tools=tools_digest(specs, cache),
        ruler=graders.ruler,
        model=_model_digest(model, own_models, cache),
        code=code,
        offered=offered,
        graders=graders.by_label,
        tool_code=tool_code,
        acted_out=acted_out,
        grader_code=graders.code,
        sent=sent,
    )


def tools_digest(specs: tuple[ToolSpec, ...], cache: DigestCache) -> str:
    """Give the digest of tools as a model is told of them; empty for none."""
    return cache.of("tools", specs, lambda: [spec.declaration() for spec in specs]) if specs else ""


def _form_parts(task: PlannedTask) -> list[Any]:
    """Give what a form says of an agent, but no secrets, and not where the project lies."""
    places = ("folder", "paths", "given")
    form = {key: value for key, value in task.form.items() if key not in places}
    return [KNOWN_SECRETS.value(form)] if form else []


def input_digest(task: PlannedTask, cache: DigestCache) -> str:
    """Give the digest of what the task gives the agent."""
    if task.user:
        return cache.of("input", task.user, lambda: [task.input, task.user], id(task.input))
    return cache.of("input", task.input, lambda: task.input)


def grader_digests(plan: Plan, grader_for: GraderFor, cache: DigestCache) -> GraderDigests:
    """Give the digests of a plan's graders; ``grader_for`` gives the grader of a planned one."""
    judges = _judge_ids(plan.conditions.judges)
    return cache.once("ruler", plan.task.graders, lambda: _grader_digests(plan, grader_for, cache), judges)


def acted_out_digest(plan: Plan, registry: Registry, cache: DigestCache) -> str:
    """Give the digest of what an offline model acts out, and of who plays it; empty for all other models."""
    if not plan.model.offline:
        return ""
    code = cache.once("player", registry, lambda: player_code_digest(plan.model, registry), plan.model.id)
    parts = acted_out(plan)
    return digest([code, *parts])[:16] if code or parts else ""


def versioned_digest(version: str, ruler: Any) -> str:
    """Write a grader's version and the digest of all that its grade depends on: ``3:0a1b2c3d4e5f``."""
    return f"{version}:{digest(ruler)[:12]}"


def _fixture_digest(task: PlannedTask, cache: DigestCache) -> str:
    layers = [Path(layer) for layer in task.layers]
    if task.texts:
        return cache.of("texts", task.texts, lambda: with_texts(snapshot_layers(layers), task.texts).digest())
    return cache.of("fixture", task.layers, lambda: snapshot_layers(layers).digest())


def _judge_ids(judges: tuple[Model, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((judge.id, canonical(judge.params)) for judge in judges)


def _grader_digests(plan: Plan, grader_for: GraderFor, cache: DigestCache) -> GraderDigests:
    judges = [[judge.id, judge.params] for judge in plan.conditions.judges]
    rulers = [_ruler(planned, grader_for, judges) for planned in plan.task.graders]
    by_label = {
        planned.label: versioned_digest(version, ruler)
        for planned, (version, ruler) in zip(plan.task.graders, rulers, strict=True)
    }
    code = {planned.label: _grader_code(planned, grader_for, cache) for planned in plan.task.graders}
    own = FrozenMap({label: files for label, files in code.items() if files})
    return GraderDigests(digest([ruler for _, ruler in rulers]), FrozenMap(by_label), own or NOTHING)


def _grader_code(planned: PlannedGrader, grader_for: GraderFor, cache: DigestCache) -> str:
    try:
        grader = grader_for(planned)
    except BaseException:  # one that cannot be made: its grade tells
        return ""
    thing = vars(grader)["grade"] if isinstance(grader, FunctionAdapter) else type(grader)
    return cache.once("grader code", thing, lambda: grader_code_digest(thing))


def _ruler(planned: PlannedGrader, grader_for: GraderFor, judges: list[Any]) -> tuple[str, Any]:
    """Give a grader's version, and what its grade depends on; the judges only where the grader asks them."""
    try:
        grader = grader_for(planned)
        ruler = _ruler_of(planned, grader, judges)
        canonical(ruler)  # what somebody's class says of itself may be no JSON
        version = str(version_of(grader))
    except BaseException:  # a grader that cannot be made, or says odd things of itself: its grade tells
        config = [planned.config, planned.weight, planned.threshold, planned.required]
        return "", [planned.name, planned.label, *config, "no grader"]
    return version, ruler


def _ruler_of(planned: PlannedGrader, grader: Grader, judges: list[Any]) -> list[Any]:
    own_judges = judges if asks_judges(grader) else []
    return [
        planned.name,
        planned.label,
        planned.config,
        planned.weight,
        planned.threshold if planned.threshold is not None else own_threshold(grader),
        planned.required,
        version_of(grader),
        rubric_digest_of(grader),
        *own_judges,
    ]


def _model_digest(model: Model, own_models: tuple[str, ...], cache: DigestCache) -> str:
    """Give the digest of who thought: where the agent chose for itself, of those that it asked."""
    own = tuple(sorted(own_models)) if model.offline or model.id == OWN_MODEL else ()
    if model.id == OWN_MODEL and not own:  # nobody knows
        return ""
    return cache.of("model", model, lambda: [model.id, model.params, *own], own)
