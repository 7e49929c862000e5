"""Reading one file: strict values, right lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_agenteval.tasks.documents import (
    is_nearly_task,
    lines_of_ids,
    may_be_task,
    parse_document,
    read_document,
)
from pytest_agenteval.text.errors import KeyPath, ProblemsFound
from tests.fresh_imports import imported_by

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
YAML_TEXTS = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029"), max_size=12
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """JSON values of any depth."""
    return st.recursive(
        st.none() | st.booleans() | NUMBERS | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )


def value_of(text: str, name: str = "task.yaml") -> Any:
    """Give the value of a text."""
    return parse_document(Path(name), text.encode()).value


def problems_of(text: str | bytes, name: str = "task.yaml") -> list[tuple[int | None, str, str]]:
    """Give the problems of a text."""
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(ProblemsFound) as caught:
        parse_document(Path(name), data)
    return [(one.line, one.expected, one.found) for one in caught.value.problems]


class Quoting(yaml.SafeDumper):
    """Writes every text in quotes, as YAML 1.1 and we differ in which plain texts are text."""


Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)
Quoting.ignore_aliases = lambda self, data: True  # type: ignore[method-assign]  # aliases have tests of their own


@given(values(TEXTS), st.booleans())
def test_a_json_value_written_as_yaml_is_read_as_itself(value: Any, flow: bool) -> None:
    """YAML is read as JSON with comments: writing a JSON value and reading it changes nothing."""
    text = yaml.dump(value, Dumper=Quoting, default_flow_style=flow, allow_unicode=True, sort_keys=False)

    read = value_of(text)

    assert read == value
    assert json.dumps(read) == json.dumps(value)  # tells 1 from 1.0 and from True


@given(values(TEXTS))
def test_json_is_read_as_pythons_own_reader_does(value: Any) -> None:
    """Being strict changes no value."""
    text = json.dumps(value)

    assert json.dumps(value_of(text, "task.json")) == text


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("OFF", "OFF"),
        ("null", None),
        ("~", None),
        ("", None),
        ("NULL", "NULL"),
        ("1:30", "1:30"),
        ("012", "012"),
        ("0o17", "0o17"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("+1", "+1"),
        (".5", ".5"),
        ("1.", "1."),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2026-05-25", "2026-05-25"),
        ("2026-05-25T09:00:00+09:00", "2026-05-25T09:00:00+09:00"),
        ("-7", -7),
        ("0", 0),
        ("1e5", 1e5),
        ("-0.25", -0.25),
        ("'12'", "12"),
        ('"true"', "true"),
    ],
)
def test_a_plain_yaml_scalar_means_what_it_means_in_json_and_else_is_text(written: str, read: object) -> None:
    """Only true, false, null, ~ and JSON's numbers are more than text."""
    found = value_of(f"key: {written}")["key"]

    assert (found, type(found)) == (read, type(read))


def test_yaml_keys_are_always_text() -> None:
    """A key that looks like a number or a truth value is still the text that was written."""
    assert value_of("1: a\ntrue: b\nnull: c\n2026-05-25: d\n") == {
        "1": "a",
        "true": "b",
        "null": "c",
        "2026-05-25": "d",
    }


def test_anchors_are_followed() -> None:
    """An alias repeats the value of its anchor."""
    assert value_of("a: &x {b: [1]}\nc: *x\n") == {"a": {"b": [1]}, "c": {"b": [1]}}


@pytest.mark.parametrize(
    ("text", "line", "expected", "found"),
    [
        ("a: 1\nb: !!str 2\n", 2, "no tags", "the tag !!str"),
        ("a: !secret x\n", 1, "no tags", "the tag !secret"),
        ("a: !!python/object:os.system {}\n", 1, "no tags", "the tag !!python/object:os.system"),
        ("b: 1\na: &x\n  - *x\n", 2, "a value that ends", "an alias of what it stands in"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, "keys written out", "the merge key <<"),
        ("a: 1\n? [b]\n: 2\n", 2, "keys that are text", "a list, a map or a tag as a key"),
        ("a: 1\nb: 1e999\n", 2, "a number that JSON knows", "1e999"),
        (f"a: {'9' * 5000}\n", 1, "a number of at most 4300 digits", "5000 digits"),
        ("a: 1\nb: c: d\n", 2, "a YAML document", "mapping values are not allowed in this context"),
        ("a: 1\n---\nb: 2\n", 2, "a YAML document", "but found another document"),
        ("a: 1\nb: *nowhere\n", 2, "a YAML document", "found undefined alias"),
        ("é: 1\nb: \x07\n", 2, "a YAML document", "control characters are not allowed (7)"),
    ],
)
def test_yaml_that_json_could_not_say_is_refused_with_its_line(
    text: str, line: int, expected: str, found: str
) -> None:
    """Tags, merge keys, endless aliases, odd keys and syntax errors are one problem each."""
    assert problems_of(text) == [(line, expected, found)]


