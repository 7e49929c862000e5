"""Installed but unused: nothing is imported, made, started or sent."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.forked_workers import run_python

HEAVY = {"yaml", "pydantic", "jinja2", "vcr", "litellm", "jsonschema", "asyncio", "aiohttp", "httpx"}

LOOK = """
import sys, threading, pathlib, os
import pytest

class Look:
    def pytest_unconfigure(self):
        found = sorted(HEAVY & set(sys.modules))
        own = sorted(name for name in sys.modules if name.startswith("pytest_agenteval"))
        print("IMPORTED", found)
        print("OURS", own)
        print("THREADS", threading.active_count())

HEAVY = set(os.environ["HEAVY"].split())
sys.exit(pytest.main(sys.argv[1:], plugins=[Look()]))
"""


def _run(folder: Path, *arguments: str) -> str:
    """Run pytest in a process of its own, with no plugin but ours, and give what it printed."""
    # An interpreter that asks for its path takes no modules from it: -I keeps PYTHON* out, not site-packages.
    command = [sys.executable, "-c", LOOK, "-p", "pytest_agenteval.plugin", *arguments]
    environ = {"HEAVY": " ".join(HEAVY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A folder with a plain test and data files that are nobody's tasks."""
    return _plain(tmp_path)


def _plain(folder: Path) -> Path:
    (folder / "test_plain.py").write_text("def test_plain(): pass\n")
    (folder / "package.json").write_text('{"id": "x", "name": "y"}')
    (folder / "notes.yaml").write_text("id: 1\n")
    return folder


class PlainRun(NamedTuple):
    """What a run of somebody else's tests printed, and the files that it left behind."""

    printed: str
    left: set[str]


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> PlainRun:
    """Run pytest once where there are no tasks, for all that is to be seen of it."""
    folder = _plain(tmp_path_factory.mktemp("plain"))
    before = {path.name for path in folder.rglob("*")}
    printed = _run(folder, "-q", "-p", "no:cacheprovider", ".")
    return PlainRun(
        printed, {path.name for path in folder.rglob("*") if "__pycache__" not in path.parts} - before
    )


def test_a_plain_run_imports_nothing_heavy_and_starts_nothing(plain_run: PlainRun) -> None:
    """Somebody else's suite pays for no import of ours beyond the plugin's own few light modules.

    A tree with JSON and YAML files and no suite is looked at by name only.
    """
    assert "IMPORTED []" in plain_run.printed
    assert "THREADS 1" in plain_run.printed


def test_a_plain_run_makes_no_registry(plain_run: PlainRun) -> None:
    """What has a name is registered when a task first needs one: a plain run imports options and hooks."""
    ours = plain_run.printed.split("OURS ")[1].split("\n")[0].strip("[]").split(",")
    names = {name.strip("' ") for name in ours} - {"pytest_agenteval"}
    assert {name.removeprefix("pytest_agenteval.") for name in names} == {
        "plugin",
        "processes",
        "processes.startup",
        "registry",
        "registry.hookspecs",
        "registry.registration",
        "session",
        "session.options",
        "session.run_hooks",
        "session.settings",
        "session.stash",
        "tasks",
        "tasks.file_names",  # there are data files beside the test
    }


def test_a_plain_run_leaves_nothing_behind(plain_run: PlainRun) -> None:
    """No file and no folder of ours appears where nobody asked for evals."""
    assert plain_run.left <= {"__pycache__"}


def test_our_modules_are_imported_as_they_are_written(plain: Path) -> None:
    """Pytest rewrites the asserts of plugins; it would rewrite hundreds of ours on each new machine."""
    (plain / "conftest.py").write_text(
        "import atexit, sys\n"
        "atexit.register(lambda: print('AFTER', [type(each).__name__ for each in sys.meta_path]))\n"
        "def pytest_sessionfinish():\n"
        "    import pytest_agenteval.text.errors as ours\n"
        "    finders = [type(each).__name__ for each in sys.meta_path]\n"
        "    print('LOADER', type(ours.__loader__).__name__, finders)\n"
    )
    out = _run(plain, "-q", "-s", "test_plain.py")
    during, after = out.split("LOADER ")[1].split("\n")[0], out.split("AFTER ")[1]
    assert during.startswith("SourceFileLoader ['OwnModuleFinder', 'AssertionRewritingHook'")
    assert "OwnModules" not in after


