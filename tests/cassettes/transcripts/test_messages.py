"""Messages of each dialect are one and the same transcript; what is none names its place."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.cassettes.transcripts.parts import UnreadableTranscript
from pytest_agenteval.cassettes.transcripts.reading import read_transcript
from pytest_agenteval.chat.model_prices import token_rates
from pytest_agenteval.engine.agent_run import InvalidAnswer, as_answer
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import Ask, Message, ToolCall, ToolError, Transcript, Usage

QUESTION = {"role": "user", "content": "Weather in Oslo and Lima?"}
OSLO, LIMA = {"city": "Oslo"}, {"city": "Lima"}


def _function(id: str, args: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "weather", "arguments": json.dumps(args)}}


CHAT: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    QUESTION,
    {"role": "assistant", "content": None, "tool_calls": [_function("c1", OSLO), _function("c2", LIMA)]},
    {"role": "tool", "tool_call_id": "c1", "content": "-7"},
    {"role": "tool", "tool_call_id": "c2", "content": "no such city", "error": True},
    {
        "role": "assistant",
        "content": "It is -7 in Oslo.",
        "usage": {"prompt_tokens": 9, "completion_tokens": 5},
    },
]
RESPONSES: list[Any] = [
    {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
    QUESTION,
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "weather",
        "arguments": json.dumps(OSLO),
    },
    {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "c2",
        "name": "weather",
        "arguments": json.dumps(LIMA),
    },
    {"type": "function_call_output", "call_id": "c1", "output": "-7"},
    {"type": "function_call_output", "call_id": "c2", "output": "no such city", "error": True},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is -7 in Oslo."}],
        "usage": {"input_tokens": 9, "output_tokens": 5},
    },
]
ANTHROPIC: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": QUESTION["content"]}]},
    {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "c1", "name": "weather", "input": OSLO},
            {"type": "tool_use", "id": "c2", "name": "weather", "input": LIMA},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "-7"}]},
            {"type": "tool_result", "tool_use_id": "c2", "content": "no such city", "is_error": True},
        ],
    },
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "It is -7 in Oslo."}],
        "usage": {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 5},
        "stop_reason": "end_turn",
    },
]


@pytest.mark.parametrize("messages", [CHAT, RESPONSES, ANTHROPIC], ids=["chat", "responses", "anthropic"])
def test_each_dialect_tells_the_same(messages: list[Any]) -> None:
    """Roles, calls with results and errors, one reply for each answer of the model, and its tokens."""
    read = read_transcript(messages)

    said = [(message.role, message.content, message.turn) for message in read.messages]
    assert said == [
        ("system", "Be brief.", 1),
        ("user", "Weather in Oslo and Lima?", 1),
        ("assistant", "", 1),
        ("tool", "-7", 2),
        ("tool", "no such city", 2),
        ("assistant", "It is -7 in Oslo.", 2),
    ]
    assert read.calls == (
        ToolCall("c1", 1, 0, "weather", OSLO, result="-7"),
        ToolCall("c2", 1, 1, "weather", LIMA, error=ToolError("tool_error", "no such city")),
    )
    assert [ask.finish for ask in read.asks] == ["tool_calls", "stop"]
    assert (read.usage.tokens, read.usage.known_tokens, read.usage.cost_usd) == (None, 14, None)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, (9, 2, 4, None)),
        # As LiteLLM writes it for Anthropic's models: what came from the cache is part of the prompt.
        ({"prompt_tokens": 9, "completion_tokens": 2, "cache_read_input_tokens": 4}, (9, 2, 4, None)),
        ({"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 4}, (9, 2, 4, None)),
        (
            {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
            (9, 2, 4, None),
        ),
        (
            {
                "input_tokens": 9,
                "output_tokens": 2,
                "input_token_details": {"cache_read": 4},
                "output_token_details": {"reasoning": 1},
            },
            (9, 2, 4, 1),
        ),
        ({"promptTokenCount": 9, "candidatesTokenCount": 2, "cachedContentTokenCount": 4}, (9, 2, 4, 0)),
        ({"inputTokens": 5, "outputTokens": 2, "cacheReadInputTokens": 4}, (9, 2, 4, None)),
        ({"input_tokens": 9, "output_tokens": 2, "cached_tokens": 4, "reasoning_tokens": 1}, (9, 2, 4, 1)),
    ],
    ids=["deepseek", "litellm", "anthropic", "responses", "langchain", "gemini", "bedrock", "ours"],
)
def test_a_usage_is_read_in_the_words_of_whoever_wrote_it(
    usage: dict[str, Any], expected: tuple[int | None, ...]
) -> None:
    """An agent may return what its provider or framework says; input tokens include those from a cache."""
    (ask,) = read_transcript([QUESTION, {"role": "assistant", "content": "-7", "usage": usage}]).asks
    read = ask.usage
    assert (read.input_tokens, read.output_tokens, read.cached_tokens, read.reasoning_tokens) == expected


def test_what_a_model_wrote_badly_is_its_mistake_and_not_the_transcripts() -> None:
    """Arguments that are no JSON stay as text; a call that nobody answered did not end."""
    call = {"id": "c1", "function": {"name": "weather", "arguments": "{oops"}}
    read = read_transcript([QUESTION, {"role": "assistant", "tool_calls": [call]}])
    assert read.calls[0].raw_args == "{oops"
    assert read.calls[0].error == ToolError("not_finished", "the call did not end")


class _Dumped:
    """An SDK's own object, as far as it is known here: it dumps itself."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self._fields


