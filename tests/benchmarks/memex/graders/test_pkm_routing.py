"""Did what was written land where it belongs? What default mode mends, and how paths are compared."""

from __future__ import annotations

from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.graders.end_state import clean_path, lies_in, pkm_path, upstream_path
from pytest_agenteval.benchmarks.memex.graders.pkm_routing import PkmRoutedCorrectly
from pytest_agenteval.records.evidence import FileText, Tree
from tests.benchmarks.memex.graders.sample_trials import SKIPPED, Files, grade_of, tree, trial

OLD: Files = {
    "Inbox.md": "- a line\n",
    "Areas/Home/Garden.md": "# Garden\n- beans in row 2\n- the hose leaks\n",
    "Areas/Home/Roof.md": "# Roof\n",
    "Projects/Shed.md": "# Shed\n",
}
GARDEN = PkmRoutedCorrectly(["Areas/Home/"], ["Areas/Home/Garden.md"])
SPLIT = PkmRoutedCorrectly(["Areas/Home/", "Projects/"], every_bucket=True)

paths = st.text(st.sampled_from("aAéß한/. "), max_size=12)


def after(**changed: str | bytes) -> Files:
    """Give the tree with one line more in some files; a double underscore is a slash."""
    named = {f"{path.replace('__', '/')}.md": text for path, text in changed.items()}
    return {**OLD, **{path: str(OLD.get(path, "")) + str(text) for path, text in named.items()}}


@pytest.mark.parametrize(
    ("files", "score", "why"),
    [
        (after(Areas__Home__Garden="- new"), 1.0, "changed as expected: Areas/Home/Garden.md"),
        (after(Areas__Home__Roof="- new"), 0.5, "found Areas/Home/Roof.md)"),
        (after(Areas__Home__Hose="- new"), 0.5, "found Areas/Home/Hose.md)"),
        (after(Inbox="- new"), 0.0, "found Inbox.md)"),
        (OLD, 0.0, "nothing new was written; expected Areas/Home/Garden.md"),
    ],
    ids=["file", "other-file", "new-file", "elsewhere", "nowhere"],
)
def test_half_credit_passes_and_full_credit_is_said(files: Files, score: float, why: str) -> None:
    """The right file scores 1, another file of the right bucket one half, which is enough."""
    grade = grade_of(GARDEN, trial(OLD, files))

    assert grade.score == score
    assert why in grade.rationale
    assert grade.passed is (score >= 0.5)
    assert grade.details["full"] is (score == 1.0)


@pytest.mark.parametrize(("mode", "score"), [("default", 1.0), ("upstream", 0.0)])
def test_names_compare_in_one_unicode_form(mode: Any, score: float) -> None:
    """A file that a Mac wrote is the file that the task means; Memex compares names as they are."""
    grader = PkmRoutedCorrectly(["Areas/집/"], ["Areas/집/정원.md"], mode=mode)
    written = normalize("NFD", "Areas/집/정원.md")

    assert grade_of(grader, trial(OLD, {**OLD, written: "- new"})).score == score


def test_a_bucket_alone_is_full_credit_where_no_file_is_expected() -> None:
    """Several buckets are alternatives: any of them is right."""
    grader = PkmRoutedCorrectly(["Areas/Home/", "Projects/"])

    assert grade_of(grader, trial(OLD, after(Projects__Barn="- new"))).score == 1.0
    assert grade_of(grader, trial(OLD, after(Areas__Work="- new"))).score == 0.0


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("# Garden\n- beans in row 2\n- the hose leaks\n- new", True),
        ("# Garden\n- beans in row 3\n- the hose leaks\n", True),
        ("# Garden\n- beans in row 2\n- the hose leaks\n- the hose leaks\n", True),
        ("# Garden\n\n-  beans in row 2 \r\n- the hose\nleaks", False),
        ("# Garden\n- beans in row2\n- the hose leaks\n", False),
        ("# Garden\n- the hose leaks\n- beans in row 2\n", False),
        ("# Garden\n- beans in row 2\n", False),
        ("# Garden\n- beans\n- the hose leaks\n", False),
        ("", False),
    ],
    ids=["added", "value", "twice", "spaces", "joined", "order", "line-gone", "words-gone", "emptied"],
)
def test_only_a_change_that_holds_something_new_counts(text: str, counts: bool) -> None:
    """White space, another order and what was taken out put no entry anywhere."""
    grade = grade_of(GARDEN, trial(OLD, {**OLD, "Areas/Home/Garden.md": text}))

    assert grade.score == float(counts)


