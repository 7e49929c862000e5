"""The digests that decide whether two trials may be compared, and what has changed if they differ."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pytest_agenteval.agents.agent import is_adapter
from pytest_agenteval.graders.grader import Grader, asks_judges, trait_of
from pytest_agenteval.records.factories import AGENT, FunctionAdapter, InstanceFactory
from pytest_agenteval.records.plan import OWN_MODEL, McpServer, Model, Plan, PlannedGrader, PlannedTask
from pytest_agenteval.records.record import NOTHING, FrozenMap, Record
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.trial import NO_TOOLS, Digests
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.tasks.workspace import snapshot_layers, with_texts
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.json_values import canonical_json, json_digest, text_digest
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.tools.toolsets import files_of_tools

T = TypeVar("T")
GraderFor: TypeAlias = Callable[[PlannedGrader], Grader]

PACKAGE = "pytest_agenteval"
INSTALLED = {"site-packages", "dist-packages"}
STANDARD_LIBRARY = str(Path(os.__file__).parent) + os.sep


class DigestCache:
    """Digests already computed, each remembered with the object it was computed from.

    Trials share most of what they are made of; encoding it as canonical JSON for each would cost more than
    the trial.
    """

    def __init__(self) -> None:
        self._digests: dict[tuple[Hashable, ...], tuple[object, Any]] = {}

    def of(self, what: str, thing: object, value: Callable[[], Any], beside: Hashable = None) -> str:
        """Return the digest of ``value()``, computed once for each pair of ``thing`` and ``beside``."""
        return self.once(what, thing, lambda: json_digest(value()), beside)

    def once(self, what: str, thing: object, value: Callable[[], T], beside: Hashable = None) -> T:
        """Return ``value()``, computed once for each pair of ``thing`` and ``beside``."""
        # Two tuples of the same objects count as one thing: each trial has its own tuple of its suite's
        # tools. The entry holds the thing and its members, so that no other object gets their ids.
        key = (what, tuple(map(id, thing)) if type(thing) is tuple else id(thing), beside)
        entry = self._digests.get(key)
        if entry is None:
            if len(self._digests) > 512:
                self._digests.clear()
            entry = self._digests[key] = (thing, value())
        known: T = entry[1]
        return known


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
    """Return what this trial was made of, as digests; ``grader_for`` returns the grader of a planned one.

    ``own_models`` are those that the agent called by itself. ``offered`` is the digest of the tools that
    there were before it acted, if others have come since. ``sent`` are the digests of ``sent_digests``.
    """
    task, model, graders = plan.task, plan.model, grader_digests(plan, grader_for, cache)
    limits = task.limits.steps, task.limits.seconds, task.limits.tokens, task.limits.cost_usd
    faults = canonical_json(task.faults) if task.faults else ""
    settings_key = (task.agent, task.clock, limits, task.on_miss, faults, id(task.form))

    def settings() -> list[Any]:
        # Without the place of the project, which differs between machines, and without secrets.
        places = ("folder", "paths", "given")
        form = {key: value for key, value in task.form.items() if key not in places}
        forms = [KNOWN_SECRETS.value(form)] if form else []
        return [task.agent, task.settings, task.clock, limits, task.on_miss, *task.faults, *forms]

    fixture, layers = "", [Path(layer) for layer in task.layers]
    if task.texts:
        fixture = cache.of(
            "texts", task.texts, lambda: with_texts(snapshot_layers(layers), task.texts).digest()
        )
    elif layers:
        fixture = cache.of("fixture", task.layers, lambda: snapshot_layers(layers).digest())
    # An agent that chooses its models itself is identified by those that it used; if none is known, by
    # nothing.
    own = tuple(sorted(own_models)) if model.offline or model.id == OWN_MODEL else ()
    model_digest = ""
    if model.id != OWN_MODEL or own:
        model_digest = cache.of("model", model, lambda: [model.id, model.params, *own], own)
    return Digests(
        input=input_digest(task, cache),
        fixture=fixture,
        prompt=prompt,
        settings=cache.of("settings", task.settings, settings, settings_key),
        tools=tools_digest(specs, cache),
        ruler=graders.ruler,
        model=model_digest,
        code=code,
        offered=offered,
        graders=graders.by_label,
        tool_code=tool_code,
        acted_out=acted_out,
        grader_code=graders.code,
        sent=sent,
    )


def input_digest(task: PlannedTask, cache: DigestCache) -> str:
    if task.user:
        return cache.of("input", task.user, lambda: [task.input, task.user], id(task.input))
    return cache.of("input", task.input, lambda: task.input)


def tools_digest(specs: tuple[ToolSpec, ...], cache: DigestCache) -> str:
    """Return the digest of tools as they are declared to a model; empty if there are none."""
    return cache.of("tools", specs, lambda: [spec.declaration() for spec in specs]) if specs else ""


class GraderDigests(NamedTuple):
    """What a trial's grades depend on beside the trial: all of it as one digest, and each by its label."""

    ruler: str
    by_label: Mapping[str, str]
    code: Mapping[str, str] = NOTHING  # of graders that are somebody's own, by label


