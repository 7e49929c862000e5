"""Graders of files: which are there, what they say, which are as they were, and the values that they hold."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.workspace_files import (
    FileContains,
    FileExists,
    FileMatches,
    FileUnchanged,
    FileValue,
    FrontMatter,
)
from pytest_agenteval.records.evidence import FileText
from pytest_agenteval.text.json_values import ABSENT, PathError, format_path, parse_path, value_at
from tests.graders.sample_evidence import BINARY, LARGE, LINK, Content, files_evidence

NOTES = {"notes/a.md": "# Boat\nbuy  a SAIL\n", "notes/deep/b.md": "# Car\nsell\n", "top.md": "x"}


@pytest.mark.parametrize(
    ("paths", "absent", "score"),
    [
        (["notes/a.md"], [], 1.0),
        (["notes/a.md", "notes/c.md"], [], 0.5),
        (["notes/*.md"], [], 1.0),
        (["notes/**/b.md", "*.txt"], ["old/**"], 2 / 3),
        ([], ["notes/**"], 0.0),
        ([], ["old.md"], 1.0),
        (["notes"], [], 0.0),
    ],
)
def test_files_are_looked_for_by_path_and_glob(paths: list[str], absent: list[str], score: float) -> None:
    """The score is the share of what should and should not be there; a folder is no file."""
    assert FileExists(paths, absent).grade(files_evidence(NOTES)).score == pytest.approx(score)


@pytest.mark.parametrize("file", [BINARY, LARGE, LINK, ""])
def test_every_file_exists_whatever_it_holds(file: Content) -> None:
    """A file that is no text is there all the same."""
    assert FileExists(["f"]).grade(files_evidence({"f": file})).score == 1.0


def test_a_missing_file_is_named() -> None:
    """The reason says what was looked for, and what was found instead."""
    grade = FileExists(["a.md"], ["n*.md"]).grade(files_evidence({"new.md": ""}))

    assert grade.rationale == (
        "not met: there is a file a.md (found no such file); "
        "not met: there is no file n*.md (expected no such file, found new.md)"
    )


@pytest.mark.parametrize(
    ("settings", "score"),
    [
        ({"texts": ["Boat", "buy"]}, 1.0),
        ({"texts": ["Boat", "boat"]}, 0.5),
        ({"texts": ["ｂｏａｔ", "buy a sail"], "fold": True}, 1.0),
        ({"texts": ["plane", "Boat"], "any": True}, 1.0),
        ({"texts": ["plane", "ship"], "any": True}, 0.0),
    ],
)
def test_a_file_contains_texts(settings: dict[str, Any], score: float) -> None:
    """Each text counts alike; folding takes away case, width and spaces; with any, one is enough."""
    assert FileContains("notes/a.md", **settings).grade(files_evidence(NOTES)).score == score


@pytest.mark.parametrize(
    ("patterns", "any_will_do", "score"),
    [
        ([r"^buy\s+a"], False, 1.0),
        (["^# Boat$", "^sell$"], False, 0.5),
        (["^# Boat$", "^sell$"], True, 1.0),
        ([r"(?i)SAIL\Z"], False, 0.0),
    ],
)
def test_a_file_matches_patterns_by_line(patterns: list[str], any_will_do: bool, score: float) -> None:
    """A pattern is searched for anywhere, and its ends are those of lines."""
    assert FileMatches("notes/a.md", patterns, any_will_do).grade(files_evidence(NOTES)).score == score


def test_of_several_files_the_best_one_counts() -> None:
    """A glob asks for one file that has it all: halves in two files do not add up."""
    split = FileContains("notes/**", ["Boat", "sell"]).grade(files_evidence(NOTES))
    whole = FileContains("**", ["Car", "sell"]).grade(files_evidence(NOTES))

    assert split.score == 0.5
    assert split.checks[0].claim == "notes/a.md contains 'Boat'"
    assert whole.score == 1.0
    assert FileMatches("**", ["Boat", "SAIL"]).grade(files_evidence(NOTES)).score == 1.0


def test_a_path_that_is_there_is_not_read_as_a_glob() -> None:
    """Brackets are part of many names."""
    files = {"[a].md": "boat", "a.md": "car"}

    assert FileContains("[a].md", ["boat"]).grade(files_evidence(files)).score == 1.0


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, "no such file"),
        ({"f": BINARY}, "a binary file (4 bytes)"),
        ({"f": LARGE}, "a file too large to look at (300000 bytes)"),
        ({"f": LINK}, "a link (8 bytes)"),
    ],
)
def test_what_has_no_text_contains_nothing(files: dict[str, Content], found: str) -> None:
    """It scores 0, and the check says what is there in place of a text; an empty pattern changes nothing."""
    for grader in (
        FileContains("f", ["a"]),
        FileMatches("f", ["(?:)"]),
        FileMatches("f", ["a*", "b*"], True),
    ):
        grade = grader.grade(files_evidence(files))

        assert grade.score == 0.0
        assert {check.found for check in grade.checks} == {found}


def test_unchanged_is_the_share_of_what_was_there() -> None:
    """Changed, gone and replaced by a link are changes; files that came are not looked at."""
    before: dict[str, Content] = {"a.md": "a", "b.md": "b", "c.md": "c", "d.md": "d", "other.txt": "o"}
    after: dict[str, Content] = {"a.md": "a", "b.md": "B", "d.md": LINK, "new.md": "n"}

    grade = FileUnchanged(["*.md"]).grade(files_evidence(after, before))

    assert grade.score == 0.25
    assert [check.found for check in grade.checks] == [
        "the same content",
        "other content (1 bytes before, 1 after)",
        "no such file",
        "a link",
    ]


def test_files_may_be_left_out_of_what_must_not_change() -> None:
    """Everything but the file that is to be edited."""
    before, after = {"a.md": "a", "b.md": "b"}, {"a.md": "A", "b.md": "b"}

    assert FileUnchanged(["**"], but=["a.md"]).grade(files_evidence(after, before)).score == 1.0
    assert FileUnchanged(["**"], but=["a*"]).grade(files_evidence({"b.md": "b"}, before)).score == 1.0
    assert FileUnchanged(["**"]).grade(files_evidence(after, before)).score == 0.5


def test_unchanged_is_undecided_where_nothing_was() -> None:
    """Where no file fitted before, there is nothing that could have changed."""
    grade = FileUnchanged(["a/**"]).grade(files_evidence({"a/b.md": "new"}, {"c.md": "c"}))

    assert (grade.score, grade.rationale) == (None, "no file matches a/**")


def test_a_file_that_was_no_text_is_compared_too() -> None:
    """The digest is of the whole content, whatever it is."""
    assert FileUnchanged(["f"]).grade(files_evidence({"f": BINARY}, {"f": BINARY})).score == 1.0
    assert FileUnchanged(["f"]).grade(files_evidence({"f": LARGE}, {"f": BINARY})).score == 0.0


def test_a_link_in_the_place_of_a_file_is_a_change() -> None:
    """Also where the file held just the name that the link leads to, so that their digests are equal."""
    held = FileText(LINK.digest, LINK.size, "other.md")

    assert FileUnchanged(["f"]).grade(files_evidence({"f": LINK}, {"f": held})).score == 0.0
    assert FileUnchanged(["f"]).grade(files_evidence({"f": LINK}, {"f": LINK})).score == 1.0


@pytest.mark.parametrize(
    ("text", "pattern", "score"),
    [
        ("a\r\nb", r"a\r\nb", 1.0),
        ("a\r\nb", "a\r\nb", 1.0),
        ("a\r\nb", r"a\x0d", 1.0),
        ("a\nb", r"a\r\nb", 0.0),
        ("a\r\nb", "^a$", 1.0),
        ("a\r\nb", r"^a\r?$", 1.0),
        ("c:\\run\r\nb", r"c:\\run$", 1.0),
        ("\ufefftitle: x\r\n", "^title: x$", 1.0),
        ("\ufefftitle: x", r"^\ufefftitle", 1.0),
    ],
)
def test_ends_of_lines_are_newlines_unless_the_pattern_names_others(
    text: str, pattern: str, score: float
) -> None:
    """A pattern that names ``\\r`` or a byte order mark is looked for in the text that has them."""
    assert FileMatches("f", [pattern]).grade(files_evidence({"f": text})).score == score


def test_a_file_whose_name_is_spelt_otherwise_is_unchanged() -> None:
    """Systems spell one name in NFC or NFD; two names that are both there are two files."""
    composed, apart = (unicodedata.normalize(form, "가.md") for form in ("NFC", "NFD"))
    unchanged = FileUnchanged(["*"])
    for before, after in ((composed, apart), (apart, composed)):
        assert unchanged.grade(files_evidence({after: "x"}, {before: "x"})).score == 1.0
        assert unchanged.grade(files_evidence({after: "y"}, {before: "x"})).score == 0.0

    both = {composed: "x", apart: "x"}
    assert unchanged.grade(files_evidence({composed: "x"}, both)).score == 0.5
    assert sorted(files_evidence(both).in_normal_form().after) == sorted(both)


@pytest.mark.parametrize("fold", [False, True])
def test_a_file_is_normalized_as_often_for_three_texts_as_for_one(
    fold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each of them would take most of the time where a file has megabytes."""
    normalized: list[str] = []

    def counting_normalize(form: str, text: str) -> str:
        normalized.append(text)
        return normalize(form, text)

    normalize: Callable[[str, str], str] = unicodedata.normalize  # type: ignore[assignment]
    monkeypatch.setattr(unicodedata, "normalize", counting_normalize)

    counts = set()
    for texts in (["a"], ["a", "b", "c"]):
        normalized.clear()
        FileContains("f", texts, fold=fold).grade(files_evidence({"f": "the whole cafe\u0301"}))
        counts.add(len(normalized))

    assert len(counts) == 1
    assert counts != {0}


