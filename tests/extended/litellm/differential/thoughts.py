"""What models think: signed, redacted, summarised, beside calls and sent back, or within the text."""

from __future__ import annotations

from .conversation import ADD, OK, Ask, Conversation, ReplyPlan, called, once, result, settings, user
from .wire_bodies import chat_body, messages_body

ASKED = user("What is 1 + 2?")
THINKING = {"type": "thinking", "thinking": "hm, so", "signature": "c2ln"}
MORE = {"type": "thinking", "thinking": "more", "signature": "bW9yZQ"}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
SAID = {"type": "text", "text": "3"}
USE = {"type": "tool_use", "id": "toolu_a", "name": "add", "input": {"a": 1, "b": 2}}
CALL = {"id": "call_a", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
TWICE = (Ask((ASKED,), tools=[ADD]), Ask(results=["3"], tools=[ADD]))
SUMMARY = [{"type": "summary_text", "text": "hm,"}, {"type": "summary_text", "text": "so"}]
ITEM = {"type": "reasoning", "id": "rs_1", "summary": SUMMARY, "encrypted_content": "sealed"}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "3", "annotations": []}],
}
FUNCTION = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_a",
    "name": "add",
    "arguments": '{"a":1}',
    "status": "completed",
}

PLAIN = (
    Conversation("thoughts", once(), [ReplyPlan(text="3", reasoning="1 and 2 make 3", reasoning_tokens=4)]),
    Conversation("thoughts alone", once(), [ReplyPlan(reasoning="1 and 2 make 3")]),
    Conversation(
        "thoughts with calls",
        TWICE,
        [ReplyPlan(reasoning="hm, so", calls=(("add", {"a": 1, "b": 2}),)), OK],
        ends="tool_calls stop",
    ),
    Conversation(
        "thoughts over three turns",
        (*TWICE, Ask(results=["3"], tools=[ADD]), Ask((user("And now?"),), tools=[ADD])),
        [
            ReplyPlan(reasoning="first", calls=(("add", {"a": 1, "b": 2}),)),
            ReplyPlan(reasoning="second", text="wait", calls=(("add", {"a": 3}), ("add", {"a": 4}))),
            ReplyPlan(reasoning="third", text="3"),
            OK,
        ],
        ends="tool_calls tool_calls stop stop",
    ),
    Conversation(
        "redacted thoughts",
        TWICE,
        {"messages": [messages_body(REDACTED, THINKING, SAID, USE, stop="tool_use"), OK]},
        ends="tool_calls stop",
    ),
    Conversation("redacted thoughts alone", once(), {"messages": [messages_body(REDACTED, SAID)]}),
    Conversation(
        "thoughts between texts",
        TWICE,
        {
            "messages": [
                messages_body(THINKING, SAID, MORE, USE, stop="tool_use"),
                OK,
            ]
        },
        ends="tool_calls stop",
    ),
    Conversation(
        "unsigned thoughts",
        TWICE,
        {"messages": [messages_body({"type": "thinking", "thinking": "hm"}, USE, stop="tool_use"), OK]},
        ends="tool_calls stop",
    ),
    Conversation(
        "empty thoughts",
        TWICE,
        {"messages": [messages_body({**THINKING, "thinking": ""}, USE, stop="tool_use"), OK]},
        ends="tool_calls stop",
    ),
    Conversation(
        "reasoning_content with calls",
        TWICE,
        {
            "chat": [
                chat_body(
                    {"content": None, "reasoning_content": "hm", "tool_calls": [CALL]}, finish="tool_calls"
                ),
                OK,
            ]
        },
        ends="tool_calls stop",
    ),
    Conversation(
        "reasoning, as others call it",
        TWICE,
        {
            "chat": [
                chat_body({"content": "3", "reasoning": "hm", "tool_calls": [CALL]}, finish="tool_calls"),
                OK,
            ]
        },
        ends="tool_calls stop",
    ),
    Conversation("think tags", once(), [ReplyPlan(text="<think>1 and 2\nmake 3</think>\n\n3")]),
    Conversation("open think tag", once(), [ReplyPlan(text="<think>1 and 2")]),
    Conversation("late think tag", once(), [ReplyPlan(text="3 <think>sure?</think> yes")]),
    Conversation(
        "thoughts in history",
        once(
            ASKED,
            {**called(("call_1", "add", "{}")), "reasoning_content": "hm"},
            result("call_1", "3"),
            tools=[ADD],
        ),
        [OK],
    ),
)

CONVERSATIONS = (
    *PLAIN,
    *(
        Conversation(
            f"effort {effort} of {name}",
            once(user("Think"), settings=settings(max_tokens=max_tokens)),
            [ReplyPlan(text="3", reasoning="hm")],
            forms=("whole",),
            wires=(wire,),
            model={wire: model},
            params={"reasoning_effort": effort},
        )
        for wire, model, efforts in (
            ("chat", "openai/gpt-5", ("minimal", "low", "high", "none", "xhigh")),
            ("chat", "openai/gpt-5.5", ("none", "minimal", "xhigh", "max")),
            ("chat", "openai/gpt-6.1-sol", ("none", "low", "xhigh", "max")),
            ("chat", "openai/gpt-4.1", ("low",)),
            ("chat", "openai/some-model", ("low",)),
            (
                "messages",
                "anthropic/claude-sonnet-4-5",
                ("none", "minimal", "low", "medium", "high", "xhigh"),
            ),
            ("messages", "anthropic/claude-opus-4-6", ("none", "low", "high", "max")),
            ("messages", "anthropic/claude-opus-4-7", ("none", "low", "xhigh")),
            ("messages", "anthropic/claude-sonnet-5-5", ("none", "minimal", "low", "high", "xhigh", "max")),
            ("messages", "anthropic/some-model", ("low",)),
        )
        for effort in efforts
        for name in [model.replace("/", " ")]
        for max_tokens in [20000]
    ),
    Conversation(
        "effort above the limit",
        once(settings=settings(max_tokens=500)),
        [OK],
        wires=("messages",),
        params={"reasoning_effort": "high"},
    ),
    Conversation(
        "effort with a temperature",
        once(settings=settings(temperature=0.0, top_p=0.9)),
        [OK],
        params={"reasoning_effort": "low"},
    ),
    Conversation(
        "effort with a forced tool",
        once(tools=[ADD], settings=settings(tool_choice="required")),
        [ReplyPlan(calls=(("add", {"a": 1}),))],
        params={"reasoning_effort": "low"},
        ends="tool_calls",
    ),
    Conversation(
        "thoughts with history of calls",
        once(ASKED, called(("call_1", "add", "{}")), result("call_1", "3"), tools=[ADD]),
        [OK],
        params={"reasoning_effort": "low"},
    ),
)
