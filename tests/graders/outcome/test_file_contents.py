"""Graders of values in files, and the paths that lead to them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.outcome.file_contents import FileValue, FrontMatter
from pytest_agenteval.graders.settings import WrongSetting
from pytest_agenteval.value_paths import ABSENT, PathError, format_path, parse_path, value_at
from tests.graders.sample_evidence import BINARY, Content, files_evidence

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
        "no: n.md: tags[0] (expected 'lake', found 'sea'); no: n.md: mood (expected 'good', found nothing)"
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
    ("text", "found"),
    [
        (
            "---\na: 1\na: 2\n---\n",
            "line 3: 'a' a second time (first on line 2) in place of each key only once",
        ),
        ("---\na: [\n---\n", "line "),
        ("---\na: !!python/none x\n---\n", "line 2: the tag !!python/none in place of no tags"),
    ],
)
def test_front_matter_that_cannot_be_read_has_no_value(text: str, found: str) -> None:
    """Not even an absent one: the check says on which line of the file reading ended."""
    grade = FrontMatter("n.md", {"b": {"absent": True}}).grade(files_evidence({"n.md": text}))

    assert grade.score == 0.0
    assert grade.checks[0].found.startswith(found)


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
    ("text", "found"),
    [
        ('{"a": 1, "a": 1}', "line 1: 'a' a second time"),
        ('{"a": NaN}', "line 1: NaN in place of a number that JSON knows"),
        ("[" * 100_000, "more levels than can be read"),
        ("", "line 1: Expecting value"),
    ],
)
def test_a_file_that_cannot_be_read_has_no_value(text: str, found: str) -> None:
    """The check says why, and nothing is raised."""
    grade = FileValue("v.json", {"a": {"any": True}, "b": {"absent": True}}).grade(
        files_evidence({"v.json": text})
    )

    assert grade.score == 0.0
    assert all(check.found.startswith(found) for check in grade.checks)


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FileValue("a.toml", {"a": 1}), "path: expected a path that ends in .json, .yaml, .yml"),
        (lambda: FileValue("a.json", {}), "values: expected a map with at least one entry, found {}"),
        (lambda: FrontMatter("/a.md", {"a": 1}), "path: expected a path from the workspace's root"),
        (lambda: FrontMatter("a.md", {"a": {"regex": "("}}), "values.a.regex: expected a regular expression"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Any, message: str) -> None:
    """A wrong setting is told by its key, with both sides."""
    with pytest.raises(WrongSetting) as caught:
        make()

    assert message in str(caught.value)
