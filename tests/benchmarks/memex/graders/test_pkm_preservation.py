"""Is what was in the knowledge base still there? In default mode lines count, not the marker alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.graders.end_state import count_marker
from pytest_agenteval.benchmarks.memex.graders.pkm_preservation import (
    PkmNoOverwrite,
    count_lines,
    line_survival,
)
from pytest_agenteval.records.evidence import FileText, Tree
from tests.benchmarks.memex.graders.sample_trials import Files, grade_of, tree, trial

MARK = "2026/05/19.md#ts_1"
LINES = [
    "# Garden",
    "",
    f"<!-- fact_id: {MARK} -->",
    "What grows where, newest at the bottom.",
    "",
    "- 2026-05-02: beans in row 2, sown at 12 degrees",
    "- 2026-05-11: the hose leaks at the tap",
    "- 2026-05-19: tomatoes moved outside, 14 plants",
]
GARDEN = "\n".join(LINES) + "\n"
OLD: Files = {
    "Areas/Garden.md": GARDEN,
    "Inbox.md": "- call the plumber\n- buy twine\n",
    "PLAN.png": b"\xff\xd8",
}
MARKED, ALL = PkmNoOverwrite(MARK), PkmNoOverwrite()

line = st.text(st.sampled_from("abcé한 -\t"), max_size=6)
texts = st.lists(line, max_size=8).map("\n".join)
trees = st.dictionaries(st.sampled_from(["A.md", "B.md", "C/D.md"]), texts, min_size=1, max_size=3)


def with_garden(text: str, **more: str) -> Files:
    """Give the tree with another text in the garden's file."""
    return {**OLD, "Areas/Garden.md": text, **more}


def said_something(files: Files) -> bool:
    """Whether any file held more than white space."""
    return any(text.strip() for text in files.values())


@pytest.mark.parametrize("grader", [MARKED, ALL], ids=["marked", "all"])
@pytest.mark.parametrize(
    "after",
    [
        OLD,
        with_garden(GARDEN + "- 2026-09-17: beans are done\n"),
        with_garden("\n".join([*LINES[:5], "- 2026-09-17: beans are done", *LINES[5:]])),
        with_garden(GARDEN.replace("\n", "  \r\n\n")),
        {**{path: text for path, text in OLD.items() if path != "Areas/Garden.md"}, "Archives/G.md": GARDEN},
        {"Inbox.md": GARDEN + "- buy twine\n- call the plumber\n", "PLAN.png": b"\xff\xd8"},
        {**{path: text for path, text in OLD.items() if path != "PLAN.png"}, "Resources/p.png": b"\xff\xd8"},
    ],
    ids=["as-it-was", "appended", "inserted", "white-space", "moved", "merged", "picture-moved"],
)
def test_nothing_is_lost_where_every_line_is_somewhere(grader: PkmNoOverwrite, after: Files) -> None:
    """Adding, moving and merging keep everything: the score is 1."""
    assert grade_of(grader, trial(OLD, after)).score == 1.0


@pytest.mark.parametrize("grader", [MARKED, ALL], ids=["marked", "all"])
@pytest.mark.parametrize(
    ("text", "score"),
    [
        (f"<!-- fact_id: {MARK} -->\n- beans are done\n", 1 / 6),
        (f"# Garden\n<!-- fact_id: {MARK} -->\n- beans are done\n", 2 / 6),
        ("\n".join([*LINES[:4], "- beans are done"]), 3 / 6),
    ],
    ids=["marker", "heading-and-marker", "head"],
)
def test_a_marker_that_was_kept_saves_nobody(grader: PkmNoOverwrite, text: str, score: float) -> None:
    """Whoever writes something new around the marker has lost the rest: the score says how much."""
    grade = grade_of(grader, trial(OLD, with_garden(text)))

    assert grade.score == pytest.approx(score)
    assert grade.passed is False
    assert grade.details["file"] == "Areas/Garden.md"
    assert "the hose leaks" in str(grade.details["lost"])


