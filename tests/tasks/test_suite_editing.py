"""Promoted names are written into a suite's file by hand's rules: nothing else of it changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.tasks.documents import parse_document
from pytest_agenteval.tasks.suite_editing import with_regression
from pytest_agenteval.tasks.suite_spec import NOTHING_PROMOTED, Regression, Suite
from pytest_agenteval.tasks.validation import read_spec
from pytest_agenteval.text.errors import UsageMistake

YAML, JSON = Path("suite.yaml"), Path("suite.json")


def edited(text: str, regression: Regression, path: Path = YAML) -> str:
    """Give an edited text."""
    return with_regression(path, text.encode(), regression).decode()


def promoted(text: str, path: Path = YAML) -> Regression:
    """Give what a suite file says it has promoted."""
    return read_spec(Suite, parse_document(path, text.encode())).regression


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "name: s  # of ours\nkind: capability\n# the end\n",
            "name: s  # of ours\nkind: capability\n# the end\n"
            "regression:\n  buckets:\n    - a\n    - new\n  tasks:\n    - t\n",
        ),
        ("name: s", "name: s\nregression:\n  buckets:\n    - a\n    - new\n  tasks:\n    - t"),
        (
            "name: s\r\nregression:\r\n  buckets:\r\n  - a   # long ago\r\n\r\nkind: capability\r\n",
            "name: s\r\nregression:\r\n  buckets:\r\n  - a   # long ago\r\n  - new\r\n  tasks:\r\n"
            "    - t\r\n\r\nkind: capability\r\n",
        ),
        (
            "regression: {buckets: ['a']}  # x\nname: s\n",
            "regression: {buckets: ['a', 'new'], tasks: [t]}  # x\nname: s\n",
        ),
        (
            "regression:\n  tasks: []\n  buckets: [\n    a, # why\n  ]\nname: s\n",
            "regression:\n  tasks: [t]\n  buckets: [\n    a, # why\n    new,\n  ]\nname: s\n",
        ),
        (
            "{name: s, regression: {buckets: [a\n  , b], tasks: [t]}}",
            "{name: s, regression: {buckets: [a, new], tasks: [t]}}",
        ),
        (
            "name: s\ndescription: |\n  no line end",
            "regression:\n  buckets:\n    - a\n    - new\n  tasks:\n    - t\n"
            "name: s\ndescription: |\n  no line end",
        ),
        (
            "\ufeffname: 한국어 🙂\nregression:\n  buckets:\n    - gone # old\n    - a\n",
            "\ufeffname: 한국어 🙂\nregression:\n  buckets:\n    - a\n    - new\n  tasks:\n    - t\n",
        ),
    ],
)
def test_yaml_keeps_its_style(before: str, after: str) -> None:
    """Blocks and brackets, quotes, comments, order, line ends, a byte order mark, a missing last line end."""
    assert edited(before, Regression(buckets=("a", "new"), tasks=("t",))) == after


def test_json_keeps_its_style() -> None:
    """With what YAML would not read: escaped slashes and surrogate pairs."""
    before = (
        '{\n  "name": "s\\/\\ud83d\\ude00",\n\t"regression": {\n    "buckets": [\n      "a"\n    ]\n  }\n}\n'
    )
    after = edited(before, Regression(buckets=("a", "b"), tasks=("t",)), JSON)

    assert '    "buckets": [\n      "a",\n      "b"\n    ],\n    "tasks": ["t"]\n' in after
    assert json.loads(after)["name"] == "s/😀"
    assert edited(after, Regression(buckets=("a",)), JSON) == before
    assert edited('{"name":"s"}', Regression(tasks=("t",)), JSON) == (
        '{"name":"s", "regression": {"tasks": ["t"]}}'
    )


def test_what_is_empty_is_taken_out() -> None:
    """With the last promoted name the key goes too: `buckets:` alone would be a problem."""
    text = "name: s\nregression:\n  buckets:\n    - a\n  tasks: [t]\nkind: capability\n"

    assert edited(text, Regression(tasks=("t",))) == (
        "name: s\nregression:\n  tasks: [t]\nkind: capability\n"
    )
    assert edited(text, NOTHING_PROMOTED) == "name: s\nkind: capability\n"
    assert edited("name: s\nregression:\n  tasks: [t]", NOTHING_PROMOTED) == "name: s"


def test_what_cannot_be_edited_in_place_is_refused() -> None:
    """An alias stands for what is written elsewhere: nothing else may change its meaning."""
    text = "name: s\nsettings: {names: &a [x]}\nregression: {buckets: *a}\n"

    with pytest.raises(UsageMistake, match="by hand"):
        edited(text, Regression(buckets=("x", "y")))


NAMES = st.one_of(
    st.sampled_from(
        ["a", "b c", "opt_out", "no", "1", "null", "a: b", "#x", "- y", "한국", "it's", '"q"', "x,", "🙂"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8).filter(
        str.strip
    ),
)
LISTS = st.lists(NAMES, unique=True, max_size=4)
REGRESSIONS = st.builds(lambda b, t: Regression(buckets=tuple(b), tasks=tuple(t)), LISTS, LISTS)


def quoted(name: str) -> str:
    """Write a name as YAML reads it."""
    text = json.dumps(name, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08X}" for each in text)


@st.composite
def yaml_lists(draw: st.DrawFn, names: list[str], indent: str) -> str:
    """Write a list behind its key, in one of the ways in which people write lists."""
    if not names:
        return " []"
    shape = draw(st.sampled_from(["block", "tight", "flow", "lines", "trailing"]))
    note = draw(st.sampled_from(["", "  # a note, of mine"]))
    if shape in ("block", "tight"):
        dash = indent + ("  - " if shape == "block" else "- ")
        return "".join(f"\n{dash}{quoted(name)}{note}" for name in names)
    if shape == "flow":
        return f" [{', '.join(map(quoted, names))}]{note}"
    last = "," if shape == "trailing" else ""
    rows = [f"{indent}    {quoted(name)}{',' if name != names[-1] else last}{note}" for name in names]
    return " [" + note + "\n" + "\n".join(rows) + f"\n{indent}  ]"


@st.composite
def yaml_suites(draw: st.DrawFn) -> str:
    """Write a suite with what is promoted somewhere in it."""
    regression = draw(REGRESSIONS)
    rows = [
        "name: 'suite'  # ours",
        "kind: capability",
        "# a line of its own\n",
        "description: |\n  two\n\n  lines",
    ]
    if draw(st.booleans()):
        keys = draw(st.permutations(["buckets", "tasks"]))
        parts = [f"  {key}:{draw(yaml_lists(list(getattr(regression, key)), '  '))}" for key in keys]
        rows.append("regression:\n" + "\n".join(parts))
    if draw(st.booleans()):
        rows.append("# about what was\n\n# the last word")
    text = "\n".join([rows[0], *draw(st.permutations(rows[1:]))]) + draw(st.sampled_from(["", "\n", "\n\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def is_subsequence(shorter: str, longer: str) -> bool:
    """Whether a text comes of another by leaving characters out."""
    rest = iter(longer)
    return all(character in rest for character in shorter)


@settings(max_examples=50, deadline=None)
@given(yaml_suites(), REGRESSIONS)
def test_an_edited_file_says_what_is_wanted_and_all_else_as_before(text: str, more: Regression) -> None:
    """Adding only inserts, and taking the same out again gives the meaning back; all other bytes stay."""
    first = promoted(text)
    wanted = Regression(
        buckets=tuple(dict.fromkeys((*first.buckets, *more.buckets))),
        tasks=tuple(dict.fromkeys((*first.tasks, *more.tasks))),
    )

    after = edited(text, wanted)

    assert promoted(after) == wanted
    assert is_subsequence(text, after)
    back = edited(after, first)
    assert promoted(back) == first
    assert is_subsequence(back, after)
    assert [line for line in text.splitlines() if line.startswith(("#", "name", "kind", "desc"))] == [
        line for line in back.splitlines() if line.startswith(("#", "name", "kind", "desc"))
    ]
    assert promoted(edited(after, more)).buckets == tuple(
        name for name in wanted.buckets if name in more.buckets
    )


@settings(max_examples=25, deadline=None)
@given(REGRESSIONS, REGRESSIONS, st.sampled_from([None, 2, "\t"]))
def test_an_edited_json_file_says_what_is_wanted(
    old: Regression, new: Regression, indent: int | str | None
) -> None:
    """However it is indented; names that go and names that come at once."""
    value = {"name": "s", "regression": old.to_json(), "kind": "capability"}
    text = json.dumps(value, ensure_ascii=False, indent=indent)

    after = edited(text, new, JSON)

    assert set(promoted(after, JSON).buckets) == set(new.buckets)
    assert set(promoted(after, JSON).tasks) == set(new.tasks)
    keys = [key for key in value if key != "regression" or old == new or new != NOTHING_PROMOTED]
    assert list(json.loads(after)) == keys
