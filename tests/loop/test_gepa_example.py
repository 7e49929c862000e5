"""docs/guides/improve.md: gepa as a coding agent, by the public names alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_agenteval import load_run
from tests.loop.prompt_projects import PRICES, bakery

pytest.importorskip("gepa")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "improve.md"
MODEL = f"""
import sys
question = sys.stdin.read()
assert "five euros twenty" in question or "four euros eighty" in question, question
print("```")
print("You answer letters to a bakery. A complaint is answered with an apology. {PRICES}")
print("```")
"""


def test_gepas_best_candidate_is_left_in_the_prompt_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example runs as it stands there, but for its model; it tries no held-out task."""
    (example,) = re.findall(r"^```python\n(# gepa_prompts\.py.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert example.count("\n") <= 120
    project = bakery(tmp_path / "project")
    (project / "model.py").write_text(MODEL, encoding="utf-8")
    example = example.replace('"llm -m claude"', repr(f'"{sys.executable}" model.py'))
    example = example.replace('"--agent-model=claude"', '"-p", "pytest_agenteval.plugin"')
    (project / "gepa_prompts.py").write_text(example.replace("= 300", "= 30"), encoding="utf-8")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    command = [sys.executable, "gepa_prompts.py", "evals/bakery", "prompts/system.md"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["best of 2: 1.00"]), done.stderr
    assert PRICES in (project / "prompts" / "system.md").read_text(encoding="utf-8")
    runs = [
        path
        for path in (project / ".agenteval" / "gepa").iterdir()
        if not path.is_symlink() and path.is_dir()
    ]
    assert {entry.split for run in runs for entry in load_run(run).entries} == {"dev"}
