"""A user's existing cassettes play, whichever vcrpy recorded them, of whichever client, in whichever form."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes.cassette_files import read_cassette
from pytest_agenteval.cassettes.http.patches import remove, taped_http
from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.cassettes.tape import Library, Tape
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tasks.validation import spec_of
from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.tools.http_declaration import ToolDeclaration
from pytest_agenteval.tools.http_tool import http_tool
from pytest_agenteval.tools.tool_tape import ToolTape
from tests.cassettes.http.server import Server
from tests.cassettes.vcrpy.record import BASE, CLIENTS
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]

SAMPLES = Path(__file__).parent.parent / "vcrpy"
PLACE = {"place": "서울역", "near": ["카페", "약국"]}
PAIR = """interactions:
- request: {{method: POST, uri: 'https://x.test/', headers: {{}}, body: {body}}}
  response: {{status: {{code: 200, message: OK}}, headers: {{}}, body: {answer}}}
version: 1
"""
AGENT = """
def ask(task_input, ctx):
    import requests

    from pytest_agenteval import Answer

    return Answer(requests.get("{base}/json?q=today", timeout=9).json()["place"])


def pytest_agenteval_register(registry):
    registry.agent("mine", ask)
"""


@pytest.fixture(autouse=True)
def _patched() -> Iterator[None]:
    yield
    remove()


def held(folder: Path, text: str) -> tuple[Request, Response]:
    """Give the one interaction of a cassette."""
    (folder / "t.yaml").write_text(text, encoding="utf-8")
    (interaction,) = Library(folder).open(Path("t.yaml"), "none", "tool").cassette.interactions
    return interaction.request, interaction.response


def replay_tape(path: Path) -> Tape:
    """Open a cassette for replay."""
    return Library(path.parent).open(Path(path.name), "none", "tool")


@pytest.mark.parametrize(
    "path",
    sorted(path for client in CLIENTS for path in SAMPLES.glob(f"*/{client}.cassette.*")),
    ids=lambda path: f"{path.name.partition('.')[0]}-{path.parent.name}",
)
def test_a_real_cassette_plays_to_the_client_that_recorded_it(path: Path) -> None:
    """Bodies of text, binary, files and parts, encoded or not, redirects, errors: what was given is given."""
    client = path.name.partition(".")[0]
    imported = client.partition("_")[0]
    pytest.importorskip("urllib.request" if imported == "urllib" else imported)
    given = [tuple(answer) for answer in json.loads((SAMPLES / f"{client}.json").read_text(encoding="utf-8"))]

    with taped_http(replay_tape(path)) as scope:
        asked = CLIENTS[client]()

    if client == "httpx" and not _has_brotli():  # which decodes what was kept as it travelled
        given, asked = ([answer for answer in answers if answer[0] != "/br"] for answers in (given, asked))
    assert asked == given
    assert (scope.missed, scope.tape_status) == ([], "hit")


def _has_brotli() -> bool:
    try:
        import brotli  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("path", ["/gzip", "/json?q=서울&n=1", "/deflate"])
def test_a_declared_tool_plays_what_vcrpy_recorded(path: str) -> None:
    """The body is decoded before the tool looks for its result in it."""
    address, _, query = path.partition("?")
    asked = {"url": BASE + address, "query": dict(part.split("=") for part in query.split("&") if part)}
    tool = http_tool(spec_of(ToolDeclaration, {"name": "t", "description": "d", "request": asked}))
    tape = ToolTape(replay_tape(SAMPLES / "9.4.2" / "httpx.cassette.yaml"), retry_command="pytest")

    played = tape.play(ToolCall("c", 1, 0, "t", {}), tool)

    assert played is not None
    assert (played.value, played.error) == (PLACE, None)


def test_what_pytest_recording_wrote_is_named_like_any_shared_cassette(pytester: pytest.Pytester) -> None:
    """An agent's own requests are played from ``cassettes/MODULE/TEST.yaml``, and nothing is sent."""
    pytest.importorskip("requests")
    recorded = SAMPLES / "pytest_recording" / "cassettes" / "test_weather" / "test_today.yaml"
    shared = "tests/cassettes/test_weather/test_today.yaml"
    write(
        pytester.path,
        {
            shared: recorded.read_text(encoding="utf-8"),
            "evals/conftest.py": AGENT.format(base=BASE),
            "evals/suite.yaml": suite(more=f"agent: mine\ncassettes: [../{shared}]\n"),
            "evals/t.yaml": task("t", wants="서울역"),
        },
    )
    run(pytester).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("body", "answer", "held_body", "held_answer"),
    [
        ("{n: 1, word: 가}", "{string: a}", '{"n":1,"word":"가"}', "a"),
        ("!!python/object/new:_io.BytesIO {state: !!python/tuple [ab, 0]}", "{string: c}", "ab", "c"),
        ("!!python/object/apply:builtins.iter {args: [[!!binary YQ==, b]]}", "{}", "ab", None),
    ],
    ids=["map", "file", "parts"],
)
def test_each_form_of_a_body_is_read(
    tmp_path: Path, body: str, answer: str, held_body: Any, held_answer: Any
) -> None:
    """A map is what aiohttp was given; a file and parts are what requests was."""
    request, response = held(tmp_path, PAIR.format(body=body, answer=answer))
    assert (request.body, response.body) == (held_body, held_answer)


