"""Conversations as chat templates take them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_agenteval.chat.local.generation import (
    NoTemplate,
    template_messages,
    template_variants,
    with_tools_in_words,
    without_system,
)
from pytest_agenteval.chat.local.transformers_model import TransformersModel


def _call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [_call("toolu_01ABC", "now", "{}"), _call("seed_1_2", "add", '{"a": 1}')],
}
RESULTS = [
    {"role": "tool", "tool_call_id": "toolu_01ABC", "content": "noon"},
    {"role": "tool", "tool_call_id": "seed_1_2", "content": [{"type": "text", "text": "2"}]},
]
TOOL = {"type": "function", "function": {"name": "now", "description": "the time", "parameters": {}}}


def test_arguments_are_objects_and_ids_are_what_every_template_takes() -> None:
    """Mistral's takes nine letters and digits; results name their tool, and find their call."""
    calls, *results = template_messages([CALLS, *RESULTS])
    ids = [call["id"] for call in calls["tool_calls"]]
    assert [call["function"]["arguments"] for call in calls["tool_calls"]] == [{}, {"a": 1}]
    assert all(len(id) == 9 and id.isalnum() for id in ids)
    assert [result["tool_call_id"] for result in results] == ids
    assert [(result["name"], result["content"]) for result in results] == [("now", "noon"), ("add", "2")]
    assert CALLS["tool_calls"][0]["id"] == "toolu_01ABC", "what was given is not changed"


def test_broken_arguments_and_thoughts_go_back() -> None:
    """The model sees what it wrote; what it thought before a call, under the words of its family."""
    broken = {**CALLS, "tool_calls": [_call("x", "add", '{"a": ')]}
    (message,) = template_messages([broken], thoughts={"x": "Hm."})
    assert message["tool_calls"][0]["function"]["arguments"] == {"INVALID_JSON": '{"a": '}
    assert (message["reasoning_content"], message["thinking"]) == ("Hm.", "Hm.")
    (message,) = template_messages([{**broken, "content": "I add."}], thoughts={"x": "Hm."})
    assert "thinking" not in message


def test_a_schema_is_said_in_the_system_message() -> None:
    """In one that is there, or one of its own."""
    schema = {"type": "object"}
    user = {"role": "user", "content": "a"}
    for messages in ([user], [{"role": "system", "content": "Be short."}, user]):
        system, said = template_messages(messages, schema)
        assert system["role"] == "system"
        assert system["content"].endswith(json.dumps(schema, separators=(",", ":")))
        assert said == user


def test_images_are_refused() -> None:
    """Nothing is left out in silence."""
    with pytest.raises(NoTemplate):
        template_messages([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])


def test_in_words_results_are_the_users_and_roles_take_turns() -> None:
    """Two results are one message: many templates want user and assistant in turn."""
    said = [{"role": "user", "content": "a"}, CALLS, *RESULTS]
    words = with_tools_in_words(template_messages(said), [TOOL])
    assert [message["role"] for message in words] == ["system", "user", "assistant", "user"]
    assert '"description":"the time"' in words[0]["content"]
    assert words[2]["content"].count("<tool_call>") == 2
    assert words[3]["content"].count("<tool_response>") == 2
    assert [message["role"] for message in without_system(words)] == ["user", "assistant", "user"]
    assert with_tools_in_words(template_messages(said), []) == words[1:], "without tools, none is described"


def test_a_template_is_asked_for_the_truest_form_first() -> None:
    """One that knows tools as they are; any other only in words."""
    messages = template_messages([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}])
    roles = [
        [([message["role"] for message in said], len(tools)) for said, tools in forms]
        for forms in (
            template_variants(messages, [TOOL], knows_tools=True),
            template_variants(messages, [TOOL], knows_tools=False),
            template_variants(messages, [], knows_tools=False),
        )
    ]
    both, user = ["system", "user"], ["user"]
    assert roles == [
        [(both, 1), (both, 0), (user, 1), (user, 0)],
        [(both, 0), (user, 0)],
        [(both, 0), (user, 0)],
    ]


class Tokenizer:
    """Takes the place of a tokenizer of transformers."""

    chat_template = "any"

    def apply_chat_template(self, *_: Any, **settings: Any) -> dict[str, list[int]]:
        """Give one token for each setting."""
        return {"input_ids": list(range(len(settings)))}

    def decode(self, *_: Any, **__: Any) -> str:
        """Give no text."""
        return ""


def test_arguments_of_a_template_do_not_replace_those_that_every_prompt_needs() -> None:
    """A prompt without its ending, or as a text, is not what the reply is read from."""
    model = TransformersModel.__new__(TransformersModel)
    model._tokenizer, model._knows_tools = Tokenizer(), True
    messages = [{"role": "user", "content": "a"}]
    assert len(model.prompt(messages, [], {"enable_thinking": False}).tokens) == 5
    with pytest.raises(NoTemplate, match="add_generation_prompt"):
        model.prompt(messages, [], {"add_generation_prompt": False})
