"""Graders of files: which are there, what they say, and which are as they were."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.workspace_files import FileContains, FileExists, FileMatches, FileUnchanged
from pytest_agenteval.records.evidence import FileText
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
    """The reason says what was looked for, and what was found in its place."""
    grade = FileExists(["a.md"], ["n*.md"]).grade(files_evidence({"new.md": ""}))

    assert grade.rationale == (
        "no: there is a file a.md (expected a.md, found no such file); "
        "no: there is no file n*.md (expected no such file, found new.md)"
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

    assert (grade.score, grade.rationale) == (None, "no file was there that fits a/**")


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
    ("make", "message"),
    [
        (lambda: FileExists(), "paths: expected at least one path, here or in absent, found none"),
        (lambda: FileExists(["/etc/passwd"]), "paths[0]: expected a path from the workspace's root"),
        (lambda: FileExists([], ["a", "../b"]), "absent[1]: expected a path from the workspace's root"),
        (lambda: FileExists(["notes/"]), "the files of a folder are 'notes/**'"),
        (lambda: FileContains("a.md", []), "texts: expected at least one text, found an empty list"),
        (lambda: FileContains("a.md", ["a", " "]), "texts[1]: expected a text that is not blank, found ' '"),
        (lambda: FileContains("a//b", ["a"]), "path: expected a path"),
        (lambda: FileMatches("a.md", "x"), "patterns: expected a list of texts, found 'x'"),
        (
            lambda: FileMatches("a.md", ["a", "b(c"]),
            "patterns[1]: expected a regular expression, found 'b(c': missing ), unterminated subpattern at "
            "position 1",
        ),
        (lambda: FileUnchanged([]), "paths: expected at least one text"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Any, message: str) -> None:
    """A wrong setting is told by its key, with both sides."""
    with pytest.raises(WrongSetting) as caught:
        make()

    assert message in str(caught.value)


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
