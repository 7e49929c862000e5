"""Why a trial ended as it did: complete, bounded, safe to print."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.explanation import UnrecordedCall, error_text, explain_trial, short_reason
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.formatting import cell_width
from tests.store.samples import TRIALS, file

from .runs import trial

NEEDLES = Grade(
    "card_must_contain",
    0.5,
    "1 of 2 needles",
    (
        Check("card contains 'Mina'", True, "Mina", "Mina"),
        Check("card contains 'May'", False, "May", "March"),
    ),
)
JUDGE = Grade("judge", None, "no judge is configured")
CHOICE = Grade("card_template_choice", 0.5, "half credit", threshold=0.5)
TREES = (
    Tree({"gone.md": file("old\n"), "note.md": file("one\ntwo\n")}),
    Tree({"note.md": file("one\n2\n"), "new.bin": FileText("ff", 9, None, "binary")}),
)
MISSED = trial(
    "a",
    1,
    0.5,
    grades=(CHOICE, NEEDLES, JUDGE),
    limit="steps",
    outcome=Outcome(Answer("I saved\nthe card."), *TREES),
)

REASON = "limit reached: steps; card_must_contain 0.50: card lacks 'May': March"
EXPLAINED = f"""\
score 0.50: {REASON}
  card_template_choice  0.50, needs 0.50
  card_must_contain     0.50  1 of 2 checks failed
    not met: card contains 'May'
      expected: May
      found:    March
  judge                 undecided: no judge is configured
  limit reached: steps
  answer: I saved the card.
  workspace: 1 created, 1 changed, 1 deleted
  new.bin: binary (9 bytes)
  --- note.md
  +++ note.md
  @@ -1,2 +1,2 @@
   one
  -two
  +2
  --- gone.md
  +++ /dev/null
  @@ -1 +0,0 @@
  -old"""


def test_what_was_measured_past_the_scale_stands_beside_the_score() -> None:
    """A score of 0 hides how far below it a measure lies."""
    rate = Grade("rate", 0.0, "9 repeats", threshold=0.5, unclamped=-8.0)

    line = "  rate  0.00 (measured -8.00), needs 0.50  9 repeats"
    assert line in explain_trial(trial("a", 1, 0.0, grades=(rate,)))


def test_a_miss_is_explained_in_full() -> None:
    """Each grader, failed checks from both sides, the limit, the answer, the changes of the workspace."""
    assert "\n".join(explain_trial(MISSED)) == EXPLAINED


def test_a_single_check_is_a_check_and_not_checks() -> None:
    """The terminal and ``agenteval show`` count checks in the same words."""
    grade = Grade("polite", 0.0, "", (Check("it thanks", False),))
    assert "  polite  0.00  1 of 1 check failed" in explain_trial(trial("a", 1, 0.0, grades=(grade,)))


@pytest.mark.parametrize(
    ("claim", "expected", "reason"),
    [
        ("answer contains 'x'", "'x'", "answer lacks 'x': 'I am sorry'"),
        ('notes/a.md contains "it\'s"', "it's", "notes/a.md lacks \"it's\": 'I am sorry'"),
        ("the answer matches '^a$'", "a match of '^a$'", "the answer does not match '^a$': 'I am sorry'"),
        ("b contains 'x' or b contains \"'\"", "", "b has none of 'x', \"'\": 'I am sorry'"),
        ("b matches 'x' or b matches 'y'", "", "b matches none of 'x', 'y': 'I am sorry'"),
        # What is not surely such a claim is not turned round.
        (
            "b contains 'x' or c contains 'y'",
            "",
            "not met: b contains 'x' or c contains 'y' (found 'I am sorry')",
        ),
        ("b contains 'x' but 'y'", "", "not met: b contains 'x' but 'y' (found 'I am sorry')"),
        ("it contains much", "more", "not met: it contains much (expected more, found 'I am sorry')"),
        ("step 1: search", "search", "not met: step 1: search (found 'I am sorry')"),
        ("at most 3 tokens", "at most 3", "not met: at most 3 tokens (found 'I am sorry')"),
        ("answer: total 3", "3", "not met: answer: total 3 (expected 3, found 'I am sorry')"),
    ],
)
def test_a_failed_check_says_what_was_found_and_nothing_twice(claim: str, expected: str, reason: str) -> None:
    """The reason of a miss has room for what was found; the check's own fields stay what they are."""
    check = Check(claim, False, expected, "'I am sorry'")
    missed = trial("a", 1, 0.0, grades=(Grade("g", 0.0, "", (check,)),))

    assert str(check) == reason
    assert short_reason(missed) == f"score 0.00: g 0.00: {reason}"
    assert f"    not met: {claim}" in explain_trial(missed)


def test_the_reason_of_long_texts_shows_the_beginning_of_each() -> None:
    """What was found is never pushed out by what was looked for."""
    check = Check(f"answer contains '{'x' * 300}'", False, "x" * 300, "'I am sorry'")
    line = short_reason(trial("a", 1, 0.0, grades=(Grade("g", 0.0, "", (check,)),)))

    assert line.startswith("score 0.00: g 0.00: answer lacks 'xxx")
    assert line.endswith("…: 'I am sorry'")


