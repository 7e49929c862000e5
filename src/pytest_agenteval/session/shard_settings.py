"""What a shard cannot be told: what needs results that other shards have, or means another run in each."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agenteval.session.settings import Settings
from pytest_agenteval.text.errors import UsageMistake

LATEST = "latest"


def check_shard(settings: Settings) -> None:
    """Raise UsageMistake for settings that are not the same in all shards, or need all of them."""
    place = f"{settings.places['shard']}={settings.shard}"
    between = settings.repetition_range
    if between is not None and not settings.regrade:
        raise UsageMistake(
            f"{place}: expected a fixed number of repetitions: a shard has no suite's results to look at as "
            f"a whole; found --repetitions={between}; --repetitions={between.high} makes all of them"
        )
    for option, value in _latest_runs(settings):
        raise UsageMistake(
            f"{place}: expected a run that all shards mean alike, and the latest may be another shard's; "
            f"found {option}={value}; name the run"
        )


def _latest_runs(settings: Settings) -> Iterator[tuple[str, str]]:
    """Give each option that means the run before this one, whichever that is."""
    only = settings.only
    named = (
        ("--agent-baseline", settings.baseline, settings.baseline),
        ("--agent-only", only, only and (only.partition("@")[2].strip() or LATEST)),
        *(("--agent-regrade", name, name) for name in settings.regrade),
    )
    for option, value, run in named:
        if run == LATEST or run.endswith(f"@{LATEST}"):
            yield option, value
