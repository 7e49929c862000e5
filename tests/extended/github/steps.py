"""A runner in small: the shell steps of an action, with inputs, outputs and environment as on GitHub."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def read_yaml(path: Path) -> Any:
    """Read a workflow or an action; ``on`` is a key and no truth."""
    return yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)


class Job:
    """One use of an action by a job: its folder, what was printed, and the outputs of its steps."""

    def __init__(self, action: Path, workspace: Path, environ: Mapping[str, str], **inputs: str) -> None:
        self._action, self._workspace = action, workspace
        self._document = read_yaml(action / "action.yml")
        declared = self._document["inputs"]
        assert not set(inputs) - set(declared)
        given = {name: each.get("default", "") for name, each in declared.items()} | inputs
        self.values = {"github.token": "t0ken"}
        self.values |= {f"inputs.{name}": self._filled_in(value) for name, value in given.items()}
        self._output = workspace / "output.txt"
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")},
            "GITHUB_ACTION_PATH": str(action),
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self._output),
            "GITHUB_STEP_SUMMARY": str(workspace / "summary.md"),
            "GITHUB_WORKSPACE": str(workspace),
            "RUNNER_TEMP": str(workspace / "temp"),
            **environ,
        }

    def step(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run the shell step of this name; a nameless one is called by its number."""
        steps = self._document["runs"]["steps"]
        step = next(each for at, each in enumerate(steps) if each.get("name", str(at)) == name)
        environ = {key: self._filled_in(value) for key, value in step.get("env", {}).items()}
        self._output.write_text("", encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self._workspace / self._filled_in(step.get("working-directory", ".")),
            env=self._environ | environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for line in self._output.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{key}"] = value
        return done

    def output(self, name: str) -> str:
        """Give what the action tells the steps behind it."""
        return self._filled_in(self._document["outputs"][name]["value"])

    def _filled_in(self, text: str) -> str:
        return _EXPRESSION.sub(lambda match: self.values[match[1]], text)


def evals_job(workspace: Path, environ: Mapping[str, str], **inputs: str) -> Job:
    """Use the action that runs evals, with this Python."""
    action = ROOT / ".github/actions/agenteval"
    return Job(action, workspace, environ, python=sys.executable, **inputs)