def test_objects_of_sdks_are_the_maps_that_they_dump() -> None:
    """``messages.append(response.choices[0].message)`` is what programs do."""
    block = _Dumped(type="text", text="It is -7.")
    replies = [_Dumped(role="assistant", content=[block], model="m", tool_calls=None), CHAT[-1]]
    read = read_transcript([QUESTION, *replies])
    assert [message.content for message in read.messages[1:]] == ["It is -7.", "It is -7 in Oslo."]
    assert [ask.model for ask in read.asks] == ["m", ""]


def test_thoughts_images_and_tools_of_the_provider_have_their_places() -> None:
    """Reasoning belongs to its reply; what is no text is named; whose tool it was is told."""
    read = read_transcript(
        [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {}}, {"type": "text", "text": "?"}],
            },
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Let me look."}]},
            {"type": "web_search_call", "id": "ws1", "status": "completed", "query": "Oslo"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Cold."}]},
        ]
    )
    assert read.messages[0].content == "[image_url]\n?"
    assert read.asks[0].reasoning == "Let me look."
    assert [(call.tool, call.args, call.by) for call in read.calls] == [
        ("web_search", {"query": "Oslo"}, "provider")
    ]
    assert len(read.asks) == 1


MALFORMED: dict[str, Any] = {
    "messages[0].role: expected a role: system, developer, user, assistant or tool, found nothing": [
        {"content": ""}
    ],
    "messages[0].role: expected a role: system, developer, user, assistant or tool, found 'bot'": [
        {"role": "bot"}
    ],
    "messages[0]: expected a map, found 7": [7],
    "messages[1].content: expected a text or a list of parts, found 7": [
        QUESTION,
        {"role": "user", "content": 7},
    ],
    "messages[0].content[0].type: expected the type of a part, such as text, found nothing": [
        {"role": "user", "content": [{}]}
    ],
    "messages[0].tool_calls[0].function.arguments: expected a map, or a JSON object as text, found 7": [
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": 7}}]}
    ],
    "messages[0].tool_calls[0].function.name: expected the name of a tool, found nothing": [
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {}}]}
    ],
    "messages[0].tool_calls: expected a list, found a map (keys: id)": [
        {"role": "assistant", "tool_calls": {"id": 1}}
    ],
    "messages[0].usage.prompt_tokens: expected a whole number, 0 or more, found -1": [
        {"role": "assistant", "content": "", "usage": {"prompt_tokens": -1}}
    ],
    "messages[0].name: expected the tool_call_id of a call, found nothing": [
        {"role": "tool", "content": "x"}
    ],
    "messages: expected a list of messages (OpenAI's or Anthropic's), an ATIF trajectory, or exported spans, "
    "found 'hello'": "hello",
    "messages.schema_version: expected ATIF-v1.0 to ATIF-v1.8, found 'ATIF-v2.0'": {
        "schema_version": "ATIF-v2.0"
    },
}


@pytest.mark.parametrize(("complaint", "messages"), MALFORMED.items(), ids=range(len(MALFORMED)))
def test_what_is_no_message_names_its_place_in_one_line(complaint: str, messages: Any) -> None:
    """An author finds the place without looking at ours."""
    with pytest.raises(UnreadableTranscript) as raised:
        as_answer({"answer": "x", "messages": messages}, Recorder(lambda: 0.0))
    assert str(raised.value) == complaint


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text("role", max_size=4)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "type", "content", "tool_calls", "id", "text"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(
    st.one_of(
        JSON,
        st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(["user", "assistant", "tool"])},
                optional={"content": JSON, "tool_calls": JSON, "tool_call_id": JSON, "usage": JSON},
            )
        ),
    )
)
def test_whatever_is_returned_is_read_or_refused(value: Any) -> None:
    """No shape of anybody's makes an error of ours."""
    with suppress(UnreadableTranscript):
        assert isinstance(read_transcript(value), Transcript)


