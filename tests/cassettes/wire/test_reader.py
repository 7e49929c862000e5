"""What the reader says of errors, of equal prompts, and of calls without ids."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.cassettes.wire.reader import FORMATS, prompt_identity, read_reply, read_request
from pytest_agenteval.cassettes.wire.response_bodies import error_response
from pytest_agenteval.cassettes.wire.traffic import ModelRefused, UnreadableTraffic
from pytest_agenteval.cassettes.wire.usage import read_usage
from pytest_agenteval.records.replies import PricedApart

CHAT = "http://localhost/v1/chat/completions"


def _asked(**body: Any) -> Request:
    return Request(
        "POST", CHAT, json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **body})
    )


@pytest.mark.parametrize("format", FORMATS)
def test_errors_are_written_as_they_are_read(format: str) -> None:
    """An error in a provider's own shape tells its reader, as the provider's clients, what was said."""
    response = error_response(format, 400, "not_recorded", "Nothing is recorded for this.")
    with pytest.raises(ModelRefused, match=r"Nothing is recorded for this\.$") as raised:
        read_reply(format, _asked(), response)
    assert raised.value.status == 400
    body = json.loads(str(response.body))
    if format == "gemini":
        assert body["error"]["details"][0]["reason"] == "not_recorded"
    elif format == "ollama.chat":
        assert body["error"] == "not_recorded: Nothing is recorded for this."
    else:
        assert raised.value.kind == "not_recorded"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "the body is empty"),
        ("<html>Bad gateway</html>", "no JSON"),
        ('{"choices": [', "no JSON"),
        ("null", "no JSON object"),
        ("[]", "no choices"),
        ("{}", "no choices"),
        ("data: [DONE]\n\n", "no choices"),
        ('data: {"choices": [\n\ndata: {}\n\n', "no JSON"),
        (b"\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2\x48\xeb\xff\xff\xff\xff", "a wrong checksum"),
    ],
)
def test_what_is_no_reply_is_said_in_one_line(body: str | bytes, said: str) -> None:
    """A body that is no reply is told as that, in one line that says what is wrong with it."""
    with pytest.raises(UnreadableTraffic, match=said) as raised:
        read_reply("openai.chat", _asked(), Response(200, body=body))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("format", ["ollama.chat", "bedrock.converse"])
def test_a_reply_without_a_message_is_none(format: str) -> None:
    """An object of the format's that lacks what was said; and a request that is no object asks nothing."""
    with pytest.raises(UnreadableTraffic, match="the reply holds no message"):
        read_reply(format, _asked(), Response(200, body="{}"))
    with pytest.raises(UnreadableTraffic, match="the body is no JSON object"):
        read_request(format, Request("POST", CHAT, "[]"))


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("anthropic.messages", {"content": [{"type": "tool_use", "id": ["a"], "name": "look", "input": {}}]}),
        (
            "bedrock.converse",
            {
                "output": {
                    "message": {"content": [{"toolUse": {"toolUseId": {}, "name": "look", "input": {}}}]}
                }
            },
        ),
    ],
)
def test_a_call_whose_id_is_no_text_cannot_be_read(format: str, body: dict[str, Any]) -> None:
    """Its result could not be found again by such an id."""
    with pytest.raises(UnreadableTraffic, match="unhashable"):
        read_reply(format, _asked(), Response(200, body=json.dumps(body)))


def test_a_reply_needs_no_readable_request() -> None:
    """A reply is read for what it says, also where the request cannot be, or is not of that format."""
    reply = Response(200, body=json.dumps({"message": {"content": "Hi", "tool_calls": []}, "done": True}))
    assert read_reply("ollama.chat", Request("POST", CHAT, "damaged"), reply).message["content"] == "Hi"


def test_an_unknown_format_is_said() -> None:
    """Whoever names a format that is not there is told which there are."""
    with pytest.raises(UnreadableTraffic, match="'smoke' is not known"):
        read_request("smoke", _asked())


def _call(id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}}


def test_equal_prompts_have_one_identity() -> None:
    """Ids that clients make up and settings that change nothing are no part of what is asked."""
    history = [{"role": "user", "content": "Hi"}]

    def identity(id: str, arguments: str = "{}", **more: Any) -> str:
        said = {"role": "assistant", "content": None, "tool_calls": [_call(id, arguments)]}
        result = {"role": "tool", "tool_call_id": id, "content": "seen"}
        return prompt_identity(read_request("openai.chat", _asked(messages=[*history, said, result], **more)))

    assert identity("a") == identity("b") == identity("b", " { }")
    assert identity("a") == identity("a", user="u1", metadata={"run": 1}, stream=True, seed=None)
    assert identity("a") != identity("a", '{"at": 1}')
    assert identity("a") != identity("a", temperature=1)
    assert identity("a") != identity("a", model="n")
    assert identity("a") != identity("a", tools=[{"type": "function", "function": {"name": "look"}}])


