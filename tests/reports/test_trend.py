"""A suite over its runs: which are counted, what changed between two, and what the lines say."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import compare_runs
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import Event, Transcript
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.reports.suspect_tasks import trials_that_exclude_chance
from pytest_agenteval.reports.trend import Series, Trend, suite_names, trends_of
from pytest_agenteval.reports.trend_screen import sparkline, trend_lines
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import (
    RunHeader,
    RunModel,
    RunSuite,
    list_runs,
    new_run,
    planned_groups,
    write_planned,
)
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.formatting import format_ends, printable
from tests.reports.runs import CAPABILITY, key, trial

CLAUDE, GPT = RunModel("claude", "anthropic/claude"), RunModel("gpt", "openai/gpt")
RULES, ORACLE, NOP = (RunModel(name, name, offline=True) for name in ("rules", "oracle", "nop"))
TASKS = {"a": "x", "b": "x", "c": "y", "d": "y"}
"""The bucket of each task of the suite."""

Scores = Mapping[str, Iterable[float | None]]
HOSTILE = "\x1b[31m\u202e turned\nown line"


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs have the time of the reader's clock above them."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def trials(scores: Scores, model: RunModel = CLAUDE, **fields: Any) -> list[Trial]:
    """Give the trials of a run: by task the score of each repetition, None for one that is errored."""
    made = []
    for task, of_task in scores.items():
        for number, score in enumerate(of_task, start=1):
            given = {"bucket": TASKS.get(task, "z"), "key": key(task, number, model.name), **fields}
            made.append(trial(task, number, score, **given))
    return made


def store(root: Path, day: int, run_trials: Iterable[Trial], *models: RunModel, **header: Any) -> str:
    """Write the run of a day, with these models and all of its trials planned; give its name."""
    of_run = list(run_trials)
    of_header = {"models": models or (CLAUDE,), "suites": (CAPABILITY,), **header}
    folder = new_run(root, RunHeader(f"2026-11-{day:02}T09:30:15+00:00", **of_header))
    write_planned(folder, planned_groups((each.key, each.bucket) for each in of_run))
    with closing(JournalWriter(folder, "main")) as journal:
        journal.finished(of_run)
    return folder.name


def trend(root: Path, last: int = 10, **wanted: Any) -> Trend:
    """Read the trend of the suite ``s``."""
    folders = list_runs(root)
    assert suite_names(folders) == ["s"]
    (of_suite,) = trends_of(folders, ["s"], last, **wanted)
    return of_suite


def only(of: Trend) -> Series:
    """Give the only series."""
    (series,) = of.series
    return series


def text(of: Trend, width: int = 80, ascii_only: bool = False) -> str:
    """Give what is printed."""
    return "\n".join(line.text for line in trend_lines(of, width, ascii_only))


ALL_HALF: Scores = dict.fromkeys(TASKS, (1.0, 0.5))


def test_the_last_runs_come_oldest_first_with_the_figures_of_each_bucket(tmp_path: Path) -> None:
    """Of three runs the last two; a mean and pass^k for each bucket and for all."""
    store(tmp_path, 1, trials(ALL_HALF))
    second = store(tmp_path, 2, trials(ALL_HALF))
    third = store(tmp_path, 3, trials({**ALL_HALF, "c": (1.0, 1.0), "d": (0.0, 0.0)}))

    series = only(trend(tmp_path, last=2))

    assert [point.run for point in series.points] == [second, third]
    before, after = series.points
    assert (before.total.score, before.total.pass_hat_k) == (0.75, 0.0)
    assert (after.buckets["y"].score, after.buckets["y"].pass_hat_k) == (0.5, 0.5)
    assert after.total.pass_hat_k == 0.25
    assert (series.model, series.k) == ("claude", 2)
    lines = text(trend(tmp_path, last=2)).splitlines()
    assert lines[0] == "s with claude: 2 runs, 2026-11-02 to 2026-11-03"
    printed = [line.split() for line in lines]
    assert ["all", "0.75", "▆", "0.62", "▅", "-0.12", "cannot", "tell", "0.25"] in printed
    assert ["all:", "pass^2", "0.00", "▁", "0.25", "▂", "+0.25"] in printed
    assert ["y", "0.75", "▆", "0.50", "▄", "-0.25", "0.50"] in printed
    assert ["1", "bucket", "unchanged"] in printed


def test_suites_are_read_together_as_they_are_alone(tmp_path: Path) -> None:
    """A run of two suites counts for both, one of a single suite for that one; each has its last runs."""
    suites = (CAPABILITY, RunSuite("t", "capability", "card"))
    first = trials(ALL_HALF)
    for day in (1, 2, 3):
        others = [replace(each, key=each.key._replace(suite="t")) for each in trials({"a": (day / 3,)})]
        of_run = [*first, *others] if day < 3 else others
        store(tmp_path, day, of_run, suites=suites if day < 3 else suites[1:])
    folders = list_runs(tmp_path)

    both = list(trends_of(folders, ["s", "t"], 2))

    assert [[point.started_at[8:10] for point in only(each).points] for each in both] == [
        ["01", "02"],
        ["02", "03"],
    ]
    assert [of_suite for name in "st" for of_suite in trends_of(folders, [name], 2)] == both
    assert all(only(each).comparison for each in both)


def test_foreign_names_stay_words_in_their_line(tmp_path: Path) -> None:
    """A suite, a model, a variant, a bucket and a task can neither paint nor begin a line of their own."""
    model = RunModel(HOSTILE, HOSTILE, note=HOSTILE)
    for day in (1, 2):
        of_run = [
            replace(each, bucket=f"{HOSTILE}{each.bucket}", key=TrialKey(HOSTILE, *each.key[1:4], HOSTILE, 1))
            for each in trials({f"{task}{HOSTILE}": (day - 1.0,) for task in "abcd"}, model)
        ]
        store(tmp_path, day, of_run, model, suites=(RunSuite(HOSTILE, "capability", "card"),))
    (found,) = trends_of(list_runs(tmp_path), [HOSTILE], 2)

    for width in (30, 80):
        printed = text(found, width)
        assert printed == printable(printed)
        assert not [line for line in printed.splitlines() if line.startswith("own line")]


def test_each_model_and_variant_has_its_own_series(tmp_path: Path) -> None:
    """One run with two models and two variants gives a point to four of them; each can be asked for alone."""
    both = [*trials(ALL_HALF), *trials(ALL_HALF, RULES)]
    short = [of_variant(each, "short") for each in both]
    store(tmp_path, 1, [*both, *short], CLAUDE, RULES)

    found = trend(tmp_path)

    names = {(series.model, series.variant) for series in found.series}
    assert names == {("claude", ""), ("rules", ""), ("claude", "short"), ("rules", "short")}
    assert {series.note for series in found.series if series.model == "rules"} == {"rule-based, no LLM"}
    alone = only(trend(tmp_path, models=["rules"], variants=["short"]))
    assert (alone.model, alone.variant) == ("rules", "short")


def of_variant(of: Trial, variant: str) -> Trial:
    """Give a trial as one of another variant."""
    return replace(of, key=TrialKey(*of.key[:4], variant, of.key.repetition))


def test_a_changed_prompt_is_told_at_the_run_where_it_changed(tmp_path: Path) -> None:
    """By the digests of the tasks that both runs tried; equal ones belong together, and nothing is spoilt."""
    for day, prompt in enumerate(["3f2aaaaa", "3f2aaaaa", "91bccccc"], start=1):
        store(tmp_path, day, trials(ALL_HALF, digests=Digests("i", "f", prompt, ruler="r")))

    found = trend(tmp_path)

    first, second, third = only(found).points
    assert (first.changes, second.changes) == ((), ())
    (change,) = third.changes
    assert (change.what, change.before, change.after, change.tasks) == ("prompt", "3f2a", "91bc", 4)
    assert change.comparable
    printed = text(found)
    assert f"03 Nov 09:30, {third.run}: prompt 3f2a -> 91bc (4 tasks)" in printed
    assert "03 Nov 09:30 p" in printed
    assert "identical" in printed, "every trial scored the same"
    assert "not comparable" not in printed
    assert "|" not in printed


@pytest.mark.parametrize(
    ("field", "what", "comparable"),
    [
        ("ruler", "graders", False),
        ("input", "tasks", False),
        ("fixture", "tasks", False),
        ("code", "agent code", True),
        ("model", "model", True),
        ("settings", "settings", True),
        ("tools", "tools", True),
    ],
)
def test_changed_graders_and_tasks_alone_break_the_line(
    tmp_path: Path, field: str, what: str, comparable: bool
) -> None:
    """What is measured, or by what, is another thing: the line says so, and a bar stands between the runs."""
    for day, value in enumerate(["1111", "2222"], start=1):
        of_graders = {"g": f"1:{value}"}  # what graders say each of their own is not compared
        digests = Digests(**{"prompt": "p", field: value, "graders": of_graders})
        store(tmp_path, day, trials(ALL_HALF, digests=digests))

    found = trend(tmp_path)

    (change,) = only(found).points[1].changes
    assert (change.what, change.comparable) == (what, comparable)
    printed = text(found)
    spoilt = "scores before and after are not comparable" in " ".join(printed.split())
    assert spoilt == ("0.75 ▆ | 0.75 ▆" in " ".join(printed.split())) == (not comparable)
    assert (only(found).comparison is None) == (not comparable)


MANY = {f"{bucket}{number}": bucket for bucket in "fgrs" for number in range(6)}
"""Six tasks in each bucket: f falls, g falls by too little, r rises and s stays."""


def moved(root: Path, day: int, *, after: bool, **fields: Any) -> str:
    """Write a run before or after what happened to the buckets of ``MANY``."""
    scores = {"f": 0.25 if after else 1.0, "g": 0.5, "r": 1.0 if after else 0.25, "s": 0.75}
    of_run = []
    for task, bucket in MANY.items():
        score = 0.25 if after and task == "g0" else scores[bucket]
        of_run += trials({task: (score, score)}, bucket=bucket, **fields)
    return store(root, day, of_run)


def test_what_moved_stands_first_with_the_verdict_of_compare(tmp_path: Path) -> None:
    """Worse, better, fallen without a verdict; what stayed is a line. Verdicts and p are those of compare."""
    names = [moved(tmp_path, day, after=day == 2) for day in (1, 2)]

    found = trend(tmp_path)

    runs = [compared_run(load_run(tmp_path / name)) for name in names]
    (compared,) = compare_runs(*runs).suites
    step = only(found).comparison
    assert step is not None
    assert (step.old, step.new, step.left_out) == (*names, 0)
    assert {change.name: (change.verdict, change.p) for change in step.buckets} == {
        change.name: (change.verdict, change.p_of_verdict) for change in compared.buckets
    }
    assert compared.suite is not None
    assert (step.total.change, step.total.p) == (compared.suite.change, compared.suite.p_of_verdict)
    rows = [line.split() for line in text(found).splitlines()]
    assert [row[0] for row in rows[2:8]] == ["all", "all:", "f", "r", "g", "1"]
    assert ["f", "1.00", "█", "0.25", "▂", "-0.75", "▼", "worse", "(p", "<0.001)", "0.00"] in rows
    assert ["r", "0.25", "▂", "1.00", "█", "+0.75", "▲", "better", "(p", "<0.001)", "1.00"] in rows
    assert ["g", "0.50", "▄", "0.46", "▄", "-0.04", "0.00"] in rows
    plain = text(found, ascii_only=True)
    assert plain.isascii()
    assert ["f", "1.00", "0.25", "-0.75", "worse"] in [line.split()[:5] for line in plain.splitlines()]


def test_no_verdict_is_given_where_rulers_differ(tmp_path: Path) -> None:
    """Neither a verdict nor a change: the newest run measures something else."""
    for day in (1, 2):
        moved(tmp_path, day, after=day == 2, digests=Digests("i", ruler=str(day)))

    found = trend(tmp_path)

    assert only(found).comparison is None
    printed = text(found)
    assert not {"worse", "better", "change", "▼", "▲"} & set(printed.split("suspects")[0].split())
    assert ["f", "1.00", "█", "|", "0.25", "▂", "0.00"] in [line.split() for line in printed.splitlines()]


def test_verdicts_over_other_tasks_than_scores_say_so(tmp_path: Path) -> None:
    """A score is over all tasks of its run, a verdict over those that both runs have."""
    moved(tmp_path, 1, after=False)
    of_run = [each for task in MANY for each in trials({task: (0.5,)}, bucket=MANY[task])]
    store(tmp_path, 2, [*of_run, *trials({"new": (0.0,)}, bucket="s")])

    printed = " ".join(text(trend(tmp_path)).split())

    assert (
        "verdicts on the newest run cover the 24 tasks that it shares with the run before: 0.62 -> 0.50"
        in printed
    )


def test_a_hundred_runs_fit_into_80_columns(tmp_path: Path) -> None:
    """The newest are drawn; first, last and change are of all, and the verdict is on the newest run."""
    for number in range(100):
        moved(tmp_path, number % 28 + 1, after=number % 28 == 27)

    found = trend(tmp_path, last=100)
    lines = text(found).split("\nscale")[0].strip().splitlines()

    assert len(only(found).points) == 100
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line.split() for line in lines}
    assert len(rows["f"][1]) == 24
    assert rows["f"][2:5] == ["1.00", "0.25", "-0.75"]
    assert len(rows["run"][1]) == 24


def test_scores_count_from_the_last_break_on(tmp_path: Path) -> None:
    """First and change are over runs that measure the same; the line shows the others beyond a bar."""
    for day, (after, ruler) in enumerate(
        [(True, "q"), (False, "r"), (False, "r"), (False, "r"), (True, "r")], 1
    ):
        moved(tmp_path, day, after=after, digests=Digests("i", ruler=ruler))

    printed = text(trend(tmp_path))

    (row,) = [line.split() for line in printed.splitlines() if line.startswith("  f ")]
    assert row[:5] == ["f", "▂|███▂", "1.00", "0.25", "-0.75"]
    assert "scores are comparable from run 2 on: earlier graders or tasks differ" in printed


def test_one_run_has_its_interval(tmp_path: Path) -> None:
    """There is nothing to compare, and no verdict."""
    moved(tmp_path, 1, after=False)

    found = trend(tmp_path)

    (point,) = only(found).points
    assert (point.total.low, point.total.high) != (None, None)
    assert only(found).comparison is None
    printed = text(found)
    assert f"{format_ends(point.total.low or 0, point.total.high or 0)}" in printed
    assert "change" not in printed.split("scale")[0]


def test_prompts_of_several_tasks_share_one_digest(tmp_path: Path) -> None:
    """One digest stands for all where tasks have prompts of their own; its first digits are shown."""
    store(tmp_path, 1, trials(ALL_HALF, digests=Digests(prompt="3f2a02")))
    mixed = trials({"a": (1.0,), "b": (1.0,)}, digests=Digests(prompt="3f2a02"))
    store(tmp_path, 2, [*mixed, *trials({"c": (1.0,)}, digests=Digests(prompt="91bc"))])

    (change,) = only(trend(tmp_path)).points[1].changes
    assert (change.tasks, change.before) == (1, "3f2a")
    assert change.after not in ("3f2a", "91bc")


def test_a_task_that_is_new_changes_no_prompt(tmp_path: Path) -> None:
    """Only tasks that both runs tried are compared: another number of tasks alone is no other prompt."""
    digests = Digests("i", prompt="p", ruler="r")
    store(tmp_path, 1, trials({"a": (1.0,), "b": (1.0,)}, digests=digests))
    store(tmp_path, 2, trials({"a": (1.0,), "b": (1.0,), "c": (0.0,)}, digests=digests))

    first, second = only(trend(tmp_path)).points

    assert second.changes == ()
    assert (first.incomplete, second.incomplete) == ("2 of 3 tasks", "")


@pytest.mark.parametrize(
    ("scores", "incomplete", "left_out"),
    [
        ({"a": (0.0, 0.0)}, "", "1 of 4 tasks graded"),
        (dict.fromkeys("ab", (1.0, 1.0)), "2 of 4 tasks", ""),
        (dict.fromkeys("abc", (1.0, 1.0)), "3 of 4 tasks", ""),
        (dict.fromkeys(TASKS, (None, None)), "", "0 of 4 tasks graded"),
        (dict.fromkeys(TASKS, (1.0, None, None)), "", "4 of 12 trials graded"),
        ({**ALL_HALF, "a": (1.0, None)}, "1 of 8 trials errored", ""),
    ],
)
def test_a_run_of_less_than_half_is_left_out_and_one_of_more_is_marked(
    tmp_path: Path, scores: Scores, incomplete: str, left_out: str
) -> None:
    """As after ``-k``: less than half of the tasks, or of the planned trials, is no score of the suite."""
    store(tmp_path, 1, trials(ALL_HALF))
    name = store(tmp_path, 2, trials(scores))

    found = trend(tmp_path)

    series = only(found)
    assert [point.incomplete for point in series.points] == ["", *([incomplete] if incomplete else [])]
    assert [(absence.run, absence.why) for absence in series.left_out] == (
        [(name, left_out)] if left_out else []
    )
    assert (f"left out: {name}: {left_out}" if left_out else f"Nov 09:30, {name}: {incomplete}") in text(
        found
    )


def test_a_run_of_held_out_tasks_is_no_part_of_the_suites_line(tmp_path: Path) -> None:
    """However many it has, and though it is the newest, as after ``agenteval improve``; alone it is shown."""
    many = dict.fromkeys(("h1", "h2", "h3", "h4", "h5"), (0.0, 1.0))
    hidden = store(tmp_path, 2, trials(many, split="held_out"))
    assert [point.run for point in only(trend(tmp_path)).points] == [hidden]
    own = store(tmp_path, 1, trials(ALL_HALF))

    both = trend(tmp_path)

    assert [point.run for point in only(both).points] == [own]
    assert [(absence.run, absence.why) for absence in only(both).left_out] == [
        (hidden, "held-out tasks only")
    ]
    assert "h1" not in text(both), "nor are they called suspect by name"


def test_a_task_with_an_errored_repetition_says_nothing_of_k(tmp_path: Path) -> None:
    """pass^2 is over the tasks of which two trials are graded; a task's mean is over those that were."""
    store(tmp_path, 1, trials({"a": (1.0, 1.0), "b": (1.0, 0.0), "c": (1.0, None)}))

    found = trend(tmp_path)

    (point,) = only(found).points
    assert text(found).startswith("s with claude: 1 run, 2026-11-01\n  bucket       01 Nov 09:30 ~  pass^2\n")
    assert (point.total.score, point.total.pass_hat_k) == (pytest.approx(2.5 / 3), 0.5)
    assert point.buckets["y"].pass_hat_k is None