NOTE = """---
title: Boat trip
tags: [sea, "2026"]
due: 2026-09-17
done: false
draft: no
author: {name: Mina, "odd.key": 3}
---
# Boat trip
done: true
"""
STEPS = st.one_of(st.text(), st.integers(-999, 999), st.sampled_from(["a.b", "[0]", '"', " x", "a b", "키"]))


def front(values: dict[str, Any], text: str = NOTE) -> float | None:
    """Grade a note's front matter."""
    return FrontMatter("n.md", values).grade(files_evidence({"n.md": text})).score


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("title", "Boat trip"),
        ("tags[0]", "sea"),
        ("tags[-1]", "2026"),
        ("due", "2026-09-17"),
        ("done", False),
        ("draft", "no"),
        ("author.name", "Mina"),
        ('author."odd.key"', 3),
        ("tags", {"subset": ["2026"]}),
        ("title", {"contains": "BOAT", "fold": True}),
        ("body", {"absent": True}),
        ("tags[2]", {"absent": True}),
        ("tags[-3]", {"absent": True}),
        ("title.x", {"absent": True}),
    ],
)
def test_values_are_found_by_path(path: str, expected: Any) -> None:
    """Keys and places lead there; dates and words like no stay texts; what is nowhere is absent."""
    assert front({path: expected}) == 1.0


