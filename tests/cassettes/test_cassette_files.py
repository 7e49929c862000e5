"""Cassette files: exact, readable, and clear about what is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agenteval.cassettes import cassette_files
from pytest_agenteval.cassettes.cassette_files import CassetteContent
from pytest_agenteval.cassettes.cassette_format import interactions_in, json_text, parse_text, yaml_text
from pytest_agenteval.cassettes.interaction import Interaction, Request, Response, tool_interaction
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake

LINES = st.lists(
    st.text(max_size=8) | st.sampled_from(["", " ", "\t", "#", "- a", "가나", "😀", "a: b"]), max_size=6
)
TEXTS = (
    st.text()
    | LINES.map("\n".join)
    | st.from_regex(r"[-+]?[0-9_.:e]+|[~=<!&*?|>%@`'\"{}\[\],]+", fullmatch=True)
)
BODIES = st.none() | TEXTS | st.binary(max_size=100)
HEADERS = st.dictionaries(TEXTS, st.lists(TEXTS, max_size=3), max_size=3)
INTERACTIONS = st.builds(
    Interaction,
    st.builds(Request, TEXTS, TEXTS.map("https://{}".format), BODIES, HEADERS),
    st.builds(Response, st.integers(100, 599), TEXTS, HEADERS, BODIES, st.just({"url": "https://가/?a=1"})),
)
SEARCH = tool_interaction(
    "search", {"keyword": "청량리역"}, result={"documents": ["서울시립대 😀" * 9, "경희대"]}
)


def of_body(body: str | bytes) -> Interaction:
    """Give a request and a response of this body."""
    return Interaction(Request("GET", "https://x", body), Response(200, "OK", body=body))


@given(st.lists(INTERACTIONS, max_size=2))
@example(
    [of_body(text) for text in ("yes", "null", "1e3", "0x1f", "2020-01-01", "~", "", "=", "<<", "12:30:45")]
)
@example(
    [
        of_body(text)
        for text in ("a\n", "a\n\n", "\na", " a\nb", "a \nb", "a\tb\n\tc", "\ta\nb", "a\r\nb", "a\n \nb")
    ]
)
@example(
    [
        of_body(text)
        for text in ("\x85", "\u2028", "\ufeffa\nb", "\x00", "\x7f", "a\u00a0\nb", "---\n...\n# x")
    ]
)
@example([of_body(b"\x89PNG\r\n\x1a\n" * 30), of_body(b"\xff")])
def test_what_is_written_is_read_back_to_the_last_byte(interactions: list[Interaction]) -> None:
    """Whatever a body, header or address holds, both of PyYAML's loaders give it back unchanged."""
    text = yaml_text(interactions, "", {})

    assert interactions_in(parse_text(text, False, "x.yaml")) == tuple(interactions)
    assert interactions_in(yaml.load(text, Loader=yaml.SafeLoader)) == tuple(interactions)


@given(
    st.lists(
        INTERACTIONS.filter(lambda it: not {type(it.request.body), type(it.response.body)} & {bytes}),
        max_size=2,
    )
)
def test_json_is_read_back_to_the_last_byte(interactions: list[Interaction]) -> None:
    """The same for the JSON format, as far as bodies are text."""
    assert interactions_in(parse_text(json_text(interactions, {}), True, "x.json")) == tuple(interactions)


def test_a_reviewer_can_read_the_file(tmp_path: Path) -> None:
    """Hangul and emoji stand as they are, long JSON in lines, headers in one line each."""
    page = Interaction(
        Request("GET", "https://x/a?b=1", None, {"Accept": "*/*"}),
        Response(200, "OK", {"Content-Type": "a/b"}, "1"),
    )
    cassette_files.write_cassette(
        tmp_path / "a.yaml", CassetteContent((SEARCH, page), "# synthetic: written by hand\n")
    )

    assert (
        (tmp_path / "a.yaml").read_text(encoding="utf-8")
        == f"""\
# synthetic: written by hand
interactions:
- request:
    method: POST
    uri: tool://search
    body: '{{"keyword":"청량리역"}}'
    headers: {{}}
  response:
    status: {{code: 200, message: OK}}
    headers: {{}}
    body:
      string: |-
        {{
          "result": {{
            "documents": [
              "{"서울시립대 😀" * 9}",
              "경희대"
            ]
          }}
        }}
- request:
    method: GET
    uri: 'https://x/a?b=1'
    body: null
    headers:
      Accept: ['*/*']
  response:
    status: {{code: 200, message: OK}}
    headers:
      Content-Type: [a/b]
    body:
      string: '1'
version: 1
"""
    )


def test_saving_again_changes_nothing_but_what_is_new(tmp_path: Path) -> None:
    """The comment at the top and keys of other programs stay, and a save of the same is the same file."""
    path = tmp_path / "a.yaml"
    path.write_text(
        "# synthetic: by hand\n\n# twice\ninteractions: []\nversion: 1\nmetadata: {seed: 1}\n", "utf-8"
    )

    cassette_files.save_cassette(path, [SEARCH])
    once = path.read_bytes()
    cassette_files.save_cassette(path, [SEARCH])

    assert path.read_bytes() == once
    assert once.startswith(b"# synthetic: by hand\n\n# twice\ninteractions:\n- request:")
    assert once.endswith(b"version: 1\nmetadata: {seed: 1}\n")