def test_an_empty_file_a_link_and_a_removed_file_hold_nothing_new() -> None:
    """There is nothing in them that could be the entry; of a file that is no text, any change counts."""
    link = Tree({**tree(OLD).files, "PKM/Areas/Home/Garden.md": FileText("0" * 16, 5, None, "link")})
    roofless = {path: text for path, text in OLD.items() if path != "Areas/Home/Roof.md"}
    grader = PkmRoutedCorrectly(["Areas/Home/"])

    assert grade_of(grader, trial(OLD, {**OLD, "Areas/Home/New.md": " \n"})).score == 0.0
    assert grade_of(grader, trial(OLD, link)).score == 0.0
    assert grade_of(grader, trial(OLD, roofless)).score == 0.0
    assert grade_of(grader, trial(OLD, {**OLD, "Areas/Home/Plan.png": b"\xff\xd8"})).score == 1.0


def test_a_moved_file_has_landed_where_it_is_now() -> None:
    """What comes to the archive whole is filed there."""
    moved = {path: text for path, text in OLD.items() if path != "Projects/Shed.md"}
    moved["Archives/Shed.md"] = OLD["Projects/Shed.md"]

    assert grade_of(PkmRoutedCorrectly(["Archives/"]), trial(OLD, moved)).score == 1.0


@pytest.mark.parametrize(
    ("files", "score"),
    [
        (after(Areas__Home__Garden="- new", Projects__Barn="- new"), 1.0),
        (after(Areas__Home__Garden="- new"), 0.5),
        (after(Projects__Barn="- new"), 0.5),
        (after(Inbox="- new"), 0.0),
    ],
    ids=["both", "first", "second", "neither"],
)
def test_every_bucket_of_a_split_task_counts(files: Files, score: float) -> None:
    """One side of two is one half, which does not pass: the task was to split."""
    grade = grade_of(SPLIT, trial(OLD, files))

    assert (grade.score, grade.passed) == (score, score == 1.0)
    assert len(grade.checks) == 2


def test_a_bucket_of_a_split_task_may_have_a_file_of_its_own() -> None:
    """A pinned file is worth its bucket; another file of that bucket is worth half of it."""
    grader = PkmRoutedCorrectly(["Areas/Home/", "Projects/"], ["Areas/Home/Garden.md"], every_bucket=True)
    both = after(Areas__Home__Garden="- new", Projects__Barn="- new")
    other = after(Areas__Home__Roof="- new", Projects__Barn="- new")

    assert grade_of(grader, trial(OLD, both)).score == 1.0
    assert grade_of(grader, trial(OLD, other)).score == 0.75
    assert grade_of(grader, trial(OLD, after(Areas__Home__Garden="- new"))).score == 0.5


def test_what_changed_elsewhere_is_named_and_costs_nothing() -> None:
    """A cross reference in another bucket is no mistake, and shows."""
    grade = grade_of(GARDEN, trial(OLD, after(Areas__Home__Garden="- new", Inbox="- see garden")))

    assert grade.score == 1.0
    assert grade.details["elsewhere"] == ["Inbox.md"]
    assert grade.rationale == "changed as expected: Areas/Home/Garden.md; also changed: Inbox.md"


def test_where_nothing_else_may_change_one_file_elsewhere_halves_the_score() -> None:
    """With ``only``, half credit does not pass, and a check says what is wrong."""
    only = PkmRoutedCorrectly(["Areas/Home/"], only=True)
    noisy = grade_of(only, trial(OLD, after(Areas__Home__Garden="- new", Inbox="- new")))

    assert grade_of(only, trial(OLD, after(Areas__Home__Garden="- new", Areas__Home__Roof="- new"))).passed
    assert (noisy.score, noisy.passed) == (0.5, False)
    assert "no: nothing changed elsewhere (expected no file, found Inbox.md)" in noisy.rationale


@pytest.mark.parametrize("mode", ["default", "upstream"])
def test_a_skipped_entry_is_not_placed(mode: Any) -> None:
    """Whether skipping was right is for completion to say."""
    grade = PkmRoutedCorrectly(["Areas/"], mode=mode).grade(trial(OLD, state=SKIPPED))

    assert (grade.score, grade.checks) == (None, ())


def test_other_parts_of_the_workspace_are_no_place() -> None:
    """Only what lies in the knowledge base is looked at, and its name is taken off once."""
    grader = PkmRoutedCorrectly(["Areas/"])

    assert grade_of(grader, trial({}, tree({"Areas/A.md": "new"}, "Cards/"))).score == 0.0
    assert grade_of(grader, trial({}, tree({"Areas/A.md": "new"}, "PKM/PKM/"))).score == 0.0
    assert grade_of(grader, trial({}, tree({"Areas/A.md": "new"}))).score == 1.0


