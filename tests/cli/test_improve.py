"""``agenteval improve`` on the command line: what it refuses before anything is made, and its document."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.loop.improve.progress import StepLines
from pytest_agenteval.store.run_folder import find_run
from tests.cli.documents import valid_document
from tests.loop.prompt_projects import PRICES, bakery, everything_of_the_user, git
from tests.suites import only_our_plugin

HALTED = """
import os, pytest

def pytest_collection_modifyitems(config):
    if "HALTED" in os.environ and config.getoption("--agent-split") == "held_out":
        raise pytest.UsageError("the disk is full")
"""
ASK = ("improve", "evals/bakery", "--coding-agent", "true", "--prompts", "prompts/*.md")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small suite under git, whose first task of each kind is all that dev has."""
    root = bakery(tmp_path_factory.mktemp("bakery"))
    dev = [path for path in root.glob("evals/bakery/*_dev_*.yaml") if not path.stem.endswith("_1")]
    git(root, "rm", "-q", *(str(path) for path in dev))
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (root / "evals" / "conftest.py").write_text(HALTED, encoding="utf-8")
    git(root, "add", "pytest.ini", "evals/conftest.py")
    git(root, "commit", "-q", "-m", "Fewer letters")
    return root


@pytest.fixture(autouse=True)
def _there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_our_plugin(monkeypatch)
    monkeypatch.delenv("PYTEST_ADDOPTS")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.chdir(project)