def test_the_short_reason_names_the_grade_furthest_below_its_threshold() -> None:
    """0.5 below 0.6 is nearer than 0.7 below 1; of two equally far, the heavier counts."""
    near, far = Grade("near", 0.5, "n", threshold=0.6), Grade("far", 0.7, "f")
    heavy = Grade("heavy", 0.7, "h", weight=2.0)

    assert short_reason(trial("a", 1, 0.6, grades=(near, far))) == "score 0.60: far 0.70: f"
    assert short_reason(trial("a", 1, 0.6, grades=(far, heavy))) == "score 0.60: heavy 0.70: h"
    assert short_reason(trial("a", 1, 0.6, grades=(near,))) == "score 0.60: near 0.50, needs 0.60: n"


def test_the_short_reason_of_a_pass_is_its_score() -> None:
    """An undecided grade is no reason to miss."""
    assert short_reason(trial("a", 1, 1.0, grades=(Grade("g", 1.0, "ok"), JUDGE))) == "score 1.00"


def test_an_errored_trial_says_cause_and_message() -> None:
    """The first line in brief, the rest of the message and our own traceback below."""
    broken = trial(
        "a",
        1,
        None,
        cause="cassette_miss",
        message="x.yaml: search(q=1)\n  expected: a call",
        traceback="Tr\nE",
    )

    assert explain_trial(broken) == [
        "cassette_miss: x.yaml: search(q=1)",
        "    expected: a call",
        "  Tr",
        "  E",
    ]
    assert short_reason(trial("a", 1, None, cause="", message="")) == "errored"


def test_an_errored_trials_own_words_cannot_paint() -> None:
    """An exception may say what an agent wrote: message and traceback are printed by pytest as they are."""
    raised = "RuntimeError: \x1b[31mred \u202e"
    errored = trial("a", 1, None, cause="crash", message=f"{raised}\n{raised}", traceback=raised)

    text = error_text(errored, errored.transcript)

    assert not set(text) & {"\x1b", "\u202e"}
    assert text.splitlines() == [
        "crash: RuntimeError: \\x1b[31mred \\u202e",
        *["RuntimeError: \\x1b[31mred \\u202e"] * 2,
    ]


def test_undecided_grades_that_were_required_are_said() -> None:
    """They are why the trial is errored."""
    grade = Grade("judge", None, "unknown", required=True)
    lines = explain_trial(
        trial("a", 1, None, cause="ungraded", message="judge could not tell", grades=(grade,))
    )

    assert lines == ["ungraded: judge could not tell", "  judge  undecided (required): unknown"]


def test_a_long_diff_is_cut_per_file_and_in_all_and_says_so() -> None:
    """12 lines of each file, about 40 in all; what is left out is counted."""
    after = Tree({f"f{number}.md": file("line\n" * 100) for number in range(9)})
    lines = explain_trial(trial("a", 1, 0.0, outcome=Outcome(Answer(), Tree(), after)))
    section = lines[lines.index("  workspace: 9 created") :]

    assert section[13] == "  ... 91 more lines of f0.md"
    assert len(section) <= 42
    assert section[-1] == "  ... 6 more files"


def test_long_sides_many_checks_and_long_answers_are_cut() -> None:
    """Nothing an agent says can flood the report."""
    checks = tuple(Check("c" * 999, False, "e" * 999, "f" * 999) for _ in range(50))
    lines = explain_trial(
        trial("a", 1, 0.0, grades=(Grade("g", 0.0, "", checks),), outcome=Outcome(Answer("a" * 9999))), 300
    )

    assert len(lines) < 40
    assert max(map(len, lines)) <= 320
    assert "    and 42 more failed checks" in lines


def test_a_file_that_differs_only_in_line_ends_is_not_silent() -> None:
    """A diff of nothing would look like a mistake of ours."""
    outcome = Outcome(Answer(), Tree({"a": file("x")}), Tree({"a": file("x\n")}))

    assert explain_trial(trial("a", 1, 0.0, outcome=outcome))[-1] == "  a: differs only in how its lines end"


def test_a_file_name_cannot_forge_a_line_of_the_report() -> None:
    """Agents name files: a line break in a name is written out."""
    after = Tree({"a\nPASSED 1.00": file("x\ty\n")})
    lines = explain_trial(trial("a", 1, 0.0, outcome=Outcome(Answer(), Tree(), after)))

    assert lines[-4:] == ["  --- /dev/null", r"  +++ a\nPASSED 1.00", "  @@ -0,0 +1 @@", "  +x  y"]


def test_a_long_question_that_was_not_recorded_is_cut_later_than_a_line_of_a_diff() -> None:
    """Which of two long calls was missed is seen by their arguments, which stand behind the name."""
    call = UnrecordedCall("cassettes/t.yaml", "search " + "x" * 1000, "y" * 1000, "record it")

    assert len(call.name) == 300
    assert [len(way) for way in call.ways] == [len("found: ") + 300, len("record it")]


@settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
@given(TRIALS)
def test_any_trial_can_be_explained(some: Trial) -> None:
    """On printable lines of which the first is the short reason, and which fit the width."""
    lines = explain_trial(some, 80)

    assert lines[0] == short_reason(some)
    assert len(lines[0]) <= 200
    assert not any(char in line for line in lines for char in "\x00\x1b\r\n\x85")
    assert all(cell_width(line.rstrip()) <= 82 for line in lines[1:])