def test_collecting_only_loads_no_model_no_cassette_and_no_prompt(tmp_path: Path) -> None:
    """``--collect-only`` over real task files needs neither litellm, vcrpy nor jinja2."""
    evals = tmp_path / "evals"
    evals.mkdir()
    (evals / "suite.json").write_text('{"name": "s", "agent": "card", "kind": "capability"}')
    task = (
        '{"id": "t", "input": {"fact_id": "2026/09/17.md#ts_1", "content": "x"},'
        ' "graders": [{"name": "card_completion"}]}'
    )
    (evals / "t.json").write_text(task)
    out = _run(tmp_path, "--collect-only", "-q", "evals")
    assert "t.json::t[rules-1]" in out
    imported = out.split("IMPORTED ")[1].split("\n")[0]
    assert not [name for name in ("litellm", "vcr", "jinja2") if f"'{name}'" in imported]


def test_the_plugin_can_be_turned_off(plain: Path) -> None:
    """``-p no:agenteval`` leaves no option of ours."""
    done = run_python("-m", "pytest", "-p", "no:agenteval", "--help", cwd=plain)
    assert done.returncode == 0
    assert "--agent-model" not in done.stdout


def test_a_trial_without_tools_loads_no_recordings_and_no_http(tmp_path: Path) -> None:
    """What plays, compares and redacts requests is loaded by the first tool, or agent of the user's own."""
    evals = tmp_path / "evals"
    evals.mkdir()
    (evals / "suite.json").write_text('{"name": "s", "kind": "regression"}')
    (evals / "t.json").write_text(
        '{"id": "t", "input": {"content": "x"}, "script": [{"text": "y"}],'
        ' "graders": [{"name": "answer_contains", "config": {"text": "y"}}]}'
    )
    out = _run(tmp_path, "-q", "evals", "--agent-model=scripted")
    assert "1 passed" in out
    ours = [name.strip("' ") for name in out.split("OURS ")[1].split("\n")[0].strip("[]").split(",")]
    prefix = "pytest_agenteval.cassettes."
    assert {name.removeprefix(prefix) for name in ours if name.startswith(prefix)} == {
        "http",
        "http.patch_system",
        "http.patch_threads",
        "http.patches",
        "http.scope",
    }
    assert not [
        name
        for name in ours
        if name.startswith(("pytest_agenteval.tools.http", "pytest_agenteval.tools.openapi"))
    ]


def test_a_controller_that_sums_up_loads_nothing_that_its_workers_did() -> None:
    """What xdist's controller tells of a run is read from disk: no task is loaded, no agent, no pydantic."""
    code = "import sys; import pytest_agenteval.session.summary; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unwanted = {
        "pydantic",
        "asyncio",
        "pytest_agenteval.session.eval_session",
        "pytest_agenteval.engine.trial",
    }
    assert unwanted.isdisjoint(loaded.stdout.split())


def test_no_plugin_of_ours_is_warned_of_in_a_second_run_of_a_process(tmp_path: Path) -> None:
    """What is imported as it is written is nothing that pytest finds too late to rewrite."""
    (tmp_path / "suite.json").write_text('{"name": "s", "agent": "pkm", "kind": "capability"}')
    (tmp_path / "t.json").write_text(
        '{"id": "t", "input": {"content": "x"}, "graders": [{"name": "pkm_completion"}]}'
    )
    others = [f"-pno:{each.name}" for each in entry_points(group="pytest11") if each.name != "agenteval"]
    options = ["--collect-only", "-q", "-W", "error", *others]
    twice = f"import pytest; [pytest.main({options}) for _ in range(2)]"
    command = [sys.executable, "-c", twice]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("t.json::t[rules-1]") == 2, done.stdout + done.stderr
    assert "rewritten" not in done.stdout + done.stderr
