"""``--json``: every verb writes one document for programs, of a class whose schema is published."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.cli.schema import schema_named
from pytest_agenteval.cli.verbs import VERBS, WITHOUT_JSON, verb_module
from pytest_agenteval.redaction.secrets import KNOWN_SECRETS
from tests.reports.runs import MIXED, PLANNED, store_run, trial
from tests.reports.show.sample_trials import PAINT, TRIAL

SECRET = "sk-proj-0123456789abcdefghijklmnop"

COMMANDS: dict[str, Sequence[str]] = {
    "runs": (),
    "show": ("missed",),
    "report": ("latest",),
    "sql": ("select trial, score from trials",),
    "compare": ("OLD", "latest", "--allow"),
    "trend": (),
}
"""For each verb what it is told in the folder ``project``, beside ``--json``."""

PENDING = {"validate", "import", "baseline", "calibrate", "promote", "demote"}
VERBS_WITH_JSON = [verb for verb in VERBS if verb not in WITHOUT_JSON and verb not in PENDING]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs: an old one, and the latest with every ending and an answer that paints."""
    folder = tmp_path_factory.mktemp("project")
    results = folder / ".agenteval" / "runs"
    store_run(results, [trial(task, 1, 1.0) for task in "abc"], PLANNED).folder.rename(results / "OLD")
    store_run(results, [TRIAL, *MIXED, trial("key", 1, 0.0, message=SECRET)], PLANNED)
    return folder


@pytest.fixture(autouse=True)
def _there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


def written(capsys: pytest.CaptureFixture[str], verb: str, *args: str) -> tuple[int, str]:
    """Give the exit status of a command, and what it writes to standard output."""
    capsys.readouterr()
    status = main([verb, *args])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS_WITH_JSON)
def test_every_verb_writes_what_its_schema_describes(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Alone on standard output, or to a file beside what is printed anyhow; the exit status is the same."""
    status, screen = written(capsys, verb, *COMMANDS[verb])
    status_of_json, text = written(capsys, verb, *COMMANDS[verb], "--json", "-")
    document = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    schema: Any = json.loads(json.dumps(schema_named(verb)))

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
    assert (document["v"], schema["$id"]) == (1, f"urn:pytest-agenteval:{verb}:1")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({**document, "foreign": 1})
    assert written(capsys, verb, *COMMANDS[verb], "--json", "file.json") == (status, screen)
    assert Path("file.json").read_text(encoding="utf-8") == text
    assert (status_of_json, SECRET in text, PAINT in text) == (status, False, False)


@pytest.mark.parametrize("verb", VERBS_WITH_JSON)
def test_a_file_that_cannot_be_written_is_one_line(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 2, as for every mistake in use, and nothing is written to standard output."""
    assert main([verb, *COMMANDS[verb], "--json", "no/such/folder/file.json"]) == 2

    complaint = capsys.readouterr().err.strip().splitlines()[-1]
    assert complaint.startswith("agenteval: ")
    assert "no/such/folder/file.json: cannot be written" in complaint


@pytest.mark.parametrize("verb", VERBS_WITH_JSON)
def test_every_verb_says_the_option_in_the_same_words(verb: str) -> None:
    """Who knows it of one verb knows it of all."""
    parser = argparse.ArgumentParser()
    verb_module(verb).add_arguments(parser)

    (option,) = (action for action in parser._actions if "--json" in action.option_strings)
    assert (option.metavar, option.help) == ("FILE", "write it all as JSON (- for the standard output)")


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
