"""Trajectories hold what a trial holds, in a form that readers of ATIF accept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import Message, ToolCall, Transcript
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.exports.atif import trajectory, write_trajectories
from pytest_agenteval.reports.exports.trial_identity import trial_path
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.reports.exports.atif_rules import check_trajectory
from tests.reports.exports.talk import NEVER_BEGUN, TALK, store_talks
from tests.reports.runs import key, store_run, trial
from tests.store.samples import FULL_TODAY, TRIALS

RUN = Run(Path("r"), RunHeader("2026-11-21T09:30:15+00:00", name="r"), (), ())
GOLDEN = Path(__file__).parent / "golden"
"""Trajectories as reviewed, written anew by ``python -m tests.reports.exports.test_atif``."""

TOOLS = (ToolSpec("search", "Finds people.", {"type": "object", "properties": {"q": {}}}, taped=True),)
TWINS = [ToolCall("c1", 1, at, "find", {"at": at}, result=f"hit {at}") for at in (0, 1)]
PARALLEL = Transcript(
    (
        Message("assistant", "", tuple(TWINS), turn=1),
        *(Message("tool", f"{call.result}, cut", turn=2, call_id="c1") for call in TWINS),
    ),
    tuple(TWINS),
)


TALKS = {
    "talk": TALK,
    "never_begun": NEVER_BEGUN,
    "answer_alone": replace(TALK, transcript=Transcript()),
    "parallel_calls": replace(TALK, transcript=PARALLEL),
    "tools": replace(
        TALK,
        transcript=replace(
            TALK.transcript, messages=TALK.transcript.messages[:1], calls=(), asks=(), tools=TOOLS
        ),
    ),
}


@pytest.mark.parametrize("name", TALKS)
def test_a_trajectory_is_as_reviewed(name: str) -> None:
    """Everything of a trial in its order and nothing twice; what is unknown is absent and not 0.

    Messages of tools stand with their calls, by turn where ids come again; a call that no model asked for has
    a step of its own. The format demands a step: a trial without a word says why, or what it answered.
    """
    text = json.dumps(trajectory(RUN, TALKS[name]), ensure_ascii=False, indent=1) + "\n"

    assert text == (GOLDEN / f"atif_{name}.json").read_text(encoding="utf-8")


def test_a_tools_message_that_answers_no_call_is_a_result_without_one() -> None:
    """Readers look for what a tool returned among results, and find it there once."""
    orphan = Transcript((Message("tool", "12:00", turn=1, call_id="gone"),))
    (step,) = trajectory(RUN, replace(TALK, transcript=orphan))["steps"]
    assert (step["message"], step["observation"]) == ("", {"results": [{"content": "12:00"}]})


def _said(step: dict[str, Any]) -> str:
    return f"{step['source']}: {step['message']}"


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TRIALS)
def test_every_trial_makes_a_trajectory_by_the_rules(trial: Trial) -> None:
    """Whatever agents, providers and importers leave in a transcript."""
    check_trajectory(trajectory(RUN, trial))


@pytest.mark.parametrize("trial", [*TALKS.values(), FULL_TODAY], ids=[*TALKS, "full"])
def test_harbors_own_model_accepts_a_trajectory(trial: Trial) -> None:
    """The model that harbor validates trajectories with, and nothing of it left over."""
    reason = "harbor's own model: pip install --no-deps --ignore-requires-python harbor"
    models = pytest.importorskip("harbor.models.trajectories", reason=reason)
    data = json.loads(json.dumps(trajectory(RUN, trial)))

    accepted = models.Trajectory.model_validate_json(json.dumps(data))

    assert accepted.to_json_dict() == data


def test_a_file_is_written_for_each_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--as atif -o DIR``, and the same files at a second export."""
    run = store_talks(tmp_path)
    command = ["report", str(run.folder), "--as", "atif", "-o", str(tmp_path / "out")]

    assert main(command) == 0
    written = capsys.readouterr().out.split()
    assert main(command) == 0

    assert capsys.readouterr().out.split() == written
    assert sorted(map(str, (tmp_path / "out").rglob("*.json"))) == sorted(written)
    texts = [json.loads(Path(file).read_text()) for file in written]
    assert [data["extra"]["agenteval"]["task"] for data in texts] == ["hello", "unbegun"]
    assert texts[0]["agent"]["model_name"] == "anthropic/claude-sonnet-4-5"
    assert texts[0]["session_id"] == f"{run.folder.name}/s/hello[claude@short-2]"


