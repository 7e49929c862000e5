"""A calibration as a test: judges whose scores are known give the figures that the definitions say."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from random import Random
from typing import Any, NamedTuple

import pytest

from pytest_agenteval.compare.scoring.agreement import spearman
from pytest_agenteval.compare.scoring.intervals import BootstrapSettings
from pytest_agenteval.reports.calibration_report import calibration_lines
from pytest_agenteval.text.formatting import format_figure
from tests.calibration.conftest import FEW_DRAWS
from tests.calibration.judges import FILE, figures, found_in, project, rows
from tests.suites import collected_ids, run, suite, task, write

pytest_plugins = ["pytester"]

ITEM = f"{FILE}::tidy"


def values(pytester: pytest.Pytester, judge: str, dimension: str = "order") -> dict[str, Any]:
    """Give every figure's value of one judge."""
    row = figures(found_in(pytester.path), judge, dimension)
    return {name: format_figure["value"] for name, format_figure in row.items()}


class Finished(NamedTuple):
    """What a calibration printed, wrote down, and added to GitHub's job summary."""

    lines: list[str]
    found: dict[str, Any]
    summary: str


@pytest.fixture(scope="module")
def finished_once() -> list[Finished]:
    """Hold the run of a noisy judge once a test has made it."""
    return []


@pytest.fixture
def noisy(
    letters: pytest.Pytester,
    finished_once: list[Finished],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Finished:
    """Give what the run of a noisy judge left behind, for tests that only look at it."""
    if not finished_once:
        summary = tmp_path_factory.mktemp("github") / "summary.md"
        with monkeypatch.context() as patched:
            patched.setenv("GITHUB_STEP_SUMMARY", str(summary))
            lines = run(letters, "evals", "--agent-judge=noisy").outlines
        finished_once.append(Finished(lines, found_in(letters.path), summary.read_text(encoding="utf-8")))
        shutil.rmtree(letters.path / ".agenteval")
    return finished_once[0]


def test_without_a_judge_it_is_skipped(letters: pytest.Pytester) -> None:
    """A calibration that nobody can carry out is no failure; the reason names the flag."""
    result = run(letters, "evals", "-rs")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*SKIPPED*no judge: --agent-judge=MODEL decides it"])


def test_it_is_collected_under_its_id_and_its_judges(letters: pytest.Pytester) -> None:
    """``path::id[judges]``; its id, its tags and its rubric are keywords; nobody is asked."""
    assert collected_ids(letters, "evals", "-k", "not letters") == []
    asked = ("--agent-judge=broken,noisy", "-k", "letters and calibration")
    assert collected_ids(letters, "evals", *asked) == [f"{ITEM}[broken+noisy]"]
    assert collected_ids(letters, "evals", "-m", "calibration and letters", "--strict-markers") == [ITEM]
    assert collected_ids(letters, "evals", "-m", "not calibration") == []
    assert not (letters.path / ".agenteval").exists()


def test_a_perfect_judge_reaches_every_threshold(letters: pytest.Pytester) -> None:
    """Who says what the labels say has every figure at its best, and the item passes."""
    project(letters.path, "thresholds: {spearman: 1, kappa: 1, alpha: 1, within: 1, mae: 0, decided: 1}\n")

    result = run(letters, "evals", "--agent-judge=perfect")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["calibration tidy (rubric tidy 3)", "  12 thresholds reached"])
    for dimension in ("order", "tone"):
        best = values(letters, "perfect", dimension)
        assert best.pop("mae") == 0
        assert best == pytest.approx(dict.fromkeys(best, 1.0))


