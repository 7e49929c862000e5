"""``agenteval show``: one trial of a stored run, by what pytest and reports call it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.cli.console import pager_command
from pytest_agenteval.cli.main import main
from tests.forked_workers import start_python
from tests.reports.runs import MIXED, key, store_run, trial
from tests.reports.show.sample_trials import BETTER, PAINT, TRIAL
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
POSIX = pytest.mark.skipif(os.name == "nt", reason="a terminal of its own is POSIX")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep two runs: an old one of another model, and the latest with every ending but failed."""
    root = tmp_path_factory.mktemp("runs")
    store_run(root, [BETTER])
    store_run(root, [TRIAL, *MIXED])
    return root


class Shown:
    """Runs the verb on stored runs, and gives what it printed."""

    def __init__(self, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._results, self._capsys = results, capsys

    def __call__(self, *args: str, status: int = 0) -> str:
        """Give the standard output; of a mistake what it says."""
        assert main(["show", *args, "--results", str(self._results)]) == status
        printed = self._capsys.readouterr()
        return printed.err if status else printed.out


@pytest.fixture
def shown(results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Give the verb, with a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")
    return Shown(results, capsys)


def test_the_worst_of_the_latest_run_is_shown_where_nothing_is_named(shown: Shown) -> None:
    """As ``latest:worst``; no colour and no pager where nobody looks."""
    text = shown()

    assert text.startswith("MISSED 0.00  s/c[rules-1]\n")
    assert text == shown("latest:worst") == shown("worst", "--run", "latest")
    assert "\x1b" not in text


def test_all_that_ended_so_come_one_after_the_other(shown: Shown) -> None:
    """Worst first, numbered."""
    text = shown("latest:missed")

    heads = [line for line in text.splitlines() if line.startswith("MISSED")]
    assert [head.split()[1] for head in heads] == ["0.00", "0.00", "0.50", "0.62"]
    assert "4 of 4" in text


def test_json_is_the_trial(shown: Shown) -> None:
    """In a list, also where it is one; the run stands in each."""
    (line,) = json.loads(shown("cheapest", "--json", "-"))["trials"]
    errored = json.loads(shown("errored", "--json", "-"))["trials"]
    one = line["trial"]

    assert (line["name"], line["score"], line["old"]) == (one["name"], one["score"], None)
    assert (one["name"], one["score"]) == ("여행/travel_cheapest_flight[claude@short-2]", 0.62)
    assert one["messages"][2]["calls"][0]["tape"] == "hit"
    assert one["grades"][1]["votes"][0]["rationale"] == "짧지 않습니다."
    assert [each["trial"]["cause"] for each in errored] == ["provider"]
    assert line["run"] == errored[0]["run"]
    assert one["messages"][3]["content"] == f"**KE120** {PAINT}"
    assert "\u202e" not in shown("cheapest", "--json", "-")


@pytest.mark.parametrize(("columns", "beside"), [("100", False), ("140", True)])
def test_the_same_trial_of_two_runs(
    shown: Shown, results: Path, monkeypatch: pytest.MonkeyPatch, columns: str, beside: bool
) -> None:
    """Beside each other where there is room; the other run is the old one."""
    monkeypatch.setenv("COLUMNS", columns)
    old = next(path.name for path in results.glob("2*") if not path.name.endswith("-2"))

    text = shown("cheapest", "--diff", old)

    assert text.startswith("PASSED 1.00 -> MISSED 0.62")
    assert any(" | " in line for line in text.splitlines()) == beside
    (new,) = json.loads(shown("cheapest", "--diff", old, "--json", "-"))["trials"]
    assert [side["trial"]["score"] for side in (new["old"], new)] == [1.0, 0.62]
    assert "there is no trial" in shown("s/c[rules-1]", "--diff", old, status=2)
    assert shown("missed", "--diff", old).count(" -> MISSED") == 1


def test_a_trial_of_another_run_is_told_with_that_run(shown: Shown, results: Path) -> None:
    """Who pastes a name from an older report learns where it is."""
    old = next(path.name for path in results.glob("2*") if not path.name.endswith("-2"))

    told = shown("travel_cheapest_flight[opus@short-2]", status=2)

    assert "there is no trial" in told
    assert f"--run {old}" in told
    assert "remove one of them" in shown("latest:worst", "--run", old, status=2)


def test_a_run_in_the_place_of_a_trial_is_answered_with_the_command(shown: Shown, results: Path) -> None:
    """Reports print ``latest:worst``, so users type a run alone, or a run and a trial."""
    old = next(path.name for path in results.glob("2*") if not path.name.endswith("-2"))

    assert "\nlatest is a run: agenteval show latest:worst" in shown("latest", status=2)
    assert shown(f"{old}:cheapest") == shown("cheapest", "--run", old) != shown("latest:cheapest")
    assert f"\n{old} is a run: agenteval show no --run {old}" in shown(f"{old}:no", status=2)
    assert "is a run" not in shown("nosuch:cheapest", status=2)


def test_a_lost_transcript_leaves_what_the_journal_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its grades are shown, the other trials too; one line says what is lost, and the status is 2."""
    stored = store_run(tmp_path, [TRIAL, *MIXED[:2]])
    for path in stored.folder.glob("transcripts-*"):
        path.write_bytes(b"x" + path.read_bytes()[1:])
    where = ["--results", str(tmp_path)]

    assert main(["show", "latest:missed", *where]) == 2
    printed = capsys.readouterr()
    assert "  cheapest  " in printed.out
    assert "MISSED 0.50  s/a[rules-2]" in printed.out
    assert printed.err.count("no transcript at") == 1
    assert main(["show", "missed", "--json", "-", *where]) == 2
    readable, lost = json.loads(capsys.readouterr().out)["trials"]
    assert (lost["name"], lost["score"], lost["trial"]) == (TRIAL.key.label, TRIAL.score, None)
    assert readable["trial"]["task"] == "a"
    assert main(["show", "--results", str(tmp_path / "none")]) == 2
    assert "there are no runs yet" in capsys.readouterr().err
    assert main(["show", "nosuch", "--results", str(tmp_path / "none")]) == 2
    assert "there is no trial 'nosuch': there are no runs yet in " in capsys.readouterr().err


def test_an_item_of_pytest_is_shown_as_it_is_pasted(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the folder of the run, and from another; the run's end says how to see the worst."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p pytest_agenteval.plugin")
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/x/task.json": task("hello", says="Hm.")})
    ended = run(pytester, "evals")
    ended.stdout.fnmatch_lines(["*next: agenteval show latest:worst"])
    capsys.readouterr()

    item = "evals/x/task.json::hello[scripted-1]"
    assert main(["show", item]) == 0
    told = capsys.readouterr().out
    assert told.startswith("FAILED 0.00  greetings/hello[scripted-1]\n")
    assert "not met: " in told
    monkeypatch.chdir(pytester.path / "evals" / "x")
    results = str(pytester.path / ".agenteval" / "runs")
    assert main(["show", f"../../{item}", "--results", results]) == 0
    assert "greetings/hello" in capsys.readouterr().out


def in_a_terminal(args: list[str], **environ: str) -> tuple[int, str]:
    """Run the command on a terminal of its own; give its exit status and all that is written there."""
    terminal, end = os.openpty()
    code = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"
    variables = {**os.environ, "COLUMNS": "80", "TERM": "xterm", **environ}
    streams: Any = dict.fromkeys(("stdin", "stdout", "stderr"), end)
    child = start_python("-c", code, *args, env=variables, start_new_session=True, **streams)
    os.close(end)
    output = b""
    try:
        while piece := os.read(terminal, 65536):
            output += piece
    except OSError:  # the other end was closed
        pass
    os.close(terminal)
    return child.wait(), output.decode()


@POSIX
def test_a_terminal_gets_colours_through_the_pager_which_may_be_left_early(results: Path) -> None:
    """PAGER with its options, told to pass colours; one that quits at once ends everything cleanly."""
    args = ["show", "latest:missed", "--results", str(results)]

    status, text = in_a_terminal(args, PAGER='sed "s/^/$LESS> /"')
    assert status == 0
    assert "FRX> \x1b[33mMISSED 0.00  s/c[rules-1]\x1b[0m" in text
    assert in_a_terminal(args, PAGER="head -1 >/dev/null") == (0, "")
    status, text = in_a_terminal([*args, "--no-pager"], PAGER="false", NO_COLOR="1")
    assert (status, "\x1b" in text) == (0, False)


@POSIX
def test_ctrl_c_is_the_pagers(results: Path) -> None:
    """It reaches the whole group of processes: the pager decides what it means, and the command waits."""
    pager = "trap 'echo stays' INT; kill -INT 0; cat >/dev/null; echo left"

    status, text = in_a_terminal(["show", "--results", str(results)], PAGER=f"LESS= ; {pager}")

    assert (status, text.split()) == (0, ["stays", "left"])


def test_the_pager_is_the_one_that_git_would_take() -> None:
    """None where it is told to be none or the terminal is dumb."""
    python = f"{sys.executable} -c 0"
    assert pager_command({"PAGER": python}) == python
    assert pager_command({"PAGER": "LESS=R less"}) == "LESS=R less"
    assert [pager_command({"PAGER": none}) for none in ("", "cat", " ", "no-such-program -s")] == [""] * 4
    assert pager_command({"PAGER": "less", "TERM": "dumb"}) == ""


@pytest.fixture(scope="module")
def of_two_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep a run of two models, one of them with two prompts, and an older run of one of them."""
    root = tmp_path_factory.mktemp("models")
    trials = [
        trial(task, number, score, key=key(task, number, model, variant))
        for task in ("delivery", "refund")
        for number in (1, 2)
        for model, variant, score in (("fast", "", 1.0), ("slow", "", 0.5), ("slow", "short", 0.25))
    ]
    store_run(root, [replace(each, score=0.75) for each in trials if each.key.model == "slow"])
    store_run(root, trials)
    return root


def test_two_models_or_prompts_of_a_run_stand_beside_each_other(
    of_two_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``compare`` names them, old before new; the trial may be named as either side has it."""
    shown = Shown(of_two_models, capsys)
    models = ("--models", "fast,slow", "--variants", "base")

    expected = "PASSED 1.00 -> MISSED 0.50  s/delivery[fast-1] -> s/delivery[slow-1]\n"
    for name in ("delivery[slow-1]", "s/delivery[fast-1]", "s/delivery[slow-1]"):
        assert shown(name, *models).startswith(expected)
    assert shown("missed", *models).count(" -> MISSED 0.50") == 4
    assert shown(*models).startswith("PASSED 1.00 -> MISSED 0.50")
    prompts = shown("refund[slow-2]", "--models", "slow,slow@short", status=2)
    assert "no model 'slow@short'" in prompts
    text = shown("refund[slow@short-2]", "--models", "slow", "--variants", "base,short")
    assert text.startswith("MISSED 0.50 -> MISSED 0.25  s/refund[slow-2] -> s/refund[slow@short-2]\n")
    (document,) = json.loads(shown("delivery[slow-1]", *models, "--json", "-"))["trials"]
    assert [side["name"] for side in (document["old"], document)] == [
        "s/delivery[fast-1]",
        "s/delivery[slow-1]",
    ]


def test_a_side_of_another_run_is_named_with_it(
    of_two_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One name is for both runs, two are old and new; what is no pair of sides is refused."""
    shown = Shown(of_two_models, capsys)
    old = next(path.name for path in of_two_models.glob("2*") if not path.name.endswith("-2"))

    text = shown("refund[slow-2]", "--diff", old, "--models", "slow", "--variants", "base")
    assert text.startswith("MISSED 0.75 -> MISSED 0.50  s/refund[slow-2]\n")
    text = shown("refund[fast-2]", "--diff", old, "--models", "slow,fast", "--variants", "short,base")
    assert text.startswith("MISSED 0.75 -> PASSED 1.00  s/refund[slow@short-2] -> s/refund[fast-2]\n")
    assert "expected two names" in shown("refund", "--models", "slow", status=2)
    assert "expected two names" in shown("refund", "--models", "a,b,c", status=2)
    assert "no model 'nobody'; it has" in shown("refund", "--models", "fast,nobody", status=2)
    assert "remove it" in shown("refund[slow-1]", "--models", "fast,slow", "--looked-at", status=2)
