"""OpenAI's responses, as a direct chat writes them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_agenteval.cassettes.wire.reader import read_parts
from pytest_agenteval.chat.chat import ChatSettings
from pytest_agenteval.chat.direct import openai_responses_request
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.direct.openai_chat_request import wants_responses
from tests.chat.litellm_oracle import Compared, held_against_litellm

from .sent_bodies import ADD, ALL, CALL, CALLED, PARTS, SCHEMA, SYSTEM, USER, Case, Listener, listening
from .test_openai_chat import IMAGE_RESULT, PATTERNS, UNION

IDS = (
    "openai/gpt-5-pro",
    "openai/gpt-5-codex",
    "openai/gpt-5.1-codex-max",
    "openai/o3-pro",
    "openai/o1-pro",
    "openai/responses/my-own",
)
LOW = {"reasoning_effort": "low"}
TALK = [
    *SYSTEM,
    {"role": "system", "content": "Be kind."},
    {"role": "assistant", "content": ""},
    {"role": "assistant", "content": None},
    {"role": "developer", "content": "Hm."},
]
CASES = [
    *(Case("plain", id) for id in IDS),
    *(Case("all", id, own, CALLED, (ADD,), SCHEMA, ALL) for id in IDS for own in (True, False)),
    *(Case("effort", id, own, params=LOW) for id in IDS for own in (True, False)),
    *(Case("effort-xhigh", id, params={"reasoning_effort": "xhigh"}) for id in IDS[:3]),
    *(Case("effort-none", id, params={"reasoning_effort": "none"}) for id in IDS[:4]),
    *(Case("stream", id, params={"stream": True}) for id in IDS),
    Case("thinks-before-calls", "openai/gpt-5.5", True, CALLED, (ADD,), settings=ALL),
    Case("effort-and-tools", "openai/gpt-5.5", True, CALLED, (ADD,), params=LOW),
    Case("effort-and-tools", "openai/gpt-5.5", False, CALLED, (ADD,), params=LOW),
    Case("tools", "openai/gpt-6", True, tools=(ADD,)),
    Case("summary", "openai/gpt-5", params={**LOW, "extra_body": {"reasoning_summary": "auto"}}),
    Case("effort-in-extra", "openai/gpt-5-pro", params={"extra_body": {"reasoning_effort": "high"}}),
    Case("extra", "openai/gpt-5-pro", params={"extra_body": {"store": False, "service_tier": "flex"}}),
    Case("extra-unknown", "openai/gpt-5-pro", params={"extra_body": {"own": 1}}),
    Case("few-tokens", "openai/gpt-5-pro", settings=ChatSettings(max_tokens=3)),
    Case("choice", "openai/gpt-5-pro", tools=(ADD,), settings=ChatSettings(tool_choice="add")),
    Case("parts", "openai/gpt-5-pro", messages=PARTS),
    Case("image-result", "openai/gpt-5-pro", messages=IMAGE_RESULT),
    Case("talk", "openai/gpt-5-pro", messages=TALK),
    Case("system-only", "openai/gpt-5-pro", messages=SYSTEM[:1]),
    Case("two-systems", "openai/gpt-5-pro", messages=[SYSTEM[0], *SYSTEM]),
    Case("empty-result", "openai/gpt-5-pro", messages=[*CALLED[:3], {**CALLED[3], "content": None}]),
    *(Case("tools", id, tools=(UNION, PATTERNS)) for id in ("openai/gpt-5-pro", "openai/o3-pro")),
]
SEALED = (
    "include",
    "the thoughts are asked for, sealed: with the results of its calls a model goes on from them",
)
DIFFERENCES: Mapping[str, tuple[str, str]] = {
    "openai.gpt-5-pro-all-own": SEALED,
    "openai.gpt-5-codex-all-own": SEALED,
    "openai.gpt-5.1-codex-max-all-own": SEALED,
    "openai.o3-pro-all-own": SEALED,
    "openai.o1-pro-all-own": SEALED,
    "openai.gpt-5.5-thinks-before-calls-own": SEALED,
    "openai.gpt-5.5-effort-and-tools-own": SEALED,
    "openai.gpt-5-pro-choice-own": SEALED,
    "openai.gpt-5-pro-tools-own": SEALED,
    "openai.o3-pro-tools-own": SEALED,
    "openai.responses.my-own-stream-own": ("stream", "a model that nobody knows streams where it is told to"),
    "openai.gpt-5-pro-extra-unknown-own": ("own", "extra_body lies over the body as it is"),
}
"""Where the direct chat says something else on purpose: in which key, and why."""


COMPARED = Compared("openai_responses")


@pytest.fixture(scope="module")
def listener(loop: asyncio.Runner) -> Iterator[Listener]:
    """A server that takes down what is sent to it."""
    with listening(loop) as server:
        yield server


@held_against_litellm
def test_the_body_is_the_one_that_litellm_sends(listener: Listener) -> None:
    """What a model is asked does not depend on who asks it, but for what is listed with its reason."""
    for case in CASES:
        body = openai_responses_request.body_of(case.ask())
        assert wants_responses(case.ask(), "openai"), str(case)
        if COMPARED.agreed(str(case), body):
            continue
        sent = listener.by_litellm(case)
        assert sent.path == f"/v1{openai_responses_request.PATH}"
        differing = {name for name in {*body, *sent.body} if body.get(name) != sent.body.get(name)}
        allowed = {DIFFERENCES[str(case)][0]} if str(case) in DIFFERENCES else set()
        assert (str(case), differing) == (str(case), allowed)
        COMPARED.record(str(case), body)


def test_every_difference_is_one_of_a_case() -> None:
    """A difference that no case shows would be listed for ever."""
    assert set(DIFFERENCES) <= set(map(str, CASES))


def test_other_providers_have_no_responses() -> None:
    """A server of one's own may have a model by any name."""
    ask = Case("tools", "openai/gpt-5.5", True, CALLED, (ADD,)).ask()

    assert wants_responses(ask, "openai")
    assert not wants_responses(ask, "hosted_vllm")