def test_runs_that_graded_others_again_are_left_out_and_counted(tmp_path: Path) -> None:
    """No agent was tried: its trials would count twice; nor is it one of the last N."""
    first = store(tmp_path, 1, trials(ALL_HALF))
    second = store(tmp_path, 2, trials(ALL_HALF))
    again = store(tmp_path, 3, trials(ALL_HALF), regraded=(second,))

    found = trend(tmp_path, last=2)

    assert (found.runs, found.regraded) == ((first, second), (again,))
    assert "left out: 1 run that only graded stored trials again" in text(found)


def test_many_runs_that_are_left_out_are_counted_and_the_newest_named(tmp_path: Path) -> None:
    """Who tries one task again and again has a short list all the same."""
    store(tmp_path, 1, trials(ALL_HALF))
    few = [store(tmp_path, day, trials({"a": (0.0, 0.0)})) for day in range(2, 8)]

    printed = " ".join(text(trend(tmp_path)).split())

    assert [name for name in few if f"left out: {name}" in printed] == few[-3:]
    assert "left out in total: 6 runs with less than half of the suite" in printed


def test_whole_names_stand_in_80_columns(tmp_path: Path) -> None:
    """A bucket's name is never cut, be there 24 runs of it; nothing runs past the edge."""
    bucket = "route_into_existing_chinese_book_file"
    for day in range(1, 28):
        of_run = trials({"a": (1.0, day / 27)}, bucket=bucket) + trials({"c": (1.0, 1.0)})
        store(tmp_path, day, of_run)

    printed = text(trend(tmp_path, last=27))

    assert bucket in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert "27 runs" in printed
    assert "the newest 18 drawn" in " ".join(printed.split())


