"""What holds of every exchange with a model API, whatever stands in it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agenteval.cassettes.interaction import Request, Response, bytes_of, text_of
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.wire.classification import classify
from pytest_agenteval.cassettes.wire.reader import prompt_identity, read_reply, read_request
from pytest_agenteval.cassettes.wire.traffic import ModelReply, UnreadableTraffic
from pytest_agenteval.records.replies import INCOMPLETE

from .exchanges import exchanges

EXCHANGES = exchanges()
ANSWERED = [(it, response) for it in EXCHANGES for _, response in it.responses()]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
HALVES = ["\ud83d", "\ude00"]
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


ASKED = Request("POST", "http://localhost/v1/chat/completions", json.dumps({"model": "m", "messages": [{}]}))


def _streamed(text: str, arguments: str, cut: int) -> Response:
    """Stream a reply with a call in pieces of so many UTF-16 units, which may be halves of characters."""
    events = []
    for name, whole in (("content", text), ("arguments", arguments)):
        units = whole.encode("utf-16-le", "surrogatepass")
        for at in range(0, len(units), 2 * cut):
            piece = units[at : at + 2 * cut].decode("utf-16-le", "surrogatepass")
            function = {"name": "look" if at == 0 else None, "arguments": piece}
            call = {"tool_calls": [{"index": 0, "function": function}]}
            events.append({"choices": [{"delta": {"content": piece} if name == "content" else call}]})
    return Response(200, body="".join(f"data: {json.dumps(event)}\n\n" for event in [*events, {}]))


@pytest.mark.parametrize("opened", ["", "<think>"])
@pytest.mark.parametrize("cut", range(1, 5))
def test_marks_and_characters_may_be_cut_anywhere(cut: int, opened: str) -> None:
    """Thoughts are split off, and halves of characters put together, once a stream is joined."""
    streamed = _streamed(f"{opened}no 😀 🇰🇷</think>yes 😀", '{"at": "😀"}', cut)

    reply = read_reply("openai.chat", ASKED, streamed)

    assert (reply.reasoning, reply.message["content"]) == ("no 😀 🇰🇷", "yes 😀")
    assert [dict(call.args) for call in reply.calls] == [{"at": "😀"}]


def test_bytes_of_a_character_may_come_in_two_events() -> None:
    """A server that cuts its bytes, not its characters, means the character all the same."""
    halves = ["\udcf0\udc9f", "\udc98\udc80 \udcf0"]
    deltas = [{"choices": [{"delta": {"content": half}, "finish_reason": "stop"}]} for half in halves]
    body = "".join(f"data: {json.dumps(delta, ensure_ascii=False)}\n\n" for delta in deltas)
    response = Response(200, body=body.encode("utf-8", "surrogateescape"))

    assert read_reply("openai.chat", ASKED, response).message["content"] == "😀 \ufffd"


@pytest.mark.parametrize("half", HALVES)
def test_half_a_character_that_stays_alone_is_replaced(half: str) -> None:
    """No store, page or table takes one; U+FFFD says that something was there."""
    reply = read_reply("openai.chat", ASKED, _streamed(f"a{half}b", json.dumps({"at": half}), 1))

    assert reply.message["content"] == "a\ufffdb"
    assert [dict(call.args) for call in reply.calls] == [{"at": "\ufffd"}]


@given(st.integers(1, 9), st.sampled_from(["", "<think>"]))
def test_no_piece_of_a_secret_is_recorded(cut: int, opened: str) -> None:
    """A recorded stream says the same as before but for the secret, wherever it was cut."""
    secret = 'CUST-\u00e4"9-😀-4711'
    text = f"{opened}{secret} is it{'</think>' if opened else ''}, or {secret}"
    streamed = _streamed(text, json.dumps({"at": secret, "to": [1, secret]}), cut)

    reply = read_reply("openai.chat", ASKED, Redactor([secret]).response(streamed))

    said = ("<redacted> is it", ", or <redacted>") if opened else ("", "<redacted> is it, or <redacted>")
    assert (reply.reasoning, reply.message["content"]) == said
    assert [dict(call.args) for call in reply.calls] == [{"at": "<redacted>", "to": [1, "<redacted>"]}]


def test_choices_and_telling_names_are_looked_at_apart() -> None:
    """Two choices come mixed; arguments name what they hold; what is no secret stays in its piece."""
    said = [(0, "key CUST"), (1, "no secret: CUS"), (0, "-4711"), (1, "T-47"), (0, "1 it is"), (1, ".")]
    events: list[Any] = [
        {"id": "c1", "choices": [{"index": at, "delta": {"content": piece}}]} for at, piece in said
    ]
    for piece in ('{"pass', 'word": "hunt', 'er2hunter2"}'):
        delta = {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
        events.append({"id": "c1", "choices": [{"index": 0, "delta": delta}]})
    body = "".join(f"event: chunk\ndata: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"

    recorded = text_of(Redactor(["CUST-47111"]).response(Response(200, body=body)).body)

    kept = [json.loads(line[6:]) for line in recorded.splitlines() if line.startswith("data: {")]
    deltas = [event["choices"][0]["delta"] for event in kept]
    assert [delta.get("content") for delta in deltas[:6]] == [
        "key <redacted>",
        "no secret: CUS",
        "",
        "T-47",
        " it is",
        ".",
    ]
    joined = "".join(delta["tool_calls"][0]["function"]["arguments"] for delta in deltas[6:])
    assert json.loads(joined) == {"password": "<redacted>"}
    assert recorded.count("event: chunk\n") == len(events)
    assert recorded.endswith("data: [DONE]\n\n")


def test_parts_of_one_message_are_one_text() -> None:
    """A client may send a text in parts, of which a model makes one."""
    parts = [{"type": "text", "text": "I am CUST-4"}, {"type": "text", "text": "711, hello"}]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": parts}]})
    redactor = Redactor(["CUST-4711"])

    (message,) = json.loads(text_of(redactor.request(Request("POST", "http://localhost", body)).body))[
        "messages"
    ]

    assert [part["text"] for part in message["content"]] == ["I am <redacted>", ", hello"]


@given(st.sampled_from(ANSWERED), st.sampled_from(["\r\n", "\r", "\n"]))
def test_lines_of_a_stream_may_end_in_any_way(answered: Any, ending: str) -> None:
    """Carriage returns, which some servers and proxies write, are ends of lines too."""
    exchange, response = answered
    body = text_of(response.body)
    if not body.startswith(("data:", "event:", ":")) or "\r" in body:
        return
    rewritten = Response(response.status, body=body.replace("\n", ending))
    assert _read(exchange, rewritten) == _read(exchange, response)


@given(st.sampled_from(ANSWERED), st.floats(0, 1, exclude_max=True))
@example(next(each for each in ANSWERED if "OPENROUTER" in text_of(each[1].body)), 0.5)
def test_a_reply_that_is_cut_off_is_whole_or_incomplete(answered: Any, share: float) -> None:
    """A reply that is cut at any byte is read as incomplete or as the whole one; so is a refusal."""
    exchange, response = answered
    whole, raw = _read(exchange, response), bytes_of(response.body)
    part = _read(exchange, Response(response.status, "", {}, raw[: int(len(raw) * share)]))
    if isinstance(part, ModelReply) and part.finish != INCOMPLETE:
        assert (part.message, part.calls, part.finish) == (whole.message, whole.calls, whole.finish)


def _read(exchange: Any, response: Response) -> Any:
    try:
        return read_reply(exchange.format, exchange.request, response)
    except UnreadableTraffic as refused:
        return str(refused)


@given(st.sampled_from(ANSWERED), st.data())
def test_damaged_replies_are_read_or_unreadable(answered: Any, data: st.DataObject) -> None:
    """Whatever a server answers, the reader gives a reply or says in one line that it cannot."""
    exchange, response = answered
    damaged = Response(response.status, "", {}, _damaged(bytes_of(response.body), data))
    reading = _read(exchange, damaged)
    assert isinstance(reading, ModelReply) or (reading and "\n" not in reading)


@given(st.sampled_from(EXCHANGES), st.data())
def test_damaged_requests_are_read_or_unreadable(exchange: Any, data: st.DataObject) -> None:
    """Whatever a client sends, it is classified; the reader gives what is asked or says that it cannot."""
    damaged = Request("POST", exchange.request.uri, _damaged(bytes_of(exchange.request.body), data))
    classify(damaged)
    with suppress(UnreadableTraffic):
        prompt_identity(read_request(exchange.format, damaged))


def _damaged(raw: bytes, data: st.DataObject) -> bytes:
    """Cut bytes out and put others in, or put any value into a JSON text's place of another."""
    with suppress(ValueError):
        value = json.loads(raw)
        if data.draw(st.booleans(), "by value"):
            return json.dumps(_with_odd_value(value, data)).encode()
    start = data.draw(st.integers(0, len(raw)), "from")
    end = data.draw(st.integers(start, min(len(raw), start + 40)), "to")
    return raw[:start] + data.draw(st.binary(max_size=6), "instead") + raw[end:]


def _with_odd_value(value: Any, data: st.DataObject) -> Any:
    if not value or not isinstance(value, dict | list) or data.draw(st.integers(0, 5), "here") == 0:
        return data.draw(ODD, "odd")
    if isinstance(value, list):
        place = data.draw(st.integers(0, len(value) - 1))
        return [*value[:place], _with_odd_value(value[place], data), *value[place + 1 :]]
    name = data.draw(st.sampled_from(sorted(value)))
    return {**value, name: _with_odd_value(value[name], data)}
