"""The action that runs evals: reports, verdict, and one comment that is updated in place."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.actions_runner import commands_in
from tests.journals import junit
from tests.suites import task, write

from .comments_api import BOT, CommentsApi, serving
from .steps import ROOT, Job, evals_job, read_yaml

pytestmark = pytest.mark.posix
MARKER = "<!-- agenteval: my%20evals/agenteval -->"
PULL = {"pull_request": {"number": 7, "head": {"sha": "0123456789abcdef"}}}
FORK = {
    "workflow_run": {
        "name": "my evals",
        "head_sha": "0123456789abcdef",
        "head_branch": "better",
        "html_url": "https://github.com/o/r/actions/runs/5",
        "head_repository": {"owner": {"login": "someone"}},
        "pull_requests": [],
    }
}


@pytest.fixture
def api() -> Iterator[CommentsApi]:
    """GitHub's API, without a comment."""
    with serving(CommentsApi()) as api:
        yield api


def environ(api: CommentsApi, workspace: Path, event: dict[str, Any]) -> dict[str, str]:
    """Give what a job's environment says of an event."""
    (workspace / "event.json").write_text(json.dumps(event), encoding="utf-8")
    return {
        "GITHUB_API_URL": api.url,
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_RUN_ID": "12",
        "GITHUB_SHA": "fedcba9876543210",
        "GITHUB_WORKFLOW": "my evals",
        "GITHUB_EVENT_PATH": str(workspace / "event.json"),
        "COMMENT_PAUSE": "0.001",
    }


def comment_job(api: CommentsApi, workspace: Path, event: dict[str, Any], text: str = "### ok\n") -> str:
    """Comment on an event's pull request by the action that does only that; give what it prints."""
    (workspace / "comment.md").write_text(text, encoding="utf-8")
    action = ROOT / ".github/actions/agenteval-comment"
    done = Job(action, workspace, environ(api, workspace, event)).step("0")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_pull_request_has_one_comment_that_is_updated(tmp_path: Path, api: CommentsApi) -> None:
    """Files, summary, annotations and the comment of one push, and what the next one leaves of them."""
    api.add(f"{MARKER}\nnot by us", {"login": "mallory", "type": "User"})
    suite = "name: demo\nkind: regression\ndefaults: {model: scripted}\n"
    write(tmp_path, {"evals/suite.yaml": suite, "evals/a.json": task("a", wants="Bye"), "pyproject.toml": ""})
    inputs = {"gate": "score=0.5", "args": "-q -k 'a or b'", "models": "scripted"}
    job = evals_job(tmp_path, environ(api, tmp_path, PULL), **inputs)

    ran = job.step("Run")
    assert (ran.returncode, job.output("exit-code")) == (0, "1")
    (_, error) = commands_in(ran.stdout)  # no other is obeyed while trials run
    assert (error.name, error.properties["file"], error.properties["line"]) == ("error", "evals/a.json", "12")
    assert all(Path(job.output(name)).stat().st_size for name in ("report", "junit", "comment"))
    assert "## Agent evals" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert job.step("Comment").stdout == "commented on #7\n"
    assert job.step("Verdict").returncode == 1
    body = api.comments[1]["body"]
    assert body.startswith(f"{MARKER}\n### 0 of 1 task passed.\n\n**gate: broken: ")
    assert "commit 01234567, [the run](https://github.com/o/r/actions/runs/12)" in body

    write(tmp_path, {"evals/a.json": task("a")})
    job.step("Run")
    assert job.step("Comment").stdout == "updated the comment on #7\n"
    assert job.step("Verdict").returncode == 0
    assert [each["body"].splitlines()[1] for each in api.comments] == ["not by us", "### 1 of 1 task passed."]
    assert api.tokens == {"Bearer t0ken"}


@pytest.fixture(scope="module")
def matrix() -> Any:
    """The workflow of docs/guides/github.md with a matrix of shards."""
    pages = (ROOT / "docs/guides/github.md").read_text(encoding="utf-8").split("```yaml\n")
    (text,) = (page.partition("```")[0] for page in pages if "matrix.shard" in page)
    return yaml.load(text, yaml.BaseLoader)


