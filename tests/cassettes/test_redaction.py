"""No secret is held in memory or written to a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.cassettes.interaction import (
    Interaction,
    Request,
    Response,
    chat_request,
    chat_response,
    tool_request,
    tool_response,
)
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.request_matching import key_of
from pytest_agenteval.cassettes.tape import Library

SECRET = 'pa"ss/wörd+\\9'
KNOWING = Redactor.from_environ({"NAVER_API_KEY": SECRET, "SHORT_TOKEN": "abc", "PATH": "/usr/local/bin"})
NAIVE = Redactor()


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "X-API-Key", "cookie", "Set-Cookie", "Proxy-Authorization", "appkey", "appsecret"),
        *("appKey", "X-Naver-Client-Secret", "x-goog-api-key", "X-Auth-Token", "x-amz-security-token"),
        *("X-Auth", "Mcp-Session-Id", "X-Amz-Signature", "X-Passwd"),
    ],
)
def test_telling_headers(name: str) -> None:
    """Credentials in headers go, whatever the case of their names; other headers stay."""
    request = Request("GET", "https://x", None, {name: "abc", "Accept": "json", "X-Naver-Client-Id": "me"})

    cleaned = NAIVE.request(request).headers

    assert cleaned[name] == ("<redacted>",)
    assert cleaned["Accept"] == ("json",)
    assert cleaned["X-Naver-Client-Id"] == ("me",)


@pytest.mark.parametrize(
    ("uri", "cleaned"),
    [
        ("https://x/a?key=abc&q=1", "https://x/a?key=<redacted>&q=1"),
        ("https://x/a?q=1&serviceKey=a%2Bb%3D#top", "https://x/a?q=1&serviceKey=<redacted>#top"),
        (
            "https://x/?ttbkey=a&TTBKey=b&access_token=c",
            "https://x/?ttbkey=<redacted>&TTBKey=<redacted>&access_token=<redacted>",
        ),
        ("https://me:abc@x/a", "https://<redacted>@x/a"),
        (
            "https://x/a?api_token=a&googleApiKey=b",
            "https://x/a?api_token=<redacted>&googleApiKey=<redacted>",
        ),
        ("https://x/cb#access_token=abc&n=1", "https://x/cb#access_token=<redacted>&n=1"),
        ("/cb?api_key=abc&n=1", "/cb?api_key=<redacted>&n=1"),
        (
            "https://x/in?to=https%3A%2F%2Fy%2F%3Ftoken%3Da%2Bb%26n%3D1",
            "https://x/in?to=https%3A%2F%2Fy%2F%3Ftoken%3D<redacted>%26n%3D1",
        ),
        ("https://x/a?keyword=abc&tokens=2&monkey=3", "https://x/a?keyword=abc&tokens=2&monkey=3"),
        ("https://x/a?page_token=abc&nextToken=abc", "https://x/a?page_token=abc&nextToken=abc"),
    ],
)
def test_telling_parameters(uri: str, cleaned: str) -> None:
    """Credentials in an address go, and nothing else of it does."""
    assert NAIVE.uri(uri) == cleaned


@pytest.mark.parametrize(
    ("body", "cleaned"),
    [
        ('{"api_key": "a\\"b", "q": 1.50}', '{"api_key": "<redacted>", "q": 1.50}'),
        ('{"a":[{"clientSecret":"x"},{"b":2}]}', '{"a":[{"clientSecret":"<redacted>"},{"b":2}]}'),
        ('{"user_password":1234}', '{"user_password":"<redacted>"}'),
        ('{"password": ["a", "b"], "q": 1}', '{"password": "<redacted>", "q": 1}'),
        ('{"token": "eyJhbGciOi"}', '{"token": "<redacted>"}'),
        ('data: {"access_token": "abc"}\n\ndata: []', 'data: {"access_token": "<redacted>"}\n\ndata: []'),
        (
            '{"arguments": "{\\"api_key\\": \\"a b\\", \\"q\\": 1}"}',
            '{"arguments": "{\\"api_key\\": \\"<redacted>\\", \\"q\\": 1}"}',
        ),
        ('{"secret": "torn', '{"secret": "<redacted>"'),
        (
            "<api:apiKey a='1'>abc</api:apiKey><passphrase>d</passphrase><keyword/>",
            "<api:apiKey a='1'><redacted></api:apiKey><passphrase><redacted></passphrase><keyword/>",
        ),
        ("user=me&password=abc&key=x", "user=me&password=<redacted>&key=<redacted>"),
        ("see https://x/?serviceKey=abc&q=1, please", "see https://x/?serviceKey=<redacted>&q=1, please"),
        ("<link>https://x/?q=1&amp;ttbkey=abc</link>", "<link>https://x/?q=1&amp;ttbkey=<redacted></link>"),
        (
            '{"userAccessToken": "abc", "api_token": "x"}',
            '{"userAccessToken": "<redacted>", "api_token": "<redacted>"}',
        ),
        (
            '--b\r\nContent-Disposition: form-data; name="password"\r\n\r\nabc\r\n--b--\r\n',
            '--b\r\nContent-Disposition: form-data; name="password"\r\n\r\n<redacted>\r\n--b--\r\n',
        ),
    ],
)
def test_telling_keys_of_a_body(body: str, cleaned: str) -> None:
    """Values under telling keys go, in JSON, forms, streams and JSON inside of JSON; the rest stays exact."""
    assert NAIVE.response(Response(200, body=body)).body == cleaned


@pytest.mark.parametrize(
    "body",
    [
        '{"key":"PROJ-1","keyword":"a"}',
        '{"token":"BTC","max_tokens":100,"next_page_token":"abcd3fgh"}',
        '{"password":{"type":"string"},"required":["password"]}',
        '{"password": null, "secret": false}',
        "x = api_key",
    ],
)
def test_ordinary_words_stay(body: str) -> None:
    """A word that is no secret is kept: redacted, two different calls would become the same one."""
    assert NAIVE.request(Request("POST", "tool://t", body)).body == body


def test_a_secret_of_the_environment_is_found_wherever_it_stands() -> None:
    """Its value is known: it is found in addresses, headers, bodies and results, however escaped there."""
    nested = json.dumps({"arguments": json.dumps({"q": f"<{SECRET}>"})})
    request = Request(
        "POST",
        "https://x/pa%22ss%2Fw%C3%B6rd%2B%5C9?a=pa%22ss%2Fw%C3%B6rd%2B%5C9",
        nested,
        {"X-Other": SECRET},
    )
    response = tool_response({"echo": [SECRET], "rest": "abc /usr/local/bin"})

    cleaned = KNOWING.interaction(Interaction(request, response))

    assert cleaned.request.uri == "https://x/<redacted>?a=<redacted>"
    assert cleaned.request.body == '{"arguments": "{\\"q\\": \\"<<redacted>>\\"}"}'
    assert cleaned.request.headers == {"X-Other": ("<redacted>",)}
    assert cleaned.response.body == '{"result": {"echo": ["<redacted>"], "rest": "abc /usr/local/bin"}}'


def test_a_secret_in_a_binary_body() -> None:
    """Bytes that are no text are searched as well."""
    knowing = Redactor(["hunter2hunter2"])

    assert knowing.response(Response(200, body=b"\xff hunter2hunter2 \xfe")).body == b"\xff <redacted> \xfe"


@pytest.mark.parametrize(
    ("body", "cleaned"),
    [
        ('{"이름": "홍길동", "access_token": "abc"}', '{"이름": "홍길동", "access_token": "<redacted>"}'),
        ("name=홍길동&password=abc", "name=홍길동&password=<redacted>"),
    ],
)
def test_telling_keys_of_a_body_in_another_encoding(body: str, cleaned: str) -> None:
    """What is no UTF-8 is looked through as well, and its other bytes stay."""
    given = NAIVE.response(Response(200, body=body.encode("euc-kr"))).body

    assert given == cleaned.encode("euc-kr")


SAYINGS = st.sampled_from(
    (
        *("all is well", "the key is under the mat", "x=1&page=2", "<b>bold</b>", 'a " quote', "task-12"),
        *('{"api_key": "SECRET-IT-IS"}', "https://host/x?access_token=SECRET-IT-IS"),
        *("Bearer SECRET-IT-IS-01234", "<x:auth_token a='b'>SECRET-IT-IS</x:auth_token>"),
    )
)


@given(st.lists(st.lists(SAYINGS, max_size=4), max_size=6), st.booleans())
def test_a_body_is_redacted_whatever_was_seen_before(conversations: list[list[str]], nested: bool) -> None:
    """What was clean is not looked at again: no secret beside it is overlooked for that."""
    experienced = Redactor()
    for said in conversations:
        body = json.dumps({"messages": [{"role": "user", "content": saying} for saying in said]})
        body = json.dumps({"log": body, "token_type": "x"}) if nested else body
        asked = Request("POST", "https://models.test/v1/chat", body)

        redacted = experienced.request(asked)

        assert redacted == Redactor().request(asked)
        assert "SECRET-IT-IS" not in (redacted.body or "")
        assert ("SECRET-IT-IS" in body) == (redacted.body != body)


def test_addresses_in_headers() -> None:
    """The address of the next page or of the way back may hold a credential."""
    given = {"Link": '<https://x/?page=2&access_token=abc>; rel="next"', "Location": "/cb#token=abc"}

    cleaned = NAIVE.response(Response(302, headers=given)).headers

    assert cleaned["Link"] == ('<https://x/?page=2&access_token=<redacted>>; rel="next"',)
    assert cleaned["Location"] == ("/cb#token=<redacted>",)


def test_a_key_that_is_kept_as_addresses_write_it() -> None:
    """Portals hand out a key percent-encoded: it is found decoded, too."""
    knowing = Redactor.from_environ({"DATA_API_KEY": "abc%2Bdef%3D%3D"})

    assert knowing.text("abc+def== abc%2Bdef%3D%3D") == "<redacted> <redacted>"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *((name, True) for name in ("OPENAI_API_KEY", "GH_TOKEN", "DB_PASSWORD_FILE", "NAVER_CLIENT_SECRET")),
        *((name, True) for name in ("AWS_SECRET_ACCESS_KEY", "TMAP_APP_KEY", "KIS_APPSECRET")),
        *((name, False) for name in ("SORT_KEY", "TOKENIZERS_PARALLELISM", "SECRETS_FOLDER")),
    ],
)
def test_which_variables_are_secret(name: str, secret: bool) -> None:
    """A variable's name tells; values of fewer than eight characters would hit ordinary words."""
    assert (Redactor.from_environ({name: "abcd3fgh"}).text("-abcd3fgh-") == "-<redacted>-") is secret
    assert Redactor.from_environ({name: "abcdefg"}).text("-abcdefg-") == "-abcdefg-"


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["password", "q", "api_key"]), st.text() | st.integers() | st.lists(st.text())
    )
)
def test_redacted_is_redacted(args: dict[str, object]) -> None:
    """Redacting twice changes nothing, so that a request matches its recording."""
    once = KNOWING.request(tool_request("t", args))

    assert KNOWING.request(once) == once
    assert key_of(KNOWING.request(once)) == key_of(once)
    json.loads(str(once.body))