def test_a_disk_that_is_full_is_told(letters: pytest.Pytester) -> None:
    """What cannot be written down is no calibration: an error of one line, and no traceback of ours."""
    full = """
import os
from pathlib import Path

def pytest_runtest_setup(item):
    for run in Path(".agenteval/runs").glob("2*"):  # where a file is to be written stands a folder
        (run / f".calibration-tidy.html.{os.getpid()}").mkdir()
"""
    write(letters.path, {"evals/conftest.py": full})

    result = run(letters, "evals", "--agent-judge=perfect")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the calibration cannot be written to *: Is a directory"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_an_inverted_judge_fails(letters: pytest.Pytester) -> None:
    """Who says the opposite has a correlation of -1; the item says which figures fall short, and by what."""
    project(letters.path, "thresholds: {spearman: 0.7, mae: {order: 0.5}}\n")

    result = run(letters, "evals", "--agent-judge=inverted")

    result.assert_outcomes(failed=1)
    # Labels 0 to 1 in five steps, each as often: errors of 1, 0.5, 0, 0.5 and 1.
    assert values(letters, "inverted")["mae"] == pytest.approx(0.6)
    assert values(letters, "inverted")["spearman"] == pytest.approx(-1)
    result.stdout.fnmatch_lines(
        [
            "tidy: 3 of 3 thresholds not reached",
            "  spearman of order 0.7 or more (found -1.00, -1.00 to -0.*",
            "  spearman of tone 0.7 or more (found -1.00, -1.00 to -0.*",
            "  mae of order 0.5 or less (found 0.60*",
        ]
    )
    assert "Traceback" not in str(result.stdout)


def test_a_constant_judge_correlates_with_nothing(letters: pytest.Pytester) -> None:
    """An undefined figure is no zero and reaches no threshold; the reason stands in its place."""
    project(letters.path, "thresholds: {spearman: {order: -1}}\n")

    result = run(letters, "evals", "--agent-judge=constant")

    result.assert_outcomes(failed=1)
    found = values(letters, "constant")
    assert found["spearman"] is None
    assert found["kappa"] == 0
    result.stdout.fnmatch_lines(
        [
            "  spearman of order -1 or more (found none: every score is 0.5*",
            "  order: no spearman, pearson:*",
        ]
    )


def test_a_noisy_judge_has_the_figures_of_its_noise(letters: pytest.Pytester) -> None:
    """Figures are those of all scores; noise within ±0.3 has a standard deviation of 0.3/sqrt(3) at most."""
    project(letters.path, "repeats: 4\n", rows(20))

    run(letters, "evals", "--agent-judge=noisy").assert_outcomes(passed=1)

    found = found_in(letters.path)
    pairs = [
        (example["labels"]["order"], ask["scores"]["order"])
        for example in found["examples"]
        for ask in example["asks"]
    ]
    assert len(pairs) == 80
    row = figures(found, "noisy", "order")["spearman"]
    assert row["value"] == pytest.approx(spearman(pairs))
    assert 0.3 < row["low"] < row["value"] < row["high"] < 1
    (measured,) = [one for one in found["measured"] if one["dimension"] == "order"]
    assert 0.1 < measured["noise"]["spread"]["value"] < 0.3 / 3**0.5
    assert 0 < measured["noise"]["flips"]["value"] < 0.6


def test_a_threshold_parts_pass_from_fail_where_it_stands(letters: pytest.Pytester, noisy: Finished) -> None:
    """At what was found the item passes, a hair above it fails: the same seed asks and draws the same."""
    reached = figures(noisy.found, "noisy", "order")["spearman"]["value"]

    project(letters.path, f"thresholds: {{spearman: {{order: {reached!r}}}}}\n")
    run(letters, "evals", "--agent-judge=noisy").assert_outcomes(passed=1)
    project(letters.path, f"thresholds: {{spearman: {{order: {reached + 1e-6!r}}}}}\n")
    run(letters, "evals", "--agent-judge=noisy").assert_outcomes(failed=1)


def test_several_judges_are_told_apart_and_together(letters: pytest.Pytester) -> None:
    """Each judge has its figures, all together have theirs, and thresholds are about all together."""
    project(letters.path, "thresholds: {mae: {order: 0.3}}\n")

    result = run(letters, "evals", "--agent-judge=perfect,inverted")

    result.assert_outcomes(passed=1)
    assert values(letters, "perfect")["spearman"] == pytest.approx(1)
    assert values(letters, "inverted")["spearman"] == pytest.approx(-1)
    # The mean of a score and its opposite is 0.5 for everything.
    assert values(letters, "")["spearman"] is None
    assert values(letters, "")["mae"] == pytest.approx(0.3)
    assert found_in(letters.path)["among_judges"]["order"]["value"] < 0
    result.stdout.fnmatch_lines(
        ["  judge perfect (offline, no LLM)", "  judge inverted*", "  all judges together (mean)"]
    )