def test_a_matrix_of_shards_has_one_comment_and_one_verdict(
    tmp_path: Path, api: CommentsApi, matrix: Any
) -> None:
    """The workflow of the page: its shards leave their runs, and the job behind them judges the whole."""
    more = {f"evals/t{number}.json": task(f"t{number}") for number in range(6)}
    suite = "name: demo\nkind: capability\ndefaults: {model: scripted}\ngate: {score: 0.9}\n"
    write(tmp_path, {"evals/suite.yaml": suite, "evals/a.json": task("a", wants="Bye"), **more})
    write(tmp_path, {"pyproject.toml": ""})
    told = matrix["jobs"]["shard"]["steps"][-1]["with"]
    assert (told["shard"], matrix["jobs"]["merge"]["needs"]) == ("${{ matrix.shard }}", "shard")
    for shard in matrix["jobs"]["shard"]["strategy"]["matrix"]["shard"]:
        inputs = {"shard": shard, "models": "scripted", "path": told["path"], "args": "-q"}
        job = evals_job(tmp_path, environ(api, tmp_path, PULL), **inputs)
        job.step("Run")
        assert job.output("exit-code") == "0"
        uploaded = job.values["steps.run.outputs.artifact"]
        assert uploaded == f"agenteval-shard-{shard[0]}"
        shutil.copytree(tmp_path / "temp/agenteval", tmp_path / "temp/agenteval-shards" / uploaded)
    assert not (tmp_path / "summary.md").exists()

    merging = matrix["jobs"]["merge"]["steps"][-1]["with"]
    job = evals_job(tmp_path, environ(api, tmp_path, PULL), merge=merging["merge"])
    ran = job.step("Run")
    assert ran.returncode == 0, ran.stderr
    assert job.step("Comment").stdout == "commented on #7\n"
    assert job.step("Verdict").returncode == 1
    body = api.comments[0]["body"]
    assert body.startswith(
        f"{MARKER}\n### 6 of 7 tasks passed.\n\n**gate: broken: demo score 0.86 is below 0.90**"
    )
    assert "demo score 0.86 is below 0.90" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert len(junit(Path(job.output("junit")))) == 7
    assert Path(job.output("report")).stat().st_size

    shutil.rmtree(tmp_path / "temp/agenteval-shards/agenteval-shard-2")
    job.step("Run")
    assert job.step("Verdict").returncode == 1
    assert "shard 2 of 4 is not here" in Path(job.output("comment")).read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "temp/agenteval-shards")
    job.step("Run")
    assert "### The shards were not merged" in Path(job.output("comment")).read_text(encoding="utf-8")


def test_the_workflow_of_a_matrix_uses_what_there_is(matrix: Any) -> None:
    """Inputs that the action has, permissions that its jobs need, and no key where no agent acts."""
    declared = set(read_yaml(ROOT / ".github/actions/agenteval/action.yml")["inputs"])
    for name, job in matrix["jobs"].items():
        step = job["steps"][-1]
        assert set(step["with"]) <= declared
        assert ("env" in step, "pull-requests" in job["permissions"]) == (name == "shard", name == "merge")
    assert matrix["jobs"]["shard"]["strategy"]["fail-fast"] == "false"
    assert matrix["jobs"]["merge"]["if"] == "${{ !cancelled() }}"


def test_where_pytest_could_not_run_the_comment_says_so(tmp_path: Path, api: CommentsApi) -> None:
    """A verdict on an earlier push must not be taken for one on this."""
    job = evals_job(tmp_path, environ(api, tmp_path, PULL), path="nowhere")
    job.step("Run")

    assert "pytest's exit status is 4" in Path(job.output("comment")).read_text(encoding="utf-8")
    assert job.step("Verdict").returncode == 4


@pytest.mark.parametrize(
    ("status", "level", "words"),
    [(403, "notice", "forks"), (404, "notice", "forks"), (422, "warning", "422")],
)
def test_a_token_that_may_not_comment_fails_no_job(
    tmp_path: Path, api: CommentsApi, status: int, level: str, words: str
) -> None:
    """Of a pull request from a fork it can only read: that is said, and the way out."""
    api.writes = status
    (said,) = commands_in(comment_job(api, tmp_path, PULL))

    assert (said.name, words in said.data) == (level, True)


