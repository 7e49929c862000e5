"""Reading the settings of these graders, as they stand in a task file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import yaml

from pytest_agenteval.benchmarks.memex.text_search.dates import Day, parse_days
from pytest_agenteval.benchmarks.memex.text_search.mentions import normalize_mention
from pytest_agenteval.text.errors import did_you_mean
from pytest_agenteval.text.json_values import normal_text

_DAY = re.compile(r"(\d{4})/(\d\d)/(\d\d)\.md#")

Mode = Literal["default", "upstream"]
Needles = tuple[tuple[str, ...], ...]
"""What has to be said: each of these, in one of its wordings."""


def check_mode(mode: str) -> None:
    """Refuse a mode that there is none of."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be default or upstream, not {mode!r}")


def check_flag(name: str, value: bool, mode: Mode) -> None:
    """Refuse what is no truth value, and a flag in a mode that has no such thing."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    if value and mode == "upstream":
        raise ValueError(f"{name}: there is no such thing in mode upstream; take it out")


def texts(name: str, value: Sequence[str]) -> tuple[str, ...]:
    """Take a list of texts as a tuple; anything else is a ValueError that names the setting."""
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{name} must be a list of texts, not {value!r}")
    return tuple(map(normal_text, value))


def needles(name: str, value: Sequence[str | Sequence[str]]) -> Needles:
    """Take a list of texts, or of lists of texts of which one is enough; a blank text is refused."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list of texts, not {value!r}")
    wordings = tuple(
        texts(name, [one_or_more] if isinstance(one_or_more, str) else one_or_more) for one_or_more in value
    )
    if not all(one_or_more and all(text.strip() for text in one_or_more) for one_or_more in wordings):
        raise ValueError(f"{name}: a blank text is said everywhere; take it out")
    return wordings


def days(name: str, value: Sequence[str]) -> frozenset[Day]:
    """Read a list of dates, each with its year or not."""
    read = {text: parse_days(normalize_mention(text)) for text in texts(name, value)}
    if wrong := [text for text, readings in read.items() if not readings]:
        raise ValueError(f"{name} must be dates, not {wrong[0]!r}")
    return frozenset(day for readings in read.values() for day in readings)


def entry_day(fact_id: Any) -> date | None:
    """Give the day of an entry from its id; None where that tells none."""
    match = _DAY.match(str(fact_id))
    try:
        return date(*map(int, match.groups())) if match else None
    except ValueError:
        return None


def check_template_ids(ids: Sequence[str]) -> None:
    """Refuse an empty list, and ids that no template has."""
    if not ids:
        raise ValueError("expected_template_ids must name at least one template")
    for id in ids:
        if id not in template_ids():
            hint = did_you_mean(id, template_ids()) or f"known: {', '.join(template_ids())}"
            raise ValueError(f"expected_template_ids: there is no template {id!r}; {hint}")


@cache
def template_ids() -> tuple[str, ...]:
    """Give the ids of all card templates, from the data that the card agent is told of."""
    text = files("pytest_agenteval.benchmarks.memex.card_agent").joinpath("templates.yaml").read_text("utf-8")
    templates: dict[str, Any] = yaml.safe_load(text)
    return tuple(templates)