@pytest.mark.parametrize("text", ["", "\n", "# synthetic: not yet recorded\n", "# no newline"])
def test_a_file_without_content_is_not_there(tmp_path: Path, text: str) -> None:
    """As with vcrpy an empty file is recorded anew; its comments are kept."""
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")

    assert not cassette_files.read_cassette(path).there
    cassette_files.save_cassette(path, [SEARCH])
    assert cassette_files.read_cassette(path).interactions == (SEARCH,)
    assert text.strip() in path.read_text("utf-8")


def test_equal_requests_are_added_only_as_often_as_they_are_missing() -> None:
    """Merging twice adds nothing; a third answer to the same request is added to two."""
    first, second, third = (tool_interaction("t", {}, result=n) for n in range(3))

    assert cassette_files.merge_interactions([first], [second]) == [first]
    assert cassette_files.merge_interactions([first, second], [first, second, third]) == [
        first,
        second,
        third,
    ]


HEAD = "interactions:\n- request: {method: POST, uri: 'tool://t', body: '{}', headers: {}}\n  response:\n"
WRONG = {
    "torn": (
        "interactions:\n- request:\n    body: 'abc",
        "a.yaml:3\n  expected: YAML as vcrpy writes it\n"
        "  found:    while scanning a quoted scalar found unexpected end of stream",
    ),
    "newer": (
        "version: 2\ninteractions: []\n",
        "a.yaml:1: version\n  expected: version 1\n  found:    version 2\n"
        "  hint:     a newer program wrote this file; update pytest-agenteval, or record the file again",
    ),
    "no list": (
        "version: 1\ninteractions:\n",
        "a.yaml:2: interactions\n  expected: a list of interactions\n  found:    nothing",
    ),
    "old": (
        "- request: {}\n",
        "a.yaml:1\n  expected: a map with interactions and version\n  found:    a list",
    ),
    "status": (
        HEAD + "    status: {code: ok}\n",
        "a.yaml:4: interactions[0].response.status.code\n"
        "  expected: a status code such as 200\n  found:    'ok' (text)",
    ),
    "answer": (
        HEAD
        + "    status: {code: 200, message: OK}\n    headers: {}\n    body:\n"
        + "      string: '{\"documents\": []}'\n",
        "a.yaml:7: interactions[0].response.body.string\n"
        '  expected: a JSON map with "result" or "error"\n  found:    the keys documents',
    ),
    "unquoted": (
        HEAD + "    status: {code: 200, message: OK}\n    body:\n      string: {result: 1}\n",
        "a.yaml:6: interactions[0].response.body.string\n  expected: text, binary or nothing\n"
        "  found:    a map\n  hint:     put the body in quotes, or below a '|'",
    ),
    "typing error": (
        "interactions:\n- request:\n    metod: GET\n",
        "a.yaml:3: interactions[0].request.metod\n  expected: one of body, headers, method, uri\n"
        "  found:    unknown key 'metod'",
    ),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    """Whoever wrote or merged a cassette by hand is told the line, what belongs there and what was found."""
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ProblemsFound) as problems:
        cassette_files.read_cassette(path, "a.yaml")

    assert str(problems.value) == message


@pytest.mark.parametrize(
    "text", [b"interactions: !!python/object:os.system {}\n", b"a\nb: \xff\n", b"\x07", b"a: [}", b"[" * 9000]
)
def test_no_file_makes_reading_crash(tmp_path: Path, text: bytes) -> None:
    """Foreign tags, other encodings and control characters are problems of the file, not tracebacks."""
    path = tmp_path / "a.yaml"
    path.write_bytes(text)

    with pytest.raises(ProblemsFound, match=r"a\.yaml"):
        cassette_files.read_cassette(path, "a.yaml")


def test_json_mistakes_have_lines_too(tmp_path: Path) -> None:
    """A torn JSON file names its line; a binary body is refused with the way out."""
    path = tmp_path / "a.json"
    path.write_text('{"interactions": [\n{"request":', encoding="utf-8")
    with pytest.raises(ProblemsFound, match=r"a\.json:2\n"):
        cassette_files.read_cassette(path)

    path.write_text('{"interactions": [\n{"request": {}}]}', encoding="utf-8")
    with pytest.raises(ProblemsFound, match=r"a\.json:2: interactions\[0\].request.method"):
        cassette_files.read_cassette(path)

    with pytest.raises(ProblemsFound, match=r"ends in \.yaml"):
        cassette_files.write_cassette(path, CassetteContent((of_body(b"\xff"),)))


def test_a_name_without_a_format_is_refused(tmp_path: Path) -> None:
    """The suffix says the format, so it has to be one that we know."""
    with pytest.raises(UsageMistake, match=r"a\.txt: a cassette's name ends in \.yaml, \.yml or \.json"):
        cassette_files.read_cassette(tmp_path / "a.txt", "a.txt")


def test_a_crash_before_the_rename_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is never half written: what was there is there, and nothing is left beside it."""
    path = tmp_path / "a.yaml"
    cassette_files.write_cassette(path, CassetteContent((SEARCH,)))
    before = path.read_bytes()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        cassette_files.save_cassette(path, [of_body("new")])

    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.yaml"]


def test_a_folder_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    """The user is told which file could not be saved, and why, without a traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ProblemsFound, match="expected: a file that can be written"):
        cassette_files.save_cassette(tmp_path / "file" / "a.yaml", [SEARCH])


@pytest.mark.posix
def test_the_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    """Replacing a file neither closes it to others nor cuts the link that leads to it."""
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    cassette_files.write_cassette(real, CassetteContent())
    real.chmod(0o664)
    link.symlink_to(real)

    cassette_files.save_cassette(link, [SEARCH])

    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o664
    assert cassette_files.read_cassette(real).interactions == (SEARCH,)
