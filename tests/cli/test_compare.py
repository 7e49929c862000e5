"""``agenteval compare``: what it prints, what it writes, what it refuses, and how it exits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.store.run_folder import RunModel
from tests.reports.runs import key, store_run, trial

RUNS = Path(".agenteval/runs")
Scores = Mapping[str, Sequence[float | None]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, in a terminal of 100 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path


def stored(scores: Scores, models: Sequence[str] = ("rules",), ruler: str = "1") -> str:
    """Store a run in which every task has these scores with each model, and give its name."""
    trials = [
        trial(task, repetition, score, key=key(task, repetition, model), digests=Digests(ruler=ruler))
        for model in models
        for task, of_task in scores.items()
        for repetition, score in enumerate(of_task, 1)
    ]
    return store_run(RUNS, trials, models=tuple(RunModel(model, model) for model in models)).folder.name


def tasks(number: int, *scores: float | None) -> Scores:
    """So many tasks with these scores."""
    return {f"t{count}": scores for count in range(number)}


def test_better_is_said_first_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict is the first line."""
    old, new = stored(tasks(9, 0.0, 0.5)), stored(tasks(9, 1.0, 0.5))
    assert main(["compare", old, new]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "s is better (0.25 -> 0.75); no fall was found."


def test_worse_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    """A script in CI needs no more than the status."""
    old, new = stored(tasks(9, 1.0, 0.5)), stored(tasks(9, 0.0, 0.5))
    assert main(["compare", old, new]) == 1
    assert capsys.readouterr().out.startswith("s is worse (0.75 -> 0.25).")


def test_a_run_compared_with_itself_is_identical(capsys: pytest.CaptureFixture[str]) -> None:
    """No division by zero, no verdict."""
    run = stored(tasks(9, 1.0, 0.5))
    assert main(["compare", run, run]) == 0
    assert capsys.readouterr().out.startswith("s: identical, every trial scored the same.")


def test_graders_that_changed_are_refused_by_file_and_key(capsys: pytest.CaptureFixture[str]) -> None:
    """Scores of different rulers are never compared in silence."""
    old, new = stored(tasks(2, 1.0)), stored(tasks(2, 1.0), ruler="2")
    assert main(["compare", old, new]) == 2
    err = capsys.readouterr().err
    assert "t0: graders: have changed" in err
    assert "t1: graders: have changed" in err
    assert "--allow" in err


def test_allow_compares_what_is_common_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict line counts what is left out, and what it is stands below."""
    old, new = stored(tasks(8, 1.0, 0.5)), stored(tasks(9, 1.0, 0.5))
    assert main(["compare", old, new]) == 2
    capsys.readouterr()
    assert main(["compare", old, new, "--allow"]) == 0
    out = capsys.readouterr().out
    assert "(over 8 of 9 tasks: 1 cannot be compared)" in out.splitlines()[0]
    assert "t8: only in new" in out


def test_two_models_of_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Within one run nothing else changed in between, which is said."""
    run = stored(tasks(8, 1.0, 0.5), models=("claude", "gpt"))
    assert main(["compare", run, "--models", "claude,gpt"]) == 0
    assert "s, claude -> gpt  8 tasks x 2, same run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "mistake"),
    [
        (["a", "--models", "x,"], "expected different names"),
        (["a", "--models", "x,x"], "expected different names"),
        (["a", "b", "--json", "-", "--markdown", "-"], "both write"),
        (["nothing", "b"], "there is no run 'nothing'"),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    args: list[str], mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, what was expected and what was found."""
    assert main(["compare", *args]) == 2
    err = capsys.readouterr().err
    assert mistake in err
    assert "Traceback" not in err


@pytest.mark.parametrize("tolerance", ["0", "1", "x", "-0.1"])
def test_a_tolerance_is_a_share(tolerance: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything else is refused by name."""
    with pytest.raises(SystemExit) as refused:
        main(["compare", "a", "b", f"--tolerance={tolerance}"])
    assert refused.value.code == 2
    expected = f"--tolerance: expected a number between 0 and 1; found {tolerance}"
    assert expected in " ".join(capsys.readouterr().err.split())


def test_a_model_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that are."""
    run = stored(tasks(2, 1.0), models=("claude", "gpt"))
    assert main(["compare", run, "--models", "claude,gtp"]) == 2
    assert "has no model 'gtp'; it has claude, gpt" in capsys.readouterr().err


def test_nothing_in_common_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Two models old, two others new: nobody knows which belong together."""
    old = stored(tasks(2, 1.0), models=("a", "b"))
    new = stored(tasks(2, 1.0), models=("c", "d"))
    assert main(["compare", old, new]) == 2
    assert "the two sides share no task: old has s with a, s with b; new has s with c, s with d" in (
        capsys.readouterr().err
    )


def test_a_run_without_scores_is_no_good_news(capsys: pytest.CaptureFixture[str]) -> None:
    """An agent that always raises must not look like one that nothing happened to: not in CI either."""
    old, new = stored(tasks(9, 1.0, 0.5)), stored(tasks(9, None, None))
    assert main(["compare", old, new]) == 2
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "Nothing can be compared: no task has scores on both sides."
    assert "  no task has scores on both sides   errored 0 -> 18" in out


def test_a_suite_without_scores_is_named_beside_others(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict on the others does not hide it."""
    names = [
        store_run(
            RUNS,
            [
                *(trial("a", at, 1.0, key=key("a", at)) for at in (1, 2)),
                *(trial("b", at, score, key=key("b", at)._replace(suite="other")) for at in (1, 2)),
            ],
        ).folder.name
        for score in (1.0, None)
    ]
    assert main(["compare", *names]) == 0
    verdict = capsys.readouterr().out.partition("agents 0.0 s")[0]
    assert " ".join(verdict.split()) == (
        "other: no task has scores on both sides; s: identical, every trial scored the same."
    )


def test_json_holds_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence, the verdicts and the intervals with all digits, and nothing else on standard output."""
    old, new = stored(tasks(9, 0.0, 0.5)), stored(tasks(9, 1.0, 0.25))
    assert main(["compare", old, new, "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["headline"].startswith("s is better")
    suite = data["suites"][0]
    assert suite["suite"]["verdict"] == "better"
    # in quarters: the sum of the two trials of a task that are called new, in all 6 ways, 9 times
    ways = Counter({0: 1})
    for _ in range(9):
        sums = [(total + more, count) for total, count in ways.items() for more in (2, 4, 1, 6, 3, 5)]
        ways = Counter()
        for total, count in sums:
            ways[total] += count
    far = sum(count for total, count in ways.items() if abs(total - 31.5) >= 45 - 31.5)
    assert suite["suite"]["p"] == pytest.approx(far / 6**9)
    assert suite["suite"]["p_like_these"] == pytest.approx(max(far / 6**9, 2 / 2**9))
    assert suite["tasks"][0]["old"] == [0.0, 0.5]


def test_a_secret_of_an_old_run_is_in_no_summary(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was no known secret when the run was stored is one now, and goes to no page."""
    old, new = stored({"t_q7Zx9LmN2pRs": [1.0]}), stored({"t_q7Zx9LmN2pRs": [0.0]})
    monkeypatch.setenv("SOME_API_KEY", "q7Zx9LmN2pRs")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "summary.md"))
    assert main(["compare", old, new, "--markdown", "new/comment.md", "--json", "all.json"]) == 0
    pages = [Path(name).read_text() for name in ("summary.md", "new/comment.md", "all.json")]
    assert not any("q7Zx9LmN2pRs" in page for page in pages)


def test_markdown_is_for_a_pull_request(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict as a heading, the screen folded away; the same goes to a job's summary."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "summary.md"))
    old, new = stored(tasks(9, 0.0, 0.5)), stored(tasks(9, 1.0, 0.25))
    assert main(["compare", old, new, "--markdown", "new/comment.md"]) == 0
    text = (here / "new/comment.md").read_text(encoding="utf-8")
    assert text.startswith("### s is better (0.25 -&gt; 0.62); no fall was found.")
    assert "<details>" in text
    assert "```text" in text
    assert (here / "summary.md").read_text(encoding="utf-8") == text


def test_a_job_summary_that_cannot_be_written_hides_no_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told beside the screen, and the exit status is the verdict's."""
    old, new = stored(tasks(9, 1.0, 0.5)), stored(tasks(9, 0.0, 0.5))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "nowhere/summary.md")
    assert main(["compare", old, new]) == 1
    output = capsys.readouterr()
    assert output.out.startswith("s is worse")
    assert output.err.startswith(
        f"the job's summary {Path('nowhere/summary.md')} cannot be written: No such file"
    )


def test_unreadable_lines_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal that is cut short is compared as far as it can be read, and that is said."""
    old, new = stored(tasks(2, 1.0)), stored(tasks(2, 1.0))
    (journal,) = (RUNS / new).glob("journal-*.jsonl")
    journal.write_text(journal.read_text(encoding="utf-8") + '{"v": 1, "ki', encoding="utf-8")
    assert main(["compare", old, new]) == 0
    assert "left out: half a line" in capsys.readouterr().err
