"""Runs pytest as the action was told, and leaves its report files and exit status to the steps behind it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

OPTIONS = {
    "EVALS_MODELS": "--agent-model",
    "EVALS_BASELINE": "--agent-baseline",
    "EVALS_GATE": "--agent-gate",
    "EVALS_REPETITIONS": "--repetitions",
}


def arguments(environ: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Give pytest's arguments: what the inputs say, and where the reports go."""
    yield from shlex.split(environ.get("EVALS_PATH") or "evals")
    for variable, option in OPTIONS.items():
        if environ.get(variable):
            yield f"{option}={environ[variable]}"
    yield f"--agent-report={folder / 'report.html'}"
    yield f"--agent-comment={folder / 'comment.md'}"
    yield f"--junitxml={folder / 'junit.xml'}"
    yield from shlex.split(environ.get("EVALS_ARGS") or "")


def main() -> int:
    """Run pytest; its exit status is an output, so that reports are uploaded before the job fails."""
    folder = Path(os.environ.get("RUNNER_TEMP") or ".").resolve() / "agenteval"
    folder.mkdir(parents=True, exist_ok=True)
    comment = folder / "comment.md"
    for left in folder.iterdir():  # of an earlier use in this job
        left.unlink()
    command = [sys.executable, "-m", "pytest", *arguments(os.environ, folder)]
    print(shlex.join(["python", *command[1:]]), flush=True)
    status = subprocess.run(command, check=False).returncode
    if not comment.exists():  # what an earlier push was told is no more true
        comment.write_text(
            f"### The evals did not run: pytest's exit status is {status}.\n\nThe job's log says why.\n",
            encoding="utf-8",
        )
    outputs = {
        "exit-code": str(status),
        "folder": str(folder),
        "report": str(folder / "report.html"),
        "junit": str(folder / "junit.xml"),
        "comment": str(comment),
    }
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in outputs.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
