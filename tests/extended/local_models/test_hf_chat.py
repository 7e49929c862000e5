"""Models in this process, through the real loading code, on the CPU."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.chat.chat import ChatSettings, Reply
from pytest_agenteval.chat.local import hf_chat
from pytest_agenteval.chat.local.generation import GenerationRequest, Sampling
from pytest_agenteval.chat.local.hf_chat import HfChat
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.errors import ProviderDown

from .conftest import WEATHER
from .tiny_model import save_tiny_model

MakeChat = Callable[..., HfChat]
GREEDY = ChatSettings(temperature=0, max_tokens=24)
TOOL = ToolSpec("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})


def _said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def test_a_tool_is_called_and_its_result_told(taught: Path, loop: asyncio.Runner, chat: MakeChat) -> None:
    """The template is given the tools, thoughts and calls are read, and the result goes back under the id."""
    model = chat(taught)
    settings = ChatSettings(temperature=0)
    first = loop.run(model.ask(WEATHER, tools=[TOOL], settings=settings))
    (call,) = first.calls
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"sky":"rain"}'}
    second = loop.run(model.ask([*WEATHER, first.message(), result], tools=[TOOL], settings=settings))
    third = loop.run(model.ask(WEATHER, settings=settings))

    assert (call.tool, dict(call.args), call.raw_args) == ("get_weather", {"city": "Oslo"}, None)
    assert (first.text, first.reasoning, first.finish) == ("", "I look.", "tool_calls")
    assert (second.text, second.calls, second.finish) == ("It rains in Oslo.", (), "stop")
    assert third.text == "Ask me with tools."
    usage = first.usage
    assert (usage.asks, usage.attempts, usage.cost_usd) == (1, 1, None)
    assert usage.output_tokens > usage.reasoning_tokens == len("I look.")
    assert third.usage.output_tokens == len("Ask me with tools.") + 1  # its end is a token, too
    assert second.usage.input_tokens > first.usage.input_tokens
    assert first.seconds is not None
    assert first.first_token_s is not None
    assert 0 < first.first_token_s <= first.seconds


def test_batched_replies_are_those_of_one_at_a_time(tiny: Path, loop: asyncio.Runner, chat: MakeChat) -> None:
    """Prompts of any length side by side, greedy and seeded, each with settings of its own."""
    asks = [
        (_said("a"), GREEDY),
        (_said("What is the weather like? " * 9), GREEDY),
        (_said("b" * 50), ChatSettings(temperature=0, max_tokens=5)),
        (_said("a"), ChatSettings(temperature=1.0, seed=7, max_tokens=24)),
        (_said("a"), ChatSettings(temperature=1.0, seed=8, max_tokens=24, top_p=0.5)),
        (_said("c"), ChatSettings(temperature=0.7, seed=9, max_tokens=24, extra={"top_k": 3})),
    ]

    async def ask_all() -> tuple[list[Reply], list[Reply]]:
        chats = [chat(tiny) for _ in asks]
        one = [await own.ask(said, settings=how) for own, (said, how) in zip(chats, asks, strict=True)]
        many = [own.ask(said, settings=how) for own, (said, how) in zip(chats, asks, strict=True)]
        return one, list(await asyncio.gather(*many))

    one, many = loop.run(ask_all())
    assert [reply.text for reply in many] == [reply.text for reply in one]
    assert [reply.usage for reply in many] == [reply.usage for reply in one]
    assert [reply.usage.output_tokens for reply in one[:3]] == [24, 24, 5]
    assert {reply.finish for reply in one} == {"length"}
    assert len({reply.text for reply in one}) == len(asks)
    assert len({reply.seconds for reply in many}) < len(asks), "nothing was batched"


def test_a_seed_says_which_reply_comes(tiny: Path, loop: asyncio.Runner, chat: MakeChat) -> None:
    """The same seed gives the same reply; the model's own seed wins; without one it is the trial's."""
    model = chat(tiny)

    def text(chat: HfChat, **how: Any) -> str:
        return loop.run(chat.ask(_said("a"), settings=ChatSettings(temperature=1, max_tokens=24, **how))).text

    assert text(model, seed=3) == text(model, seed=3) != text(model, seed=4)
    assert text(chat(tiny, seed=3), seed=4) == text(model, seed=3)
    assert text(model) != text(model)
    by_trial = [HfChat(model.model, Recorder(float), seed) for seed in ("1 task", "1 task", "2 task")]
    first, again, other = [(text(chat), text(chat)) for chat in by_trial]
    assert first == again != other
    assert first[0] != first[1]


def test_a_reply_ends_before_a_stop_text(tiny: Path, loop: asyncio.Runner, chat: MakeChat) -> None:
    """Also in a batch whose other replies go on."""
    model = chat(tiny)
    whole = loop.run(model.ask(_said("a"), settings=GREEDY)).text
    stop = whole[4:6]
    stopping = ChatSettings(temperature=0, max_tokens=24, extra={"stop": [stop]})

    async def both() -> list[Reply]:
        asks = (model.ask(_said("a"), settings=how) for how in (stopping, GREEDY))
        return list(await asyncio.gather(*asks))

    stopped, other = loop.run(both())
    assert (stopped.text, stopped.finish) == (whole[: whole.index(stop)].strip(), "stop")
    assert stopped.usage.output_tokens < 24
    assert other.text == whole


def test_a_template_without_tools_is_told_of_them_in_words(
    plain: Path, loop: asyncio.Runner, chat: MakeChat
) -> None:
    """And one that refuses system messages gets them with the user's first."""
    model = chat(plain)
    loop.run(model.prepare())
    ready = next(iter(hf_chat._ready.values()))
    assert isinstance(ready, hf_chat._Ready)
    messages = hf_chat.template_messages(
        [
            {"role": "system", "content": "Be short."},
            *_said("Weather?"),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "x", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "x", "content": "rain"},
        ]
    )
    end = ready.model.prompt(messages, [TOOL.declaration()], {})
    text = ready.model._tokenizer.decode(end.tokens)  # type: ignore[attr-defined]

    assert text.startswith("[user]Be short.")
    assert '"get_weather"' in text.partition("[assistant]")[0]
    assert (
        '<tool_call>\n{"name":"get_weather","arguments":{}}\n</tool_call>' in text.partition("[assistant]")[2]
    )
    assert text.endswith("[user]<tool_response>\nrain\n</tool_response>")
    reply = loop.run(model.ask([{"role": "system", "content": "Hm."}, *_said("a")], settings=GREEDY))
    assert reply.usage.output_tokens == 24