def test_results_answer_their_calls_though_ids_are_missing_or_come_twice() -> None:
    """Servers that give no ids, or one id to two calls, leave it to the order which result is whose."""
    for ids in (("", ""), ("x", "x"), (None, None)):
        said = {
            "role": "assistant",
            "tool_calls": [_call(id or "", f'{{"at": {n}}}') for n, id in enumerate(ids)],
        }
        results = [{"role": "tool", "tool_call_id": id, "content": str(n)} for n, id in enumerate(ids)]
        reply, *answers = read_request("openai.chat", _asked(messages=[said, *results])).messages
        called = [call["id"] for call in reply["tool_calls"]]
        assert len(set(called)) == 2
        assert [it["tool_call_id"] for it in answers] == called


def test_items_of_earlier_replies_are_read_where_a_request_only_names_them() -> None:
    """Clients that leave the history to the provider name its items: the replies tell what these said."""
    said = [{"type": "output_text", "text": "I look."}]
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": said},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"},
    ]
    question = {"role": "user", "content": "Hi"}
    named = [{"type": "item_reference", "id": item["id"]} for item in output]
    result = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
    reply = read_reply(
        "openai.responses", _asked(input="Hi"), Response(200, body=json.dumps({"output": output}))
    )
    for items in (named, [*named[:2], output[2]]):
        request = _asked(input=[question, *items, result])
        known = read_request("openai.responses", request, reply.items).messages
        assert known[:2] == (question, reply.message)
        assert known[2] == {"role": "tool", "tool_call_id": "c1", "content": "seen"}
    unknown = read_request("openai.responses", _asked(input=[question, *named, result])).messages
    assert [message["role"] for message in unknown] == ["user", "tool"]


def test_a_result_without_an_id_answers_the_latest_call() -> None:
    """A call that nobody answered takes no later result, where names and order are all there is."""
    call = {"function": {"name": "look", "arguments": {}}}
    messages = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "user", "content": "Stop."},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_name": "look", "content": "seen"},
    ]
    *_, reply, result = read_request("ollama.chat", _asked(messages=messages)).messages
    assert result["tool_call_id"] == reply["tool_calls"][0]["id"]


def test_ids_that_clients_invent_still_say_which_result_is_whose() -> None:
    """Where a client gives ids to calls that have none, its results may come in any order."""
    calls = [{"functionCall": {"id": id, "name": "look", "args": {"at": id}}} for id in ("x", "y")]
    results = [
        {"functionResponse": {"id": id, "name": "look", "response": {"result": id}}} for id in ("y", "x")
    ]
    contents = [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]
    reply, *answers = read_request("gemini", _asked(contents=contents)).messages
    first, second = (call["id"] for call in reply["tool_calls"])
    assert [(it["tool_call_id"], it["content"]) for it in answers] == [(second, "y"), (first, "x")]


DETAILS = {"cache_write_tokens": 40, "audio_tokens": 7}
PRICED_APART: dict[str, tuple[dict[str, Any], PricedApart]] = {
    "openai.chat": (
        {
            "choices": [{"message": {"content": "Hi"}}],
            "service_tier": "flex",
            "usage": {"prompt_tokens_details": DETAILS, "completion_tokens_details": {"audio_tokens": 3}},
        },
        PricedApart(40, 0, 7, 3, "flex"),
    ),
    "openai.responses": (
        {"output": [], "service_tier": "priority", "usage": {"input_tokens_details": DETAILS}},
        PricedApart(40, 0, 7, 0, "priority"),
    ),
    "anthropic.messages": (
        {
            "content": [],
            "usage": {
                "cache_creation_input_tokens": 40,
                "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 10},
            },
        },
        PricedApart(40, 10),
    ),
    "bedrock.converse": (
        {
            "output": {"message": {"content": []}},
            "usage": {
                "cacheWriteInputTokens": 40,
                "cacheDetails": [{"ttl": "5m", "inputTokens": 30}, {"ttl": "1h", "inputTokens": 10}],
            },
        },
        PricedApart(40, 10),
    ),
    "gemini": (
        {
            "usageMetadata": {
                "promptTokensDetails": [
                    {"modality": "TEXT", "tokenCount": 5},
                    {"modality": "AUDIO", "tokenCount": 9},
                ],
                "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}],
                "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 3}],
                "trafficType": "ON_DEMAND_FLEX",
            }
        },
        PricedApart(0, 0, 7, 3, "flex"),
    ),
}