def test_the_score_is_the_share_of_values() -> None:
    """Each value counts alike, and a miss says where, what was expected and what was found."""
    grade = FrontMatter("n.md", {"title": "Boat trip", "tags[0]": "lake", "mood": "good"}).grade(
        files_evidence({"n.md": NOTE})
    )

    assert grade.score == pytest.approx(1 / 3)
    assert grade.rationale == (
        "not met: n.md: tags[0] (expected 'lake', found 'sea'); "
        "not met: n.md: mood (expected 'good', found nothing)"
    )


@pytest.mark.parametrize("text", ["", "# Boat\n", "a\n---\ntitle: x\n---\n", "---\ntitle: x\n", "---\n---\n"])
def test_without_front_matter_no_value_is_there(text: str) -> None:
    """It has to begin the file and to end; a value that should be absent is."""
    assert front({"title": "x", "draft": {"absent": True}}, text) == 0.5


@pytest.mark.parametrize(
    "text", ["\ufeff---\r\ntitle: x\r\n---\r\nbody", "---\ntitle: x\n...\n", "--- \ntitle: x\n---"]
)
def test_front_matter_of_other_editors_is_read(text: str) -> None:
    """A byte order mark, Windows line ends, dots at the end and no line after it are all usual."""
    assert front({"title": "x"}, text) == 1.0


