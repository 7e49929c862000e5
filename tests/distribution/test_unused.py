"""Installed but unused: nothing is imported, made, started or sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    (tmp_path / "package.json").write_text('{"id": "x", "name": "y"}')
    (tmp_path / "notes.yaml").write_text("id: 1\n")
    return tmp_path


def test_a_plain_run_imports_nothing_heavy_and_starts_nothing(plain: Path) -> None:
    """Somebody else's suite pays for no import of ours beyond the plugin's own few light modules."""
    out = _run(plain, "-q", "test_plain.py")
    assert "IMPORTED []" in out
    assert "THREADS 1" in out


def test_a_plain_run_makes_no_registry(plain: Path) -> None:
    """What has a name is registered when a task first needs one: a plain run imports options and hooks."""
    out = _run(plain, "-q", "test_plain.py")
    ours = {name.strip("' ") for name in out.split("OURS ")[1].split("\n")[0].strip("[]").split(",")}
    assert {name.removeprefix("pytest_agenteval.") for name in ours - {"pytest_agenteval"}} == {
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


def test_data_files_that_are_no_tasks_import_nothing_heavy(plain: Path) -> None:
    """A tree with JSON and YAML files and no suite is looked at by name only."""
    out = _run(plain, "-q", ".")
    assert not {"yaml", "jinja2", "vcr", "litellm"} & set(
        out.split("IMPORTED ")[1].split("\n")[0].strip("[]").split(", ")
    )


def test_a_plain_run_leaves_nothing_behind(plain: Path) -> None:
    """No file and no folder of ours appears where nobody asked for evals."""
    before = {path.name for path in plain.rglob("*") if "__pycache__" not in path.parts}
    _run(plain, "-q", "-p", "no:cacheprovider", ".")
    after = {path.name for path in plain.rglob("*") if "__pycache__" not in path.parts}
    assert after - before <= {"__pycache__"}


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
    """``-p no:agenteval`` leaves no option and no module of ours."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:agenteval", "--help"],
        cwd=plain,
        capture_output=True,
        text=True,
        timeout=60,
    )
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
    twice = "import pytest; [pytest.main(['--collect-only', '-q', '-W', 'error']) for _ in range(2)]"
    command = [sys.executable, "-c", twice]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("t.json::t[rules-1]") == 2, done.stdout + done.stderr
    assert "rewritten" not in done.stdout + done.stderr