def grader_digests(plan: Plan, grader_for: GraderFor, cache: DigestCache) -> GraderDigests:
    graders, judges = plan.task.graders, plan.conditions.judges

    def digests() -> GraderDigests:
        rulers = [_ruler(planned, grader_for, judges) for planned in graders]
        by_label = {
            planned.label: versioned_digest(version, ruler)
            for planned, (version, ruler) in zip(graders, rulers, strict=True)
        }
        code = {planned.label: _grader_code(planned, grader_for, cache) for planned in graders}
        own = FrozenMap({label: files for label, files in code.items() if files})
        return GraderDigests(json_digest([ruler for _, ruler in rulers]), FrozenMap(by_label), own or NOTHING)

    judge_key = tuple((judge.id, canonical_json(judge.params)) for judge in judges)
    return cache.once("ruler", graders, digests, judge_key)


def versioned_digest(version: str, ruler: Any) -> str:
    """Return a grader's version and the digest of all that its grade depends on: ``3:0a1b2c3d4e5f``."""
    return f"{version}:{json_digest(ruler)[:12]}"


def _ruler(planned: PlannedGrader, grader_for: GraderFor, judges: Sequence[Model]) -> tuple[str, Any]:
    """Return a grader's version, and what its grade depends on; judges only if the grader asks them."""
    try:
        grader = grader_for(planned)
        threshold = planned.threshold if planned.threshold is not None else trait_of(grader, "threshold")
        config = [planned.config, planned.weight, threshold, planned.required]
        own_judges = [[judge.id, judge.params] for judge in judges] if asks_judges(grader) else []
        own = [trait_of(grader, "version"), trait_of(grader, "rubric_digest"), *own_judges]
        ruler = [planned.name, planned.label, *config, *own]
        # An author's class may describe itself by something that is not JSON: then this raises.
        canonical_json(ruler)
        version = str(trait_of(grader, "version"))
    # A grader that cannot be made, or whose attributes cannot be read: its grade will say so.
    except BaseException:
        config = [planned.config, planned.weight, planned.threshold, planned.required]
        return "", [planned.name, planned.label, *config, "no grader"]
    return version, ruler


def _grader_code(planned: PlannedGrader, grader_for: GraderFor, cache: DigestCache) -> str:
    try:
        grader = grader_for(planned)
    # A grader that cannot be made: its grade will say so.
    except BaseException:
        return ""
    thing = vars(grader)["grade"] if isinstance(grader, FunctionAdapter) else type(grader)
    return cache.once("grader code", thing, lambda: _digest_of_files(_own_files(thing)))


