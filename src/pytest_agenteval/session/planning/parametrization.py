"""Which models, variants and repetitions each task is run with, and the plan of each attempt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from pytest_agenteval.chat.models import expand_panels, resolve, resolve_all
from pytest_agenteval.records.plan import OWN_MODEL, Conditions, Model, Plan, PlannedTask, TrialKey, Variant
from pytest_agenteval.records.record import NOTHING, FrozenMap, same_fields
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.text.errors import UsageMistake


def prompts_of_all(variants: Sequence[Variant]) -> Collection[str]:
    """Name the prompts that every variant has."""
    return sorted(set.intersection(*(set(variant.prompts) for variant in variants))) if variants else ()


DEFAULT_MODELS = ("rules",)
# Our offline models, which play an agent and cannot judge.
PLAYERS = frozenset({"rules", "oracle", "nop", "scripted", "spoiler"})
UNNAMED = Variant()


class Case(NamedTuple):
    """One combination in which a task runs; its id stands in brackets behind the task's name."""

    model: Model
    variant: Variant
    repetition: int

    @property
    def id(self) -> str:
        """``claude-1``, or ``claude@short-1`` with a variant."""
        variant = f"@{self.variant.name}" if self.variant.name else ""
        return f"{self.model.name}{variant}-{self.repetition}"

    def plan(self, task: PlannedTask) -> Plan:
        """Plan a first attempt at a task in this case."""
        return Plan(task, self.model, self.variant, self.repetition)


def judges_named(names: Sequence[str], settings: Settings, registry: Registry) -> tuple[Model, ...]:
    """Give the judges of these names and panels; raises UsageMistake for one that is no judge of anything."""
    names = expand_panels(names, settings.aliases, registry.judge_panels)
    judges = resolve_all(names, settings.aliases, registry.offline_models)
    for judge in judges:
        if judge.id in PLAYERS or judge.id == OWN_MODEL:
            raise UsageMistake(
                f"{judge.name!r} stands in for an agent and cannot judge; name a model, such as claude"
            )
    return judges


class PlannedItem(pytest.Function):
    """An item that stands for a trial: which task, in which case. A subclass makes it a test."""

    # It is a function with a callspec, not a new kind of item: so parametrized fixtures work, and ``--lf``
    # and ``--sw`` recognize its id, which ends in brackets.
    task: PlannedTask
    case: Case


def trial_key(item: PlannedItem) -> TrialKey:
    task, case = item.task, item.case
    return TrialKey(task.suite, task.id, task.agent, case.model.name, case.variant.name, case.repetition)