def test_what_a_judge_cannot_tell_is_counted(letters: pytest.Pytester) -> None:
    """An unknown is left out of the figures and shown beside them; how much is decided can be wanted."""
    project(letters.path, "thresholds: {decided: {order: 0.9}}\n")

    result = run(letters, "evals", "--agent-judge=shy")

    result.assert_outcomes(failed=1)
    # Of 15 letters three are worth 1, which this judge does not say.
    assert values(letters, "shy")["decided"] == pytest.approx(12 / 15)
    assert values(letters, "shy")["spearman"] == pytest.approx(1)
    result.stdout.fnmatch_lines(["  order: no score for 3 of 15 examples"])


def test_a_provider_that_fails_is_an_error_and_no_figure(letters: pytest.Pytester) -> None:
    """One clean line, the item errored in its setup, and nothing written that could be taken for a result."""
    result = run(letters, "evals", "--agent-judge=perfect,broken")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*provider: broken: no reply after 4 attempts; try again later"])
    assert "Traceback" not in str(result.stdout)
    assert not list(letters.path.glob(".agenteval/runs/*/calibration-*"))


def test_a_judge_without_a_key_is_refused_before_anyone_is_asked(letters: pytest.Pytester) -> None:
    """Exit status 4 and the variable's name; with chats from cassettes alone no key is wanted."""
    result = run(letters, "evals", "--agent-judge=claude")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    refusal = "--agent-judge=claude: no key: the environment variable ANTHROPIC_API_KEY is not set"
    assert refusal in str(result.stderr)
    assert not (letters.path / ".agenteval").exists()

    replayed = run(letters, "evals", "--agent-judge=claude", "--agent-record-chat=none")

    replayed.assert_outcomes(errors=1)
    replayed.stdout.fnmatch_lines(
        ["*cassette_miss: *", f"*pytest {FILE} -k tidy --agent-record-chat=new_episodes*"]
    )


def test_broken_files_tell_everything_and_stop_nothing_else(letters: pytest.Pytester) -> None:
    """A calibration whose labels are wrong is a collection error with all problems; others are collected."""
    broken = [{"id": "a", "input": {"leter": "x"}, "output": "y", "scores": {"order": 7}}]
    project(letters.path, "thresholds: {spearmen: 1}\n", broken)
    other = {"evals/other/suite.yaml": suite(), "evals/other/task.json": task("hello")}
    write(letters.path, other)

    result = run(letters, "evals", "--continue-on-collection-errors")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            f"{FILE}:6: thresholds.spearmen",
            "evals/calibration/tidy.jsonl:1: input.leter",
            "evals/calibration/tidy.jsonl:1: scores.order",
        ]
    )
    assert "Traceback" not in str(result.stdout)


def test_an_id_is_taken_once(letters: pytest.Pytester) -> None:
    """Two calibrations of one id would overwrite each other's findings."""
    text = (letters.path / FILE).read_text()
    write(letters.path, {"evals/calibration/twin.calibration.yaml": text})

    result = run(letters, "evals")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"  found:    'tidy', which is also in {FILE}"])


def test_what_failed_is_run_again_alone(letters: pytest.Pytester) -> None:
    """Under ``--lf`` no judge is paid for a calibration that had passed, though ids end in brackets."""
    project(letters.path, "thresholds: {spearman: 0.7}\n")
    text = (letters.path / FILE).read_text().replace("id: tidy", "id: twin").replace("0.7", "-1")
    write(letters.path, {"evals/calibration/twin.calibration.yaml": text})

    letters.runpytest("evals", "--agent-judge=inverted").assert_outcomes(failed=1, passed=1)

    letters.runpytest("evals", "--agent-judge=inverted", "--lf").assert_outcomes(failed=1)


