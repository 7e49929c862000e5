"""``agenteval report RUN --as atif -o DIR``: a trajectory file for each trial."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_agenteval.reports.exports.atif import trajectory
from pytest_agenteval.reports.exports.trial_identity import run_name, trial_path
from pytest_agenteval.store.file_writing import replace_text
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS


def write_trajectories(runs: Sequence[Run], folder: Path) -> Iterator[Path]:
    """Write the trials of runs, one after the other, and give each file's path when it is there.

    A trial whose transcript cannot be read is left out, and ``Run.odd`` says so. Raises UsageMistake where a
    file cannot be written.
    """
    for run in runs:
        for entry in run.entries:
            trial = run.trial_if_readable(entry)
            if trial is not None:
                path = folder / trial_path(run_name(run), trial, ".json")
                _write(path, KNOWN_SECRETS.value(trajectory(run, trial)))
                yield path


def _write(path: Path, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Half of a surrogate pair, which models do send, is no text to readers of JSON.
        replace_text(path, text.encode("utf-8", "replace").decode("utf-8"))
    except OSError as refused:
        raise UsageMistake(f"{path}: cannot be written ({refused.strerror})") from None
