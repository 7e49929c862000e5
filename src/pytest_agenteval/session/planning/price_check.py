"""Whether a budget of money can be watched: the prices of models that are asked."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_agenteval.records.plan import Model
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.text.errors import UsageMistake


def check_prices(models: Iterable[Model], settings: Settings) -> None:
    """Raise UsageMistake for models whose price nobody knows, where the run has a budget of money."""
    if settings.max_cost is None:
        return
    from pytest_agenteval.chat.model_prices import is_priced

    unknown = [model for model in models if not is_priced(settings.prices, model.name, model.id)]
    if unknown:
        place = settings.places.get("max_cost", Settings.max_cost.flag)
        names = dict.fromkeys(model.id for model in unknown)
        raise UsageMistake(
            "\n".join(
                [
                    f"{place}: expected models whose price is known; found {', '.join(names)}",
                    "  say it in pyproject.toml, in US dollars for a million tokens (docs/budgets.md):",
                    *(f'  [tool.agenteval.prices."{name}"]  input = …  output = …' for name in names),
                ]
            )
        )
