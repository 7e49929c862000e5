"""The options of how much models are asked; a part of the table in ``session/settings.py``.

Imported in every pytest run, used or not, like the rest of the table.
"""

from __future__ import annotations

from pytest_agenteval.session.options import Option, OptionValues, seconds, whole

RATE_OPTIONS = (
    "requests_at_once",
    "requests_at_start",
    "requests_per_minute",
    "tokens_per_minute",
    "patience_seconds",
)
"""Settings of a model of ours that an option may say for all of them."""


class RateOptions(OptionValues):
    """How much each model is asked by the whole run, where its own table does not say it."""

    requests_at_once: Option[int | None] = Option(
        "requests_at_once",
        "N",
        "requests under way at once to each model, at most, by all processes of the run together (default: "
        "as many as they have trials at once)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    requests_at_start: Option[int | None] = Option(
        "requests_at_start",
        "N",
        "requests under way at once to each model with which a run begins (default: 64): they grow with the "
        "replies, and are halved where the provider says that it is asked too much",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    requests_per_minute: Option[int | None] = Option(
        "requests_per_minute",
        "N",
        "requests to each model in any minute, at most (default: no limit)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    tokens_per_minute: Option[int | None] = Option(
        "tokens_per_minute",
        "N",
        "tokens of requests and replies of each model in a minute (default: no limit)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    patience_seconds: Option[float | None] = Option(
        "patience_seconds",
        "S",
        "so long a model is waited for that replies to nobody any more, before the rest is not run "
        "(default: 120)",
        seconds,
        None,
        "a number of seconds above 0",
    )
