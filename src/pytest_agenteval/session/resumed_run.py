"""``--agent-resume``: a run continued in its own folder, and what is refused beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from pytest_agenteval.records.plan import Model, TrialKey
from pytest_agenteval.session.held_runs import DEAD_WORKERS, LEDGERS, RATES, claim_run
from pytest_agenteval.session.planning.parametrization import PlannedItem, trial_key
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.session.stop_signal import STOP
from pytest_agenteval.store.planned_trials import PLANNED_TRIALS, read_planned_trials
from pytest_agenteval.store.run_audit import AUDIT
from pytest_agenteval.store.run_metadata import RepetitionRule, RunHeader, RunShards, planned_groups
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.store.runs import LATEST, damage_text, find_run, list_runs, read_header
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


def run_to_resume(config: pytest.Config, settings: Settings) -> tuple[Path, str]:
    """Give the folder of the run that is to go on, taken over by this process, and when it began.

    Raises UsageMistake where it cannot go on.
    """
    _refuse_beside(settings)
    folder = _find(config, settings)
    header = read_header(folder)
    _refuse_kind(folder, header)
    if not (config.getoption("collectonly", False) or settings.dry_run):
        _claim(config, folder)
    return folder, header.started_at


def _refuse_beside(settings: Settings) -> None:
    for attribute, why in (
        ("regrade", "grading again costs no agent: begin it anew"),
        ("reuse", "one goes on with a run, the other begins a new one"),
        ("audit", "an audit costs nothing: begin it anew"),
    ):
        if getattr(settings, attribute):
            raise UsageMistake(f"--agent-resume: expected no --agent-{attribute} beside it: {why}")


def _find(config: pytest.Config, settings: Settings) -> Path:
    """Find the run: the one that is named, be it as the name that a new run would have, else the latest."""
    name = settings.resume
    if settings.run_name and name == LATEST:
        name = settings.run_name
    place = settings.places.get("resume", "--agent-resume")
    try:
        folder = find_run(settings.results or config.rootpath / RESULTS, name)
    except UsageMistake as mistake:
        if (config.invocation_params.dir / name.partition("::")[0]).exists():
            hint = f"to try {name}, say {place}=latest {name}"
            raise UsageMistake(f"{place}: expected a run; found {name!r}, which is none; {hint}") from None
        raise UsageMistake(f"{place}: {mistake}") from None
    # Where the link leads, as in a folder that somebody names; otherwise as it was found.
    folder = folder.resolve() if folder.is_symlink() else Path(os.path.abspath(folder))
    if settings.run_name not in ("", folder.name):
        raise UsageMistake(f"{settings.places['run_name']}: a run that goes on keeps its name, {folder.name}")
    return folder


def _refuse_kind(folder: Path, header: RunHeader) -> None:
    if header.regraded:
        again = ",".join(header.regraded)
        raise UsageMistake(
            f"--agent-resume: {folder.name} graded trials again, which costs no agent: "
            f"begin it anew with --agent-regrade={again}"
        )
    if (folder / AUDIT).exists():
        raise UsageMistake(f"--agent-resume: {folder.name} is an audit: begin it anew with --agent-audit")


def _claim(config: pytest.Config, folder: Path) -> None:
    """Take the run over from whoever made it; raises UsageMistake while that one is at work."""
    try:
        holder = claim_run(config, folder)
        if not holder:
            # Of a controller that was killed, for workers gone: in a container numbers come again.
            for name in (STOP, DEAD_WORKERS, LEDGERS, RATES):
                for file in folder.glob(name):
                    file.unlink(missing_ok=True)
    except OSError as failed:
        why = failed.strerror or type(failed).__name__
        raise UsageMistake(f"--agent-resume: nothing can be written to {folder}: {why}") from None
    if holder:
        raise UsageMistake(
            f"--agent-resume: {folder.name} is still going on, in process {holder}: "
            "wait for its end, or end it"
        )


def baseline_before(baseline: Path | None, folder: Path, started_at: str) -> Path | None:
    """Give the run that is compared with; where that is this run itself, as ``latest`` is, the one before."""
    if baseline is None or baseline != folder.resolve():
        return baseline
    for run in list_runs(folder.parent):
        if run.header.started_at < started_at and run.path.resolve() != baseline:
            return run.path.resolve()
    raise UsageMistake(f"--agent-baseline: there is no run before {folder.name}, which goes on")