def test_it_may_stand_among_tasks(letters: pytest.Pytester) -> None:
    """Below a suite any YAML file may be a calibration; trials and calibrations run side by side."""
    text = (letters.path / FILE).read_text().replace("id: tidy", "id: beside")
    tasks = {"evals/calibration/suite.yaml": suite(), "evals/calibration/a/task.json": task("hello")}
    write(letters.path, {**tasks, "evals/calibration/beside.yaml": text})

    result = run(letters, "evals", "--agent-judge=perfect")

    result.assert_outcomes(passed=3)
    assert found_in(letters.path, "beside")["passed"]
    assert found_in(letters.path, "tidy")["passed"]


def test_files_of_other_people_are_left_alone(letters: pytest.Pytester) -> None:
    """A camera's calibration is no calibration of ours."""
    write(letters.path, {"camera.calibration.yaml": "matrix: [1, 0, 0, 1]\n", "calibration.yaml": "k: 1\n"})
    assert collected_ids(letters) == [ITEM]


def test_junit_holds_the_figures(letters: pytest.Pytester, workers: int) -> None:
    """Properties of the test case say the figures of whoever counts, and where the labels come from.

    The terminal says it too, whichever process asked the judge.
    """
    result = run(letters, "evals", "--agent-judge=perfect", "--junitxml=out.xml", workers=workers)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["calibration tidy (rubric tidy 3)", "  compared with 15 constructed labels", "  judge perfect (*"]
    )
    found = ElementTree.parse(letters.path / "out.xml").iterfind(".//testcase//property")
    values = {one.attrib["name"]: one.attrib["value"] for one in found}
    assert values["agenteval.calibration"] == "tidy"
    assert values["agenteval.labels"] == "15 constructed labels"
    assert values["agenteval.judges"] == "perfect"
    assert values["agenteval.order.spearman"] == "1.0000"
    assert values["agenteval.tone.mae"] == "0.0000"


def test_constructed_labels_are_called_nothing_else(letters: pytest.Pytester) -> None:
    """Neither terminal nor JSON nor page says human where labels follow from how examples were made."""
    result = run(letters, "evals", "--agent-judge=inverted", "-v")

    output = str(result.stdout).replace(str(letters.path), "")
    assert "15 constructed labels" in output
    assert "human" not in output
    for path in letters.path.glob(".agenteval/runs/2*/calibration-tidy.*"):
        text = path.read_text(encoding="utf-8").partition("</style>")[2] or path.read_text(encoding="utf-8")
        assert "constructed" in text
        assert "human" not in text


def test_a_users_own_labels_are_human_unless_they_say_otherwise(letters: pytest.Pytester) -> None:
    """A file that does not say where its labels come from holds what people gave."""
    unsaid = [{key: value for key, value in row.items() if key != "label_source"} for row in rows(6)]
    project(letters.path, "", unsaid)

    result = run(letters, "evals", "--agent-judge=perfect")

    result.stdout.fnmatch_lines(["  compared with 6 human labels"])


def test_everything_that_was_answered_is_in_the_file(letters: pytest.Pytester) -> None:
    """Raw replies, votes, spread, digests, seed and what it took: the figures can be worked out again."""
    project(letters.path, "seed: 7\nrepeats: 2\n")

    run(letters, "evals", "--agent-judge=perfect,inverted")

    found = found_in(letters.path)
    assert found["intervals"] == {"draws": FEW_DRAWS, "seed": 7, "level": 0.95}
    assert BootstrapSettings().draws == 1000
    assert [judge["usage"]["asks"] for judge in found["judges"]] == [30, 30]
    example = found["examples"][3]
    assert [ask["repetition"] for ask in example["asks"]] == [1, 2]
    ask = example["asks"][0]
    assert ask["spread"]["order"] == pytest.approx(abs(2 * example["labels"]["order"] - 1))
    assert [vote["judge"] for vote in ask["votes"]] == ["perfect", "inverted"]
    assert json.loads(ask["votes"][0]["raw"][0])["order"] == 4 * example["labels"]["order"]
    assert len(found["rubric"]["digest"]) == 16

    for judge in found["judges"]:
        judge["usage"] = {"asks": 30, "tokens": 0, "cost_usd": None}
    lines = [line.text for line in calibration_lines(found, "page.html", 120)]
    assert "  judges: 60 replies, tokens unknown, cost unknown" in lines


