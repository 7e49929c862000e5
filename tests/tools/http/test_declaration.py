"""What is wrong with a file of declarations is told with file, line, key and hint."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.tools.toolsets import load_tools

GOOD = """\
provider: {name: p, base: "https://a.b", secrets: [P_API_KEY], headers: {k: "${P_API_KEY}"}}
tools:
  - name: find
    description: finds
    parameters:
      type: object
      properties: {q: {type: string}, n: {type: integer}}
      required: [q]
    request:
      url: /find/{q}
      query: {n: "{n}"}
    matching: {q: folded, n: {number: 2}}
"""


def problems(folder: Path, text: str) -> list[str]:
    """Load a file, and give what is said of it: line, key, found and hint."""
    (folder / "t.yaml").write_text(dedent(text), encoding="utf-8")
    with pytest.raises(ProblemsFound) as raised:
        load_tools("t.yaml", folder)
    assert all(one.file.endswith("t.yaml") for one in raised.value.problems)
    return [
        f"{one.line} {'.'.join(map(str, one.path))}: {one.found} {one.hint}" for one in raised.value.problems
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    matching:", "    matchign:", "12 tools.0.matchign: unknown key 'matchign' did you mean 'ma"),
        ("base:", "bsae:", "1 provider.bsae: unknown key 'bsae' did you mean 'base'?"),
        ('"{n}"', '"{m}"', "11 tools.0.request.query.n: unknown name 'm' "),
        ("[P_API_KEY]", "[]", "1 provider.headers.k: unknown name 'P_API_KEY' "),
        ("/find/{q}", "/find/{n}", "10 tools.0.request.url: the optional parameter 'n' "),
        ("q: folded", "q: fold", "12 tools.0.matching.q: 'fold' (text) did you mean 'folded'?"),
        ("q: folded", "s: folded", "12 tools.0.matching.s: unknown name 's' "),
        ("required: [q]", "required: [qq]", "8 tools.0.parameters.required.0: 'qq' (text) "),
        (
            "{type: integer}",
            "{type: int}",
            "7 tools.0.parameters.properties.n.type: 'int' (text) did you mean 'integer'?",
        ),
        ("type: object", "type: array", "6 tools.0.parameters.type: 'array' (text) "),
        ('{n: "{n}"}', "{n: {param: n, tabel: {}}}", "11 tools.0.request.query.n: a map with param, tabel "),
        ("    description: finds\n", "", "3 tools.0.description: no key 'description' "),
        ('"https://a.b"', "a.b", "1 provider.base: 'a.b' (text) "),
        ('"https://a.b"', '"https://a.b:99999"', "1 provider.base: 'https://a.b:99999' (text) "),
        ('"https://a.b"', '"https://{n}.b"', "1 provider.base: unknown name 'n' "),
        ("/find/{q}", "find/{q}", "10 tools.0.request.url: 'find/{q}' (text) "),
        ("/find/{q}", '"/f?x={q}"', "10 tools.0.request.url: '/f?x={q}' (text) what stands behind ? belongs"),
        ("url: /find/{q}", "url: {param: q}", "10 tools.0.request.url: an argument "),
        ('{n: "{n}"}', '{n: "${MY-KEY}"}', "11 tools.0.request.query.n: unknown name 'MY-KEY' "),
        ("[P_API_KEY]", "[MY KEY]", "1 provider.secrets.0: 'MY KEY' (text) "),
        (
            "{type: integer}",
            '{type: string, pattern: "(("}',
            "7 tools.0.parameters.properties.n.pattern: '((' ",
        ),
        ("{type: integer}", '{$ref: "#/$defs/n"}', "7 tools.0.parameters.properties.n.$ref: '#/$defs/n' "),
        ("{type: integer}", '{$ref: "http://a/b"}', "7 tools.0.parameters.properties.n.$ref: 'http://a/b' "),
        ("    matching", "    result: {limit: abc}\n    matching", "12 tools.0.result.limit: 'abc' (text) "),
        (
            "    matching",
            "    result: {fields: {a: 'b[*].c'}}\n    matching",
            "12 tools.0.result.fields.a: 'b[*].c' (text) ",
        ),
        (
            "    matching",
            "    errors: [{pattern: '(('}]\n    matching",
            "12 tools.0.errors.0.pattern: '((': ",
        ),
        (
            "    matching",
            "    result: {fields: {a: {paht: b}}}\n    matching",
            "12 tools.0.result.fields.a.paht: unknown key 'paht' did you mean 'path'?",
        ),
        (
            "url: /find/{q}",
            "url: {param: q, tabel: {}}",
            "10 tools.0.request.url.tabel: unknown key 'tabel' did you mean 'table'?",
        ),
        ("    matching", "    errors: [{message: m}]\n    matching", "12 tools.0.errors.0: neither "),
        (
            "      query",
            "      body_as: form\n      body: ['{n}']\n      query",
            "12 tools.0.request.body: a list",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    """Every mistake of a declaration has a line, and what stands there."""
    problem_text = problems(tmp_path, GOOD.replace(old, new, 1))
    assert any(one.startswith(message) for one in problem_text), problem_text


def test_two_tools_of_one_name_are_a_mistake(tmp_path: Path) -> None:
    """A name leads to one tool."""
    again = GOOD[GOOD.index("  - name") :]
    assert problems(tmp_path, GOOD + again) == ["13 tools.1.name: 'find', which tools[0] has too "]


def test_a_file_may_hold_one_tool(tmp_path: Path) -> None:
    """A tool of no provider has its whole address."""
    text = """\
        name: one
        description: d
        request: {url: "https://a.b/c"}
        """
    (tmp_path / "one.yaml").write_text(dedent(text), encoding="utf-8")
    tool = load_tools("one.yaml", tmp_path)["one"]
    assert tool.wire is not None
    assert tool.wire.request({}).uri == "https://a.b/c"
    assert tool.spec.taped
    assert problems(tmp_path, dedent(text).replace("https://a.b", "")) == ["3 request.url: '/c' (text) "]


def test_a_name_that_braces_cannot_hold_is_a_mistake(tmp_path: Path) -> None:
    """It would be sent as it stands: the map {param} can hold it."""
    text = GOOD.replace("n: {type", "page-size: {type").replace(", n: {number: 2}", "")
    assert problems(tmp_path, text.replace('"{n}"', '"{page-size}"')) == [
        "11 tools.0.request.query.n: '{page-size}' (text) "
    ]
    (tmp_path / "t.yaml").write_text(text.replace('"{n}"', "{param: page-size}"), encoding="utf-8")
    wire = load_tools("t.yaml", tmp_path)["find"].wire
    assert wire is not None
    assert wire.request({"q": "x", "page-size": 3}).uri == "https://a.b/find/x?n=3"