@pytest.mark.parametrize(
    ("old", "new", "score"),
    [
        ("14 plants", "12 plants", 5.5 / 6),
        ("at the tap", "at the tap; mended with tape", 5.5 / 6),
        ("at the bottom", "at the top", 5.5 / 6),
        ("What grows where, newest at the bottom.", "Newest at the bottom: what grows.", 5.5 / 6),
    ],
    ids=["value", "extended", "word", "reordered"],
)
def test_an_honest_correction_passes(old: str, new: str, score: float) -> None:
    """A line that is edited in place counts half: one of six passes."""
    grade = grade_of(MARKED, trial(OLD, with_garden(GARDEN.replace(old, new))))

    assert grade.score == pytest.approx(score)
    assert grade.passed is True
    assert grade.details["edited"] == 1


@pytest.mark.parametrize("many", [6, 60])
def test_a_line_that_is_gone_without_a_trace_is_seen_in_a_file_of_any_length(many: int) -> None:
    """One of six or of sixty: the score is 0.75 at most, which does not pass; a rule is no loss."""
    was = "".join(f"- on day {day} we sowed {day * 7} seeds\n" for day in range(many)) + "---\n"
    gone, ruleless = was.replace("- on day 3 we sowed 21 seeds\n", ""), was.replace("---\n", "")

    grade = grade_of(ALL, trial({"Garden.md": was}, {"Garden.md": gone + "- frost came\n"}))
    assert (grade.score, grade.passed) == (0.75, False)
    assert grade_of(ALL, trial({"Garden.md": was}, {"Garden.md": ruleless})).passed


def test_what_took_a_lines_place_and_shares_half_of_its_words_is_the_line_edited() -> None:
    """A status that changes and a title without its last word are honest corrections."""
    was = "# Estonian paused\n\nstatus: paused\n- Tuesdays\n- unit 9\n- the teacher laughs\n- cards\n"
    now = was.replace("# Estonian paused", "# Estonian").replace("status: paused", "status: ended")

    grade = grade_of(ALL, trial({"P.md": was}, {"P.md": now}))
    assert (grade.details["edited"], grade.passed) == (2, True)


def test_a_script_without_spaces_is_edited_too() -> None:
    """In Chinese and Japanese, letters are compared where words cannot be told apart."""
    was = "# 睡眠\n- 昨晚十一点半睡，早上七点醒\n- 咖啡只在中午以前喝\n"
    now = was.replace("十一点半", "十二点")

    assert grade_of(ALL, trial({"健康.md": was}, {"健康.md": now})).details["edited"] == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- beans in row 2\n- beans in row 3\n", "- beans in row 3\n"),
        ("- beans\n---\n", "- beans\n- peas\n"),
    ],
    ids=["a-neighbour", "no-words"],
)
def test_only_a_new_line_can_be_an_edited_one(before: str, after: str) -> None:
    """A line that was like the lost one all along does not stand for it; one without words has no form."""
    grade = grade_of(ALL, trial({"A.md": before}, {"A.md": after}))

    assert (grade.score, grade.details["edited"]) == (0.5, 0)


def test_a_file_that_was_wholly_rewritten_line_by_line_misses() -> None:
    """Half for each edited line is the most that a rewriting can have."""
    grade = grade_of(MARKED, trial(OLD, with_garden(GARDEN.replace("2026-05", "2026/05").replace("a", "aa"))))

    assert grade.score is not None
    assert grade.score <= 0.5


@pytest.mark.parametrize("grader", [MARKED, ALL], ids=["marked", "all"])
def test_the_worst_file_counts(grader: PkmNoOverwrite) -> None:
    """Files left alone do not make good one that was destroyed, be it the marker's or its neighbour."""
    after = {**OLD, **{f"{n}.md": "- a line of its own" for n in range(9)}, "Inbox.md": "- new\n"}
    grade = grade_of(grader, trial(OLD, after))

    assert (grade.score, grade.passed, grade.details["file"]) == (0.0, False, "Inbox.md")
    assert (
        "no: Inbox.md keeps its lines (expected 2 lines, found 0 kept, 0 edited, 2 lost)" in grade.rationale
    )


def test_a_marker_that_is_gone_halves_the_score() -> None:
    """The lines may all be there: without its marker the entry is not what it was."""
    grade = grade_of(MARKED, trial(OLD, with_garden(GARDEN.replace(MARK, "2026/05/19.md#ts_12"))))

    assert grade.score == pytest.approx(5.5 / 6 / 2)
    assert grade.passed is False
    assert "no: the marker is still there" in grade.rationale