def test_parameters_of_the_template_reach_it(tiny: Path, loop: asyncio.Runner, chat: MakeChat) -> None:
    """``chat_template_kwargs`` stand where vLLM wants them, or beside it."""
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    plain, by_params, by_body = (
        loop.run(chat(tiny, **params).ask(_said("a"), settings=GREEDY)).usage.input_tokens
        for params in ({}, off, {"extra_body": off})
    )
    assert by_params == by_body == plain + len("/no_think")


def test_a_schema_is_said_in_the_system_message(tiny: Path, loop: asyncio.Runner, chat: MakeChat) -> None:
    """Nothing here can force a model to keep to it."""
    model = chat(tiny)
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    with_schema = loop.run(model.ask(_said("a"), response_schema=schema, settings=GREEDY))
    without = loop.run(model.ask(_said("a"), settings=GREEDY))
    assert with_schema.usage.input_tokens > without.usage.input_tokens + 60


def test_what_is_longer_than_the_model_reads_is_refused(
    tmp_path: Path, tiny: Path, loop: asyncio.Runner, chat: MakeChat
) -> None:
    """And a reply takes no more tokens than are left."""
    short = save_tiny_model(tmp_path / "short", context=64)
    reply = loop.run(chat(short).ask(_said("a" * 20), settings=ChatSettings(temperature=0)))
    assert reply.usage.tokens == 64
    for model in (chat(short), chat(tiny, max_model_len=64)):
        with pytest.raises(AttemptFailed, match="the model reads 64") as caught:
            loop.run(model.ask(_said("a" * 100)))
        assert (caught.value.cause, caught.value.retryable) == ("context_length", False)


@pytest.mark.parametrize(
    ("messages", "template", "expected"),
    [
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
            "{}",
            "else than text",
        ),
        (_said("a"), None, "no chat template"),
        (_said("a"), "{{ raise_exception('not today') }}", "refuses the conversation: .*not today"),
    ],
)
def test_a_conversation_that_cannot_be_said(
    tmp_path: Path, loop: asyncio.Runner, chat: MakeChat, messages: Any, template: str | None, expected: str
) -> None:
    """It is refused once, in one line."""
    folder = save_tiny_model(tmp_path / "model", template=template)
    with pytest.raises(AttemptFailed, match=expected) as caught:
        loop.run(chat(folder).ask(messages))
    assert (caught.value.cause, caught.value.retryable) == ("bad_request", False)
    assert "\n" not in str(caught.value)


def test_one_model_serves_the_whole_process(tiny: Path, loop: asyncio.Runner, chat: MakeChat) -> None:
    """Many trials that begin together load it once; the end lets go of it and of its thread."""

    async def prepare() -> None:
        await asyncio.gather(*(chat(tiny).prepare() for _ in range(8)))

    loop.run(prepare())
    assert len(hf_chat._ready) == 1
    assert "agenteval-batches" in {thread.name for thread in threading.enumerate()}
    loop.run(hf_chat.close())
    assert not hf_chat._ready
    assert "agenteval-batches" not in {thread.name for thread in threading.enumerate()}
    assert loop.run(chat(tiny).ask(_said("a"), settings=GREEDY)).usage.output_tokens == 24


def test_a_reply_that_nobody_waits_for_ends(tiny: Path, loop: asyncio.Runner, chat: MakeChat) -> None:
    """It takes no further token, and the others of its batch go on."""
    loop.run(chat(tiny).prepare())
    (ready,) = hf_chat._ready.values()
    assert isinstance(ready, hf_chat._Ready)
    prompt = ready.model.prompt(_said("a"), [], {})
    looks = iter([False, False])
    requests = [
        GenerationRequest(prompt, Sampling(temperature=0), 24, lambda: next(looks, True)),
        GenerationRequest(prompt, Sampling(temperature=0), 24),
    ]
    given_up, whole = ready.model.generate(requests)
    assert (given_up.tokens, whole.tokens) == (3, 24)


def test_what_cannot_be_loaded_is_told_in_one_line(
    tmp_path: Path, loop: asyncio.Runner, chat: MakeChat
) -> None:
    """To every trial that asks for it, without trying again."""
    (tmp_path / "config.json").write_text('{"model_type": "no-such"}', encoding="utf-8")
    for _ in range(2):
        with pytest.raises(ProviderDown, match=r"^hf/.* cannot be loaded: \w+: [^\n]*\Z"):
            loop.run(chat(tmp_path).prepare())


def test_what_breaks_while_a_reply_is_generated_is_not_the_agents(
    tmp_path: Path, loop: asyncio.Runner, chat: MakeChat
) -> None:
    """A tokenizer of more tokens than the model has, for one."""
    folder = save_tiny_model(tmp_path / "model", config={"vocab_size": 20})
    with pytest.raises(AttemptFailed, match="provider: IndexError: index out of range") as caught:
        loop.run(chat(folder).ask(_said("a")))
    assert (caught.value.cause, caught.value.retryable) == ("provider", False)
