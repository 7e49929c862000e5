"""Which trials of a bucket are shown, and what is said of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.loop.feedback.content import (
    EarlierRound,
    FeedbackOptions,
    FirstWrong,
    feedback_markdown,
)
from pytest_agenteval.loop.feedback.feedback import make_feedback
from pytest_agenteval.loop.feedback.trial_sections import first_wrong
from pytest_agenteval.loop.feedback.trial_selection import HIDDEN, failure_distance
from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.transcript import ToolError
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.trial_view import trial_view
from pytest_agenteval.store.notes import Note
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.tasks.task_spec import GraderSpec, PlannedCall, ReferenceSolution, Task, Turn
from pytest_agenteval.text.errors import UsageMistake
from tests.journals import write_note
from tests.loop.feedback.feedback_runs import call, failed_grade, failing, feedback_on, passing
from tests.reports.runs import key, store_run, trial
from tests.suites import task, write


def checks(*claims: str) -> tuple[Grade, ...]:
    """Give a grade in which these checks failed."""
    return (failed_grade("g", *(Check(claim, False, "x", "y") for claim in claims)),)


def names(trials: Any) -> list[str]:
    """Give tasks with repetitions, short."""
    return [re.sub(r"s/(\w+)\[.*-(\d+)\]", r"\1\2", each.name) for each in trials]


def test_the_most_different_failing_trials_are_shown(tmp_path: Path) -> None:
    """The worst first; then other tasks before other repetitions, and of these the one furthest away."""
    trials = [
        failing("a", 1, grades=checks("p", "q")),
        failing("a", 2, grades=checks("z")),
        failing("b", grades=checks("p", "q"), score=0.1),
        failing("c", grades=checks("p", "r"), score=0.3),
        failing("d", grades=checks("s", "t"), score=0.4),
    ]
    made, _ = feedback_on(tmp_path, *trials, trials=4)

    assert names(made.buckets[0].failing) == ["a1", "d1", "c1", "b1"]
    assert made.buckets[0].more == 1


def test_a_repetition_that_failed_alike_is_not_shown(tmp_path: Path) -> None:
    """It teaches nothing new; one that failed otherwise does."""
    alike = [failing("a", at, grades=checks("p")) for at in (1, 2, 3)]
    made, text = feedback_on(tmp_path / "alike", *alike)
    assert "Not shown: 2 more failing trials of this bucket, repetitions of what is shown." in text
    other, _ = feedback_on(tmp_path / "other", *alike[:2], failing("a", 3, grades=checks("p", "q")))

    assert (names(made.buckets[0].failing), made.buckets[0].more) == (["a1"], 2)
    assert names(other.buckets[0].failing) == ["a1", "a3"]


def test_what_a_person_says_of_a_trial_comes_first(tmp_path: Path) -> None:
    """Commented trials are shown before worse ones, all of them; a comment is data, cut like other lines."""
    trials = [failing("a", at, grades=checks("p")) for at in (1, 2, 3)]
    trials += [failing("b", score=0.5), passing("c")]
    run = store_run(tmp_path, trials)
    comments = {trials[2].key: "# asks for the wrong year", trials[3].key: "``` fine\n\nreally"}
    for of_trial, comment in comments.items():
        write_note(run.folder, of_trial, Note("", comment))
    write_note(run.folder, trials[0].key, Note("2026-11-28T09:30:00Z"))

    made = make_feedback(load_run(run.folder), FeedbackOptions(trials=1))
    text = feedback_markdown(made)

    assert names(made.buckets[0].failing) == ["a3", "b1"]
    person = "a person's comment on this trial\n"
    assert f"{person}| # asks for the wrong year\nfirst decision that went wrong" in text
    assert f"{person}| ``` fine\n| really\n" in text
    assert names(make_feedback(run, FeedbackOptions(trials=1)).buckets[0].failing) == ["a1"]
    small = make_feedback(load_run(run.folder), FeedbackOptions(budget=1500))
    assert names(small.buckets[0].failing)[0] == "a3"


def test_distance_is_jaccards() -> None:
    """Of what failed: nothing in common is 1, all in common 0."""
    one, other = frozenset({("g", ""), ("g", "p")}), frozenset({("g", ""), ("g", "q")})

    assert [failure_distance(*pair) for pair in ((one, one), (one, other), (frozenset(), frozenset()))] == [
        0,
        pytest.approx(2 / 3),
        0,
    ]


def test_a_passing_trial_of_a_failing_task_is_shown_before_others(tmp_path: Path) -> None:
    """What passes beside what fails tells most; it has no first decision that went wrong."""
    made, text = feedback_on(tmp_path, passing("a"), passing("b", 1), failing("b", 2))

    shown = made.buckets[0].passing
    assert shown
    assert (names([shown]), shown.first_wrong) == (["b1"], None)
    assert "Passing, and must keep passing: `s/b[rules-1]` PASSED 1.00" in text


def test_errored_trials_are_counted_apart_and_never_shown(tmp_path: Path) -> None:
    """They are no fault of a prompt: in no figure, no example; their names and causes are told."""
    broken = trial("b", 1, None, message="503 from the provider", cause="provider")
    made, text = feedback_on(tmp_path, failing("a"), broken, passing("c"))

    assert (made.buckets[0].trials, made.buckets[0].score) == (2, 0.5)
    assert "1 trial errored (1 provider): not counted in any figure" in text
    assert "`s/b[rules-1]`" in text
    assert "503" not in text


def test_buckets_that_only_errored_are_no_failures(tmp_path: Path) -> None:
    """And where nothing failed, that is what is said."""
    made, text = feedback_on(tmp_path, passing("a"), trial("b", 1, None, "y", cause="provider"))

    assert (made.buckets, [line.bucket for line in made.passed]) == ((), ["x"])
    assert "No trial failed." in text


def test_a_grader_leaves_the_trials_that_it_did_not_pass(tmp_path: Path) -> None:
    """The figures stay those of the bucket."""
    grades = (failed_grade("other"), Grade("g", 1.0, "right"))
    made, _ = feedback_on(tmp_path, failing("a"), failing("b", grades=grades), grader="other")

    assert (names(made.buckets[0].failing), made.buckets[0].trials) == (["b1"], 2)
    assert made.buckets[0].rule.startswith("other: ")
    _, none = feedback_on(tmp_path, failing("b", grades=grades), grader="g")
    assert "No trial failed by `g`, the grader that you chose." in none
    with pytest.raises(UsageMistake, match="has no grader 'g2'; it has g, other"):
        feedback_on(tmp_path, failing("a"), failing("b", grades=grades), grader="g2")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({}, "has several models: name one with --model: claude, rules"),
        ({"model": "gpt"}, "has no model 'gpt'; it has claude, rules"),
        ({"model": "rules"}, "has several variants: name one with --variant: base, short"),
        ({"model": "rules", "variant": "long"}, "has no variant 'long'; it has base, short"),
        ({"model": "rules", "variant": "", "buckets": ("z",)}, "has no bucket 'z'; it has x"),
        ({"suite": "t"}, "has no suite 't'; it has s"),
    ],
)
def test_a_name_that_the_run_does_not_have_is_refused(
    options: dict[str, Any], refusal: str, tmp_path: Path
) -> None:
    """And so is none, where there are several; the refusal says which there are."""
    short = {"key": key("a", variant="short")}
    trials = (failing("a"), failing("a", **short), failing("a", key=key("a", model="claude")))

    with pytest.raises(UsageMistake) as refused:
        feedback_on(tmp_path, *trials, **options)
    assert refusal in str(refused.value)


def test_model_variant_and_bucket_are_chosen_by_name(tmp_path: Path) -> None:
    """``base`` and the empty name are the agent's own prompts; a bucket may bear its suite's name."""
    trials = (failing("a"), failing("b", key=key("b", variant="short"), bucket="y"), failing("c", bucket="y"))

    short, _ = feedback_on(tmp_path / "1", *trials, variant="short")
    base, _ = feedback_on(tmp_path / "2", *trials, variant="base", buckets=("s/y",))
    assert names(short.buckets[0].failing) == ["b1"]
    assert [names(bucket.failing) for bucket in base.buckets] == [["c1"]]


def reference(*tools: str) -> Task:
    """Give a task whose reference solution calls these tools."""
    turns = tuple(Turn(calls=(PlannedCall(tool=tool, args={"q": "gold"}),)) for tool in tools)
    solution = ReferenceSolution(turns=turns)
    return Task(id="a", input={}, graders=(GraderSpec(name="g"),), reference_solution=solution)


FOUND = (failed_grade("g", Check("filed well", False, "Areas/x.md", "Notes/wrong.md")),)
BROKEN = ToolError("timeout", "too slow")
LOOK, WRITE = call("look", q="abc"), call("write", 2, path="/Notes/wrong.md")


def broken(number: int) -> Any:
    """Give a call that failed."""
    return replace(call("fetch", number, q=str(number)), result=None, error=BROKEN)


ANOTHER, LOOKED = (passing("a", 2, calls=calls) for calls in ([LOOK, WRITE], [LOOK]))
NO_CALL = "no call was made; the reference solution, one way of many, has look("
PASSED = 'repetition 2 of the same task, which passed, has look({"q":"abc"})'

Case = tuple[Trial, Trial | Task | None, str, int | None, str]
FILED, FETCHED = (
    failing("a", calls=[LOOK, WRITE], grades=FOUND),
    failing("a", calls=[LOOK, broken(2), broken(3)]),
)
MENDED = failing("a", calls=[broken(1), call("fetch", 2)])
SAID = "the answer, by g: not met: it is right"

CASES: dict[str, Case] = {
    "found": (FILED, None, "check", 2, "not met: filed well; found Notes/wrong.md"),
    "failed": (FETCHED, None, "tool error", 2, "(timeout: too slow)"),
    "first": (
        failing("a", calls=[broken(1), WRITE], grades=FOUND),
        None,
        "tool error",
        1,
        "next came write(",
    ),
    "instead": (
        failing("a", calls=[broken(1)]),
        reference("fetch"),
        "tool error",
        1,
        'has fetch({"q":"gold"})',
    ),
    "mended": (MENDED, None, "nothing", None, "the transcript does not show"),
    "stopped": (failing("a", calls=[LOOK]), ANOTHER, "passing trial", 2, "the trial ended after call 1"),
    "parted": (failing("a", calls=[WRITE]), LOOKED, "passing trial", 1, PASSED),
    "no call": (failing("a"), reference("look"), "reference", None, NO_CALL),
    "sent": (failing("a", calls=[LOOK]), reference("look"), "reference", 1, '{"q":"gold"}'),
    "answer": (failing("a", answer="It is wrong, sorry."), None, "check", None, SAID),
    "limit": (failing("a", limit="steps"), None, "limit", None, "a limit was reached: steps"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_wrong_decision_is_told_by_what_is_recorded(case: str) -> None:
    """What is sure before what is likely; where nothing can tell, that is said and nothing made up."""
    this, beside, basis, number, words = CASES[case]
    other = trial_view(beside) if isinstance(beside, Trial) else None
    wrong = first_wrong(trial_view(this), other, beside if isinstance(beside, Task) else None)

    assert (wrong.basis, wrong.call) == (basis, number)
    assert words in wrong.text


def test_what_a_check_found_in_the_answer_blames_no_call() -> None:
    """An answer quotes what tools gave: the words in common are no reason."""
    grades = (failed_grade("g", Check("it says 7", False, "7", "Gizmo-9000 costs a lot")),)
    this = failing("a", calls=[call("look", q="Gizmo-9000")], answer="Gizmo-9000 costs a lot", grades=grades)

    assert first_wrong(trial_view(this), None, None) == FirstWrong(
        "check", "the answer, by g: not met: it says 7"
    )


def test_a_trial_is_told_in_order_and_each_call_is_cut(tmp_path: Path) -> None:
    """Input, first decision, checks with both sides, reasons, calls with 200 characters, files, answer."""
    vote = {"judge": "claude", "scores": {"tone": 0.0}, "rationale": "It only repeats the note."}
    judged = Grade("quality", 0.0, "poor", details={"judgement": {"votes": [vote]}})
    before, after = (Tree({"n.md": FileText(text, 9, text)}) for text in ("old\nsame", "new\nsame"))
    this = failing(
        "a",
        calls=[call("write", 1, text="w" * 500)],
        grades=(failed_grade("g"), judged),
        asked="Put it away.",
        outcome=Outcome(Answer("Done now."), before, after),
    )
    _, text = feedback_on(tmp_path, this)

    parts = [
        "input\n| Put it away.\nfirst decision that went wrong (unknown)",
        "failed checks\n| g 0.00: it is right | expected right | found wrong",
        "judges' reasons\n| claude on quality (tone 0.00): It only repeats the note.",
        "calls in order\n| 1. write(",
        "workspace changes\n| modified n.md\n| - old\n| + new\n|   same",
        "answer\n| Done now.",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert 150 < max(len(run) for run in text.split() if "www" in run) < 215


def test_trials_whose_transcript_is_lost_are_counted_all_the_same(tmp_path: Path) -> None:
    """The journal has their figures; there is nothing more to show of them."""
    run = store_run(tmp_path, [failing("a"), passing("b")])
    for file in run.folder.glob("transcripts-*"):
        file.unlink()
    made = make_feedback(run)

    (bucket,) = made.buckets
    assert (bucket.score, bucket.failing, bucket.passing, bucket.more) == (0.5, (), None, 1)
    assert "Not shown: 1 more failing trial of this bucket, of 1 more task." in feedback_markdown(made)
    assert len(run.odd) == 2


def test_a_bucket_has_its_rule_in_one_sentence_of_the_grader_that_failed_most(tmp_path: Path) -> None:
    """Not in the words of its tasks, and not in those of every grader."""
    often = failed_grade("often", Check("is it well? Half a point else.", False))
    once = failed_grade("once", Check("is it short?", False))
    made, text = feedback_on(tmp_path, failing("a", grades=(once, often)), failing("b", grades=(often,)))

    assert made.buckets[0].rule == "often: is it well?"
    assert "The rule of the grader that failed most: `often: is it well?`" in text


def test_graders_that_ask_the_same_stand_together(tmp_path: Path) -> None:
    """With how often each was not passed; what it asks is told once."""
    grades = tuple(failed_grade(name, Check("is it well?", False)) for name in ("one", "two"))
    _, text = feedback_on(tmp_path, failing("a", grades=grades), failing("b"), failing("c", grades=grades))

    assert text.count("`is it well?`") == 1
    assert "- `one` in 2 of 2, `two` in 2 of 2: `is it well?`" in text


def test_what_most_trials_lack_stands_at_the_head(tmp_path: Path) -> None:
    """Causes of several trials of split dev, most common first; with a grader its own; within the budget."""
    lacking = [
        failing(f"t{at}", grades=(failed_grade("g", Check(f"it names '{at}'", False)),)) for at in range(4)
    ]
    rude = failed_grade("polite", Check("it is `kind`", False))
    both = [failing(f"r{at}", grades=(rude, failed_grade("g", Check("it names 'x'", False)))) for at in "ab"]
    others = [
        trial("broken", 1, None, message="no answer"),
        failing("once", grades=(failed_grade("rare", Check("it rhymes", False)),)),
        failing("secret", split="held_out", grades=(failed_grade("g", Check("it names 'y'", False)),)),
    ]
    made, text = feedback_on(tmp_path / "all", *lacking, *both, *others)

    assert [(cause.words, cause.trials, cause.tasks) for cause in made.causes] == [
        ("g: not met: it names …", 6, 6),
        ("polite: not met: it is `kind`", 2, 2),
    ]
    assert "- `g: not met: it names …`: 6 trials of 6 tasks, such as `s/ra[rules-1]`\n" in text
    assert "- `polite: not met: it is 'kind'`: 2 trials of 2 tasks" in text
    assert text.index("## Why trials missed") < text.index("## Rules")
    only, _ = feedback_on(tmp_path / "one", *lacking, *both, grader="polite")
    assert [cause.words for cause in only.causes] == ["polite: not met: it is `kind`"]
    graders = tuple(failed_grade(f"g{at}", Check("it is right", False)) for at in range(9))
    small, _ = feedback_on(tmp_path / "small", *(failing(name, grades=graders) for name in "ab"), budget=6000)
    assert len(small.causes) == 4
    assert [cut.what for cut in small.cuts if cut.where == "causes"] == ["5 of 9"]


def test_a_run_that_errored_throughout_still_names_its_suites(tmp_path: Path) -> None:
    """Nothing is in any figure then; which suites were tried is known all the same."""
    made, text = feedback_on(tmp_path, trial("a", 1, None))

    assert made.buckets == ()
    assert "Suites: `s`." in text


SECRET = "The lighthouse keeper counts seven herons before breakfast on the second day of May"


@pytest.fixture
def evals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a held-out task, a file that is broken, and one whose starting tree is gone."""
    kept = {**task("ho_keeper"), "input": {"content": SECRET}, "split": "held_out"}
    lost = {**task("lost"), "input": {"content": "x", "base_fixture": "gone"}, "description": "It is lost."}
    files = {
        "suite.yaml": "name: s",
        "a.json": task("a"),
        "b.json": '{"id": [',
        "l.json": lost,
        "k.json": kept,
    }
    write(tmp_path, {f"project/evals/{name}": content for name, content in files.items()})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "project"