@pytest.mark.parametrize(
    "text", ["---\na: [\n---\n", "---\na: !!python/none x\n---\n", "---\na: {{x}}\n---\n"]
)
def test_front_matter_that_cannot_be_read_is_undecided(text: str) -> None:
    """What nobody can read says nothing of its values; the reason names the line of the file."""
    grade = FrontMatter("n.md", {"b": {"absent": True}}).grade(files_evidence({"n.md": text}))

    assert (grade.score, grade.undecided) == (None, "unreadable")
    assert grade.rationale.startswith(("n.md: line 2: ", "n.md: line 3: "))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("v.json", '{"a": [{"b": 1.0}], "c": null}'),
        ("v.yaml", "a: [{b: 1}]\nc:\n"),
        ("v.yml", "c: ~\na: [b: 1]"),
    ],
)
def test_json_and_yaml_files_are_read_by_their_names(name: str, text: str) -> None:
    """Both give the same values: null is a value, and 1 is 1.0."""
    grade = FileValue(name, {"a[0].b": 1, "c": None, "d": {"absent": True}}).grade(
        files_evidence({name: text})
    )

    assert grade.score == 1.0


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("v.json", '{"a": 1,}', "v.json: line 1: "),
        ("v.json", "[" * 100_000, "v.json: JSON that cannot be read: "),
        ("v.json", "", "v.json: line 1: Expecting value"),
        ("v.yaml", "a: [", "v.yaml: line "),
        ("v.yaml", "a: &a [*a]\n", "v.yaml: "),
        ("v.yaml", "[" * 10_000, "v.yaml: "),
        ("v.yaml", "a: 1\n---\nb: 2\n", "v.yaml: line 2: "),
        (
            "v.yaml",
            "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}' if i else 'x'] * 9)}]" for i in range(9)),
            "v.yaml: aliases that expand",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_undecided(name: str, text: str, why: str) -> None:
    """It says nothing of any value, not even of an absent one; nothing is raised, nothing grows for ever."""
    grade = FileValue(name, {"a": {"any": True}, "b": {"absent": True}}).grade(files_evidence({name: text}))

    assert (grade.score, grade.undecided) == (None, "unreadable")
    assert grade.rationale.startswith(why)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("base: &a {x: 1, y: 1}\nv:\n  <<: *a\n  y: 2\n", {"exact": {"x": 1, "y": 2}}),
        ("one: &a {x: 1}\ntwo: &b {x: 2, z: 3}\nv: {<<: [*a, *b]}", {"exact": {"x": 1, "z": 3}}),
        ("v: 1\nv: 2\n", 2),
        ("v: &x [1]\nw: *x\n", {"exact": [1]}),
        ("v: 2026-09-17", "2026-09-17"),
        ("v: 2026-02-30", "2026-02-30"),
        ("v: 2026-09-17 10:00:00", "2026-09-17T10:00:00"),
        ("v: yes", "yes"),
        ("v: yes", True),
        ("v: True", True),
        ("v: NULL", None),
        ("v: 12:30", "12:30"),
        ("v: 017", "017"),
        ("v: 0x1F", 31),
        ("v: +1", 1),
        ("v: 1e3", 1000),
        ("v: !!str 5", "5"),
        ("v: {1: a, 2.5: b}", {"exact": {"1": "a", "2.5": "b"}}),
        ("\ufeffv: 1\r\n", 1),
    ],
)
def test_an_agents_yaml_is_read_as_other_programs_read_it(text: str, expected: Any) -> None:
    """What authors may not write, agents may; a word that YAML 1.1 and 1.2 read otherwise is either."""
    assert FileValue("v.yaml", {"v": expected}).grade(files_evidence({"v.yaml": text})).score == 1.0


