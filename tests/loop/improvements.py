"""Starting ``agenteval improve`` on a project, and reading what it left without our own readers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

PROGRAM = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"
COMMAND = (sys.executable, "-c", PROGRAM, "improve")
PATIENCE_S = 600


@dataclass(frozen=True, slots=True)
class Improved:
    """What ``agenteval improve`` ended with: exit status, prints, ``log.json`` and ``log.md``."""

    status: int
    out: str
    err: str
    log: Mapping[str, Any]
    markdown: str

    @property
    def decisions(self) -> list[str]:
        """What was decided of each round."""
        return [each["decision"] for each in self.log["rounds"]]

    @property
    def reasons(self) -> list[str]:
        """Why, round by round."""
        return [each["reason"] for each in self.log["rounds"]]


def improve(
    root: Path, *arguments: str, after: str = "", ended_by: int = signal.SIGINT, **more: str
) -> Improved:
    """Improve a project's suite in a process of its own, with Ctrl-C once there is such a file beside it."""
    process = subprocess.Popen(
        (*COMMAND, *arguments),
        cwd=root,
        env=quiet_environment() | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    if after:
        wait_for(root.parent, after)
        process.send_signal(ended_by)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Improved(process.returncode, out, err, *_log(root))


def _log(root: Path) -> tuple[Mapping[str, Any], str]:
    logs = sorted(root.rglob("log.json"), key=lambda file: file.stat().st_mtime)
    if not logs:
        return {}, ""
    return json.loads(logs[-1].read_text(encoding="utf-8")), logs[-1].with_suffix(".md").read_text(
        encoding="utf-8"
    )


def wait_for(folder: Path, pattern: str) -> None:
    """Wait until a file that fits is there and says something."""
    end = time.monotonic() + PATIENCE_S
    while not any(file.stat().st_size for file in folder.glob(pattern)):
        assert time.monotonic() < end, f"{pattern} never came"
        time.sleep(0.02)


def quiet_environment() -> dict[str, str]:
    """Give an environment in which pytest loads this plugin only, and knows nothing of who runs the tests."""
    left_out = ("AGENTEVAL_", "PYTEST_", "GITHUB_", "GIT_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return inherited | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


# --- figures from the journals alone


def finished_trials(root: Path, run: str = "") -> list[dict[str, Any]]:
    """Give the journal lines of trials that ended, of one run or of all, as they are written."""
    files = sorted(root.rglob("journal-*.jsonl"))
    chosen = [file for file in files if run in ("", file.parent.name)]
    return [line for file in chosen for line in _lines(file) if line["kind"] == "finished"]


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def sides(root: Path, tried: Mapping[str, Any]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Give the scores of each task, old and new, of the runs that the log names."""
    old, new = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    names = tried["runs"]
    for name in names:
        for trial in sorted(finished_trials(root, name), key=lambda trial: trial["repetition"]):
            is_new = trial.get("variant", "") == "new" or (len(names) > 1 and name == names[-1])
            (new if is_new else old)[trial["task"]].append(trial["score"])
    return dict(old), dict(new)


def mean_of(scores: Mapping[str, Sequence[float]], *beginnings: str) -> float:
    """Give the mean over tasks, of those whose names begin so or of all, of their mean scores."""
    chosen = [task for task in scores if task.startswith(beginnings or ("",))]
    return fmean(fmean(scores[task]) for task in chosen)


def processes_with(text: str) -> list[int]:
    """Give the processes whose command or environment holds a text, this one aside."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in told and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked about is none."""
    try:
        return not re.search(r"^State:\s+[ZX]", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"), re.M)
    except OSError:
        return False
