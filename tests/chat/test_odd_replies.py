"""Replies that no provider should send: what they say is kept, and no figure is made of nonsense."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.chat.recording_chat import _reply_from_json
from pytest_agenteval.records.replies import MOST_TOKENS, UNKNOWN, credible_usage
from pytest_agenteval.records.tool_spec import DEEPEST, ToolSpec, arguments_problem, parse_arguments
from pytest_agenteval.records.transcript import Usage

from .bench import QUESTION, Bench, ModelServer, ReplyPlan

# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")

ADD = ToolSpec("add", "adds", {"type": "object", "properties": {"a": {"type": "number"}}})
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@BOTH
@pytest.mark.parametrize("written", ['{"a": NaN}', '{"a": 1e999}', '{"a": [-Infinity]}'])
def test_numbers_that_json_does_not_know_are_no_arguments(bench: Bench, stream: bool, written: str) -> None:
    """They are kept as text, and the reply's tokens with them; the conversation goes on."""
    plans = [ReplyPlan(calls=(("add", written),), input_tokens=70, output_tokens=7), ReplyPlan(text="3")]
    with ModelServer(plans) as server:
        chat = bench.chat(server, stream=stream)
        reply = bench.ask(chat, tools=[ADD])
        (call,) = reply.calls
        result = {"role": "tool", "tool_call_id": call.id, "content": "no number"}
        last = bench.ask(chat, [*QUESTION, reply.message(), result], tools=[ADD])

    assert (dict(call.args), reply.usage.tokens, last.text) == ({}, 77, "3")
    assert call.raw_args
    assert ("too large" if "1e999" in call.raw_args else "is no number of JSON") in arguments_problem(
        call.raw_args
    )


@BOTH
@pytest.mark.parametrize("count", [-5, 10**15])
def test_counts_that_cannot_be_true_are_unknown(bench: Bench, stream: bool, count: int) -> None:
    """They are added to nothing, nor is a price made of them; what the reply says is kept."""
    with ModelServer([ReplyPlan(text="3", input_tokens=count)]) as server:
        reply = bench.ask(bench.chat(server, stream=stream))

    assert (reply.text, reply.usage) == ("3", UNKNOWN)


@BOTH
def test_a_reason_for_the_end_that_nobody_knows_is_kept(bench: Bench, stream: bool) -> None:
    """``stop`` would say that the model was done; the next reply's own reason is told again."""
    plans = [ReplyPlan(text="3", finish_reason="out_of_breath"), ReplyPlan(text="4")]
    with ModelServer(plans) as server:
        chat = bench.chat(server, stream=stream)
        assert [bench.ask(chat).finish, bench.ask(chat).finish] == ["out_of_breath", "stop"]


def test_a_recorded_count_below_0_is_unknown_too() -> None:
    """A cassette of before, or one that was written by hand, is believed no more than a provider."""
    assert _reply_from_json({"text": "3", "usage": {"input_tokens": -5, "cost_usd": -1.0}}).usage == UNKNOWN


@given(st.integers(), st.one_of(st.none(), st.floats()))
def test_no_usage_takes_anything_away(count: int, cost: float | None) -> None:
    """Whatever is told, a sum of usages never shrinks."""
    usage = credible_usage(Usage(count, 5, 0, 0, cost, 1, 1))
    assert 0 <= usage.known_tokens <= MOST_TOKENS + 5
    assert usage.cost_usd is None or 0 <= usage.cost_usd < float("inf")


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4))
def test_arguments_are_what_json_can_say(args: dict[str, Any]) -> None:
    """What is read can be written again for anybody; what cannot is the model's text, unchanged."""
    text = json.dumps(args)
    read, raw = parse_arguments(text)
    if raw is None:
        assert json.loads(json.dumps(dict(read), allow_nan=False)) == args
    else:
        assert raw == text
        with pytest.raises(ValueError, match="Out of range"):
            json.dumps(args, allow_nan=False)


@pytest.mark.parametrize("below", ['{"a":', "["])
@pytest.mark.parametrize(("depth", "taken"), [(DEEPEST, True), (DEEPEST + 1, False), (20_000, False)])
def test_arguments_are_as_deep_as_they_may_be(depth: int, taken: bool, below: str) -> None:
    """A text of brackets breaks no reader; brackets within a text are none."""
    closing = "}" if below.startswith("{") else "]"
    text = '{"a":' + below * (depth - 1) + '"' + "[{" * 500 + '"' + closing * (depth - 1) + "}"
    args, raw = parse_arguments(text)
    assert (raw is None, bool(args)) == (taken, taken)
    assert ("brackets" in arguments_problem(text)) is not taken


@BOTH
def test_thoughts_are_no_answer_whoever_asks(bench: Bench, stream: bool) -> None:
    """A server that leaves them in the text may have left out where they begin."""
    with ModelServer([ReplyPlan(text="wrong, so </think>3 😀", **TOOK)]) as server:
        reply = bench.ask(bench.chat(server, stream=stream))

    assert (reply.text, reply.reasoning) == ("3 😀", "wrong, so")


TOOK: dict[str, int] = {"input_tokens": 7, "output_tokens": 2}