def test_what_earlier_rounds_quote_of_held_out_tasks_is_hidden(evals: Path) -> None:
    """Line by line, in whatever text of the round, as ``agenteval leaks`` finds it; other lines stay."""
    # What is left of a copy over two lines, once its first is hidden, is a copy still.
    halves = SECRET.replace("seven", "seven\n+")
    diff = f"+ first\n+ {SECRET.upper()}\n+ Say hello to Mina.\n+ {halves}"
    rounds = [EarlierRound(1, "shortened", "discarded", diff, "a fell")]
    trials = [replace(failing("a"), file="evals/a.json")]

    made, _ = feedback_on(evals / "runs", *trials, rounds=rounds)

    (earlier,) = made.earlier_rounds
    assert earlier.diff == f"+ first\n{HIDDEN}\n+ Say hello to Mina.\n{HIDDEN}\n{HIDDEN}"
    assert (earlier.summary, earlier.sentence) == ("shortened", "a fell")


def test_todays_files_are_found_from_the_run_as_far_as_they_can_be_read(evals: Path) -> None:
    """Wherever feedback is started; a task counts as held out that is so in the journal or today."""
    lost = [replace(failing("lost"), file="evals/l.json")]
    kept = replace(failing("ho_keeper"), file="evals/k.json", split="dev")

    made, _ = feedback_on(evals / "runs", *lost, kept)

    assert [each.descriptions for each in made.buckets] == ["It is lost"]
    assert made.left_out == ("1 trial of split held_out: in no figure and no example here",)