def code_digest(agent: object, factory: object) -> str:
    """Return 16 hex digits of all source files of an agent; empty if its code is in no file.

    These are the files of its class and of the base classes, or of its function, and of the function that
    makes it. The standard library, installed packages and what these files import are left out. Neither the
    place of a file nor its line breaks change the digest.
    """
    # An agent that is not Python has its own way to find its files.
    if own := getattr(agent, "files_digest", None):
        return str(own())
    if is_adapter(agent):
        things = [agent.implementation]  # type: ignore[attr-defined]  # which is_adapter looked for
    else:
        things = [vars(agent)[AGENT.method] if isinstance(agent, FunctionAdapter) else type(agent)]
        things += [] if isinstance(factory, type | InstanceFactory) else [factory]
    files = {file for thing in things for file in _own_files(thing, with_ours=True)}
    texts = sorted(set(_source_digests(files)))
    return json_digest(texts) if texts else ""


def tool_code_digest(task: PlannedTask, specs: Sequence[ToolSpec], registry: Registry) -> str:
    """Return the digest of the files that a task's tools are written in; empty if there are none.

    These are the suite's tool files, and those of registered tools among ``specs``. For an MCP server they
    are its entry in the suite and the files that its command names. What these files import is left out.
    """
    registered = registry.tools
    functions = [registered[spec.name].function for spec in specs if spec.name in registered]
    files = {file for function in functions for file in _own_files(function)}
    servers = []
    for entry in task.tools:
        if isinstance(entry, McpServer):
            # Without the place of the project, which differs between machines.
            own = {key: value for key, value in entry.to_json().items() if key not in ("folder", "schemas")}
            servers.append(KNOWN_SECRETS.value(own))
            for part in entry.command:
                with suppress(OSError, ValueError):
                    if (file := Path(entry.folder, entry.cwd, part)).is_file():
                        files.add(str(file))
        else:
            places = registry.toolsets.get(entry) or (Path(entry),)
            files.update(str(file) for place in places for file in files_of_tools(place))
    return _digest_of_files(files, *servers)


def acted_out_digest(plan: Plan, registry: Registry, cache: DigestCache) -> str:
    """Return the digest of the script of an offline model and of its code; empty for other models."""
    model, task = plan.model, plan.task
    if not model.offline:
        return ""

    def player_code() -> str:
        if model.id == "rules":
            return _digest_of_files(file for player in registry.own_players for file in _own_files(player))
        # A model that nobody has registered breaks its trial elsewhere.
        with suppress(UsageMistake):
            return _digest_of_files(_own_files(registry.model_factory(model.id)))
        return ""

    code = cache.once("player", registry, player_code, model.id)
    # Which of the two a user's own model acts out is not known, so both count.
    scripts = {"rules": (), "nop": (), "scripted": (task.script,), "oracle": (task.reference,)}
    parts = [part for part in scripts.get(model.id, (task.script, task.reference)) if part]
    return json_digest([code, *parts])[:16] if code or parts else ""


def _digest_of_files(files: Iterable[str], *more: Any) -> str:
    texts = sorted(set(_source_digests(files)))
    more = tuple(each for each in more if each)
    return json_digest([texts, *more])[:16] if texts or more else ""


def _source_digests(files: Iterable[str]) -> Iterator[str]:
    for file in files:
        with suppress(OSError):
            # Read as text, so that all line breaks are the same.
            yield text_digest(Path(file).read_text(encoding="utf-8", errors="surrogateescape"))


def _own_files(thing: object, *, with_ours: bool = False) -> set[str]:
    """Return the source files of a class, a function or an object, with those of bases and of what it wraps.

    The standard library and installed packages are left out, unless the thing itself is of one of them.
    """
    while isinstance(thing, partial):
        thing = thing.func
    package = _top(getattr(thing, "__module__", ""))
    files: set[str] = set()
    # A class whose attributes cannot be read is still one that can be used.
    with suppress(Exception):
        for module, file in _places(thing):
            is_ours = _top(module) == PACKAGE
            is_foreign = file.startswith(STANDARD_LIBRARY) or INSTALLED.intersection(Path(file).parts)
            if with_ours if is_ours else _top(module) == package or not is_foreign:
                files.add(file)
        return {file for file in files if file.endswith(".py")}
    return set()


