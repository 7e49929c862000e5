"""Runs pytest, or merges shards, as the action was told; files and exit status are for later steps."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

OPTIONS = {
    "EVALS_MODELS": "--agent-model",
    "EVALS_BASELINE": "--agent-baseline",
    "EVALS_GATE": "--agent-gate",
    "EVALS_REPETITIONS": "--repetitions",
    "EVALS_SHARD": "--agent-shard",
}
MERGE = "from pytest_agenteval.cli.main import main; raise SystemExit(main())"


def pytest_arguments(environ: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Give pytest's arguments: what the inputs say, and where the reports go."""
    yield from ("-m", "pytest")
    yield from shlex.split(environ.get("EVALS_PATH") or "evals")
    for variable, option in OPTIONS.items():
        if environ.get(variable):
            yield f"{option}={environ[variable]}"
    if environ.get("EVALS_SHARD"):  # its run goes along with the artifact, to be merged
        yield f"--agent-results={folder / 'runs'}"
    yield f"--agent-report={folder / 'report.html'}"
    yield f"--agent-comment={folder / 'comment.md'}"
    yield f"--junitxml={folder / 'junit.xml'}"
    yield from shlex.split(environ.get("EVALS_ARGS") or "")


def merge_arguments(environ: Mapping[str, str], folder: Path, shards: Path) -> Iterator[str]:
    """Give the arguments of the merge: what is there is joined, and the comment says what is missing."""
    yield from ("-c", MERGE, "merge", str(shards), "--partial")
    if environ.get("EVALS_BASELINE"):
        yield f"--baseline={environ['EVALS_BASELINE']}"
    yield f"--output={folder / 'report.html'}"
    yield f"--comment={folder / 'comment.md'}"
    yield from ("--junit", str(folder / "junit.xml"), *map(str, sorted(shards.glob("*/junit.xml"))))


def command(environ: Mapping[str, str], folder: Path, shards: Path) -> list[str]:
    """Give what is run, and say it as one would type it."""
    if environ.get("EVALS_MERGE") == "true":
        told = [*merge_arguments(environ, folder, shards)]
        print(shlex.join(["agenteval", *told[2:]]), flush=True)
    else:
        told = [*pytest_arguments(environ, folder)]
        print(shlex.join(["python", *told]), flush=True)
    return [sys.executable, *told]


def write_failure(comment: Path, status: int, *, merges: bool) -> None:
    """Say that there is no verdict: what an earlier push was told is no more true."""
    what = "The shards were not merged: the" if merges else "The evals did not run: pytest's"
    text = f"### {what} exit status is {status}.\n\nThe job's log says why.\n"
    comment.write_text(text, encoding="utf-8")


def main() -> int:
    """Run it; its exit status is an output, so that reports are uploaded before the job fails."""
    environ = os.environ
    temp = Path(environ.get("RUNNER_TEMP") or ".").resolve()
    folder = temp / "agenteval"
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier use in this job
    folder.mkdir(parents=True)
    comment = folder / "comment.md"
    told = command(environ, folder, temp / "agenteval-shards")
    status = subprocess.run(told, check=False).returncode
    if not comment.exists():
        write_failure(comment, status, merges=environ.get("EVALS_MERGE") == "true")
    name, shard = environ.get("EVALS_ARTIFACT") or "agenteval", environ.get("EVALS_SHARD")
    outputs = {
        "exit-code": str(status),
        "folder": str(folder),
        "artifact": f"{name}-shard-{shard.partition('/')[0]}" if shard else name,
        "report": str(folder / "report.html"),
        "junit": str(folder / "junit.xml"),
        "comment": str(comment),
    }
    with open(environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in outputs.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