def test_a_terminal_without_blocks_gets_plain_text(tmp_path: Path) -> None:
    """Every character is ASCII, and a score is still to be read."""
    store(tmp_path, 1, trials(ALL_HALF))
    store(tmp_path, 2, trials(dict.fromkeys(TASKS, (1.0, 1.0))))

    printed = text(trend(tmp_path), ascii_only=True)

    assert printed.isascii()
    assert "0.75" in printed
    for day in range(3, 21):
        store(tmp_path, day, trials(ALL_HALF))
    printed = text(trend(tmp_path, last=27), ascii_only=True)
    assert printed.isascii()
    assert "7977777" in printed
    assert "scale: a digit is a score in tenths" in printed


@pytest.mark.parametrize(
    ("scores", "drawn"),
    [
        ([0.0, 0.142, 0.143, 0.3, 0.43, 0.58, 0.72, 0.86, 0.999, 1.0], "▁▁▂▃▄▅▆▇▇█"),
        ([None, 1 / 7 * 3, 3 / 7 - 1e-12, -0.2, 1.2], "·▄▄▁█"),
        ([], ""),
    ],
)
def test_the_scale_is_fixed(scores: list[float | None], drawn: str) -> None:
    """The same score is the same character in every line: sevenths of 0 to 1, the full block for 1 alone."""
    assert sparkline(scores, ascii_only=False) == drawn