def test_no_secret_reaches_the_file_or_the_held_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded, held, saved, loaded from elsewhere or told in a miss: no secret, and replay matches."""
    monkeypatch.setenv("SOME_API_KEY", "s3cr3t-value")
    path = tmp_path / "a.yaml"
    path.write_text(
        "interactions:\n- request: {method: GET, uri: 'https://x/?key=s3cr3t-value', body: null, headers: {}}"
        "\n  response: {status: {code: 200, message: s3}, headers: {}, body: {string: s3cr3t-value}}\n"
        "version: 1\n",
        encoding="utf-8",
    )
    calls = [
        (
            Request("GET", "https://x/?a=s3cr3t-value", None, {"X": "s3cr3t-value"}),
            Response(200, body="s3cr3t-value"),
        ),
        (tool_request("t", {"q": "s3cr3t-value"}), tool_response({"r": "s3cr3t-value"})),
        (chat_request("agent", "m", 1, 1, {"q": "s3cr3t-value"}), chat_response({"text": "s3cr3t-value"})),
    ]
    library = Library(tmp_path)
    tape = library.open(path, "new_episodes", "tool")
    for request, response in calls:
        assert tape.play(request) is None
        tape.record(request, response)
    library.save()

    assert "s3cr3t" not in path.read_text("utf-8")
    assert "s3cr3t" not in repr(tape.cassette.interactions)
    replay = Library(tmp_path).open(path, "none", "tool")
    assert all(replay.play(request) for request, _ in calls)
    assert replay.play(Request("GET", "https://x/?key=another-one"))
    assert "s3cr3t" not in str(replay.miss(tool_request("u", {"q": "s3cr3t-value"}), "pytest"))
