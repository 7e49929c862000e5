"""What a reply takes: tokens that are cached, thought or heard, tiers, long prompts, the user's prices."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.records.plan import ModelPrice

from .conversation import OK, Conversation, ReplyPlan, once
from .wire_bodies import chat_body, messages_body

MANY = ReplyPlan(text="3", input_tokens=1000, output_tokens=500)
COUNTS = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
ITEMS = {"input_tokens": 100, "output_tokens": 50, "total_tokens": 150}


def usages(**by_wire: Any) -> dict[str, list[Any]]:
    """Give a reply whose usage is written as it is, for each wire that is named."""
    bodies = {"chat": chat_body, "messages": messages_body}
    return {wire: [bodies[wire](usage=usage)] for wire, usage in by_wire.items()}


CONVERSATIONS = (
    Conversation("counts", once(), [MANY]),
    Conversation("cached", once(), [ReplyPlan(text="3", input_tokens=1000, cached_tokens=800)]),
    Conversation("written to the cache", once(), [ReplyPlan(text="3", input_tokens=1000, cache_writes=300)]),
    Conversation(
        "cached and written",
        once(),
        [ReplyPlan(text="3", input_tokens=5000, cached_tokens=2000, cache_writes=1000, output_tokens=70)],
    ),
    Conversation(
        "thought tokens",
        once(),
        [ReplyPlan(text="3", output_tokens=500, reasoning_tokens=450, reasoning="hm")],
    ),
    Conversation("thoughts nobody counts", once(), [ReplyPlan(text="3", reasoning="well " * 50)]),
    Conversation(
        "no counts",
        once(),
        usages(
            chat=None,
        ),
        forms=("whole",),
    ),
    Conversation("empty counts", once(), usages(chat={}, messages={}), forms=("whole",)),
    Conversation(
        "counts of 0",
        once(),
        usages(
            chat={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
            messages={"input_tokens": 0, "output_tokens": 0},
        ),
    ),
    Conversation(
        "bare counts",
        once(),
        usages(chat=COUNTS, messages={"input_tokens": 100, "output_tokens": 50}),
    ),
    Conversation(
        "null details",
        once(),
        usages(
            chat={**COUNTS, "prompt_tokens_details": None, "completion_tokens_details": None},
            messages={
                "input_tokens": 9,
                "output_tokens": 5,
                "cache_read_input_tokens": None,
                "cache_creation_input_tokens": None,
            },
        ),
    ),
    Conversation("negative counts", once(), [ReplyPlan(text="3", input_tokens=-5)]),
    Conversation("absurd counts", once(), [ReplyPlan(text="3", input_tokens=10**15)]),
    Conversation("more cached than read", once(), [ReplyPlan(text="3", input_tokens=10, cached_tokens=50)]),
    Conversation(
        "more thought than written", once(), [ReplyPlan(text="3", output_tokens=5, reasoning_tokens=50)]
    ),
    Conversation(
        "heard and spoken",
        once(),
        usages(
            chat={
                **COUNTS,
                "prompt_tokens_details": {"audio_tokens": 40, "cached_tokens": 0},
                "completion_tokens_details": {"audio_tokens": 20, "reasoning_tokens": 0},
            }
        ),
        model={"chat": "openai/gpt-4o-audio-preview-2024-12-17"},
    ),
    Conversation(
        "predicted",
        once(),
        usages(
            chat={
                **COUNTS,
                "completion_tokens_details": {
                    "accepted_prediction_tokens": 4,
                    "rejected_prediction_tokens": 30,
                },
            }
        ),
    ),
    Conversation(
        "kept for an hour",
        once(),
        usages(
            messages={
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 600,
                "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 400},
            }
        ),
    ),
    Conversation(
        "searched",
        once(),
        usages(
            messages={"input_tokens": 10, "output_tokens": 5, "server_tool_use": {"web_search_requests": 2}}
        ),
    ),
    *(
        Conversation(
            f"tier {tier}",
            once(),
            {
                "chat": [chat_body(usage=COUNTS, service_tier=tier)],
                "messages": [
                    messages_body(usage={"input_tokens": 100, "output_tokens": 50, "service_tier": tier})
                ],
            },
            model={"chat": "openai/gpt-5"},
        )
        for tier in ("default", "flex", "priority", "standard", "batch")
    ),
    *(
        Conversation(
            f"long prompt of {model.replace('/', ' ')}",
            once(),
            [ReplyPlan(text="3", input_tokens=300_000, cached_tokens=cached, output_tokens=1000)],
            wires=(wire,),
            model={wire: model},
            forms=("whole",),
        )
        for wire, model in (
            ("chat", "openai/gpt-5.5"),
            ("chat", "openai/gpt-6.1-sol"),
            ("messages", "anthropic/claude-sonnet-4-5"),
            ("messages", "anthropic/claude-opus-4-6"),
            ("messages", "anthropic/claude-sonnet-5-5"),
        )
        for cached in [1000]
    ),
    Conversation(
        "long prompt by a token", once(), [ReplyPlan(text="3", input_tokens=200_001)], forms=("whole",)
    ),
    Conversation(
        "long prompt but for a token", once(), [ReplyPlan(text="3", input_tokens=200_000)], forms=("whole",)
    ),
    Conversation(
        "no price",
        once(),
        [MANY],
        model={
            "chat": "openai/no-such",
            "messages": "anthropic/no-such",
        },
    ),
    Conversation(
        "another model answers",
        once(),
        {
            "chat": [chat_body(model="gpt-4.1-2025-04-14", usage=COUNTS)],
            "messages": [messages_body(model="claude-haiku-4-5-20251001")],
        },
    ),
    Conversation(
        "price of who answers",
        once(),
        {
            "chat": [chat_body(model="gpt-4.1", usage=COUNTS)],
            "messages": [messages_body(model="claude-haiku-4-5-20251001")],
        },
        model={"chat": "openai/mine", "messages": "anthropic/mine"},
    ),
    Conversation(
        "own price",
        once(),
        [ReplyPlan(text="3", input_tokens=1000, cached_tokens=200, cache_writes=100, output_tokens=500)],
        price=ModelPrice(input=2.0, output=8.0, cached=0.5, cache_write=2.5),
    ),
    Conversation("own price of 0", once(), [MANY], price=ModelPrice(input=0.0, output=0.0)),
    Conversation("told cost", once(), usages(chat={**COUNTS, "cost": 0.0125})),
    Conversation(
        "dated model",
        once(),
        [OK],
        model={"chat": "openai/gpt-4.1-2025-04-14", "messages": "anthropic/claude-sonnet-4-5-20250929"},
        wires=("chat", "messages"),
    ),
    Conversation(
        "tuned model", once(), [MANY], model={"chat": "openai/ft:gpt-4o-2024-08-06:me::abc"}, wires=("chat",)
    ),
    Conversation(
        "counts as text",
        once(),
        usages(chat={**COUNTS, "prompt_tokens": "100"}, messages={"input_tokens": "10", "output_tokens": 5}),
        forms=("whole",),
    ),
    Conversation(
        "counts as fractions", once(), usages(chat={**COUNTS, "prompt_tokens": 100.0}), forms=("whole",)
    ),
)