def _places(thing: object) -> Iterator[tuple[str, str]]:
    """Yield module and file of each part of a thing's code."""
    parts, seen = [thing], set[int]()
    while parts:
        part = parts.pop()
        # A function may say that it wraps itself.
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, FunctionType):
            yield part.__globals__.get("__name__", ""), part.__code__.co_filename
            parts.append(vars(part).get("__wrapped__"))
        elif isinstance(part, partial):
            parts.append(part.func)
        elif isinstance(part, MethodType):
            parts.append(part.__self__)
        elif not isinstance(part, type):
            parts.append(type(part))
        else:
            # A protocol only declares what a class has.
            for kind in (kind for kind in part.__mro__ if not vars(kind).get("_is_protocol")):
                # All conftests may be called "conftest", and sys.modules knows only the last; functions know
                # their own file.
                module = vars(sys.modules.get(kind.__module__, sys))
                # A copy, as other threads may import into the module meanwhile.
                if any(value is kind for value in tuple(module.values())):
                    yield kind.__module__, module.get("__file__") or ""
                members = [getattr(member, "__func__", member) for member in vars(kind).values()]
                members = [member.fget if isinstance(member, property) else member for member in members]
                parts += [member for member in members if isinstance(member, FunctionType)]


def _top(module: object) -> str:
    return str(module).partition(".")[0]


class AgentDigests(Record, frozen=True):
    """Digests of the agent of a trial before it acts, as the trial would have them."""

    prompt: str = ""  # of all prompts together
    code: str = ""
    tools: str = ""  # those that it is offered; it may offer others itself
    prompts: Mapping[str, str] = NOTHING  # of each text, by its name
    tool_code: str = ""  # of the files that tools are written in


# Digests that follow from the plan alone: what an agent sees, and its model; with the words for people.
PLAN_DIGESTS = {
    "input": "task input",
    "fixture": "fixture",
    "settings": "settings, clock or limits",
    "model": "model",
    "acted_out": "script",
}


class DigestChanges(NamedTuple):
    """What has changed, in words: for the ``agent``, and for the ``ruler``."""

    agent: tuple[str, ...] = ()
    ruler: tuple[str, ...] = ()


def digest_diff(
    old: Digests, new: Digests, side: AgentDigests, prompts_read: Mapping[str, str]
) -> DigestChanges:
    """Return what has changed since a trial; ``side`` is what its agent would be today.

    ``prompts_read`` are the digests, by name, of the prompts that the trial is known to have read.
    """
    if agent := tuple(_agent_changes(old, new, side, prompts_read)):
        return DigestChanges(agent)
    if old.ruler != new.ruler:
        before, after = old.graders, new.graders
        labels = {**before, **after}
        changes = [_grader_change(label, before.get(label, ""), after.get(label, "")) for label in labels]
        words = ", ".join(filter(None, changes))
        return DigestChanges((), (f"grader {words}" if words else "graders changed",))
    changed = [label for label, code in new.grader_code.items() if old.grader_code.get(label, "") != code]
    return DigestChanges((), (f"code of grader {', '.join(changed)}",) if changed else ())


def _agent_changes(old: Digests, new: Digests, side: AgentDigests, read: Mapping[str, str]) -> Iterator[str]:
    for name, words in PLAN_DIGESTS.items():
        if getattr(old, name) != getattr(new, name):
            yield f"{words} changed"
    if old.prompt != side.prompt:
        changed = [name for name, digest in read.items() if side.prompts.get(name) != digest]
        yield f"prompt {', '.join(changed)} changed" if changed else "prompts changed"
    if old.code != side.code:
        yield "agent code changed"
    before = old.tools if not old.offered else "" if old.offered == NO_TOOLS else old.offered
    if before != side.tools:
        yield "tools changed"
    elif old.tool_code != side.tool_code:
        yield "tool code changed"


def _grader_change(label: str, before: str, after: str) -> str:
    if before == after:
        return ""
    if not before:
        return f"{label} is new"
    if not after:
        return f"{label} is gone"
    old, new = before.rpartition(":")[0], after.rpartition(":")[0]
    return f"{label} {old} -> {new}" if old != new else f"{label} has other settings or judges"
