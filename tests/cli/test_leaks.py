"""``agenteval leaks``: what of tasks stands in prompts, since which commit, and what nobody is to learn."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from tests.suites import task, write

INPUT = "Please book the night ferry to Skagerholm for two adults and one very seasick dog"
SECRET = "The lighthouse keeper counts seven herons before breakfast on the second day of May"
FACTS = {"facts": ["Skagerholm", ["gangway", "sewing"], ["ticket"], "BX-907-4418", "coaming"]}
BASE = "Answer shortly.\nThe office is closed.\n"


def git(*arguments: str) -> None:
    """Ask git, with no configuration but ours."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a suite, of which one task is held out, and with two prompts; nobody changes it."""
    folder = tmp_path_factory.mktemp("repository")
    common = {"graders": [{"name": "facts", "config": FACTS}], "script": None}
    write(
        folder,
        {
            "evals/suite.yaml": "name: ferries",
            "evals/ferry.json": {**task("book_night_ferry"), **common, "input": {"content": INPUT}},
            "evals/keeper.json": {**task("ho_keeper"), "input": {"content": SECRET}, "split": "held_out"},
            "prompts/system.md": BASE,
            "prompts/old.md": f"{BASE}Once it said Skagerholm here.\n",
            "readme.md": "Nothing of it.\n",
        },
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        git("init", "-q")
        git("add", "-A")
        git("commit", "-qm", "first")
    return folder


@pytest.fixture
def project(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the current folder."""
    import shutil

    shutil.copytree(repository, tmp_path / "p")
    monkeypatch.chdir(tmp_path / "p")
    return tmp_path / "p"


def leaks(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Give the exit status and the lines of the command on all prompts."""
    status = main(["leaks", "--suite", "evals", *(arguments or ("--prompt", "prompts/*.md"))])
    printed = capsys.readouterr()
    return status, (printed.out + printed.err).splitlines()


def test_what_was_there_is_a_warning_and_what_is_added_fails(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its place, what it is, whose, and the prompt's own words."""
    assert leaks(capsys)[0] == 0

    (project / "prompts" / "system.md").write_text(f"{BASE}Book the NIGHT ferry\nto Skagerholm for two!")
    status, lines = leaks(capsys)

    assert status == 1
    assert lines[:2] == [
        "prompts/system.md:3: the input of book_night_ferry: Book the NIGHT ferry to Skagerholm for two",
        "warning: prompts/old.md:3: what is expected of book_night_ferry: Skagerholm (was there before)",
    ]
    assert lines[2].startswith("1 leak added since ")


def test_a_held_out_task_is_named_by_nothing_but_the_prompts_own_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither its id nor more of its text is printed or written."""
    line = "Note: the keeper counts seven herons before breakfast on the second, always."
    (project / "prompts" / "system.md").write_text(f"{BASE}{line}\n")

    status, lines = leaks(capsys)
    main(["leaks", "--suite", "evals", "--prompt", "prompts/*.md", "--json", "-"])
    document = json.loads(capsys.readouterr().out)

    assert (status, lines[0]) == (1, f"prompts/system.md:3: the input of a held-out task: {line}")
    (leak,) = [each for each in document["leaks"] if each["added"]]
    assert (leak["task"], leak["split"], leak["text"]) == ("", "held_out", line)
    assert "ho_keeper" not in json.dumps(document)


def test_a_suite_may_be_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for other verbs; a name that there is not is answered with those that there are."""
    assert main(["leaks", "--suite", "ferries", "--prompt", "prompts/*.md"]) == 0
    assert "1 from before: 2 files, 2 tasks of ferries" in capsys.readouterr().out
    assert main(["leaks", "--suite", "feries", "--prompt", "prompts/*.md"]) == 2
    assert "did you mean 'ferries'?" in capsys.readouterr().err


def test_a_task_that_cannot_be_read_is_not_passed_over(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate that looks for the tasks it can read, and says nothing of others, lets all of theirs through."""
    (project / "evals" / "ferry.json").write_text('{"id": [', encoding="utf-8")

    assert main(["leaks", "--suite", "evals", "--prompt", "prompts/*.md"]) == 2
    assert "evals/ferry.json:1" in capsys.readouterr().err


def test_a_prompt_that_moves_adds_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither within the glob nor into it, committed or not."""
    (project / "prompts" / "old.md").rename(project / "prompts" / "new.md")
    (project / "readme.md").write_text("Nothing of it.\nSee book_night_ferry.\n")
    git("add", "-A")
    git("commit", "-qm", "second")
    assert leaks(capsys)[0] == 0
    assert leaks(capsys, "--prompt", "prompts/*.md", "--since", "HEAD~1")[0] == 0

    # A file that stays where it was and is no prompt has moved nowhere.
    (project / "prompts" / "system.md").write_text("See book_night_ferry.\n")
    assert leaks(capsys)[0] == 1
    (project / "prompts" / "system.md").write_text(BASE)

    # A repository inside is no file, and has no text.
    git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},prompts/inner.md")
    git("commit", "-qm", "third")
    assert leaks(capsys)[0] == 0

    (project / "readme.md").rename(project / "prompts" / "readme.md")
    assert leaks(capsys)[0] == 0
    assert leaks(capsys, "--prompt", "prompts/*.md", "--since", "HEAD~2")[0] == 1


@pytest.mark.parametrize("suite", ["evals", "ferries"])
def test_a_task_that_moves_to_another_file_still_leaks(
    project: Path, capsys: pytest.CaptureFixture[str], suite: str
) -> None:
    """Its old file is gone and was no prompt: also of the second suite of a name."""
    write(
        project,
        {"apps/suite.yaml": "name: ferries", "apps/a.json": task("a"), "evals/more/b.json": task("b")},
    )
    text = (project / "evals" / "ferry.json").read_text()
    (project / "evals" / "ferry.json").rename(project / "evals" / "moved.json")
    (project / "prompts" / "system.json").write_text(text)

    assert leaks(capsys, "--prompt", "prompts/*.json", "--suite", suite)[0] == 1


def test_ordinary_words_are_no_leak_in_code(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tool descriptions and code have to use them; ids, numbers and copies leak there too."""
    (project / "agent.py").write_text("def coaming(gangway, ticket):\n    return gangway + ticket\n")
    (project / "tool.yaml").write_text("coaming: {gangway: 1, total: ticket}\n")
    assert leaks(capsys, "--files", "*.py", "tool.yaml")[0] == 0

    (project / "agent.py").write_text("book_night_ferry = 1\n\nx = 'ask for bx907 4418'\n")
    status, lines = leaks(capsys, "--files", "*.py")
    assert (status, [line.split(": ")[0] for line in lines[:2]]) == (1, ["agent.py:1", "agent.py:3"])


def test_without_git_every_line_is_added(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is said; a commit that was asked for is a mistake then."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    (project / ".git").rename(project / "no-git")

    status, lines = leaks(capsys)
    assert (status, lines[-1]) == (1, "no commit to compare with: every line counts as added")
    status, lines = leaks(capsys, "--prompt", "prompts/*.md", "--since", "HEAD")
    assert (status, lines) == (2, ["agenteval: --since HEAD: there is no git repository here"])


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        (("--prompt", "nothing/*.md"), "nothing/*.md: no file there; "),
        (("--prompt", "prompts/*.md", "--since", "v9"), "--since v9: no such commit"),
        (("--prompt", "prompts/*.md", "--since=--all"), "--since --all: no such commit"),
        (("--prompt", "prompts/*.md", "--suite", "prompts"), "there is no suite.yaml below prompts"),
        (("--prompt", "prompts/*.md", "--suite", "nowhere"), "there is no suite 'nowhere' below "),
        (("--since", "HEAD"), "no files to check: name some with --prompt GLOB or --files GLOB"),
    ],
)
def test_a_mistake_in_use_is_one_line(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], mistake: str
) -> None:
    """The exit status is 2, and nothing is written."""
    status, lines = leaks(capsys, *arguments)
    assert (status, len(lines)) == (2, 1)
    assert lines[0].startswith(f"agenteval: {mistake}")