def test_an_answer_without_a_text_ends_with_its_transcripts_last_words() -> None:
    """``Answer(transcript=messages)`` is all that has to be said."""
    recorder = Recorder(lambda: 0.0)
    assert as_answer(Answer(transcript=CHAT), recorder) == Answer("It is -7 in Oslo.")
    assert recorder.transcript() == read_transcript(CHAT)
    assert as_answer({"messages": CHAT, "state": {"x": 1}}, Recorder(lambda: 0.0)) == Answer(
        "It is -7 in Oslo.", {"x": 1}
    )


def test_what_all_replies_took_is_told_beside_the_messages() -> None:
    """A framework that counts for a whole run only."""
    recorder = Recorder(lambda: 0.0)
    as_answer({"messages": CHAT[:5], "usage": {"input_tokens": 70, "output_tokens": 7}}, recorder)
    assert recorder.usage == Usage(70, 7, None, None, None, asks=1, attempts=1)


def test_a_reply_that_names_its_model_is_priced_where_prices_are_known() -> None:
    """By litellm's table, which need not be loaded; what is told stands, and nothing else is guessed."""
    rates = token_rates("gpt-5-mini", 4)
    assert rates is not None
    said = {"role": "assistant", "content": "x", "usage": {"prompt_tokens": 4, "completion_tokens": 1}}
    told = {**said, "model": "gpt-5-mini", "usage": {**said["usage"], "cost_usd": 0.0}}
    price = 4 * rates.prompt + rates.reply
    for reply, cost in (({**said, "model": "gpt-5-mini"}, price), (said, None), (told, 0.0)):
        recorder = Recorder(lambda: 0.0)
        as_answer(Answer(transcript=[reply]), recorder)
        assert recorder.usage.cost_usd == cost


def test_a_map_with_keys_that_nobody_reads_is_refused() -> None:
    """What graders are meant to see is lost nowhere in silence."""
    with pytest.raises(
        InvalidAnswer, match=r"keys: answer, citations\); expected no other keys than answer, state"
    ):
        as_answer({"answer": "x", "citations": []}, Recorder(lambda: 0.0))


def test_replies_that_were_seen_stand_and_only_results_and_times_are_added() -> None:
    """The wire saw the model; what came of a call that no model was shown, the agent tells."""
    recorder = Recorder(lambda: 9.0)
    recorder.turn = 1
    recorder.add_prompt([QUESTION])
    call = ToolCall("c1", 1, 0, "weather", OSLO)
    reply = {"role": "assistant", "content": "", "tool_calls": [_function("c1", OSLO)]}
    recorder.add_reply(reply, (call,), Ask(1, 0.0, 1.0, Usage(3, 4, asks=1)))
    recorder.add_asked_calls([call])
    told = ToolCall("c1", 1, 0, "weather", OSLO, result=-7, started=1.5, ended=2.0)

    recorder.add_returned(Transcript((Message("user", "else"),), (told,), usage=Usage(99, 99)))
    recorder.end_pending_calls(cut_off=True)

    seen = recorder.transcript()
    assert seen.calls == (told,)
    assert (len(seen.messages), seen.usage.input_tokens) == (2, 3)


def test_calls_through_our_tools_keep_what_came_of_them() -> None:
    """The model was not seen and the tool was: it is one call, as it was seen, in its told place."""
    recorder = Recorder(lambda: 9.0)
    made = ToolCall("own", 0, 0, "weather", LIMA)
    place = recorder.begin_call(made)
    ended = ToolCall(
        "own", 0, 0, "weather", LIMA, error=ToolError("no_city", "?"), started=1.0, ended=2.0, tape="hit"
    )
    recorder.end_call(place, ended)

    as_answer(Answer(transcript=CHAT), recorder)

    oslo, lima = recorder.calls
    assert (oslo.id, oslo.result) == ("c1", "-7")
    assert (lima.id, lima.turn, lima.error, lima.tape) == ("c2", 1, ToolError("no_city", "?"), "hit")
