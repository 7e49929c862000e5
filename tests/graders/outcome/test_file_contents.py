"""Graders of values in files, and the paths that lead to them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.workspace_files import FileValue, FrontMatter
from pytest_agenteval.text.json_values import ABSENT, PathError, format_path, parse_path, value_at
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
            "v.yaml: aliases of aliases",
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