@pytest.mark.parametrize(
    ("text", "line", "expected", "found"),
    [
        ('{"a": 1,\n "b": NaN}', 2, "a number that JSON knows", "NaN"),
        ('["NaN",\n\n-Infinity]', 3, "a number that JSON knows", "-Infinity"),
        ("[1,\n1e999]", 2, "a number that JSON knows", "1e999"),
        ("[" + "9" * 5000 + "]", None, "numbers of at most 4300 digits", "a longer one"),
        ('{"a":\n}', 2, "a JSON document", "Expecting value, at '}'"),
        ('{"a": 1', 1, "a JSON document", "Expecting ',' delimiter, at the end of a line"),
        ("", 1, "a JSON document", "Expecting value, at the end of a line"),
        ('"\\ud800"', None, "text that UTF-8 can hold", "half of a surrogate pair, escaped"),
    ],
)
def test_what_is_not_quite_json_is_refused_with_its_line(
    text: str, line: int | None, expected: str, found: str
) -> None:
    """Python's reader takes NaN, infinities and half surrogates; ours does not."""
    assert problems_of(text, "task.json") == [(line, expected, found)]


def test_a_text_in_braces_that_a_comma_ends_is_told_with_the_way_out() -> None:
    """The rest would be a key with nothing in it, and the agent asked half a question; null can be said."""
    with pytest.raises(ProblemsFound) as caught:
        parse_document(Path("task.yaml"), "id: a\ninput:\n  {content: Ask for 소금, please. }\n".encode())

    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (3, ("input", "please."))
    assert (problem.expected, problem.found) == ("a key and its value", "'please.' alone")
    assert problem.hint.endswith("put the whole text in quotes")
    value = {"content": "Ask, please.", "a": None, "b": None}
    assert value_of("{content: 'Ask, please.', a: null, b: }") == value


def test_every_repeated_key_of_a_file_is_reported_with_both_lines() -> None:
    """Keeping the last of two keys in silence hides the first; in JSON and YAML alike."""
    text = '{"a": 1,\n "b": [{"c": 1,\n "c": 2}],\n "a": 3}'
    repeated = [
        (3, "each key only once", "'c' a second time (first on line 2)"),
        (4, "each key only once", "'a' a second time (first on line 1)"),
    ]

    assert problems_of(text, "task.json") == repeated
    assert problems_of(text, "task.yaml") == repeated


def test_aliases_of_aliases_are_refused_before_they_fill_the_memory() -> None:
    """Ten lines of YAML can stand for a billion values."""
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]

    assert [found for _, _, found in problems_of("\n".join(rows))] == ["aliases that expand to too much"]


@pytest.mark.parametrize("name", ["task.json", "task.yaml"])
def test_a_file_is_utf8_with_or_without_a_mark(name: str) -> None:
    """A byte order mark is no part of the text; another encoding is refused with its line."""
    assert parse_document(Path(name), b'\xef\xbb\xbf{"a": "\xed\x95\x9c"}').value == {"a": "한"}
    assert problems_of('{"a": 1,\n"b": "é"}'.encode("latin-1"), name) == [
        (2, "a text in UTF-8", "the byte 0xe9")
    ]


@pytest.mark.parametrize("name", ["task.json", "task.yaml"])
def test_nesting_without_end_is_refused(name: str) -> None:
    """What cannot be read for its depth is the author's to mend, not a crash."""
    too_deep = [(None, "lists and maps not nested too deeply", "more levels than can be read")]

    assert problems_of("[" * 100_000 + "]" * 100_000, name) == too_deep
    assert value_of("[" * 150 + "]" * 150, name)


def test_yaml_is_read_to_a_fixed_depth() -> None:
    """Its parser in C would descend until the process crashes: what is refused is the same everywhere."""
    assert value_of("[" * 200 + "]" * 200, "task.yaml")
    assert problems_of("[" * 201 + "]" * 201, "task.yaml")


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    """A folder called task.json, or a file without permission, gives no traceback."""
    (tmp_path / "task.json").mkdir()

    with pytest.raises(ProblemsFound, match="a file that can be read"):
        read_document(tmp_path / "task.json")


def test_reading_json_loads_no_yaml(tmp_path: Path) -> None:
    """A folder of JSON tasks never pays for the YAML reader, not even when it shows a problem."""
    (tmp_path / "task.json").write_text('[{"id": "a", "input": {}, "graders": [{"name": "x"}]}]')
    (tmp_path / "suite.json").write_text('{"name": 3}')
    code = f"""
import pathlib
from pytest_agenteval.tasks.load import load_tasks, load_suite
folder = pathlib.Path({str(tmp_path)!r})
load_tasks(folder / "task.json")
try:
    load_suite(folder / "suite.json")
except Exception as error:
    assert "suite.json:1: name" in str(error)
"""
    assert imported_by(code, "yaml") == []