def test_suspects_are_told_by_what_real_models_did(tmp_path: Path) -> None:
    """Missed by all, solved by oracle only, passed by all: with counts; what rules miss is no evidence."""
    by_claude: Scores = {"a": (0.0,) * 4, "b": (0.0,) * 4, "c": (1.0,) * 4, "d": (1.0, 0.0) * 2}
    for day in (1, 2):
        models = {
            CLAUDE: by_claude,
            RULES: dict.fromkeys(TASKS, (0.0, 0.0)),
            ORACLE: {"a": (0.0,), "b": (1.0,), "c": (1.0,), "d": (1.0,)},
        }
        of_run = [each for model, scores in models.items() for each in trials(scores, model)]
        store(tmp_path, day, of_run, *models)

    found = trend(tmp_path)

    suspects = found.suspects
    (missed,), (solved,), (saturated,) = suspects.missed, suspects.only_oracle, suspects.saturated
    assert (missed.task, missed.part, missed.whole, missed.runs) == ("a", 0, 8, 2)
    assert missed.remark == "rules passed 0 of 4, oracle passed 0 of 2"
    assert solved.task == "b"
    assert (saturated.task, saturated.part, saturated.whole, saturated.models) == ("c", 8, 8, ("claude",))
    (unsteady,) = suspects.unsteady
    assert (unsteady.task, unsteady.part, unsteady.whole) == ("d", 2, 2)
    assert (suspects.real, suspects.trials) == (("claude",), 32)
    printed = " ".join(text(found).split())
    assert "counted: 32 graded trials of claude; rules, oracle without an LLM" in printed
    assert "a 0 of 8 trials passed, 2 runs with claude; rules passed 0 of 4, oracle passed 0 of 2" in printed
    assert "d 2 of 2 times, 4 of 8 trials passed, claude" in printed
    assert (
        "listed: tasks whose trials (7 or more) all missed or all passed; if each task passed half of the "
        "time, chance would list one in less than 5 % of suites" in printed
    )


