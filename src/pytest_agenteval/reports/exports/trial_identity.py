"""What a trial is called outside of its run, and when what happened in it was."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import used_other_models
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.json_values import canonical_json

LONGEST = 180
"""Bytes of a name that a file's name keeps: file systems take 255, and a digest and a suffix come after."""


def run_name(run: Run) -> str:
    """Give the name under which a run was made, which does not change when its folder is moved."""
    return run.header.name or run.folder.name


def requested_model(run: Run, trial: Trial) -> RunModel:
    """Give the run's entry of a trial's model; if the agent called only others, the first of those.

    For a model without an entry, its name is taken for its id.
    """
    if used_other_models(trial.transcript.doubtful_events):
        return RunModel(trial.transcript.models[0], trial.transcript.models[0])
    name = trial.key.model
    return next((model for model in run.header.models if model.name == name), RunModel(name, name))


def trial_id(run: str, trial: Trial) -> str:
    """Give 32 hex digits that are the same at every export, and differ for every trial and attempt.

    They are the beginning of a SHA-256, and serve as a trace's id, which must not be all zeros.
    """
    name = canonical_json([run, *trial.key, trial.attempt])
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def session_name(run: str, key: TrialKey) -> str:
    """Give a trial's name with that of its run: ``20261122-202003-b57b/pkm/skip_trivial[claude@short-1]``."""
    return f"{run}/{key.label}"


def trial_path(run: str, trial: Trial, suffix: str) -> Path:
    """Give a trial's path within a folder: ``RUN/SUITE/TASK-MODEL-1-0a1b2c3d.json``.

    Whatever the names hold, the path does not lead out of the folder, and no two trials share one.
    """
    # The digest tells apart names that some file systems take for the same, as those that differ in case.
    key = trial.key
    name = file_name("-".join(filter(None, (key.task, key.model, key.variant, str(key.repetition)))))
    file = f"{name}-{trial_id(run, trial)[:8]}{suffix}"
    return Path(file_name(run) or "run", file_name(key.suite) or "suite", file)


def file_name(text: str) -> str:
    """Give a name that every file system allows; empty where the text has no usable character."""
    # Without dots at its ends, the name is no `..` and no hidden file.
    plain = re.sub(r"[^\w.-]+", "_", text).strip("._")
    return plain.encode()[:LONGEST].decode(errors="ignore")


def moment(started_at: str, offset_s: float) -> datetime | None:
    """Give the time ``offset_s`` seconds after an ISO time, in UTC; None if ``started_at`` is not a time."""
    try:
        started = datetime.fromisoformat(started_at)
        aware = started if started.tzinfo else started.replace(tzinfo=UTC)
        return aware.astimezone(UTC) + timedelta(seconds=offset_s)
    except (ValueError, OverflowError):
        return None
