"""The options of what trials and runs may cost; a part of the table in ``session/settings.py``.

Imported in every pytest run, used or not, like the rest of the table.
"""

from __future__ import annotations

from pytest_agenteval.session.options import Option, OptionValues, RawValue, seconds, switch, whole

DOLLARS = "a number of US dollars above 0"
COUNT = "a whole number, 1 or more"


def dollars(raw: RawValue) -> float:
    """Read an amount of US dollars above 0, ``$5`` too."""
    return seconds(raw._replace(value=str(raw.value).strip().removeprefix("$")))


class BudgetOptions(OptionValues):
    """What each trial may cost, and all of a run; and whether it is only said what it would."""

    trial_tokens: Option[int | None] = Option(
        "trial_tokens",
        "N",
        "tokens of each trial, input and output, before what the task says",
        whole(1),
        None,
        COUNT,
    )
    trial_cost: Option[float | None] = Option(
        "trial_cost",
        "USD",
        "US dollars of each trial, before what the task says",
        dollars,
        None,
        DOLLARS,
    )
    max_cost: Option[float | None] = Option(
        "max_cost",
        "USD",
        "US dollars of the whole run, judges too: what is in flight ends, nothing more begins, and "
        "--agent-resume goes on (docs/budgets.md)",
        dollars,
        None,
        DOLLARS,
    )
    max_tokens: Option[int | None] = Option(
        "max_tokens",
        "N",
        "tokens of the whole run, input and output, judges' too, likewise",
        whole(1),
        None,
        COUNT,
    )
    dry_run = Option(
        "dry_run",
        "",
        "run nothing and say what would be run, and what it would take: trials, tokens, US dollars",
        switch,
        False,
        "true or false",
    )