def test_no_results_are_kept_where_none_are_wanted(letters: pytest.Pytester) -> None:
    """With ``--agent-results=none`` the figures are printed all the same, and nobody is sent to a page."""
    result = run(letters, "evals", "--agent-judge=perfect", "--agent-results=none")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["calibration tidy*", "  page: not kept*"])
    assert not (letters.path / ".agenteval").exists()


def test_the_worst_disagreements_come_first_and_once(letters: pytest.Pytester) -> None:
    """Five in the terminal, at most 20 in the file, the farthest first, each label once."""
    project(letters.path, "repeats: 2\n", rows(25))

    result = run(letters, "evals", "--agent-judge=noisy")

    disagreements = found_in(letters.path)["disagreements"]
    distances = [round(abs(each["label"] - each["score"]), 9) for each in disagreements]
    assert len(disagreements) == 20
    assert distances == sorted(distances, reverse=True)
    assert len({(each["id"], each["dimension"]) for each in disagreements}) == 20
    assert sum("label 0" in line or "label 1" in line for line in result.outlines) == 5


def test_a_shuffled_file_has_the_same_figures(letters: pytest.Pytester, noisy: Finished) -> None:
    """The order of examples changes no figure, and no judge's score."""
    examples = rows()
    Random(1).shuffle(examples)

    project(letters.path, "", examples)
    run(letters, "evals", "--agent-judge=noisy")

    for name in ("order", "tone"):
        first = {key: each["value"] for key, each in figures(noisy.found, "noisy", name).items()}
        assert values(letters, "noisy", name) == pytest.approx(first)


TITLES = {"spearman": "spearman", "pearson": "pearson", "MAE": "mae", "within": "within"} | {
    "kappa": "kappa",
    "alpha": "alpha",
}


def test_the_terminal_shows_every_figure_with_its_interval(noisy: Finished) -> None:
    """Every figure stands in a line of its own, each dimension in a column, and the confusion below."""
    told = figures(noisy.found, "noisy", "order")
    for title, metric in TITLES.items():
        (row,) = [line for line in noisy.lines if line.startswith(f"    {title} ")]
        found = told[metric]
        assert row.split()[1:3] == [
            format_figure(found["value"]),
            f"{format_figure(found['low'])}-{format_figure(found['high'])}",
        ]
    for each in noisy.found["measured"]:
        rows = " / ".join(" ".join(map(str, row)) for row in each["confusion"]["rows"])
        (line,) = [line for line in noisy.lines if line.startswith(f"  {each['dimension']}, labels ")]
        wrapped = noisy.lines[noisy.lines.index(line) + 1]
        assert f" by scores: {rows}" in f"{line} {wrapped.strip()}"


def test_dimensions_that_do_not_fit_beside_others_come_below_them(noisy: Finished) -> None:
    """Nothing is left out where it is narrow."""
    more = [
        {**each, "dimension": f"{each['dimension']} {n}"}
        for n in range(4)
        for each in noisy.found["measured"]
    ]
    data = {**noisy.found, "measured": more}

    lines = [line.text for line in calibration_lines(data, "page.html", 80)]

    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.startswith("    spearman ")]) == 2
    assert all(any(f"{name} {n}" in line for line in lines) for name in ("order", "tone") for n in range(4))


def test_a_job_summary_has_the_figures(noisy: Finished) -> None:
    """GitHub's summary shows the same table as the terminal, in a block that nothing in it can end."""
    block = noisy.summary[noisy.summary.index("```text\n") : noisy.summary.rindex("\n```")]
    for title in TITLES:
        (row,) = [line for line in noisy.lines if line.startswith(f"    {title} ")]
        assert f"\n{row}\n" in block
    assert block.count("```") == 1
