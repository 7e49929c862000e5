"""``--json``: every verb writes one document for programs, of a class whose schema is published."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_agenteval.cli.console import RESULTS_HELP
from pytest_agenteval.cli.main import VERBS, WITHOUT_JSON, main, verb_function
from pytest_agenteval.registry.registration import load_registry
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.cli.documents import valid_document
from tests.reports.runs import MIXED, PLANNED, key, store_run, trial
from tests.reports.show.sample_trials import PAINT, TRIAL
from tests.suites import only_our_plugin, suite, task, write

SUITE = "name: s\nkind: capability\nregression: {tasks: [a]}\n"
OLD = "20260101-000000-rules"
SECRET = "sk-proj-0123456789abcdefghijklmnop"

COMMANDS: dict[str, Sequence[str]] = {
    "init": ("--dry-run",),
    "validate": ("evals", "broken"),
    "runs": (),
    "show": ("missed",),
    "import": (),
    "report": ("latest",),
    "sql": ("select trial, score from trials",),
    "compare": (OLD, "latest", "--allow"),
    "baseline": ("set", "latest", "--allow", "--to", "kept.json"),
    "gate-check": (),
    "trend": (),
    "promote": ("s", "--runs=1", "--model=rules", "--tasks"),
    "demote": ("s", "--model=rules"),
    "feedback": ("latest", "--suite=s", "--model=rules"),
    "review": ("--rubric", "task_fulfilment"),
    "guide": (),
    "leaks": ("--suite", "evals", "--prompt", "broken/test_e.py"),
}
"""For each verb what it is told in the folder ``project``, beside ``--json``."""

ELSEWHERE = {
    "audit": "test_audit.py",
    "merge": "test_merge.py",
    "calibrate": "test_calibrate.py",
    "improve": "test_improve.py",
}
"""Verbs that start pytest, or make a run: where their documents are looked at, beside what costs seconds."""

VERBS_WITH_JSON = [verb for verb in VERBS if verb not in WITHOUT_JSON]
THREE = [(key(name), "x") for name in "abc"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a suite and two runs: the latest has every ending, an answer that paints, a secret."""
    folder = tmp_path_factory.mktemp("project")
    results = folder / ".agenteval" / "runs"
    store_run(results, [trial(name, 1, 1.0) for name in "abc"], THREE).folder.rename(results / OLD)
    store_run(results, [TRIAL, *MIXED, trial("key", 1, 0.0, message=SECRET)], PLANNED)
    more = {"metadata": {"failure_bucket": "x"}}
    tasks = {f"evals/{name}.json": {**task(name), **more} for name in "abc"}
    broken = {"broken/suite.yaml": suite("t"), "broken/d.json": {**task("d"), "trials_pre_run": 2}}
    write(
        folder, {"evals/suite.yaml": SUITE, **tasks, **broken, "broken/test_e.py": "import nothing_of_ours"}
    )
    return folder


@pytest.fixture(scope="module")
def registry(project: Path) -> Registry:
    """What is registered where the tasks of the project lie, for which a pytest is started once."""
    with pytest.MonkeyPatch.context() as patch:
        only_our_plugin(patch)
        return load_registry([project / "evals"])


