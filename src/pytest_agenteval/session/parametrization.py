"""Which models, variants and repetitions each task is tried with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from pytest_agenteval.chat.models import expand_panels, resolve_all
from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.records.plan import Model, Plan, PlannedTask, TrialKey, Variant
from pytest_agenteval.registry import Registry
from pytest_agenteval.session.settings import Settings

DEFAULT_MODELS = ("rules",)
PLAYERS = frozenset({"rules", "oracle", "nop", "scripted"})
"""Offline models of ours: they play an agent."""
UNNAMED = Variant()


class Case(NamedTuple):
    """One way in which a task is tried; the id stands in brackets behind the task's name."""

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


class PlannedItem(Protocol):
    """An item that stands for a trial: which task, in which case."""

    task: PlannedTask
    case: Case


def trial_key(item: PlannedItem) -> TrialKey:
    """Give the key of the trial that an item stands for."""
    task, case = item.task, item.case
    return TrialKey(task.suite, task.id, task.agent, case.model.name, case.variant.name, case.repetition)


@dataclass(frozen=True)
class CaseFactory:
    """Works out the cases of each task, once for every set of models and repetitions."""

    settings: Settings
    registry: Registry

    def of(self, task: PlannedTask, suite_models: Sequence[str]) -> tuple[Case, ...]:
        """Give every case of a task: models, then variants, then repetitions from 1."""
        repetitions = self.settings.repetitions or task.repetitions
        return self._worked_out(tuple(self.settings.models or suite_models or DEFAULT_MODELS), repetitions)

    @cached_property
    def judges(self) -> tuple[Model, ...]:
        """Give the models that judge; raises UsageMistake for one that is no judge of anything."""
        named = expand_panels(self.settings.judges, self.settings.aliases, self.registry.judge_panels)
        judges = resolve_all(named, self.settings.aliases, self.registry.offline_models)
        for judge in judges:
            if judge.id in PLAYERS:
                raise UsageMistake(
                    f"--agent-judge={judge.name}: {judge.id} plays an agent and judges nothing; "
                    "name a model, such as claude"
                )
        return judges

    def _worked_out(self, models: tuple[str, ...], repetitions: int) -> tuple[Case, ...]:
        key = (models, repetitions)
        if key not in self._known:
            self._known[key] = tuple(
                Case(model, variant, repetition)
                for model in self._resolved(models)
                for variant in self._variants
                for repetition in range(1, repetitions + 1)
            )
        return self._known[key]

    def _resolved(self, models: tuple[str, ...]) -> tuple[Model, ...]:
        if models not in self._models:
            self._models[models] = resolve_all(models, self.settings.aliases, self.registry.offline_models)
        return self._models[models]

    @cached_property
    def _known(self) -> dict[tuple[tuple[str, ...], int], tuple[Case, ...]]:
        return {}

    @cached_property
    def _models(self) -> dict[tuple[str, ...], tuple[Model, ...]]:
        return {}

    @cached_property
    def _variants(self) -> tuple[Variant, ...]:
        # The unnamed variant is what the others are compared with.
        return (UNNAMED, *self.settings.variants)