def test_an_answer_that_breaks_off_fails_no_job(tmp_path: Path, api: CommentsApi) -> None:
    """A connection may end in the middle of one."""
    api.breaks_off = True
    (warning,) = commands_in(comment_job(api, tmp_path, PULL))

    assert (warning.name, warning.data[:10]) == ("warning", "no comment")


def test_a_comment_is_found_among_hundreds_and_by_who_wrote_it(tmp_path: Path, api: CommentsApi) -> None:
    """With a personal token it is that user's, else a bot's; another job's and another's are left alone."""
    for at in range(230):
        api.add(f"comment {at}")
    mine = {"login": "me", "type": "User"}
    api.add(f"{MARKER}\nof the bot")
    api.add(f"{MARKER}\nmine", mine)
    api.add(f"{MARKER.replace('agenteval -->', 'other -->')}\nof another job", BOT)

    assert comment_job(api, tmp_path, PULL) == "updated the comment on #7\n"
    api.login = "me"
    comment_job(api, tmp_path, PULL, "### again")
    assert [each["body"].splitlines()[1] for each in api.comments[230:]] == [
        "### ok",
        "### again",
        "of another job",
    ]


def test_the_longest_text_is_cut_to_what_github_takes(tmp_path: Path, api: CommentsApi) -> None:
    """Whatever wrote the file, GitHub takes the comment, and it says that there is more."""
    comment_job(api, tmp_path, PULL, "line 🎂\n" * 20_000)

    assert api.comments[0]["body"].startswith(MARKER)
    assert "the rest is in the report" in api.comments[0]["body"]


def test_a_workflow_run_comments_on_the_pull_request_of_its_branch(tmp_path: Path, api: CommentsApi) -> None:
    """A fork's is not in the event: it is looked up, and has to be at the same commit still."""
    other = {"number": 6, "label": "else:better", "head": {"sha": "0123456789abcdef"}}
    api.pulls = [other, {"number": 7, "label": "someone:better", "head": {"sha": "new"}}]
    missing = "no pull request found, so no comment; comment.md is among the artifacts\n"
    assert comment_job(api, tmp_path, FORK) == missing
    api.pulls[1]["head"]["sha"] = "0123456789abcdef"
    assert comment_job(api, tmp_path, FORK) == "commented on #7\n"
    assert api.comments[0]["body"].startswith(MARKER)
    assert "https://github.com/o/r/actions/runs/5" in api.comments[0]["body"]


def test_what_is_no_pull_request_has_no_comment(tmp_path: Path, api: CommentsApi) -> None:
    """A push to main has its summary and its artifacts."""
    assert comment_job(api, tmp_path, {"ref": "refs/heads/main"}).startswith("no pull request")
    assert api.requests == []


def test_steps_take_inputs_by_the_environment_only() -> None:
    """What stands in a shell's text is carried out: an input with a quote in it would be."""
    for action in (ROOT / ".github/actions").glob("*/action.yml"):
        document = read_yaml(action)
        used = set(re.findall(r"inputs\.([\w-]+)", action.read_text(encoding="utf-8")))
        assert used == set(document["inputs"])
        for step in document["runs"]["steps"]:
            assert "${{" not in step.get("run", "")
            assert "run" not in step or step["shell"] == "bash"


def test_workflows_name_actions_by_the_same_major_versions() -> None:
    """One that is raised in one file is raised in all."""
    files = [*(ROOT / ".github").glob("*/*.yml"), *(ROOT / ".github").glob("*/*/action.yml")]
    used = {
        use for file in files for use in re.findall(r"uses: ([\w/.-]+@\S+)", file.read_text(encoding="utf-8"))
    }

    assert len(files) >= 4
    assert len({use.partition("@")[0] for use in used}) == len(used)
    assert all(re.fullmatch(r"v\d+", use.partition("@")[2]) for use in used)