def test_a_file_that_is_no_text_is_kept_whole_or_not_at_all() -> None:
    """Pictures are compared by their digest."""
    changed = grade_of(ALL, trial(OLD, {**OLD, "PLAN.png": b"\xff\xd9"}))
    removed = grade_of(ALL, trial(OLD, {path: text for path, text in OLD.items() if path != "PLAN.png"}))

    assert (changed.score, removed.score) == (0.0, 0.0)
    assert changed.details["file"] == "PLAN.png"


def test_a_file_too_large_to_be_seen_is_left_out() -> None:
    """What cannot be compared is neither kept nor lost, before or after."""
    large = Tree({"PKM/A.md": FileText("1" * 16, 300_000, None, "too large")})
    larger = Tree({"PKM/A.md": FileText("2" * 16, 300_001, None, "too large")})

    assert grade_of(ALL, trial(large, larger)).rationale == "no file that was there can be compared"
    assert grade_of(ALL, trial({"A.md": "- one"}, large)).score is None
    assert grade_of(ALL, trial(large, large)).score == 1.0


@pytest.mark.parametrize(
    ("grader", "before", "why"),
    [
        (ALL, {}, "the knowledge base was empty: there was nothing to keep"),
        (MARKED, {".keep": ""}, "the knowledge base was empty: there was nothing to keep"),
        (ALL, {"A.md": " \n"}, "no file that was there can be compared"),
        (
            MARKED,
            {"A.md": "- one"},
            f"no file held '{MARK}' before the trial: correct seed_marker, or the fixture",
        ),
        (
            MARKED,
            {"A.md": f"{MARK}2"},
            f"no file held '{MARK}' before the trial: correct seed_marker, or the fixture",
        ),
    ],
    ids=["nothing", "keep", "blank", "unmarked", "longer-id"],
)
def test_where_there_was_nothing_to_keep_it_is_undecided(grader: Any, before: Files, why: str) -> None:
    """An empty tree cannot be overwritten, and a marker that was never there cannot be lost."""
    grade = grader.grade(trial(before, {**before, "New.md": "- new"}))

    assert (grade.score, grade.rationale) == (None, why)


def test_files_outside_the_knowledge_base_are_not_its_own() -> None:
    """Neither are they kept, nor does a line there save one that is gone."""
    card = tree({"a.yaml": "- one"}, "Cards/").files

    assert grade_of(ALL, trial(Tree(card), Tree())).score is None
    assert grade_of(ALL, trial(Tree({**card, **tree({"A.md": "- one"}).files}), Tree(card))).score == 0.0


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

    for end in (before, after):
        assert grade_of(ALL, trial(before, end)).score == (1.0 if said_something(before) else None)


@given(trees, trees)
@settings(deadline=None)
def test_a_share_is_a_share(before: Files, after: Files) -> None:
    """Never below 0, never above 1, and every line is kept, edited or lost."""
    score = grade_of(ALL, trial(before, after)).score
    assert score is None or 0 <= score <= 1
    there = count_lines(str(text) for text in after.values())
    for text in map(str, before.values()):
        survival = line_survival(text, there, there)
        assert survival.lines == survival.kept + survival.edited + len(survival.lost)
        assert 0 <= survival.share <= 1


@given(trees.filter(said_something), trees)
@settings(deadline=None)
def test_who_lost_every_line_never_passes(before: Files, after: Files) -> None:
    """However alike the new lines look: with no original line left, the score stays under the threshold."""
    gone = count_lines(str(text) for text in before.values())
    left = {
        path: "\n".join(line for line in str(text).splitlines() if line.rstrip() not in gone)
        for path, text in after.items()
    }
    grade = grade_of(ALL, trial(before, left))

    assert grade.score is not None
    assert grade.score <= 0.5
    assert grade.passed is False


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


@pytest.mark.parametrize("marker", ["", " \n", 5])
def test_a_marker_that_is_none_is_refused(marker: Any) -> None:
    """A mistake in a task's config shows when the task is loaded."""
    with pytest.raises(ValueError, match="seed_marker"):
        PkmNoOverwrite(marker)


def test_the_threshold_depends_on_the_mode() -> None:
    """Memex asks for one marker and wants all of it; lines may be corrected."""
    assert (PkmNoOverwrite("a", mode="upstream").threshold, MARKED.threshold) == (1.0, 0.8)
