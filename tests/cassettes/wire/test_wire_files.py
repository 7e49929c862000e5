"""The wire files: what each exchange with a model API is read as."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.cassettes.wire.classification import classify
from pytest_agenteval.cassettes.wire.reader import FORMATS, prompt_identity, read_reply, read_request
from pytest_agenteval.cassettes.wire.traffic import ModelRefused, ModelReply

from .exchanges import Exchange, exchanges

EXCHANGES = exchanges()
ANSWERED = [(it, name, response) for it in EXCHANGES for name, response in it.responses()]
ECHOED = [(it, client, request) for it in EXCHANGES for client, request in it.echoes()]


def _name(value: object) -> str:
    return value.name if isinstance(value, Exchange) else value if isinstance(value, str) else ""


def test_every_format_has_wire_files() -> None:
    """No format is read that no file shows: what is asked, what is replied, and how replies are sent back."""
    assert {it.format for it in EXCHANGES} == set(FORMATS)
    assert {it.format for it, *_ in ECHOED} == set(FORMATS)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=_name)
def test_requests_are_known_and_read(exchange: Exchange) -> None:
    """A request of the documented shape is an ask in its format, and is read into the normal form."""
    request, expected = exchange.request, exchange.expected["request"]
    assert classify(request) == classify(request, ["elsewhere.example"])
    assert (classify(request).kind, classify(request).format) == ("ask", expected["format"])
    asked = read_request(exchange.format, request)
    found = {
        "format": asked.format,
        "model": asked.model,
        "streamed": asked.streamed,
        "messages": list(asked.messages),
        "tools": [spec.name for spec in asked.tools],
        "settings": dict(asked.settings),
        "continues": asked.continues,
    }
    defaults = {"streamed": False, "tools": [], "settings": {}, "continues": ""}
    assert found == {**defaults, **expected}


@pytest.mark.parametrize(("exchange", "name", "response"), ANSWERED, ids=_name)
def test_responses_are_read_whole_and_streamed(exchange: Exchange, name: str, response: Response) -> None:
    """Whatever form a reply travels in, it is read as the same reply; an error is told as the provider's."""
    if refused := exchange.expected.get("refused"):
        with pytest.raises(ModelRefused) as raised:
            read_reply(exchange.format, exchange.request, response)
        found = {"status": raised.value.status, "kind": raised.value.kind, "message": raised.value.message}
        assert found == refused
        assert "\n" not in str(raised.value)
        return
    reply = read_reply(exchange.format, exchange.request, response)
    expected = {"calls": [], "usage": {}, "reasoning": "", **exchange.expected["reply"]}
    assert {**_plain(reply), "id": expected.get("id")} == {**expected, "id": expected.get("id")}
    assert reply.id == expected.get("id", reply.id)


def _plain(reply: ModelReply) -> dict[str, Any]:
    """Give what a file says of a reply: counts that are 0 and what a call does not have are left out."""
    usage = reply.usage.to_json()
    assert (usage.pop("asks"), usage.pop("attempts")) == (1, 1)
    calls = [call.to_json() for call in reply.calls]
    return {
        "message": reply.message,
        "calls": [
            {k: v for k, v in call.items() if k in ASKED or (v and (k, v) not in UNSAID)} for call in calls
        ],
        "usage": {k: v for k, v in usage.items() if v or (k == "output_tokens" and usage["input_tokens"])},
        "finish": reply.finish,
        "reasoning": reply.reasoning,
        "model": reply.model,
    }


ASKED = ("id", "tool", "args")
UNSAID = (("by", "agent"), ("tape", "none"))


@pytest.mark.parametrize(("exchange", "client", "request_"), ECHOED, ids=_name)
def test_a_reply_is_equal_to_its_echo(exchange: Exchange, client: str, request_: Request) -> None:
    """However a client sends a reply back, the next request goes on from what was asked and replied."""
    asked = read_request(exchange.format, exchange.request)
    for _, response in exchange.responses():
        reply = read_reply(exchange.format, exchange.request, response)
        later = read_request(exchange.format, request_)
        known = (*asked.messages, reply.message)
        assert later.messages[: len(known)] == known
        assert prompt_identity(later) != prompt_identity(asked)


def test_results_that_smolagents_writes_into_texts_are_results() -> None:
    """Results that a client writes into a text answer the calls that it wrote into the text before."""
    calls = [{"id": id, "function": {"name": "look", "arguments": {"at": id}}} for id in ("a", "b")]
    for observations, results in (("1\n2", ["1", "2"]), ("only this", ["only this", "only this"])):
        said = f"I look.\nCalling tools:\n{calls!r}"
        messages = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": said},
            {"role": "user", "content": f"Observation:\n{observations}"},
            {"role": "user", "content": "Observation:\nof a star"},
        ]
        request = Request("POST", "http://localhost/v1/chat/completions", json.dumps({"messages": messages}))
        _, reply, *answers, last = read_request("openai.chat", request).messages
        assert (reply["content"], [call["id"] for call in reply["tool_calls"]]) == ("I look.", ["a", "b"])
        found = [(it["role"], it["tool_call_id"], it["content"]) for it in answers]
        assert found == [("tool", "a", results[0]), ("tool", "b", results[1])]
        assert last == {"role": "user", "content": "Observation:\nof a star"}