@pytest.mark.parametrize("model", [RULES, NOP])
def test_without_a_real_model_nothing_is_said_of_missing_or_passing_always(
    tmp_path: Path, model: RunModel
) -> None:
    """Rules that miss every task prove nothing against one; the lines say that no model was asked."""
    for day in (1, 2):
        store(tmp_path, day, trials(dict.fromkeys(TASKS, (0.0, 0.0)), model), model)

    found = trend(tmp_path)

    assert (found.suspects.missed, found.suspects.saturated) == ((), ())
    assert f"no LLM ran: the results of {model.name} do not show" in text(found)
    assert "not found: judges disagree, flaky\n" in f"{text(found)}\n"


def test_trials_that_all_miss_by_chance_are_too_few(tmp_path: Path) -> None:
    """Of four tasks that pass half of the time one would miss 6 of 6 in 6.1 % of suites, 7 of 7 in 3.1 %."""
    store(tmp_path, 1, trials(dict.fromkeys(TASKS, (0.0,) * 6)))
    found = trend(tmp_path)
    assert found.suspects.missed == ()
    assert found.suspects.too_few == 4
    assert "4 tasks with fewer trials: too few to rule out chance" in text(found)

    store(tmp_path, 2, trials({"a": (0.0,)}))
    assert [each.task for each in trend(tmp_path).suspects.missed] == ["a"]