@pytest.mark.parametrize(
    ("path", "bucket", "lies"),
    [
        ("Areas/Health.md", "Areas/Health", True),
        ("Areas/Health", "Areas/Health", True),
        ("Areas/Health/Sleep.md", "Areas/Health", True),
        ("Areas/Healthcare.md", "Areas/Health", False),
        ("Areas/Healthcare/Sleep.md", "Areas/Health", False),
        ("Areas/Health.old.md", "Areas/Health", False),
        ("Areas/Health/Sleep.md", "Areas/Health/", True),
        ("Areas/Health.md", "Areas/Health/", False),
        ("Inbox.md", "Inbox", True),
        ("Inbox/a.md", "Inbox", True),
        ("Inboxes.md", "Inbox", False),
        ("Inbox.md", "Inbox/", False),
        ("Areas/家/庭.md", "areas//./家/", True),
        ("Areas/.Health", "Areas/", True),
        ("Areas/.md", "Areas", True),
        ("Areas/.md", "Areas/md", False),
    ],
)
def test_a_bucket_is_a_folder_or_a_file_by_its_whole_name(path: str, bucket: str, lies: bool) -> None:
    """Names are compared from slash to slash; a slash at the end means a folder."""
    assert lies_in(pkm_path(path), bucket) is lies


@given(paths)
def test_writing_a_path_anew_changes_nothing_more(path: str) -> None:
    """A path that was cleaned is clean, for routing as for reading; Memex's own way stops after one slash."""
    assert clean_path(clean_path(path)) == clean_path(path)
    assert pkm_path(pkm_path(path)) == pkm_path(path)
    assert not pkm_path(path).startswith(("/", "./"))
    assert "//" not in pkm_path(path)
    assert upstream_path("//a/b") == "/a/b"


@given(paths, st.sampled_from(["Areas/", "Areas", "a/", "A/b"]))
def test_what_lies_in_a_bucket_lies_there_however_it_is_written(path: str, bucket: str) -> None:
    """Slashes and dots that say nothing do not change where a path lies."""
    assert lies_in(pkm_path(f"/.//{path}"), bucket) == lies_in(pkm_path(path), f"/./{bucket}")


@settings(deadline=None)
@given(st.data())
def test_the_order_of_the_changes_does_not_matter(data: st.DataObject) -> None:
    """The same files, met in any order, give the same grade."""
    names = [
        "Areas/Home/A.md",
        "Areas/B.md",
        "Projects/C.md",
        "Inbox.md",
        "areas/Home/a.md",
        "Areas/Home/Garden.md",
    ]
    changed = data.draw(st.lists(st.sampled_from(names), unique=True))
    again = data.draw(st.permutations(changed))
    buckets = data.draw(
        st.lists(st.sampled_from(["Areas/", "Areas/Home/", "Projects/"]), min_size=1, unique=True)
    )
    every, only = data.draw(st.booleans()), data.draw(st.booleans())
    grader = PkmRoutedCorrectly(buckets, every_bucket=every, only=only)
    grades = [
        grade_of(grader, trial(Tree(), tree(dict.fromkeys(order, "new")))) for order in (changed, again)
    ]

    assert grades[0].score == grades[1].score
    assert 0 <= (grades[0].score or 0.0) <= 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PkmRoutedCorrectly([]), "expected_buckets must name at least one bucket"),
        (lambda: PkmRoutedCorrectly([], ["A.md"], every_bucket=True), "must name at least one bucket"),
        (lambda: PkmRoutedCorrectly(["/"]), "expected_buckets: the root is no place to aim at"),
        (lambda: PkmRoutedCorrectly(["A/"], [""]), "expected_files: the root is no place to aim at"),
        (lambda: PkmRoutedCorrectly("Areas/"), "expected_buckets must be a list of texts, not 'Areas/'"),
        (lambda: PkmRoutedCorrectly(["A/"], "A.md"), "expected_files must be a list of texts"),
        (lambda: PkmRoutedCorrectly(["A/"], only="yes"), "only must be true or false, not 'yes'"),  # type: ignore[arg-type]  # wrong on purpose
        (
            lambda: PkmRoutedCorrectly(["A/", "B/"], ["C/c.md"], every_bucket=True),
            "expected_files: 'C/c.md' lies in none of the expected buckets",
        ),
    ],
)
def test_settings_that_cannot_be_met_are_refused(make: Any, message: str) -> None:
    """A mistake in a task's config shows when the task is loaded."""
    with pytest.raises(ValueError) as caught:
        make()

    assert message in str(caught.value)


def test_a_file_alone_may_be_expected() -> None:
    """Without a bucket there is no half credit."""
    grader = PkmRoutedCorrectly([], ["Inbox.md"])

    assert grade_of(grader, trial(OLD, after(Inbox="- new"))).score == 1.0
    assert grade_of(grader, trial(OLD, after(Projects__Shed="- new"))).score == 0.0


def test_graders_are_values() -> None:
    """Equal settings make equal graders, and lists become tuples."""
    assert PkmRoutedCorrectly(["A/"], ["A/b.md"]) == PkmRoutedCorrectly(("A/",), ("A/b.md",))
    assert (GARDEN.threshold, SPLIT.threshold) == (0.5, 1.0)