@pytest.fixture(autouse=True)
def _there(project: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    only_our_plugin(monkeypatch)
    monkeypatch.setattr("pytest_agenteval.loop.review_pool.load_registry", lambda *_: registry)
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_agenteval.plugin")
    monkeypatch.delenv("PYTEST_ADDOPTS")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(project)


def written(capsys: pytest.CaptureFixture[str], verb: str, *args: str) -> tuple[int, str]:
    """Give the exit status of a command, and what it writes to standard output."""
    if verb == "baseline":  # which changes what there was
        main(["baseline", "set", OLD, "--allow", "--to", "kept.json"])
    capsys.readouterr()
    status = main([verb, *args])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_writes_what_its_schema_describes(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Alone on standard output, or to a file beside what is printed anyhow; the exit status is the same."""
    status, screen = written(capsys, verb, *COMMANDS[verb])
    status_of_json, text = written(capsys, verb, *COMMANDS[verb], "--json", "-")
    valid_document(verb, text)
    assert written(capsys, verb, *COMMANDS[verb], "--json", "file.json") == (status, screen)
    assert Path("file.json").read_text(encoding="utf-8") == text
    assert (status_of_json, SECRET in text, PAINT in text) == (status, False, False)


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_file_that_cannot_be_written_is_one_line(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 2, as for every mistake in use, and nothing is written to standard output."""
    assert main([verb, *COMMANDS[verb], "--json", "no/such/folder/file.json"]) == 2

    complaint = capsys.readouterr().err.strip().splitlines()[-1]
    assert complaint.startswith("agenteval: ")
    assert "no/such/folder/file.json: cannot be written" in complaint


def test_no_verb_is_without_a_document_that_is_looked_at() -> None:
    """A new verb needs ``--json``, a schema, and its command in this file."""
    assert {*COMMANDS, *ELSEWHERE} == set(VERBS_WITH_JSON)
    for verb, file in ELSEWHERE.items():
        assert f'valid_document("{verb}", ' in Path(__file__).with_name(file).read_text(encoding="utf-8")


@pytest.mark.parametrize("verb", VERBS_WITH_JSON)
def test_every_verb_says_shared_options_in_the_same_words(verb: str) -> None:
    """Who knows them of one verb knows them of all; ``--json`` is missing nowhere."""
    parser = argparse.ArgumentParser()
    verb_function(verb, "_arguments")(parser)

    said = {name: (each.metavar, each.help) for each in parser._actions for name in each.option_strings}
    assert said["--json"] == ("FILE", "write everything as JSON (- for standard output)")
    assert said.get("--results", ("DIR", RESULTS_HELP)) == ("DIR", RESULTS_HELP)


def test_verbs_are_listed_on_a_line_each_before_anything_is_imported() -> None:
    """``agenteval --help`` is there at once: no verb's module is imported, and no library of ours."""
    code = (
        "import sys; from contextlib import suppress; from pytest_agenteval.cli.main import main\n"
        "with suppress(SystemExit): main(['--help'])\n"
        "print(*({'msgspec', 'pydantic', 'pytest', 'pytest_agenteval.cli.runs'} & {*sys.modules}))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    *lines, imported = printed.stdout.splitlines()
    assert imported == ""
    assert {line.split()[0] for line in lines[-len(VERBS) :]} == set(VERBS)
    assert max(map(len, lines)) <= 80


def test_each_problem_of_a_file_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """With its file, line and key; what is no problem of ours is told as pytest has it."""
    status, text = written(capsys, "validate", "broken", "--json", "-")

    document = json.loads(text)
    (problem,) = document["problems"]
    (unreadable,) = document["unreadable"]
    assert (status, document["tasks"], document["files_with_problems"]) == (1, 0, 2)
    assert (problem["file"], problem["key"]) == ("broken/d.json", "trials_pre_run")
    assert "trials_per_run" in problem["hint"]
    assert problem["line"] > 1
    assert unreadable["file"] == "broken/test_e.py"
    assert "nothing_of_ours" in unreadable["text"]


def test_what_may_be_promoted_is_told_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """And what was demoted or written into a baseline, with scores of all digits."""
    (suite,) = json.loads(written(capsys, "promote", *COMMANDS["promote"], "--json", "-")[1])["suites"]
    (lapsed,) = json.loads(written(capsys, "demote", *COMMANDS["demote"], "--json", "-")[1])["suites"]
    (file,) = json.loads(written(capsys, "baseline", *COMMANDS["baseline"], "--json", "-")[1])["files"]

    ready, lacking = suite["groups"]
    assert (ready["name"], ready["trials"], ready["lacks"], suite["tasks"]) == ("b", 1, "", ["b"])
    assert lacking["lacks"].startswith("2 of 3 trials missed")
    assert (suite["runs"], suite["change"]["written"]) == ([OLD], False)
    assert "+- b" in suite["change"]["diff"]
    assert [(each["name"], each["missed"], each["trials"]) for each in lapsed["lapses"]] == [("a", 1, 3)]
    changed = {each["name"]: (each["before"], each["after"]) for each in file["changed"]}
    assert changed["s/b[rules]"] == ([1.0], [1.0, None])


def test_a_secret_with_quotes_is_hidden_and_the_document_stays_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Within JSON it is spelled otherwise."""
    KNOWN_SECRETS.know(['a "quoted" \\ secret of mine'])
    try:
        _, text = written(capsys, "sql", r"""select 'a "quoted" \ secret of mine' as said""", "--json", "-")
    finally:
        KNOWN_SECRETS.forget()

    assert "quoted" not in json.loads(text)["rows"][0]["said"]
