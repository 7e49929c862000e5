"""The PKM graders: trial by trial by default (cases.yaml), bit for bit against Memex's in mode upstream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.graders.end_state import (
    clean_path,
    count_marker,
    lies_in,
    pkm_path,
    upstream_path,
)
from pytest_agenteval.benchmarks.memex.graders.pkm_completion import PkmCompletion, PkmFactsFiled
from pytest_agenteval.benchmarks.memex.graders.pkm_preservation import (
    PkmNoOverwrite,
    count_lines,
    line_survival,
)
from pytest_agenteval.benchmarks.memex.graders.pkm_routing import PkmReadBeforeWrite, PkmRoutedCorrectly
from pytest_agenteval.records.evidence import FileText, Tree
from pytest_agenteval.records.transcript import Message
from tests.benchmarks.memex.graders.sample_trials import (
    FACT,
    FILED,
    NOTHING_DONE,
    SKIPPED,
    Files,
    call,
    file,
    grade_of,
    insight,
    seeded_message,
    tree,
    trial,
)
from tests.yaml_files import read_yaml

GRADERS: Mapping[str, Any] = {
    "pkm_completion": PkmCompletion,
    "pkm_facts_filed": PkmFactsFiled,
    "pkm_routed_correctly": PkmRoutedCorrectly,
    "pkm_read_before_write": PkmReadBeforeWrite,
    "pkm_no_overwrite": PkmNoOverwrite,
}
STATES: Mapping[str, Any] = {"filed": FILED, "skipped": SKIPPED, "nothing": NOTHING_DONE, "bare": {}}
GROUPS = read_yaml(Path(__file__).with_name("cases.yaml"))
CASES = [{**group, **case} for group in GROUPS for case in group["cases"]]
ORACLE = read_yaml(Path(__file__).parents[3] / "oracle/memex_pkm.yaml")
PATH = "/Areas/Home/Garden.md"


def workspace(files: Mapping[str, Any]) -> Tree:
    """Give a tree of these files, below ``PKM`` unless their path starts with a slash."""
    placed = {path[1:] if path.startswith("/") else f"PKM/{path}": text for path, text in files.items()}
    return Tree({path: file(text) for path, text in placed.items() if text is not None})


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['grader']}: {case['rule']}")
def test_a_trial_is_graded_as_its_case_says(case: Mapping[str, Any]) -> None:
    """Score, verdict, reason and details are those of the table."""
    grader = GRADERS[case["grader"]](**case.get("config", {}))
    before = {**case.get("before", {}), **case.get("more", {})}
    state = case.get("state", "filed")
    made = (insight() if each == "insight" else each for each in case.get("calls", ()))
    calls = [
        call(each[0].rstrip("!"), each[1], failed=each[0].endswith("!"), **each[2])
        if isinstance(each, list)
        else each
        for each in made
    ]
    evidence = trial(
        workspace(before),
        workspace({**before, **case.get("after", {})}),
        state=STATES[state] if isinstance(state, str) else {**FILED, **state},
        calls=calls,
    )
    evidence = replace(
        evidence, task_input={"fact_id": case.get("fact", FACT), "content": case.get("entry", "x")}
    )

    grade = grade_of(grader, evidence)

    if "score" in case:
        score = case["score"]
        assert grade.score == (None if score is None else pytest.approx(score)), grade.rationale
    assert grade.passed == case.get("passed", grade.passed), grade.rationale
    assert len(grade.checks) == case.get("checks", len(grade.checks))
    assert [part for part in case.get("why", ()) if part not in grade.rationale] == [], grade.rationale
    assert {key: grade.details[key] for key in case.get("details", {})} == case.get("details", {})


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: case["id"])
def test_upstream_mode_scores_as_memex_does(case: Mapping[str, Any]) -> None:
    """Score, verdict and every check are those of the original, in its order; where it throws, undecided."""
    changes = case.get("diff") or {}
    created, modified, deleted = (changes.get(kind, []) for kind in ("created", "modified", "deleted"))
    calls = [
        call(made["t"], turn, failed=made.get("err", False), **made["a"])
        for turn, made in enumerate(case.get("calls", []), 1)
    ]
    evidence = trial(
        tree(dict.fromkeys([*modified, *deleted], "as it was")),
        tree(dict.fromkeys([*created, *modified], "as it is")),
        state=case.get("state", {}),
        calls=calls,
    )
    grade = grade_of(GRADERS[case["grader"]](**case.get("config", {}), mode="upstream"), evidence)
    expect = case["expect"]
    if expect.get("raises"):
        assert (grade.score, grade.undecided) == (None, "unreadable")
        return
    assert grade.score == pytest.approx(expect["value"], abs=ORACLE["float_tolerance"])
    assert grade.passed == expect["passed"]
    assert [check.passed for check in grade.checks] == expect["assertions"]
    if expect.get("rationale_branch") == "no_changes":
        assert "nothing new was written" in grade.rationale
    assert grade.rationale


def test_every_grader_has_cases() -> None:
    """No grader may fall out of the files."""
    assert {case["grader"] for case in CASES} == set(GRADERS)
    assert {case["grader"] for case in ORACLE["cases"]} == set(GRADERS) - {"pkm_facts_filed"}


def test_upstream_mode_in_what_the_oracle_leaves_open() -> None:
    """A file vouches for its bucket, which is how a path begins; calls count in their order."""
    grade = grade_of(
        PkmRoutedCorrectly(["Areas/"], ["Inbox.md"], mode="upstream"), trial({}, {"Inbox.md": "n"})
    )
    assert (grade.score, [check.passed for check in grade.checks]) == (1.0, [True, True])
    named = PkmRoutedCorrectly(["Areas/Health"], mode="upstream")
    assert grade_of(named, trial({}, {"Areas/Healthcare.md": "n"})).score == 1.0
    read, edit = call("Read", 1, file_path="A.md"), call("Edit", 1, file_path="A.md")
    reading = PkmReadBeforeWrite("A.md", mode="upstream")
    for calls, finding in (
        ([read, edit], "a read first"),
        ([edit, read], "a write before it"),
        ([edit], "no read"),
    ):
        (check,) = grade_of(reading, trial({"A.md": "a"}, calls=calls)).checks
        assert (check.passed, check.found) == (finding == "a read first", finding)
    kept = PkmNoOverwrite("seed_garden_01", mode="upstream")
    assert grade_of(kept, trial({}, {"B.md": "x seed_garden_01"}, state={})).score == 1.0
    assert grade_of(kept, trial({}, tree({"1.md": "seed_garden_01"}, "Facts/"), state={})).score == 0.0
    unreadable = grade_of(PkmCompletion(mode="upstream"), trial(state={"missing_requirements": "x"}))
    assert unreadable.undecided == "unreadable"
    assert PkmRoutedCorrectly(["Areas/"], mode="upstream").grade(trial(state=SKIPPED)).score is None


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("pkm_read_before_write", {"mode": "upstream"}, "required_read_path: mode upstream asks for one"),
    *(
        (
            "pkm_read_before_write",
            {"required_read_path": path},
            "required_read_path must be the path of a file",
        )
        for path in ("", "/", 5)
    ),
    ("pkm_no_overwrite", {"mode": "upstream"}, "seed_marker: mode upstream asks for one"),
    *(("pkm_no_overwrite", {"seed_marker": marker}, "seed_marker") for marker in ("", " \n", 5)),
    ("pkm_completion", {"expected_path": "skip", "mode": "upstream"}, "mode upstream takes either ending"),
    (
        "pkm_completion",
        {"expected_path": "file"},
        "expected_path must be persist, skip or either, not 'file'",
    ),
    ("pkm_completion", {"mode": "strict"}, "mode must be default or upstream, not 'strict'"),
    ("pkm_facts_filed", {"facts": ["a", " "]}, "facts: every text contains a blank text"),
    ("pkm_facts_filed", {"facts": [[]]}, "facts: every text contains a blank text"),
    ("pkm_facts_filed", {"facts": "abc"}, "facts must be a list of texts"),
    ("pkm_facts_filed", {"facts": ["a"], "days": ["soon"]}, "days must be dates, not 'soon'"),
]
ROUTING_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"expected_buckets": []}, "expected_buckets must name at least one bucket"),
    ({"expected_buckets": [], "expected_files": ["A.md"], "every_bucket": True}, "at least one bucket"),
    ({"expected_buckets": ["/"]}, "expected_buckets: the root is no place to aim at"),
    ({"expected_buckets": ["A/"], "expected_files": [""]}, "expected_files: the root is no place to aim at"),
    ({"expected_buckets": "Areas/"}, "expected_buckets must be a list of texts, not 'Areas/'"),
    ({"expected_buckets": ["A/"], "expected_files": "A.md"}, "expected_files must be a list of texts"),
    ({"expected_buckets": ["A/"], "only": "yes"}, "only must be true or false, not 'yes'"),
    ({"expected_buckets": ["A/"], "every_bucket": True, "mode": "upstream"}, "every_bucket: there is no"),
    ({"expected_buckets": ["A/"], "only": True, "mode": "upstream"}, "only: there is no such thing"),
    (
        {"expected_buckets": ["A/", "B/"], "expected_files": ["C/c"], "every_bucket": True},
        "'C/c' lies in none",
    ),
]


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [*REFUSED, *(("pkm_routed_correctly", config, message) for config, message in ROUTING_REFUSED)],
)
def test_settings_that_cannot_be_meant_are_refused(name: str, config: dict[str, Any], message: str) -> None:
    """A mistake in a task's config shows when the task is loaded; upstream takes Memex's settings only."""
    with pytest.raises(ValueError) as caught:
        GRADERS[name](**config)
    assert message in str(caught.value)


def test_graders_are_values() -> None:
    """Equal settings make equal graders, and lists become tuples; thresholds depend on what is asked for."""
    assert PkmRoutedCorrectly(["A/"], ["A/b.md"]) == PkmRoutedCorrectly(("A/",), ("A/b.md",))
    assert [PkmRoutedCorrectly(["A/"], **more).threshold for more in ({}, {"only": True})] == [0.5, 1.0]
    assert PkmRoutedCorrectly(["A/"], every_bucket=True).threshold == 1.0
    assert [PkmNoOverwrite("a", mode=mode).threshold for mode in ("default", "upstream")] == [0.8, 1.0]
    versions = {name: grader.version for name, grader in GRADERS.items()}
    two = ("pkm_facts_filed", "pkm_routed_correctly")
    assert versions == {name: "2" if name in two else "3" for name in GRADERS}


@pytest.mark.parametrize(("mode", "score"), [("default", 1.0), ("upstream", 0.0)])
def test_names_compare_in_one_unicode_form(mode: Any, score: float) -> None:
    """A file that a Mac wrote is the file that the task means; Memex compares names as they are."""
    grader = PkmRoutedCorrectly(["Areas/집/"], ["Areas/집/정원.md"], mode=mode)
    assert grade_of(grader, trial({}, {normalize("NFD", "Areas/집/정원.md"): "- new"})).score == score


def test_a_link_holds_nothing_new_and_what_is_too_large_is_left_out() -> None:
    """A link could not be the entry; what cannot be compared is neither kept nor lost, before or after."""
    link = Tree({"PKM/Areas/A.md": FileText("0" * 16, 5, None, "link")})
    assert grade_of(PkmRoutedCorrectly(["Areas/"]), trial({}, link)).score == 0.0
    large, larger = (Tree({"PKM/A.md": FileText(each * 16, 300_000, None, "too large")}) for each in "12")
    kept = PkmNoOverwrite()
    assert grade_of(kept, trial(large, larger)).rationale == "no file that was there can be compared"
    assert [grade_of(kept, trial(was, large)).score for was in ({"A.md": "- one"}, large)] == [None, 1.0]


def test_a_read_in_the_conversation_that_the_task_began_with_counts() -> None:
    """A change there changed nothing here; what the agent asked for is no read by itself."""
    edit = call("Edit", 1, file_path=PATH)
    given_message = seeded_message(call("Read", 0, file_path=PATH), call("Edit", 0, file_path="/Roof.md"))
    request = Message("assistant", "", (call("Read", 1, file_path=PATH),), 1)
    for message, calls, expected in [
        (given_message, [edit], 1.0),
        (request, [call("Read", 1, failed=True, file_path=PATH), call("Edit", 2, file_path=PATH)], 0.0),
    ]:
        old = {"Areas/Home/Garden.md": "b", "Roof.md": "c"}
        grade = grade_of(PkmReadBeforeWrite(), trial(old, calls=calls, messages=[message]))
        assert (grade.score, len(grade.checks)) == (expected, 1)


steps = st.lists(st.tuples(st.sampled_from(["Read", "Edit"]), st.sampled_from(["A.md", "B.md", "C/D.md"])))


@given(steps)
def test_who_reads_everything_first_is_never_to_blame(steps: list[tuple[str, str]]) -> None:
    """After a turn in which every file was read, no order of reads and edits costs anything."""
    calls = [call(tool, turn, file_path=path) for turn, (tool, path) in enumerate(steps, 2)]
    old = dict.fromkeys(["A.md", "B.md", "C/D.md"], "a")
    everything = call("BatchRead", 1, file_patterns=["**"])
    edits = any(tool == "Edit" for tool, _ in steps)
    assert grade_of(PkmReadBeforeWrite(), trial(old, calls=[everything, *calls])).score == (
        1.0 if edits else None
    )


@pytest.mark.parametrize(
    ("path", "bucket", "lies"),
    [
        *(("Areas/Health.md", "Areas/Health", True), ("Areas/Health", "Areas/Health", True)),
        *(("Areas/Health/Sleep.md", "Areas/Health", True), ("Areas/Healthcare.md", "Areas/Health", False)),
        *(
            ("Areas/Healthcare/Sleep.md", "Areas/Health", False),
            ("Areas/Health.old.md", "Areas/Health", False),
        ),
        *(("Areas/Health/Sleep.md", "Areas/Health/", True), ("Areas/Health.md", "Areas/Health/", False)),
        *(("Inbox.md", "Inbox", True), ("Inbox/a.md", "Inbox", True), ("Inboxes.md", "Inbox", False)),
        *(("Inbox.md", "Inbox/", False), ("Areas/家/庭.md", "areas//./家/", True)),
        *(("Areas/.Health", "Areas/", True), ("Areas/.md", "Areas", True), ("Areas/.md", "Areas/md", False)),
    ],
)
def test_a_bucket_is_a_folder_or_a_file_by_its_whole_name(path: str, bucket: str, lies: bool) -> None:
    """Names are compared from slash to slash; a slash at the end means a folder."""
    assert lies_in(pkm_path(path), bucket) is lies


@given(st.text(st.sampled_from("aAéß한/. "), max_size=12), st.sampled_from(["Areas/", "Areas", "a/", "A/b"]))
def test_a_path_is_the_same_however_it_is_written(path: str, bucket: str) -> None:
    """A path that was cleaned is clean; slashes and dots that say nothing do not change where it lies."""
    assert clean_path(clean_path(path)) == clean_path(path)
    assert pkm_path(pkm_path(path)) == pkm_path(path)
    assert not pkm_path(path).startswith(("/", "./"))
    assert "//" not in pkm_path(path)
    assert lies_in(pkm_path(f"/.//{path}"), bucket) == lies_in(pkm_path(path), f"/./{bucket}")
    assert upstream_path("//a/b") == "/a/b"


@settings(deadline=None)
@given(st.data())
def test_the_order_of_the_changes_does_not_matter(data: st.DataObject) -> None:
    """The same files, met in any order, give the same grade."""
    names = ["Areas/Home/A.md", "Areas/B.md", "Projects/C.md", "Inbox.md", "areas/Home/a.md"]
    changed = data.draw(st.lists(st.sampled_from(names), unique=True))
    buckets = st.lists(st.sampled_from(["Areas/", "Areas/Home/", "Projects/"]), min_size=1, unique=True)
    every, only = data.draw(st.booleans()), data.draw(st.booleans())
    grader = PkmRoutedCorrectly(data.draw(buckets), every_bucket=every, only=only)
    orders = (changed, data.draw(st.permutations(changed)))
    scores = {grade_of(grader, trial(Tree(), tree(dict.fromkeys(order, "new")))).score for order in orders}
    assert len(scores) == 1
    assert all(score is not None and 0 <= score <= 1 for score in scores)


line = st.text(st.sampled_from("abcé한 -\t"), max_size=6)
texts = st.lists(line, max_size=8).map("\n".join)
trees = st.dictionaries(st.sampled_from(["A.md", "B.md", "C/D.md"]), texts, min_size=1, max_size=3)


@given(trees, st.data())
@settings(deadline=None)
def test_adding_and_moving_lose_nothing(before: Files, data: st.DataObject) -> None:
    """Whatever is put between the lines, above, below or beside them, and wherever files go: 1."""
    after: dict[str, str] = {"Z.md": data.draw(texts)}
    for path, text in before.items():
        lines = str(text).splitlines()
        for extra in data.draw(st.lists(line, max_size=3)):
            lines.insert(data.draw(st.integers(0, len(lines))), extra)
        after[data.draw(st.sampled_from([path, f"Archives/{path}"]))] = "\n".join(lines)
    has_text = any(text.strip() for text in before.values())
    for end in (before, after):
        assert grade_of(PkmNoOverwrite(), trial(before, end)).score == (1.0 if has_text else None)


@given(trees, trees)
@settings(deadline=None)
def test_every_line_is_kept_edited_or_lost(before: Files, after: Files) -> None:
    """The score is a share; with no original line left it stays under the threshold."""
    score = grade_of(PkmNoOverwrite(), trial(before, after)).score
    assert score is None or 0 <= score <= 1
    there = count_lines(str(text) for text in after.values())
    for text in map(str, before.values()):
        survival = line_survival(text, there, there)
        assert survival.lines == survival.kept + survival.edited + len(survival.lost)
        assert 0 <= survival.share <= 1
    gone = count_lines(str(text) for text in before.values())
    left = {
        path: "\n".join(line for line in str(text).splitlines() if line.rstrip() not in gone)
        for path, text in after.items()
    }
    grade = grade_of(PkmNoOverwrite(), trial(before, left))
    assert grade.score is None or (grade.score <= 0.5 and grade.passed is False)


@pytest.mark.parametrize(
    ("mark", "text", "count"),
    [
        ("기록", "기록1 a기록 _기록_", 3),
        ("기록", "기록과 새기록", 2),
        ("ts_1", "새ts_1과 ts_12 a_ts_1 ts_1", 2),
        ("기록_1", "새기록_1 기록_12 a기록_1", 2),
        ("é1", "aé1 é12 é1é", 2),
    ],
)
def test_marks_end_where_a_latin_word_would(mark: str, text: str, count: int) -> None:
    """Only a side that is a Latin letter, a digit or _ asks for an end there: Hangul joins to anything."""
    assert count_marker(mark, text) == count
