"""The digests that tell whether two trials may be compared, and in what they differ."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pytest_agenteval.engine.own_code import acted_out, grader_code_digest, player_code_digest
from pytest_agenteval.graders.grader import Grader, asks_judges, own_threshold, rubric_digest_of, version_of
from pytest_agenteval.records.factories import FunctionAdapter
from pytest_agenteval.records.plan import OWN_MODEL, Model, Plan, PlannedGrader, PlannedTask
from pytest_agenteval.records.record import NOTHING, FrozenMap
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.tasks.workspace.snapshot import snapshot_layers, with_texts
from pytest_agenteval.text.canonical import canonical, digest
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

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
        fixture=_fixture(task, cache) if task.layers or task.texts else "",
        prompt=prompt,
        settings=cache.of(
            "settings",
            task.settings,
            lambda: [task.agent, task.settings, task.clock, limits, task.on_miss, *task.faults, *_form(task)],
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
        model=_model(model, own_models, cache),
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


def _form(task: PlannedTask) -> list[Any]:
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


def _fixture(task: PlannedTask, cache: DigestCache) -> str:
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


def _model(model: Model, own_models: tuple[str, ...], cache: DigestCache) -> str:
    """Give the digest of who thought: where the agent chose for itself, of those that it asked."""
    own = tuple(sorted(own_models)) if model.offline or model.id == OWN_MODEL else ()
    if model.id == OWN_MODEL and not own:  # nobody knows
        return ""
    return cache.of("model", model, lambda: [model.id, model.params, *own], own)