def test_nothing_in_yaml_is_null_and_no_empty_text() -> None:
    """In both ways to read it."""
    nothing = files_evidence({"v.yaml": "v:\n"})
    assert FileValue("v.yaml", {"v": None}).grade(nothing).score == 1.0
    assert FileValue("v.yaml", {"v": {"exact": ""}}).grade(nothing).score == 0.0


@pytest.mark.parametrize(
    "text", ['{"v": 1, "v": 2}', '\ufeff{"v": 2, "w": NaN}', '{"v": 2, "w": "\\ud83d"}', '{"v": 2.0}\n\n']
)
def test_an_agents_json_is_read_as_python_reads_it(text: str) -> None:
    """Of a key that comes twice the last one counts, and NaN hides nothing else."""
    assert FileValue("v.json", {"v": 2}).grade(files_evidence({"v.json": text})).score == 1.0


def test_of_several_files_the_one_that_fits_best_counts() -> None:
    """A glob wants one file that holds them all; the first of equals, in the order of paths."""
    files: dict[str, Content] = {
        "a.json": '{"x": 1, "y": 0}',
        "b.json": '{"x": 1, "y": 2}',
        "c.json": "{",
        "d.json": BINARY,
    }

    assert FileValue("*.json", {"x": 1, "y": 2}).grade(files_evidence(files)).score == 1.0
    worse = FileValue("*.json", {"x": 1, "y": 3}).grade(files_evidence(files))
    assert (worse.score, worse.checks[0].claim) == (0.5, "a.json: x")


@pytest.mark.parametrize("files", [{}, {"n.md": BINARY}])
def test_a_file_that_is_missing_or_no_text_holds_no_value(files: dict[str, Any]) -> None:
    """A value that should be absent is no reason to be glad of a missing file."""
    assert FrontMatter("n.md", {"draft": {"absent": True}}).grade(files_evidence(files)).score == 0.0


@given(st.lists(STEPS, min_size=1, max_size=5))
def test_a_path_that_is_written_reads_back(steps: list[str | int]) -> None:
    """Every key and place can be said, however odd."""
    assert parse_path(format_path(steps)) == tuple(steps)


@given(st.text(alphabet='ab."[]0-1 \\', max_size=8))
def test_a_path_is_read_whole_or_refused(text: str) -> None:
    """What is read says the same when it is written again: no part of a text is skipped."""
    try:
        path = parse_path(text)
    except PathError:
        return
    assert parse_path(format_path(path)) == path
    assert len(format_path(path)) <= len(text)


@given(
    st.recursive(
        st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_every_value_inside_is_found_at_its_path(value: Any) -> None:
    """A path leads to the very value, and one step further than there is leads nowhere."""
    for path, inner in _inside(value, ()):
        assert value_at(value, path) is inner
        if isinstance(inner, list):
            assert value_at(value, (*path, len(inner))) is ABSENT


def _inside(value: Any, path: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(path, value), *(found for key, inner in items for found in _inside(inner, (*path, key)))]


@pytest.mark.parametrize(
    "path", ["", ".a", "a.", "a..b", "a[", "a[01]", "a[x]", "[0]a", "a]b", 'a"b"', '"a', '"\\x"', " a", "a "]
)
def test_a_path_that_says_nothing_clear_is_refused(path: str) -> None:
    """The key of the setting is named, and how a path looks."""
    with pytest.raises(WrongSetting, match=r"expected a path like author\.name, tags\[0\]") as caught:
        FrontMatter("n.md", {path: 1})

    assert caught.value.path == ("values", path)