def test_a_folder_that_git_does_not_know_is_a_place_to_stand(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    """A tree has no such folder; pytest and the coding agent work in one of that name."""
    here = project / "not in git"
    here.mkdir()
    os.chdir(here)
    asked = ("--coding-agent", "test -f ../prompts/system.md", "--prompts", "../prompts/*.md")
    assert main(["improve", "../evals/bakery", *asked, "--repetitions", "1", "--json", "."]) == 2

    ended = capsys.readouterr()
    assert "nothing kept: the coding agent changed nothing more" in ended.out
    assert "cannot be written" in ended.err, "and that hid nothing"
    (log,) = project.glob(".agenteval/improve/*/log.json")
    document = valid_document("improve", log.read_text(encoding="utf-8"))
    assert [each["decision"] for each in document["rounds"]] == ["nothing changed"]
    assert Path(document["results"]) == project / ".agenteval" / "runs"


def test_lines_are_as_wide_as_the_terminal_and_no_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow terminal would break words; a file has no width of its own."""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "60")
    widths = []
    for out in (Screen(), io.StringIO()):
        terminal = StepLines(out)
        terminal.begin("round 1", "screen ...")
        terminal.end("discarded: " + "nothing rose and nothing fell " * 5)
        widths.append(max(map(len, out.getvalue().splitlines())))
    assert widths[0] <= 60 < widths[1] <= 100


def test_a_coding_agent_that_changes_nothing_ends_the_improvement(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    """One run of the dev split, one round, exit status 1; the document is the only word on stdout.

    What it, or anybody, meanwhile did to the user's own files is said, and left to him.
    """
    task = project / "evals/bakery/prices_dev_1.yaml"
    agent = f"printf '# mine\\n' >> '{task}'"
    assert main([*ASK, "--coding-agent", agent, "--repetitions", "1", "--json", "-"]) == 1
    assert (
        git(project, "status", "--porcelain", "--untracked-files=no") == f" M {task.relative_to(project)}\n"
    )
    git(project, "checkout", "-q", str(task))

    document = valid_document("improve", capsys.readouterr().out)
    assert document["rounds"][0]["meanwhile"] == ["evals/bakery/prices_dev_1.yaml"]
    (log,) = project.glob(f".agenteval/improve/{document['name']}/log.md")
    assert "1 file of your own checkout changed" in log.read_text(encoding="utf-8")
    assert document["outcome"] == "nothing kept"
    assert [each["decision"] for each in document["rounds"]] == ["nothing changed"]
    assert document["trials"] == 3
    assert git(project, "branch", "--list", "agenteval/*") == ""
    assert main(["improve", "--continue"]) == 2
    assert "was interrupted" in capsys.readouterr().err
    assert main(["improve", "--continue", document["name"]]) == 2
    assert "has ended (nothing kept)" in capsys.readouterr().err


def test_what_held_out_tasks_confirm_is_left_as_a_branch(
    capsys: pytest.CaptureFixture[str], project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a folder below the top: 0, one commit a kept round, and everything of the user's as it was.

    Held-out tasks that could not be tried say nothing about a prompt: ``--continue`` tries them again.
    """
    before = everything_of_the_user(project)
    os.chdir(project / "evals")
    agent = f"printf '%s\\n' '{PRICES}' >> ../prompts/system.md; echo prices"
    asked = ("bakery", "--coding-agent", agent, "--prompts", "../prompts/*.md", "--focus=thanks")
    monkeypatch.setenv("HALTED", "1")
    assert main(["improve", *asked, "--repetitions=1", "--results=../.agenteval/runs"]) == 2
    failed = capsys.readouterr().err
    assert "pytest left no run: ERROR: the disk is full" in failed
    assert "runs held-out tasks again" in failed
    monkeypatch.delenv("HALTED")
    assert main(["improve", "--continue", f"--json={tmp_path / 'log.json'}"]) == 0

    printed = capsys.readouterr().out
    document = valid_document("improve", (tmp_path / "log.json").read_text(encoding="utf-8"))
    (only,) = document["rounds"]
    assert (document["outcome"], only["decision"], only["last_line"]) == (
        "confirmed",
        "kept for now",
        "prices",
    )
    assert document["trials"] == 3 + 2 * 1 + 2 * 3 + 2 * 10 * document["held_out"]["tried"]["repetitions"]
    assert "better on held-out tasks: " in printed
    assert document["held_out"]["reason"] == document["held_out"]["confirmation"]["reason"]
    assert f"git merge {document['branch']}" in printed
    changed = git(project, "diff", "--name-only", f"{document['start']}..{document['branch']}").split()
    assert changed == ["prompts/system.md"]
    assert everything_of_the_user(project) == before
    log = project / ".agenteval" / "improve" / document["name"]
    latest = find_run(project / ".agenteval" / "runs", "latest")
    assert latest.name == f"{document['name']}-1-dev", "what nobody is to look at is not shown next"
    assert "+Say what it costs, in words." in (log / "log.md").read_text(encoding="utf-8")
    assert not [path for path in log.rglob("*") if path.name in ("kept", "tree", "start")]


def test_tasks_that_share_a_file_are_tried_without_a_screen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest runs whole files: a screen would be all of the dev split, which has no room in --max-trials."""
    root = bakery(tmp_path)
    for split in ("dev", "held_out"):
        # The first letter of each kind, all in one file.
        for file in root.glob(f"evals/bakery/*_{split}_*.yaml"):
            if file.stem.endswith("_1"):
                with (root / f"evals/bakery/{split}.yaml").open("a", encoding="utf-8") as letters:
                    letters.write(f"- {file.read_text(encoding='utf-8')}\n")
            file.unlink()
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "All letters in one file")
    monkeypatch.chdir(root)
    agent = f"printf '%s\n' '{PRICES}' >> prompts/system.md"
    most = 3 + 2 * 3 + 2 * 3
    asked = (*ASK, "--coding-agent", agent, "--focus=thanks", "--repetitions=1", f"--max-trials={most}")
    main([*asked, "--json", "-"])

    document = valid_document("improve", capsys.readouterr().out)
    assert [(each["decision"], each["screen"]) for each in document["rounds"]] == [("kept for now", None)]
    assert document["trials"] == most


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (
            ("--focus", "price"),
            "--focus 'price': bakery has no such bucket of split dev; did you mean 'prices'?",
        ),
        (
            ("--prompts", "prompt/*.md"),
            "--prompts 'prompt/*.md': expected files that git tracks; it matches none",
        ),
        (
            ("--prompts", "**/*.yaml"),
            "expected prompts only; it matches evals/bakery/complaints_dev_1.yaml, ",
        ),
        (("--prompts", "/etc/*"), "--prompts '/etc/*': expected files that git tracks"),
        (
            ("--", "--agent-split=all"),
            "-- --agent-split=all: improve sets which tasks pytest runs",
        ),
        (("--", "-vx"), "-- -vx: improve sets which tasks pytest runs"),
        (("--", "--maxfail=2"), "-- --maxfail=2: improve sets which tasks pytest runs"),
        (("--", "--reruns=1"), "-- --reruns=1: improve sets which tasks pytest runs"),
        (("--run", "nothing"), "nothing"),
        (("--coding-agent", ""), "expected --coding-agent"),
        (("--coding-agent", "A=1 no-such -p"), "--coding-agent: there is no command 'no-such'"),
        (("--continue",), "--continue: SUITE, --coding-agent, --prompts cannot change after"),
    ],
)
def test_what_cannot_begin_is_refused_in_one_line(
    more: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    """Exit status 2, and nothing is made: no folder."""
    before = sorted(project.glob(".agenteval/improve/*"))
    assert main([*ASK, *more]) == 2
    assert complaint in capsys.readouterr().err
    assert sorted(project.glob(".agenteval/improve/*")) == before


def test_uncommitted_changes_are_named(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    """Trees are made of commits: what is in none would be tried by nobody."""
    prompt = project / "prompts" / "system.md"
    text = prompt.read_text(encoding="utf-8")
    prompt.write_text("else", encoding="utf-8")
    try:
        assert main([*ASK]) == 2
    finally:
        prompt.write_text(text, encoding="utf-8")
    assert "uncommitted changes" in (said := capsys.readouterr().err)
    assert "found prompts/system.md; commit or stash them" in said


def test_what_is_wrong_with_a_task_file_is_said(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    """pytest names the file on its last lines, and says what is wrong with it further up."""
    (project / "evals" / "bakery" / "broken.yaml").write_text(
        "id: broken\ninput: {content: x}\ngraders: [{name: no_such_grader}]\n", encoding="utf-8"
    )
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "A task that is none")
    try:
        assert main([*ASK]) == 2
    finally:
        git(project, "reset", "-q", "--hard", "HEAD~1")
    said = capsys.readouterr().err
    assert "pytest left no run: evals/bakery/broken.yaml:3" in said
    assert "no_such_grader" in said
    assert "(all of it: .agenteval/improve/" in said


def test_a_suite_that_git_does_not_know_is_refused(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    """It would be in no tree."""
    suite = project / "evals" / "new" / "suite.yaml"
    suite.parent.mkdir()
    suite.write_text("name: new\n", encoding="utf-8")
    assert main(["improve", str(suite), *ASK[2:]]) == 2
    assert "expected a suite that is committed to git" in capsys.readouterr().err
    suite.unlink()


def test_without_a_repository_there_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder outside of git, a repository without a commit, a machine without git: no traceback."""
    (tmp_path / "suite.yaml").write_text("name: new\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["improve", ".", *ASK[2:]]) == 2
    assert "is not in a git repository" in capsys.readouterr().err
    subprocess.run(("git", "init", "-q"), check=True)
    assert main(["improve", ".", *ASK[2:]]) == 2
    assert "has no commit yet" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["improve", ".", *ASK[2:]]) == 2
    assert "expected the command git; found none" in capsys.readouterr().err
