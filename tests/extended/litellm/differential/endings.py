"""Why replies end: length, filters, refusals, words that nobody knows."""

from __future__ import annotations

from .conversation import ADD, Conversation, ReplyPlan, once
from .wire_bodies import chat_body, messages_body

CONVERSATIONS = (
    Conversation("length", once(), [ReplyPlan(text="on and", finish_reason="length")], ends="length"),
    Conversation("length of nothing", once(), [ReplyPlan(text="", finish_reason="length")], ends="length"),
    Conversation(
        "length within a call",
        once(tools=[ADD]),
        [ReplyPlan(calls=(("add", '{"a": 1, "b'),), finish_reason="length")],
        ends="length",
    ),
    Conversation(
        "filtered", once(), [ReplyPlan(text="well", finish_reason="content_filter")], ends="content_filter"
    ),
    Conversation(
        "filtered to nothing", once(), [ReplyPlan(finish_reason="content_filter")], ends="content_filter"
    ),
    Conversation(
        "refused", once(), [ReplyPlan(refusal="I cannot help with that, sorry.")], ends="content_filter"
    ),
    Conversation(
        "unknown ending",
        once(),
        {
            "chat": [ReplyPlan(text="3", finish_reason="out_of_breath")],
            "messages": [ReplyPlan(text="3", finish_reason="out_of_breath")],
        },
        ends="out_of_breath",
    ),
    Conversation(
        "known ones after unknown",
        (*once(), *once()),
        {"chat": [ReplyPlan(text="3", finish_reason="out_of_breath"), ReplyPlan(text="4")]},
        ends="out_of_breath stop",
    ),
    *(
        Conversation(f"anthropic's {reason}", once(), {"messages": [messages_body(stop=reason)]}, ends=ends)
        for reason, ends in {
            "stop_sequence": "stop",
            "pause_turn": "pause_turn",
            "refusal": "content_filter",
            "model_context_window_exceeded": "length",
            "compaction": "compaction",
        }.items()
    ),
    Conversation(
        "anthropic's null", once(), {"messages": [messages_body(stop=None)]}, ends="stop", forms=("whole",)
    ),
    *(
        Conversation(f"chat's {reason}", once(), {"chat": [chat_body(finish=reason)]}, ends=ends)
        for reason, ends in {
            "eos": "stop",
            "max_tokens": "length",
            "end_turn": "stop",
            "safety": "safety",
        }.items()
    ),
    Conversation("chat's null", once(), {"chat": [chat_body(finish=None)]}, ends="stop", forms=("whole",)),
    Conversation(
        "chat's empty word", once(), {"chat": [chat_body(finish="")]}, ends="stop", forms=("whole",)
    ),
    Conversation(
        "refusal beside a text",
        once(),
        {"chat": [chat_body({"content": "Well,", "refusal": "no."})]},
        ends="content_filter",
    ),
    Conversation(
        "several choices",
        once(),
        {
            "chat": [
                chat_body(
                    choices=[
                        {
                            "index": 0,
                            "message": {"role": "assistant", "content": "one"},
                            "finish_reason": "stop",
                        },
                        {
                            "index": 1,
                            "message": {"role": "assistant", "content": "two"},
                            "finish_reason": "length",
                        },
                    ]
                )
            ]
        },
        forms=("whole",),
    ),
    Conversation(
        "several blocks",
        once(),
        {"messages": [messages_body({"type": "text", "text": "one "}, {"type": "text", "text": "two"})]},
    ),
    Conversation("no blocks", once(), {"messages": [messages_body(content=[])]}),
    Conversation(
        "text in parts",
        once(),
        {"chat": [chat_body({"content": [{"type": "text", "text": "3"}]})]},
        forms=("whole",),
    ),
    Conversation("null content", once(), {"chat": [chat_body({"content": None})]}),
)
