"""Who has a say in which trials of a run begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.engine.admission import Admission, Admissions
from pytest_agenteval.engine.executors.executor import ExecutorContext
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.settings import Settings

if TYPE_CHECKING:
    from pytest_agenteval.chat.rate_shares import ModelStanding


def admissions(
    config: pytest.Config, settings: Settings, context: ExecutorContext, registry: Registry
) -> Admissions:
    """Give all that were asked for; what counts with the others, as money does, comes last."""
    breaker = _provider_admission(context, registry)
    if settings.max_cost is None and settings.max_tokens is None:
        return Admissions([breaker])
    from pytest_agenteval.session.run_budget import get_run_budget

    budget = get_run_budget(config, settings)
    return Admissions([breaker] if budget is None else [breaker, budget])


def _provider_admission(context: ExecutorContext, registry: Registry) -> Admission:
    from pytest_agenteval.engine.provider_admission import ProviderAdmission

    return ProviderAdmission(lambda: _standings(context.rates), registry)


def _standings(rates: str) -> Mapping[str, ModelStanding]:
    """Give how the models fare: as this process knows it, or all that have asked."""
    from pytest_agenteval.engine.provider_admission import standings_of_run

    return standings_of_run(rates)
