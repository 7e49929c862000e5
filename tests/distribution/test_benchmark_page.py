"""docs/benchmarks/your-own.md: what it shows works as it stands."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

from pytest_agenteval import Registry
from tests.forked_workers import run_python
from tests.suites import suite, task, write

PAGE = (Path(__file__).parents[2] / "docs" / "benchmarks" / "your-own.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_first_lines_are_a_benchmark(tmp_path: Path) -> None:
    """Put into a package and installed, they offer a grader to a suite that knows nothing else of them."""
    (_, code), (_, project) = BLOCKS[:2]
    assert len([line for line in code.splitlines() if line and line[0] != "#"]) <= 10
    entry = project.splitlines()[-1].replace('"', "")
    site = tmp_path / "site"
    info = "greetings-1.0.dist-info"
    write(
        site,
        {
            "greetings/__init__.py": "",
            "greetings/register.py": code,
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n",
            f"{info}/entry_points.txt": f"[pytest_agenteval.benchmarks]\n{entry}\n",
        },
    )
    assert 'entry-points."pytest_agenteval.benchmarks"' in project
    write(
        tmp_path, {"evals/suite.yaml": suite(), "evals/t.yaml": [task("good", graders=[{"name": "greets"}])]}
    )
    options = ("-q", "-p", "agenteval", "-p", "no:cacheprovider")
    variables = {**os.environ, "PYTHONPATH": str(site), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = run_python("-m", "pytest", "evals", *options, cwd=tmp_path, env=variables)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_table_names_every_seam() -> None:
    """What the registry takes is what the page lists, with its parameters."""
    signatures = dict(re.findall(r"^\| `(\w+)\(([^)]*)\)`", PAGE, re.MULTILINE))
    seams = {
        name: list(inspect.signature(method).parameters)[1:]
        for name, method in vars(Registry).items()
        if inspect.isfunction(method)
        and not name.startswith(("_", "note_"))
        and (inspect.getdoc(method) or "").startswith("Offer")
    }
    assert signatures.keys() == seams.keys()
    for name, parameters in signatures.items():
        words = [word.partition("=")[0].strip() for word in parameters.split(",")]
        assert words == seams[name][: len(words)], name