@pytest.mark.parametrize("tasks", [1, 4, 41, 91, 150])
def test_the_least_number_of_trials_that_excludes_chance_is_taken(tasks: int) -> None:
    """Counted exactly: the chance that any of the tasks, passing half of the time, misses every trial."""
    enough = trials_that_exclude_chance(tasks)
    by_chance = [1 - (1 - Fraction(1, 2**trials)) ** tasks for trials in (enough, enough - 1)]
    assert by_chance[0] < Fraction(5, 100) < by_chance[1] * Fraction(103, 100)


def test_a_part_of_the_suite_is_evidence_on_its_tasks(tmp_path: Path) -> None:
    """A run of one task is left out of the scores, and counts where tasks are looked at one by one."""
    store(tmp_path, 1, trials(ALL_HALF))
    store(tmp_path, 2, trials({"a": (0.0,)}))

    (first, *_) = [each for each in trend(tmp_path).suspects.unsteady if each.task == "a"]

    assert (first.part, first.whole) == (1, 1)
    assert len(only(trend(tmp_path)).left_out) == 1


def judged(task: str, number: int, *votes: float | None | Mapping[str, float]) -> Trial:
    """Give a trial of which so many judges found so much."""
    details = {
        "judgement": {
            "votes": [
                {"judge": f"j{at}", "scores": {"tone": vote, "facts": vote}} for at, vote in enumerate(votes)
            ]
        }
    }
    usage = {"usage": {"asks": len(votes)}}
    asked = Transcript(events=(Event(0.0, "judge_ask", "asked", usage),))
    grade = Grade("judge", 0.7, "found", details=details, threshold=0.6)
    return trial(task, number, 1.0, "x", key=key(task, number, "claude"), grades=(grade,), transcript=asked)


