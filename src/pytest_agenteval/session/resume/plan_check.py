"""A run that goes on does what it set out to do: what else is asked for is refused, with a way to have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pytest

from pytest_agenteval.records.plan import Model, TrialKey
from pytest_agenteval.session.planning.parametrization import PlannedItem, trial_key
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.store.planned_trials import PLANNED_TRIALS, read_planned_trials
from pytest_agenteval.store.run_metadata import RepetitionRule, RunShards, planned_groups
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.store.runs import damage_text
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS


def check_plan(
    run: Run, settings: Settings, items: Sequence[PlannedItem], judges: Sequence[Model], user: Model | None
) -> None:
    """Refuse to go on with a run where something is asked for that it has not set out to do."""
    problem = next(_problems(run, settings, items, judges, user), "")
    if problem:
        raise UsageMistake(
            f"--agent-resume: {problem}; go on as {run.name} was begun, or begin a new run that takes over "
            f"what is finished: --agent-reuse={run.name}"
        )


def _problems(
    run: Run, settings: Settings, items: Sequence[PlannedItem], judges: Sequence[Model], user: Model | None
) -> Iterator[str]:
    header = run.header
    if (part := _shard(header.shards)) != (told := str(settings.shard or "")):
        yield f"expected {f'--agent-shard={part}' if part else 'no --agent-shard'}; found {told or 'none'}"
    if header.seed != settings.seed:
        yield f"expected --agent-seed={header.seed}; found {settings.seed}"
    before, now = [judge.id for judge in header.judges], [judge.id for judge in judges]
    if before != now:
        yield f"expected judges {', '.join(before) or 'none'}; found {', '.join(now) or 'none'}"
    if header.user and header.user != (user.id if user else ""):
        yield f"expected --agent-user={header.user}; found {user.id if user else 'none'}"
    if (rule := _range(header.repetition_rule)) != (found := str(settings.repetition_range or "")):
        yield f"expected --repetitions={rule or 'a number, or none'}; found {found or 'no range'}"
    models = {model.name: model.id for model in header.models}
    for model in {item.case.model.name: item.case.model for item in items}.values():
        if models.get(model.name, model.id) != model.id:
            yield f"expected {model.name} to be {models[model.name]}; found {model.id}"
    yield from _unplanned(run, items)


def _shard(shards: RunShards | None) -> str:
    """Give what a shard is called; shards that were merged are gone on with one by one."""
    return "/".join((",".join(map(str, shards.numbers)), str(shards.total))) if shards else ""


def _range(rule: RepetitionRule | None) -> str:
    return f"{rule.low}..{rule.high}" if rule else ""


def _unplanned(run: Run, items: Sequence[PlannedItem]) -> Iterator[str]:
    if not run.planned:  # it was cut short before it had a plan: today's is its first
        return
    keys = [trial_key(item) for item in items]
    try:
        planned = read_planned_trials(run.folder)
    except (OSError, ValueError, LookupError, TypeError) as broken:
        yield f"{PLANNED_TRIALS} of {run.name} cannot be read ({damage_text(broken)})"
        return
    if planned is None:  # an older version's: it knows numbers alone
        yield from _too_many(run, items)
        return
    strange = [key for key in keys if key not in planned and _stored_key(key) not in planned]
    if strange:
        yield f"{pluralize(len(strange), 'trial')} not in its plan: {_differing(strange, planned)}"


def _stored_key(key: TrialKey) -> TrialKey:
    return TrialKey._make([*map(KNOWN_SECRETS.text, key[:-1]), key.repetition])


def _differing(strange: Sequence[TrialKey], planned: Iterable[TrialKey]) -> str:
    """Name what is new in keys: a model, a variant, a suite; else the first of them."""
    keys = list(planned)
    for field in ("model", "variant", "suite"):
        known = {getattr(key, field) for key in keys}
        names = dict.fromkeys(getattr(key, field) for key in strange if getattr(key, field) not in known)
        if names:
            return (
                f"{'prompt' if field == 'variant' else field} {', '.join(name or 'none' for name in names)}"
            )
    return strange[0].label


def _too_many(run: Run, items: Sequence[PlannedItem]) -> Iterator[str]:
    planned = {(group.suite, group.model, group.variant, group.bucket): group for group in run.planned}
    for group in planned_groups((trial_key(item), item.task.bucket) for item in items):
        there = planned.get((group.suite, group.model, group.variant, group.bucket))
        if there is None or (group.trials, group.tasks) > (there.trials, there.tasks):
            count = there.trials if there else 0
            name = f"{group.suite} with {group.model}, {group.bucket or 'no bucket'}"
            yield f"expected {pluralize(count, 'trial')} of {name}; found {group.trials}"


def check_first_failures(
    config: pytest.Config, settings: Settings, run: Run, items: Sequence[PlannedItem]
) -> None:
    """Refuse ``-x`` and its like where what has failed before would end the run before anything is tried."""
    most = config.getoption("maxfail", 0)
    endings = ("failed", "missed") if settings.strict else ("failed",)
    selected = set(map(trial_key, items))
    failed = sum(entry.ending in endings and entry.key in selected for entry in run.entries)
    if most and failed >= most:
        raise UsageMistake(
            f"--agent-resume: expected no -x or --maxfail beside it: {pluralize(failed, 'trial')} of "
            f"{run.name} failed before, and would end the run before anything is tried"
        )
