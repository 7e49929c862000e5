"""``--agent-resume``: the run that goes on in its own folder, and what is refused because it does not fit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from pytest_agenteval.records.plan import Model, TrialKey
from pytest_agenteval.session.planning.parametrization import PlannedItem, trial_key
from pytest_agenteval.session.run_signals import BUDGET_FILES, DEAD_WORKERS, RATE_FILES, STOP_FILE, claim_run
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.store.run_documents import AUDIT, PLANNED_TRIALS, PlannedTrials
from pytest_agenteval.store.run_folder import LATEST, damage_text, find_run, list_runs, read_header
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.redaction import KNOWN_SECRETS

EXCLUDED = {
    "regrade": "regrading runs no agent: start it again instead",
    "reuse": "one continues a run, the other starts a new one",
    "audit": "an audit costs nothing: start it again instead",
}


def run_to_resume(config: pytest.Config, settings: Settings) -> tuple[Path, str]:
    """Give the folder of the run to resume, claimed by this process, and when the run began.

    Raises UsageMistake where it cannot be resumed.
    """
    for attribute, why in EXCLUDED.items():
        if getattr(settings, attribute):
            raise UsageMistake(f"--agent-resume: cannot be combined with --agent-{attribute}: {why}")
    name = settings.run_name if settings.run_name and settings.resume == LATEST else settings.resume
    place = settings.places.get("resume", "--agent-resume")
    try:
        folder = find_run(settings.results or config.rootpath / RESULTS, name)
    except UsageMistake as mistake:
        if (config.invocation_params.dir / name.partition("::")[0]).exists():
            hint = f"to run {name}, write {place}=latest {name}"
            raise UsageMistake(
                f"{place}: expected a run; found {name!r}, which is not a run; {hint}"
            ) from None
        raise UsageMistake(f"{place}: {mistake}") from None
    # A link is followed, so that the run has its real folder; any other path stays as it was found.
    folder = folder.resolve() if folder.is_symlink() else Path(os.path.abspath(folder))
    if settings.run_name not in ("", folder.name):
        raise UsageMistake(f"{settings.places['run_name']}: a resumed run keeps its name, {folder.name}")
    header = read_header(folder)
    if header.regraded:
        again = ",".join(header.regraded)
        raise UsageMistake(
            f"--agent-resume: {folder.name} is a regraded run, which needs no agent: "
            f"start it again with --agent-regrade={again}"
        )
    if (folder / AUDIT).exists():
        raise UsageMistake(f"--agent-resume: {folder.name} is an audit: start it again with --agent-audit")
    if not (config.getoption("collectonly", False) or settings.dry_run):
        _claim(config, folder)
    return folder, header.started_at


def _claim(config: pytest.Config, folder: Path) -> None:
    """Take the run over from the process that made it; raises UsageMistake while that one still runs."""
    try:
        holder = claim_run(config, folder)
        # A killed controller left these for its workers, which are gone. In a container this process may have
        # the same number as it had.
        for name in () if holder else (STOP_FILE, DEAD_WORKERS, BUDGET_FILES, RATE_FILES):
            for file in folder.glob(name):
                file.unlink(missing_ok=True)
    except OSError as failed:
        why = failed.strerror or type(failed).__name__
        raise UsageMistake(f"--agent-resume: nothing can be written to {folder}: {why}") from None
    if holder:
        raise UsageMistake(
            f"--agent-resume: {folder.name} is still running, in process {holder}: "
            "wait until it ends, or stop it"
        )


def baseline_before(baseline: Path | None, folder: Path, started_at: str) -> Path | None:
    """Give the run to compare with; where ``latest`` is this very run, the run before it."""
    if baseline is None or baseline != folder.resolve():
        return baseline
    for run in list_runs(folder.parent):
        if run.header.started_at < started_at and run.path.resolve() != baseline:
            return run.path.resolve()
    raise UsageMistake(f"--agent-baseline: there is no run before {folder.name}, which is resumed")


def check_plan(
    run: Run, settings: Settings, items: Sequence[PlannedItem], judges: Sequence[Model], user: Model | None
) -> None:
    """Refuse to resume a run with trials or settings that it did not start with."""
    problem = next(_problems(run, settings, items, judges, user), "")
    if problem:
        raise UsageMistake(
            f"--agent-resume: {problem}; resume {run.name} with the options that it "
            f"started with, or start a new run that reuses its finished trials: --agent-reuse={run.name}"
        )


def _problems(
    run: Run, settings: Settings, items: Sequence[PlannedItem], judges: Sequence[Model], user: Model | None
) -> Iterator[str]:
    header, shards = run.header, run.header.shards
    # Shards that were merged are resumed one by one.
    part = f"{','.join(map(str, shards.numbers))}/{shards.total}" if shards else ""
    if part != (shard := str(settings.shard or "")):
        yield f"expected {f'--agent-shard={part}' if part else 'no --agent-shard'}; found {shard or 'none'}"
    if header.seed != settings.seed:
        yield f"expected --agent-seed={header.seed}; found {settings.seed}"
    before, now = [judge.id for judge in header.judges], [judge.id for judge in judges]
    if before != now:
        yield f"expected judges {', '.join(before) or 'none'}; found {', '.join(now) or 'none'}"
    if header.user and header.user != (user.id if user else ""):
        yield f"expected --agent-user={header.user}; found {user.id if user else 'none'}"
    rule = header.repetition_rule
    before_range = f"{rule.low}..{rule.high}" if rule else ""
    if before_range != (found := str(settings.repetition_range or "")):
        yield f"expected --repetitions={before_range or 'a number, or none'}; found {found or 'no range'}"
    models = {model.name: model.id for model in header.models}
    for model in {item.case.model.name: item.case.model for item in items}.values():
        if models.get(model.name, model.id) != model.id:
            yield f"expected {model.name} to be {models[model.name]}; found {model.id}"
    try:
        # A run that was cut short before it had a plan has today's plan as its first.
        stored_plan = PlannedTrials.read(run.folder) if run.planned else None
    except (OSError, ValueError, LookupError, TypeError) as broken:
        yield f"{PLANNED_TRIALS} of {run.name} cannot be read ({damage_text(broken)})"
        return
    if stored_plan is None:
        return
    planned = stored_plan.keys
    unplanned = [key for key in map(trial_key, items) if planned.isdisjoint((key, _stored(key)))]
    if unplanned:
        yield f"{pluralize(len(unplanned), 'trial')} not in its plan: {_new_parts(unplanned, planned)}"


def _stored(key: TrialKey) -> TrialKey:
    """Give a key as the plan of a run has it, whose names are without secrets."""
    return TrialKey._make([*map(KNOWN_SECRETS.text, key[:-1]), key.repetition])


def _new_parts(unplanned: Sequence[TrialKey], planned: Iterable[TrialKey]) -> str:
    """Name the models, variants or suites that are new in these keys; else the first key."""
    keys = list(planned)
    for field, title in (("model", "model"), ("variant", "prompt"), ("suite", "suite")):
        known = {getattr(key, field) for key in keys}
        names = dict.fromkeys(getattr(key, field) for key in unplanned if getattr(key, field) not in known)
        if names:
            return f"{title} {', '.join(name or 'none' for name in names)}"
    return unplanned[0].label


def check_first_failures(
    config: pytest.Config, settings: Settings, run: Run, items: Sequence[PlannedItem]
) -> None:
    """Refuse ``-x`` and its like where earlier failures would end the run before anything runs."""
    most = config.getoption("maxfail", 0)
    endings = ("failed", "missed") if settings.strict else ("failed",)
    selected = set(map(trial_key, items))
    failed = sum(entry.ending in endings and entry.key in selected for entry in run.entries)
    if most and failed >= most:
        raise UsageMistake(
            f"--agent-resume: cannot be combined with -x or --maxfail: {pluralize(failed, 'trial')} of "
            f"{run.name} failed before, which would end the run at once"
        )
