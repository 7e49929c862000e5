"""The digests that tell whether two trials may be compared, and in what they differ."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agenteval.canonical import canonical, digest
from pytest_agenteval.graders.grader import Grader, asks_judges, own_threshold, rubric_digest_of, version_of
from pytest_agenteval.records.plan import Model, Plan, PlannedGrader, PlannedTask
from pytest_agenteval.records.tool import ToolSpec
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.workspace.snapshot import snapshot_layers, with_texts

GraderFor: TypeAlias = Callable[[PlannedGrader], Grader]


class DigestCache:
    """Digests already worked out, kept by the object they were worked out from.

    Most of what a trial is made of is shared by many trials; writing it as canonical JSON each time would
    cost more than the trial.
    """

    def __init__(self) -> None:
        self._digests: dict[tuple[Hashable, ...], tuple[object, str]] = {}

    def of(self, what: str, thing: object, value: Callable[[], Any], beside: Hashable = None) -> str:
        """Give the digest of ``value()``, worked out once for each thing and what stands ``beside`` it."""
        key = (what, id(thing), beside)
        entry = self._digests.get(key)
        if entry is None or entry[0] is not thing:
            if len(self._digests) > 512:
                self._digests.clear()
            entry = self._digests[key] = (thing, digest(value()))
        return entry[1]


def digests_of(
    plan: Plan, grader_for: GraderFor, prompt: str, specs: tuple[ToolSpec, ...], cache: DigestCache
) -> Digests:
    """Give what this trial was made of, as digests; ``grader_for`` gives the grader of a planned one."""
    task, model, judges = plan.task, plan.model, _judge_ids(plan.conditions.judges)
    limits = task.limits.steps, task.limits.seconds, task.limits.tokens, task.limits.cost_usd
    return Digests(
        input=cache.of("input", task.input, lambda: task.input),
        fixture=_fixture(task, cache) if task.layers or task.texts else "",
        prompt=prompt,
        settings=cache.of(
            "settings",
            task.settings,
            lambda: [task.agent, task.settings, task.clock, limits, task.on_miss, *task.faults],
            (task.agent, task.clock, limits, task.on_miss, canonical(task.faults) if task.faults else ""),
        ),
        tools=cache.of("tools", specs, lambda: [spec.declaration() for spec in specs]) if specs else "",
        ruler=cache.of("ruler", task.graders, lambda: _rulers(plan, grader_for), judges),
        model=cache.of("model", model, lambda: _model(model)),
    )


def _fixture(task: PlannedTask, cache: DigestCache) -> str:
    layers = [Path(layer) for layer in task.layers]
    if task.texts:
        return cache.of("texts", task.texts, lambda: with_texts(snapshot_layers(layers), task.texts).digest())
    return cache.of("fixture", task.layers, lambda: snapshot_layers(layers).digest())


def _judge_ids(judges: tuple[Model, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((judge.id, canonical(judge.params)) for judge in judges)


def _rulers(plan: Plan, grader_for: GraderFor) -> Any:
    judges = [[judge.id, judge.params] for judge in plan.conditions.judges]
    return [_ruler(planned, grader_for, judges) for planned in plan.task.graders]


def _ruler(planned: PlannedGrader, grader_for: GraderFor, judges: list[Any]) -> Any:
    """Give what a grade depends on; the judges only where the grader asks them."""
    try:
        ruler = _ruler_of(planned, grader_for(planned), judges)
        canonical(ruler)  # what somebody's class says of itself may be no JSON
    except BaseException:  # a grader that cannot be made, or says odd things of itself: its grade tells
        config = [planned.config, planned.weight, planned.threshold, planned.required]
        return [planned.name, planned.label, *config, "no grader"]
    return ruler


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


def _model(model: Model) -> Any:
    return [model.id, model.params]