def test_nothing_of_an_ask_is_written_into() -> None:
    """An ask may be written twice: for a second attempt, and for the tape."""
    extra = {"extra_body": {"reasoning_effort": "low", "reasoning_summary": "auto"}}
    case = Case("all", "openai/o3-pro", True, [*PARTS, *IMAGE_RESULT], (UNION, PATTERNS), SCHEMA, ALL, extra)
    ask, untouched = case.ask(), copy.deepcopy(case.ask())

    assert openai_responses_request.body_of(ask) == openai_responses_request.body_of(ask)

    assert ask == untouched


def test_a_file_has_a_name() -> None:
    """The API refuses the contents of a file without a name."""
    file = {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "format": "pdf"}}
    body = openai_responses_request.body_of(ModelAsk("m", [{"role": "user", "content": [file]}]))

    assert body["input"][0]["content"] == [
        {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,AA"}
    ]


def test_parts_in_the_api_s_own_words_stay_as_they_are() -> None:
    """Whoever writes for the responses gets what they wrote."""
    part = {"type": "input_file", "file_url": "https://x.test/a.pdf"}
    body = openai_responses_request.body_of(ModelAsk("m", [{"role": "user", "content": [part]}]))

    assert body["input"][0]["content"] == [part]


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "I add.", "annotations": [], "logprobs": []}],
}
ADDED = {
    "type": "function_call",
    "id": "fc_1",
    "status": "completed",
    "call_id": "call_a",
    "name": "add",
    "arguments": '{"a":1}',
}
BACK = [
    {"type": "reasoning", "summary": [], "encrypted_content": "sealed"},
    {
        "type": "message",
        "role": "assistant",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "I add."}],
    },
    {"type": "function_call", "call_id": "call_a", "name": "add", "arguments": '{"a":1}'},
]


def _whole(*output: Mapping[str, Any], **said: Any) -> dict[str, Any]:
    return {"id": "resp_1", "model": "m", "status": "completed", "output": list(output), **said}


def _items_sent(messages: list[dict[str, Any]], echo: Any) -> list[dict[str, Any]]:
    body = openai_responses_request.body_of(ModelAsk("m", messages, echoes={"call_a": echo}))
    items: list[dict[str, Any]] = body["input"]
    return items


def test_a_model_goes_on_from_its_thoughts_with_the_results_of_its_calls() -> None:
    """The reply goes back in its order, without ids: they name what the provider may not have kept."""
    echo = openai_responses_request.echo_of(_whole(THOUGHT, SAID, ADDED))

    _, _, *reply, result = _items_sent(CALLED, echo)

    assert reply == BACK
    assert result["type"] == "function_call_output"


@pytest.mark.parametrize(
    "changed",
    [
        {"content": "I do not add."},
        {"tool_calls": [{**CALL, "id": "call_a", "function": {"name": "add", "arguments": '{"a": 2}'}}]},
        {"tool_calls": [CALL, {**CALL, "id": "call_b"}]},
    ],
    ids=["text", "arguments", "calls"],
)
def test_thoughts_do_not_go_back_with_what_they_did_not_lead_to(changed: dict[str, Any]) -> None:
    """An agent may change a conversation; it is asked about as it has changed it."""
    echo = openai_responses_request.echo_of(_whole(THOUGHT, SAID, ADDED))
    messages = [*CALLED[:2], {**CALLED[2], **changed}, *CALLED[3:]]

    assert _items_sent(messages, echo) == _items_sent(messages, None)


@pytest.mark.parametrize(
    "output",
    [
        (THOUGHT, SAID),
        (SAID, ADDED),
        ({**THOUGHT, "encrypted_content": None}, ADDED),
        (THOUGHT, {"type": "web_search_call", "id": "ws_1", "status": "completed"}, ADDED),
    ],
    ids=["no calls", "no thoughts", "unsealed", "provider's calls"],
)
def test_what_cannot_be_gone_on_from_is_not_kept(output: tuple[dict[str, Any], ...]) -> None:
    """Thoughts that a provider does not find again, or finds without what followed, would be refused."""
    assert openai_responses_request.echo_of(_whole(*output)) is None
    assert openai_responses_request.echo_of({}) is None


def test_a_reply_of_several_messages_is_one() -> None:
    """What the provider did by itself is no call of the agent's."""
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}
    parts = read_parts("openai.responses", _whole(THOUGHT, SAID, searched, SAID, ADDED))

    reply = openai_responses_request.reply_of(parts, ModelAsk("m", USER))

    assert reply.content == "I add.I add."
    assert [(call.id, call.name) for call in reply.calls] == [("call_a", "add")]