# Lines, against an emitter that knows where it puts things.


def emitted(
    value: Any, newlines: Iterator[int], lines: dict[KeyPath, int], path: KeyPath, at: list[int]
) -> str:
    """Write a value as JSON with line breaks in odd places, noting the line of each path."""

    def gap() -> str:
        count = next(newlines)
        at[0] += count
        return "\n " * count

    lead = gap()
    lines.setdefault(path, at[0])
    if isinstance(value, dict):
        parts = []
        for key, inner in value.items():
            before = gap()
            lines[(*path, key)] = at[0]
            rest = emitted(inner, newlines, lines, (*path, key), at)
            parts.append(f"{before}{json.dumps(key, ensure_ascii=False)}: {rest}{gap()}")
        return f"{lead}{{{','.join(parts)}}}"
    if isinstance(value, list):
        inside = [
            emitted(one, newlines, lines, (*path, index), at) + gap() for index, one in enumerate(value)
        ]
        return f"{lead}[{','.join(inside)}]"
    return lead + json.dumps(value, ensure_ascii=False)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(values(YAML_TEXTS), st.lists(st.sampled_from([0, 0, 1, 2]), min_size=1, max_size=7))
def test_every_key_is_found_on_the_line_where_it_was_put(value: Any, breaks: list[int]) -> None:
    """Keys nested in lists and maps have their line in JSON, and in the same text read as YAML."""
    lines: dict[KeyPath, int] = {}
    endless = (breaks[index % len(breaks)] for index in iter(int, 1) for index in range(10_000))
    text = emitted(value, endless, lines, (), [1])
    as_json = parse_document(Path("task.json"), text.encode())
    as_yaml = parse_document(Path("task.yaml"), text.encode())

    assert as_json.value == as_yaml.value == value
    assert {path: as_json.line_of(path) for path in lines} == lines
    assert {path: as_yaml.line_of(path) for path in lines} == lines


def test_a_key_that_is_not_there_has_the_line_of_its_nearest_parent() -> None:
    """A missing key is shown where it should be."""
    text = "id: a\ngraders:\n  - name: x\n  -\n    name: y\n"
    document = parse_document(Path("t.yaml"), text.encode())

    assert document.line_of(("graders", 0, "weight")) == 3
    assert document.line_of(("graders", 1, "weight")) == 5
    assert document.line_of(("graders", 9)) == 2
    assert document.line_of(("nowhere", "x")) == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["t.json", "t.yaml"])
def test_lines_are_counted_whatever_ends_them(name: str, end: str) -> None:
    """A file from Windows has the same lines."""
    document = parse_document(Path(name), end.join(['{"a": 1,', "", '"b": 2}']).encode())

    assert document.line_of(("b",)) == 3


@given(values(YAML_TEXTS), st.data())
def test_a_repeated_key_is_always_found(value: Any, data: st.DataObject) -> None:
    """Wherever a map repeats a key, reading it fails, in JSON and YAML."""
    text = json.dumps({"top": value, "other": {"x": 1}}, ensure_ascii=False, indent=1)
    keys = [
        index
        for index, line in enumerate(text.split("\n"))
        if line.lstrip().startswith('"') and '": ' in line
    ]
    assume(keys)
    rows = text.split("\n")
    chosen = data.draw(st.sampled_from(keys))
    key = json.JSONDecoder().raw_decode(rows[chosen].lstrip())[0]
    assume(rows[chosen].lstrip()[len(json.dumps(key, ensure_ascii=False)) :].startswith(": "))
    rows.insert(chosen, f"{json.dumps(key, ensure_ascii=False)}: 0,")
    again = (chosen + 2, "each key only once", f"{key!r} a second time (first on line {chosen + 1})")

    assert problems_of("\n".join(rows), "t.json") == [again]
    assert problems_of("\n".join(rows), "t.yaml") == [again]


# Lines of ids, by the cheap way and by the sure one.

AWKWARD = [
    "- id: a\n  input: {id: b}\n- input: {}\n  id: b\n",
    "- {id: a, input: {x: 'id: b'}}\n- {graders: [], id: b}\n",
    "# id: a\n- id: a\n- id: b\n",
    '[{"id":"a"},\n{"input":{"id":"z"},\n"id" : "b"}]',
    "- input: |\n    id: a\n  id: a\n- id: 'b'\n",
    "- id:\n    a\n- id: b\n",
    '- "id": a\n- {\n  "id":"b"}\n',
    '- "\\u0069d": a\n- id: b\n',
    "- id: a\n- id: a\n- {}\n- id: 3\n",
    "- name: x\n  id: a # id: a\n- id: b\n",
]