class CaseFactory:
    """Works out the cases of each task, once for every set of models and repetitions."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self._settings, self._registry = settings, registry
        # The unnamed variant is what the others are compared with.
        self._variants: tuple[Variant, ...] = (UNNAMED, *settings.variants)
        between = settings.repetition_range
        self._repetitions = between.high if between else settings.fixed_repetitions
        self._named_models = settings.models
        self._models: dict[tuple[str, ...], tuple[Model, ...]] = {}
        # Tasks with the same cases share one tuple, so their items share what pytest works out for it.
        self._by_models: dict[tuple[tuple[str, ...], tuple[str, ...], int], tuple[Case, ...]] = {}

    def cases_of(self, task: PlannedTask, suite_models: Sequence[str]) -> tuple[Case, ...]:
        """Give every case of a task: models, then variants, then repetitions from 1."""
        repetitions = self._repetitions or task.repetitions
        default = (OWN_MODEL,) if task.form else DEFAULT_MODELS
        models = tuple(self._named_models or suite_models or default)
        variants, named = self._variants, self._variants[1:]
        if named and task.form:
            requires_any = getattr(self._registry.agent_factory(task.agent), "requires_any", None)
            # A function that requires prompts of the variants cannot run without them, so it has no unnamed
            # variant.
            if requires_any and requires_any(prompts_of_all(named), task.settings, task.prompts):
                variants = named
        return self._cases(models, variants, repetitions)

    @cached_property
    def judges(self) -> tuple[Model, ...]:
        """Give the models that judge; raises UsageMistake for one that is no judge of anything."""
        settings = self._settings
        if not settings.judges:
            return ()
        with settings.naming_place("judges"):
            return judges_named(settings.judges, settings, self._registry)

    @cached_property
    def user(self) -> Model | None:
        """Give the model that plays users; None where none is named."""
        settings = self._settings
        if not settings.user:
            return None
        with settings.naming_place("user"):
            return resolve(settings.user, settings.aliases, self._registry.offline_models)

    def _cases(
        self, models: tuple[str, ...], variants: tuple[Variant, ...], repetitions: int
    ) -> tuple[Case, ...]:
        if models not in self._models:
            with self._settings.naming_place("models") if self._settings.models else _of_suites():
                self._models[models] = resolve_all(
                    models, self._settings.aliases, self._registry.offline_models
                )
        key = (models, tuple(variant.name for variant in variants), repetitions)
        if key not in self._by_models:
            self._by_models[key] = tuple(
                Case(model, variant, repetition)
                for model in self._models[models]
                for variant in variants
                for repetition in range(1, repetitions + 1)
            )
        return self._by_models[key]


@contextmanager
def _of_suites() -> Iterator[None]:
    """Add to a mistake that a suite or a task names the unknown model."""
    try:
        yield
    except UsageMistake as mistake:
        raise UsageMistake(f"`model` of a suite or a task: {mistake}") from None


_NAMES_AND_PLACE = (
    *("suite", "id", "agent", "kind", "bucket", "tags", "split", "label", "repetitions"),
    *("file", "line", "file_in_root", "row_file"),
)


def name_of_task(task: PlannedTask) -> PlannedTask:
    """Give a task with only its names and place, which is all that reports need once its trials have run."""
    return PlannedTask(graders=(), **same_fields(task, _NAMES_AND_PLACE))


class AttemptPlanner:
    """Plans each attempt at a trial, and counts them.

    ``earlier_attempts`` gives the number of attempts at a trial in a resumed run before this process.
    """

    def __init__(
        self, settings: Settings, conditions: Conditions, earlier_attempts: Callable[[TrialKey], int]
    ) -> None:
        self.conditions = conditions
        self._earlier_attempts = earlier_attempts
        self._latest: dict[TrialKey, int] = {}
        limits = {
            "steps": settings.max_steps,
            "seconds": settings.timeout,
            "tokens": settings.trial_tokens,
            "cost_usd": settings.trial_cost,
        }
        self._limits: Mapping[str, Any] = {name: value for name, value in limits.items() if value is not None}

    def plan(self, task: PlannedTask, case: Case) -> Plan:
        """Plan a trial, before it is decided whether an attempt is made."""
        return Plan(self.with_limits(task), case.model, case.variant, case.repetition, 1, self.conditions)

    def numbered(self, plan: Plan) -> Plan:
        """Count an attempt at the trial of a plan; return the plan with its number, from 1."""
        key = plan.key
        before = self._latest[key] if key in self._latest else self._earlier_attempts(key)
        attempt = self._latest[key] = before + 1
        return plan if attempt == 1 else replace(plan, attempt=attempt)

    def was_planned(self, key: TrialKey) -> bool:
        """Whether a trial was planned, or taken over, before."""
        return key in self._latest

    def take_over(self, trial: Trial) -> None:
        """Count a trial that another process carried out."""
        self._latest[trial.key] = max(trial.attempt, self._earlier_attempts(trial.key))

    def with_limits(self, task: PlannedTask) -> PlannedTask:
        """Give the task within the command line's limits."""
        return replace(task, limits=replace(task.limits, **self._limits)) if self._limits else task


def run_conditions(
    settings: Settings, judges: tuple[Model, ...], user: Model | None, folder: Path
) -> Conditions:
    """Give what is the same for every trial of the run in ``folder``."""
    return Conditions(
        record=settings.record,
        record_chat=settings.record_chat,
        judges=judges,
        seed=settings.seed,
        keep_workspaces=str(folder / "workspaces") if settings.keep_workspaces else "",
        live=settings.live,
        user=user,
        prices=FrozenMap(settings.prices) if settings.prices else NOTHING,
        loopback=settings.allows_loopback,
    )