@pytest.mark.parametrize("format", PRICED_APART)
def test_tokens_that_have_prices_of_their_own_are_told_apart(format: str) -> None:
    """What was written to a cache costs more than what was read, audio more than text, and haste more."""
    body, apart = PRICED_APART[format]

    assert read_reply(format, _asked(), Response(200, body=json.dumps(body))).priced_apart == apart


def test_a_service_tier_is_read_of_a_stream() -> None:
    """Each piece of a stream names it, as a whole reply does."""
    piece = json.dumps({"choices": [{"delta": {"content": "Hi"}}], "service_tier": "flex"})

    reply = read_reply("openai.chat", _asked(), Response(200, body=f"data: {piece}\n\ndata: [DONE]\n\n"))

    assert reply.priced_apart.service_tier == "flex"


def test_thoughts_that_a_server_streams_in_two_ways_are_read_once() -> None:
    """They stand in parts of the content and in a field of their own."""
    parts = [{"type": "thinking", "thinking": "So."}, {"type": "text", "text": "Hi"}]
    piece = json.dumps({"choices": [{"delta": {"content": parts, "reasoning": "So."}}]})

    reply = read_reply("openai.chat", _asked(), Response(200, body=f"data: {piece}\n\ndata: [DONE]\n\n"))

    assert (reply.message["content"], reply.reasoning) == ("Hi", "So.")


@pytest.mark.parametrize(
    "cost", [0.0061, {"total_cost": 0.0061, "request_cost": 0.006}], ids=["sum", "parts"]
)
def test_what_a_provider_says_that_a_reply_costs_is_its_price(cost: Any) -> None:
    """As one number, and as Perplexity does, with what it is the sum of."""
    body = {
        "choices": [{"message": {"content": "Hi"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "cost": cost},
    }

    assert read_reply("openai.chat", _asked(), Response(200, body=json.dumps(body))).usage.cost_usd == 0.0061


def _piece(name: str | None, arguments: str | None, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


@pytest.mark.parametrize("more", [{}, {"index": 0}, {"index": 0, "id": "same"}], ids=["bare", "0", "one id"])
@pytest.mark.parametrize(
    ("pieces", "called"),
    [
        ([("look", '{"at": 1}'), ("now", "{}")], [("look", {"at": 1}), ("now", {})]),
        ([("look", '{"at"'), (None, ": 1}"), ("now", "{"), (None, "}")], [("look", {"at": 1}), ("now", {})]),
        ([("look", '{"at": 1}'), ("look", '{"at": 2}')], [("look", {"at": 1}), ("look", {"at": 2})]),
        ([("now", "{}"), ("look", '{"at": 1}')], [("now", {}), ("look", {"at": 1})]),
        ([("look", "{}"), (None, '{"at": 1}')], [("look", {"at": 1})]),
        ([("look", '{"at": "}"}'), ("now", "")], [("look", {"at": "}"}), ("now", {})]),
        # These go on with one call.
        ([("lo", ""), ("ok", ""), (None, '{"at": 1}')], [("look", {"at": 1})]),
        ([("look", '{"at": {}'), ("look", "}")], [("look", {"at": {}})]),
        ([("look", '{"at": 1}'), ("look", "")], [("look", {"at": 1})]),
        ([("look", ""), ("look", '{"at": 1}'), ("", "")], [("look", {"at": 1})]),
    ],
)
def test_a_new_name_behind_whole_arguments_begins_a_call(
    more: dict[str, Any], pieces: list[tuple[str, str]], called: list[tuple[str, Any]]
) -> None:
    """Servers give calls no id, no number, or all the same: arguments tell where one ends."""
    reply = read_reply("openai.chat", _asked(), _streamed([_piece(*piece, **more) for piece in pieces]))

    assert [(call.tool, dict(call.args)) for call in reply.calls] == called


def test_an_id_that_only_the_second_call_has_is_not_the_first_ones() -> None:
    """A call without an id gets one of its place."""
    pieces = [_piece("look", '{"at": 1}', index=0), _piece("now", "{}", index=0, id="b")]

    assert [call.id == "b" for call in read_reply("openai.chat", _asked(), _streamed(pieces)).calls] == [
        False,
        True,
    ]


def _streamed(pieces: list[dict[str, Any]]) -> Response:
    deltas = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    return Response(
        200, body="".join(f"data: {json.dumps(delta)}\n\n" for delta in [*deltas]) + "data: [DONE]"
    )


def test_counts_that_cannot_be_are_none() -> None:
    """More digits than any count has are 0; of audio no less than none was read for the first time."""
    usage, _ = read_usage("openai.chat", {"prompt_tokens": 10**20, "completion_tokens": 3})
    assert (usage.input_tokens, usage.output_tokens) == (0, 3)
    details = {
        "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 5}],
        "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 7}],
    }
    assert read_usage("gemini", {"promptTokenCount": 9, **details})[1].audio_input == 0