@pytest.mark.parametrize("text", AWKWARD)
def test_ids_are_found_on_their_own_lines(text: str) -> None:
    """The quick search never takes another mention of an id for the id itself."""
    document = parse_document(Path("t.yaml"), text.encode())

    assert isinstance(document.value, list)
    assert lines_of_ids(document) == tuple(document.line_of((n, "id")) for n, _ in enumerate(document.value))


def test_a_task_of_its_own_has_the_line_of_its_id() -> None:
    """A map is one task."""
    assert lines_of_ids(parse_document(Path("t.yaml"), b"# a task\n\nid: a\ninput: {}\n")) == (3,)


@given(st.lists(st.from_regex(r"[a-z가-힣_.-]{1,8}", fullmatch=True), min_size=1, max_size=6), st.booleans())
def test_ids_are_found_in_lists_of_any_ids(ids: list[str], nested: bool) -> None:
    """Ids that look alike, repeat or stand in the input as well keep their lines."""
    tasks = [{"input": {"id": ids[0]} if nested else {}, "id": one, "graders": []} for one in ids]
    for name, text in {
        "t.json": json.dumps(tasks, indent=2),
        "t.yaml": yaml.dump(tasks, Dumper=Quoting, allow_unicode=True, sort_keys=False),
    }.items():
        document = parse_document(Path(name), text.encode())
        assert lines_of_ids(document) == tuple(document.line_of((n, "id")) for n in range(len(ids)))


# Common slips, and keys that are nearly those of a task.


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ('{"a": 1, // one\n "b": 2}', "task.json", "JSON has no comments"),
        ('// one\n{"a": 1}', "task.json", "JSON has no comments"),
        ('{"a": [1, 2, ]}', "task.json", "remove the comma after the last entry"),
        ('{"a": 1,\n}', "task.json", "remove the comma after the last entry"),
        ("{'a': 1}", "task.json", "JSON texts need double quotes"),
        ("a: 1\n---\nb: 2\n", "task.yaml", "several tasks of one file are a list"),
        ("a:\n  b: 1\n\tc: 2\n", "task.yaml", "spaces"),
        ("a: b: c\n", "task.yaml", "put a text with ': ' in it in quotes"),
        (" a: 1\nb: 2\n", "task.yaml", "begin in the same column"),
        ("a:\n  - b\n - c\n", "task.yaml", "begin in the same column"),
        ("a: 1\n b: 2\n", "task.yaml", "begin in the same column"),
        ("a: {b: 1\nc: 2\n", "task.yaml", "a bracket or brace above is not closed"),
        ('a: "b\nc: 2\n', "task.yaml", "the quote that begins here is not closed"),
        # A tab is no mistake but where it indents.
        ('a: "b\tb\nc: 2\n', "task.yaml", "the quote that begins here is not closed"),
        ("a: *b\n", "task.yaml", "put a text that begins with * in quotes"),
        ("a: @b\n", "task.yaml", "with @, ` or % in quotes"),
        ("a: é\n".encode("latin-1"), "task.yaml", "save the file as UTF-8"),
        ("{}".encode("utf-16"), "task.json", "save the file as UTF-8"),
    ],
)
def test_a_common_slip_is_told_with_the_way_out(text: str | bytes, name: str, hint: str) -> None:
    """Readers' own words speak of tokens and property names."""
    with pytest.raises(ProblemsFound) as caught:
        parse_document(Path(name), text if isinstance(text, bytes) else text.encode())

    (problem,) = caught.value.problems
    assert hint in problem.hint


def test_a_quote_without_an_end_is_reported_where_it_begins() -> None:
    """The end of the file, where the reader stops, is no help."""
    with pytest.raises(ProblemsFound) as caught:
        parse_document(Path("task.yaml"), b'a: 1\nb: "c\nd: 2\ne: 3\n')

    assert [problem.line for problem in caught.value.problems] == [2]


@pytest.mark.parametrize(
    "key", ["id", "ID", "_id", "idd", "ids", "uid", "graders", "grader", "greaders", "grades"]
)
def test_a_slip_of_one_letter_is_taken_for_the_key(key: str) -> None:
    """A task would vanish with it."""
    assert may_be_task([key])


@pytest.mark.parametrize("key", ["idea", "name", "inputs", "grids", "leaders", ""])
def test_a_word_of_its_own_is_not(key: str) -> None:
    """Data beside the tasks of a suite has keys too."""
    assert not may_be_task([key])


def test_two_keys_nearly_so_make_a_task() -> None:
    """An id alone may be anybody's."""
    assert is_nearly_task({"ids": "a", "inputs": {}})
    assert not is_nearly_task({"ids": "a", "name": "b"})
    assert not is_nearly_task(["id", "input"])