def test_one_trial_is_held_at_a_time(tmp_path: Path) -> None:
    """A run of any size: the first file is there before the second transcript is read."""
    run = store_talks(tmp_path)
    paths = write_trajectories([run], tmp_path / "out")

    first = next(iter(paths))

    assert [*(tmp_path / "out").rglob("*.json")] == [first]


def test_a_lost_transcript_costs_no_other_trial_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trial is left out, and a line says which."""
    run = store_talks(tmp_path)
    (transcripts,) = run.folder.glob("transcripts-*.jsonl")
    lines = transcripts.read_bytes().splitlines(keepends=True)
    transcripts.write_bytes(b" " * (len(lines[0]) - 1) + b"\n" + lines[1])

    assert main(["report", str(run.folder), "--as", "atif", "-o", str(tmp_path / "out")]) == 0

    out, err = capsys.readouterr()
    assert len(out.split()) == 1
    assert "no transcript at" in err


def test_a_folder_that_cannot_be_written_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, and no traceback."""
    run = store_talks(tmp_path)
    (tmp_path / "out").write_text("a file")

    assert main(["report", str(run.folder), "--as", "atif", "-o", str(tmp_path / "out")]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be written" in line


def test_no_secret_and_no_half_of_a_pair_is_written(tmp_path: Path) -> None:
    """A run may be older than what is known of secrets now; half of a surrogate pair is no text."""
    said = replace(TALK.transcript.messages[0], content="the key is tr0ub4dor-and-3 \ud83d")
    trial = replace(TALK, transcript=replace(TALK.transcript, messages=(said,)))
    run = store_talks(tmp_path, trial)
    KNOWN_SECRETS.know(["tr0ub4dor-and-3"])
    try:
        (file,) = write_trajectories([run], tmp_path / "out")
    finally:
        KNOWN_SECRETS.forget()

    text = file.read_text()
    assert "tr0ub4dor" not in text
    assert "system: the key is <redacted> ?" in map(_said, json.loads(text)["steps"])


@pytest.mark.parametrize("task", ["../../etc/passwd", "a/b", "생" * 200, "CON:*?", ""])
def test_a_file_stays_in_its_folder_whatever_a_task_is_called(task: str) -> None:
    """No part leads upward or is longer than a file system takes, and no two tasks share a file."""
    path = trial_path("../r", replace(TALK, key=TALK.key._replace(task=task)), ".json")

    assert len(path.parts) == 3
    assert not any(part.startswith(".") or set(part) & set('/\\:*?"<>|') for part in path.parts)
    assert max(len(part.encode()) for part in path.parts) <= 255
    assert path != trial_path("../r", replace(TALK, key=TALK.key._replace(task=f"{task}!")), ".json")


def test_roles_of_other_providers_are_ours(tmp_path: Path) -> None:
    """Runs of earlier versions hold them as an agent wrote them."""
    run = store_talks(tmp_path)
    edit_transcript(run, 0, lambda line: line["messages"][0].update(role="developer"))

    trial = run.trial(run.entries[0])

    assert trial.transcript.messages[0].role == "system"
    check_trajectory(trajectory(run, trial))


def edit_transcript(run: Run, number: int, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change a line of a run's transcripts by hand; the journal finds it by its length, which stays."""
    (transcripts,) = run.folder.glob("transcripts-*.jsonl")
    lines = transcripts.read_bytes().splitlines(keepends=True)
    content = json.loads(lines[number])
    for name in ("crc", "asks"):  # an earlier version knew no checksums; without asks there is room
        content.pop(name, None)
    edit(content)
    edited = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(edited) < len(lines[number])
    lines[number] = edited.ljust(len(lines[number]) - 1) + b"\n"
    transcripts.write_bytes(b"".join(lines))


if __name__ == "__main__":
    for talk, shown in TALKS.items():
        written = json.dumps(trajectory(RUN, shown), ensure_ascii=False, indent=1) + "\n"
        (GOLDEN / f"atif_{talk}.json").write_text(written, encoding="utf-8", newline="\n")


def test_models_that_are_named_are_written_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--models`` chooses trials of every format; a name that the run does not have is a mistake."""
    trials = [trial("a", 1, 1.0, key=key("a", 1, model)) for model in ("fast", "slow")]
    run = store_run(tmp_path / "runs", trials)
    command = ["report", str(run.folder), "--as", "atif", "-o", str(tmp_path / "out"), "--models"]
    assert main([*command, "slow"]) == 0
    (path,) = capsys.readouterr().out.splitlines()
    assert "slow" in Path(path).name
    assert main([*command, "slwo"]) == 2
    assert "has no model 'slwo'; it has fast, slow" in capsys.readouterr().err
