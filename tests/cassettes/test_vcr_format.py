"""Our files are vcrpy's files: the library itself reads ours, and we read what it writes."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes import cassette_files
from pytest_agenteval.cassettes.cassette_files import CassetteContent
from pytest_agenteval.cassettes.interaction import (
    Interaction,
    Request,
    Response,
    chat_request,
    chat_response,
    tool_interaction,
)

vcr_request = pytest.importorskip("vcr.request")
vcr_cassette = pytest.importorskip("vcr.cassette")
PNG = b"\x89PNG\r\n\x1a\n\xff"
TOOL = tool_interaction(
    "장소", {"keyword": "청량리역 근처", "size": 2}, result={"documents": ["😀" * 99, "a\nb"]}
)
CHAT = Interaction(
    chat_request("agent", "openai/gpt", 1, 2, {"messages": []}), chat_response({"text": "yes"})
)
PAGE = Interaction(
    Request("GET", "https://x.kr/a?b=1&c=가", None, {"Accept": "*/*", "X": "1"}),
    Response(200, "OK", {"Content-Type": ["image/png"], "Set": ["a", "b"]}, PNG, {"url": "https://x.kr/a"}),
)
FORM = Interaction(Request("POST", "https://x.kr", PNG, {}), Response(204, "No Content"))
TEXT = Interaction(Request("PUT", "https://x.kr", "line 1\nline 2\n"), Response(200, "OK", body="null"))
ALL = (TOOL, CHAT, PAGE, FORM, TEXT)


def serializer(suffix: str) -> Any:
    """Give vcrpy's serializer of a format."""
    return importlib.import_module(f"vcr.serializers.{suffix.strip('.')}serializer")


def as_bytes(body: str | bytes | None) -> bytes | None:
    """Give a body as vcrpy holds it."""
    return body.encode("utf-8") if isinstance(body, str) else body


@pytest.mark.parametrize(("suffix", "interactions"), [(".yaml", ALL), (".json", (TOOL, CHAT, TEXT))])
def test_vcr_loads_what_we_write(tmp_path: Path, suffix: str, interactions: tuple[Interaction, ...]) -> None:
    """vcrpy's own cassette holds the same requests and responses, byte for byte."""
    path = tmp_path / f"a{suffix}"
    cassette_files.write_cassette(path, CassetteContent(interactions, "# synthetic\n"))

    held = vcr_cassette.Cassette.load(path=str(path), serializer=serializer(suffix))

    assert len(held) == len(interactions)
    for (request, response), ours in zip(held.data, interactions, strict=True):
        assert (request.method, request.uri) == (ours.request.method, ours.request.uri)
        assert request.body == as_bytes(ours.request.body)
        assert dict(request.headers) == {name: values[0] for name, values in ours.request.headers.items()}
        assert response["status"] == {"code": ours.response.status, "message": ours.response.message}
        assert response["body"]["string"] == as_bytes(ours.response.body)
        assert response["headers"] == {name: list(values) for name, values in ours.response.headers.items()}
        assert response.get("url") == ours.response.extra.get("url")


def test_tags_of_older_vcr_are_read(tmp_path: Path) -> None:
    """Cassettes of the days when plain values had Python's tags can be played; objects cannot."""
    path = tmp_path / "a.yaml"
    path.write_text(
        "interactions:\n- request: {method: GET, uri: !!python/unicode 'https://x', body: null,\n"
        "    headers: {A: !!python/tuple [b]}}\n  response: {status: {code: 200, message: OK}, headers: {},\n"
        "    body: {string: !!python/str 'c'}}\nversion: 1\n",
        encoding="utf-8",
    )

    assert cassette_files.read_cassette(path).interactions == (
        Interaction(Request("GET", "https://x", None, {"A": "b"}), Response(200, "OK", body="c")),
    )


def test_replay_loads_neither_vcr_nor_yaml_before_a_file_is_read(tmp_path: Path) -> None:
    """Importing this room costs no heavy import, and playing tools and chats never loads vcrpy or litellm."""
    path = tmp_path / "a.yaml"
    cassette_files.write_cassette(path, CassetteContent((TOOL, CHAT)))
    program = f"""
import sys
from pathlib import Path
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.cassettes.interaction import tool_request
assert "yaml" not in sys.modules and "pytest" not in sys.modules
tape = Library().open(Path({str(path)!r}), "none", "tool")
assert tape.play(tool_request("장소", {{"size": 2, "keyword": "청량리역 근처"}}))
assert not {{"vcr", "litellm", "httpx", "pydantic"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-X", "utf8", "-c", program], check=True)