def test_judges_split_where_their_votes_lie_on_both_sides_of_the_threshold(tmp_path: Path) -> None:
    """0.5 and 0.9 about a threshold of 0.6; 0.6 and 0.9 are of one mind, and a single vote is none.

    Nor is one that compares candidates.
    """
    of_run = [judged("a", 1, 0.5, 0.9), judged("a", 2, 0.6, 0.9), judged("b", 1, 0.7, 0.9)]
    of_run += [judged("c", 1, 0.9, None), judged("c", 2, 0.1, 0.2), judged("d", 1, {"own": 0.1}, {"own": 1})]
    store(tmp_path, 1, of_run, judges=(GPT, RULES))

    (split,) = trend(tmp_path).suspects.judges_split

    assert (split.task, split.part, split.whole) == ("a", 1, 2)
    assert "a 1 of 2 judged trials, 1 run with claude" in " ".join(text(trend(tmp_path)).split())


def test_a_lost_transcript_is_said_and_costs_nothing_else(tmp_path: Path) -> None:
    """How judges voted is not known then; the scores stand."""
    run = store(tmp_path, 1, [judged("a", 1, 0.5, 0.9)], judges=(GPT, RULES))
    for path in (tmp_path / run).glob("transcripts-*"):
        path.write_bytes(b"")

    found = trend(tmp_path)

    assert found.suspects.judges_split == ()
    assert only(found).points[0].total.score == 1.0
    assert any(line.startswith(f"{run}: s/a[claude-1]") for line in found.odd)
