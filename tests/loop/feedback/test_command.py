"""``agenteval feedback`` as it is typed: where it writes, what it reads, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.loop.improve.paired_runs import Spent
from pytest_agenteval.loop.improve.progress import Round, TriedPair
from pytest_agenteval.reports.exports.document_text import document_text
from tests.loop.feedback.feedback_runs import failing, passing
from tests.reports.runs import store_run


@pytest.fixture(autouse=True)
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_run(tmp_path / ".agenteval" / "runs", [failing("a"), passing("b")])
    monkeypatch.chdir(tmp_path)


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Give the one line with which a command is refused."""
    assert main(["feedback", *args]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    return text


def test_both_files_are_written_into_a_new_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """And where they are is printed; without a folder the Markdown itself is."""
    assert main(["feedback", "latest", "-o", "new/place"]) == 0
    assert capsys.readouterr().out == "new/place/feedback.md: 1 bucket with failures\n"
    assert main(["feedback"]) == 0
    assert capsys.readouterr().out == Path("new/place/feedback.md").read_text(encoding="utf-8")
    assert json.loads(Path("new/place/feedback.json").read_text(encoding="utf-8"))["buckets"]


def test_a_log_of_improve_tells_what_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """As ``improve`` writes it, with rounds that were kept, discarded and screened; no diff that leaks."""
    tried = TriedPair((), "x fell", "discarded", "nothing rose", 0.5, 0.5, 1, True, Spent(), 1.0)
    rounds = (
        Round(
            1,
            "c0",
            decision="discarded",
            reason="nothing rose",
            diff="+ Be brief.",
            last_line="shortened it",
            screen=tried,
        ),
        Round(2, "c0", decision="refused", diff="+ the needle", leaks_held_out=True),
    )
    Path("log.json").write_text(document_text({"rounds": rounds}), encoding="utf-8")

    assert main(["feedback", "--log", "log.json"]) == 0
    told = capsys.readouterr().out
    assert "### Round 1: `discarded: nothing rose`\n\nTried: `shortened it`\nResult: `x fell`" in told
    assert "| + Be brief." in told
    assert "needle" not in told


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nobody",), "nobody"),
        (("latest", "--log", "gone.json"), "gone.json: cannot be read (No such file or directory)"),
        (("latest", "--log", "odd.json"), "odd.json: expected the log.json of agenteval improve"),
        (("latest", "--guide", "gone.md"), "gone.md: cannot be read"),
        (("latest", "--prompts", "p/*.jinja"), "--prompts p/*.jinja: no such file"),
        (("latest", "--budget", "100"), "--budget 100: too small; use"),
        (("latest", "--bucket", "y"), "has no bucket 'y'; it has x"),
        (("latest", "-o", "odd.json"), "odd.json: cannot be written"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    args: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to mend, and no traceback."""
    Path("odd.json").write_text('{"rounds": [{}]}', encoding="utf-8")

    assert words in refusal(capsys, *args)