@pytest.mark.parametrize(
    "body",
    [
        "!!python/object/apply:os.system ['touch carried_out']",
        "!!python/object/new:pathlib.Path ['x']",
        "!!python/object/apply:builtins.iter {args: [!!python/object/apply:os.system ['touch carried_out']]}",
        "{string: a, encode: UTF-8}",
    ],
)
def test_what_no_vcrpy_wrote_is_refused_by_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """A tag that names code is never run, and a misspelt key is a problem with its line."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProblemsFound) as refused:
        held(tmp_path, PAIR.format(body="null", answer=body if body[0] == "{" else f"{{string: {body}}}"))
    assert refused.value.problems[0].line == 3
    assert [path.name for path in tmp_path.iterdir()] == ["t.yaml"]


def test_vcrpy_is_loaded_only_for_what_ours_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What both write alike costs no import."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "vcr"]:
        monkeypatch.delitem(sys.modules, name)
    folder = SAMPLES / "9.4.2"
    assert len(read_cassette(folder / "urllib.cassette.yaml").interactions) == 4
    assert "vcr" not in sys.modules
    assert read_cassette(folder / "requests.cassette.yaml").interactions
    loaded = [name for name in sys.modules if name.partition(".")[0] == "vcr"]
    assert "vcr" in loaded
    for name in loaded:  # those that were there before are put back
        monkeypatch.delitem(sys.modules, name)


def test_a_secret_inside_an_encoded_body_is_taken_out(tmp_path: Path) -> None:
    """It is decoded before it is redacted, when it is given out and when the file is saved again."""
    zipped = gzip.compress(b'{"api_key": "abcdefgh12345"}')
    text = PAIR.format(body="null", answer=f"{{string: !!binary {_base64(zipped)}}}")
    headers = "headers: {Content-Encoding: [gzip]}, body: {string"
    _, response = held(tmp_path, text.replace("headers: {}, body: {string", headers))
    assert response.body == '{"api_key": "<redacted>"}'
    assert "Content-Encoding" not in response.headers

    library = Library(tmp_path)
    tape = library.open(Path("t.yaml"), "new_episodes", "tool")
    tape.record(Request("GET", "https://x.test/new"), Response(200))
    library.save()
    saved = (tmp_path / "t.yaml").read_text(encoding="utf-8")
    assert '"api_key": "<redacted>"' in saved
    assert "binary" not in saved


def test_vcrpy_plays_what_was_recorded_here(server: Server, tmp_path: Path) -> None:
    """With its own stubs, in mode none: status and text of each library are the same, and nothing is sent."""
    vcr, httpx, requests = map(pytest.importorskip, ("vcr", "httpx", "requests"))

    def ask() -> list[tuple[int, str]]:
        with httpx.Client(verify=False) as client:
            one = client.get(f"{server.base}/find", params={"q": "서울"})
        two = requests.get(f"{server.base}/zipped", timeout=60)
        return [(one.status_code, one.text), (two.status_code, two.text)]

    library = Library(tmp_path)
    with taped_http(library.open(Path("t.yaml"), "once", "tool")):
        live = ask()
    library.save()
    remove()
    before = len(server.asked)
    with vcr.use_cassette(str(tmp_path / "t.yaml"), record_mode="none"):
        assert ask() == live
    assert len(server.asked) == before


def _base64(raw: bytes) -> str:
    import base64

    return base64.b64encode(raw).decode()
