"""Calls of tools: several at once, malformed ones, ids and names of all kinds, and what came of them."""

from __future__ import annotations

import json
from typing import Any

from pytest_agenteval.records.tool_spec import ToolSpec

from .conversation import (
    ADD,
    OK,
    WEATHER,
    Ask,
    Conversation,
    PerWire,
    ReplyPlan,
    called,
    once,
    result,
    settings,
    system,
    tool,
    user,
)
from .wire_bodies import chat_body, messages_body

ASKED = user("What is 1 + 2?")
BOTH = [ADD, WEATHER]
ONE = ReplyPlan(calls=(("add", {"a": 1, "b": 2}),))
NESTED = tool(
    "plan",
    "plans",
    steps={"type": "array", "items": {"$ref": "#/$defs/step"}, "minItems": 1},
    note={"anyOf": [{"type": "string", "maxLength": 10}, {"type": "null"}], "default": None},
)
WITH_DEFS = ToolSpec(
    "plan",
    "plans",
    {**NESTED.parameters, "$defs": {"step": {"type": "object", "additionalProperties": True}}},
)
STRICT = ToolSpec("add", "", {**ADD.parameters, "additionalProperties": False, "$schema": "https://x/y"})
ODD_NAMES = ("maps.search", "maps/search", "장소검색", "a b", "x" * 65, "y" * 130, "1st", "-dash")


def loop(*plans: Any, tools: Any = (ADD,), results: Any = (["3"],), **more: Any) -> dict[str, Any]:
    """Give a conversation in which each reply but the last is answered with results."""
    asks = (Ask((ASKED,), tools=tools), *(Ask(results=it, tools=tools) for it in results))
    return {"asks": asks, "answers": plans, "ends": "tool_calls stop", **more}


def called_body(*calls: tuple[Any, Any, Any]) -> PerWire:
    """Give a reply with calls whose id, name and arguments are written as they are."""
    chat = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": written}}
        for id, name, written in calls
    ]
    blocks = [{"type": "tool_use", "id": id, "name": name, "input": _input(it)} for id, name, it in calls]
    return {
        "chat": [chat_body({"content": None, "tool_calls": chat}, finish="tool_calls"), OK],
        "messages": [messages_body(*blocks, stop="tool_use"), OK],
    }


def _input(arguments: Any) -> Any:
    """Give arguments as Anthropic holds them: an object where the text is that of one."""
    try:
        read = json.loads(arguments)
    except (TypeError, ValueError):
        return arguments
    return read if isinstance(read, dict) else arguments


def written(arguments: str, input: Any) -> PerWire:
    """Give a reply with one call: its arguments as text, and for Anthropic as a value."""
    texts = called_body(("call_a", "add", arguments))
    return {**texts, "messages": called_body(("call_a", "add", input))["messages"]}


TOLD_IN_PIECES = (
    Conversation("one call", **loop(ONE, OK)),
    Conversation("call with text", **loop(ReplyPlan(text="Let me see.", calls=ONE.calls), OK)),
    Conversation(
        "parallel calls",
        **loop(
            ReplyPlan(
                calls=(("add", {"a": 1, "b": 2}), ("get_weather", {"city": "서울"}), ("add", {"a": 3}))
            ),
            OK,
            tools=BOTH,
            results=(["3", "맑음", "?"],),
        ),
    ),
    Conversation(
        "three rounds",
        **{
            **loop(ONE, ONE, ReplyPlan(calls=ONE.calls * 2), OK, results=(["3"], ["3"], ["3", "3"])),
            "ends": "tool_calls tool_calls tool_calls stop",
        },
    ),
    Conversation("calls that say stop", **loop(ReplyPlan(calls=ONE.calls, finish_reason="stop"), OK)),
    Conversation("result with a user", **loop(ONE, OK), model={}),
    Conversation("malformed arguments", **loop(ReplyPlan(calls=(("add", '{"a": 1'),)), OK)),
    Conversation("arguments that are a list", **{**loop(), "answers": written("[1, 2]", [1, 2])}),
    Conversation("arguments that are a text", **{**loop(), "answers": written('"a"', "a")}),
    Conversation("arguments that are null", **{**loop(), "answers": written("null", None)}),
    Conversation("empty arguments", **{**loop(), "answers": written("", {})}),
    Conversation("blank arguments", **{**loop(), "answers": written(" \n", {})}),
    Conversation("arguments with escapes", **loop(ReplyPlan(calls=(("add", {"a": '"\\\n\u2028🙂'}),)), OK)),
    Conversation("arguments with NaN", **loop(ReplyPlan(calls=(("add", '{"a": NaN}'),)), OK)),
    Conversation("arguments twice", **{**loop(), "answers": written('{"a":1}{"a":1}', {"a": 1})}),
    Conversation("large numbers", **loop(ReplyPlan(calls=(("add", {"a": 2**70, "b": 1e300}),)), OK)),
    Conversation(
        "duplicate ids",
        **{
            **loop(results=(["1", "2"],)),
            "answers": called_body(("call_a", "add", '{"a":1}'), ("call_a", "get_weather", '{"city":"x"}')),
        },
        forms=("whole",),
    ),
    Conversation(
        "no ids",
        **{**loop(results=(["1", "2"],)), "answers": called_body(("", "add", "{}"), ("", "add", "{}"))},
        wires=("chat", "messages"),
    ),
    Conversation(
        "ids that are null",
        **{**loop(results=(["1", "2"],)), "answers": called_body((None, "add", "{}"), (None, "add", "{}"))},
        wires=("chat",),
    ),
    Conversation(
        "foreign ids", **{**loop(), "answers": called_body(("functions.add:0|x", "add", '{"a":1,"b":2}'))}
    ),
    Conversation("an unknown tool", **{**loop(), "answers": called_body(("call_a", "subtract", '{"a":1}'))}),
    Conversation("a call without a name", **{**loop(), "answers": called_body(("call_a", "", "{}"))}),
)

CONVERSATIONS = (
    *TOLD_IN_PIECES,
    Conversation(
        "results out of order",
        once(
            ASKED,
            called(("call_1", "add", '{"a":1}'), ("call_2", "add", '{"a":2}')),
            result("call_2", "2"),
            result("call_1", "1"),
            tools=[ADD],
        ),
        [OK],
    ),
    Conversation(
        "result then user",
        once(ASKED, called(("call_1", "add", '{"a":1}')), result("call_1", "1"), user("So?"), tools=[ADD]),
        [OK],
    ),
    Conversation(
        "call without a result",
        once(ASKED, called(("call_1", "add", '{"a":1}')), user("Never mind"), tools=[ADD]),
        [OK],
    ),
    Conversation("result without a call", once(ASKED, result("call_9", "1"), user("So?"), tools=[ADD]), [OK]),
    Conversation(
        "results in pieces",
        once(
            ASKED,
            called(("call_1", "add", "{}"), text=None),
            result("call_1", [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]),
            tools=[ADD],
        ),
        [OK],
    ),
    Conversation(
        "repeated ids in history",
        once(
            ASKED,
            called(("call_1", "add", '{"a":1}')),
            result("call_1", "1"),
            user("Again"),
            called(("call_1", "add", '{"a":1}')),
            result("call_1", "1"),
            tools=[ADD],
        ),
        [OK],
    ),
    Conversation(
        "malformed history",
        once(
            ASKED,
            called(("call_1", "add", '{"a": 1'), ("call_2", "add", "[1]"), ("call_3", "add", "")),
            *(result(f"call_{place}", "no") for place in (1, 2, 3)),
            tools=[ADD],
        ),
        [OK],
    ),
    Conversation(
        "foreign ids in history",
        once(
            ASKED,
            called(("chatcmpl-tool.1:a/b c", "add", "{}"), ("x" * 80, "add", "{}")),
            result("chatcmpl-tool.1:a/b c", "1"),
            result("x" * 80, "2"),
            tools=[ADD],
        ),
        [OK],
    ),
    *(
        Conversation(
            f"tool named {place}",
            **loop(ReplyPlan(calls=((name, {"a": 1}),)), OK, tools=[tool(name), ADD]),
            forms=("whole",) if place > 2 else ("whole", "streamed"),
        )
        for place, name in enumerate(ODD_NAMES)
    ),
    Conversation(
        "names that become one",
        **loop(ReplyPlan(calls=(("a.b", {}),)), OK, tools=[tool("a.b"), tool("a/b"), tool("a_b")]),
    ),
    Conversation(
        "odd names in history",
        once(
            ASKED, called(("call_1", "maps.search", "{}")), result("call_1", "1"), tools=[tool("maps.search")]
        ),
        [OK],
    ),
    Conversation(
        "nested tool schema", **loop(ReplyPlan(calls=(("plan", {"steps": []}),)), OK, tools=[WITH_DEFS])
    ),
    Conversation("dangling tool schema", **loop(ONE, OK, tools=[NESTED, ADD])),
    Conversation("strict tool", **loop(ONE, OK, tools=[STRICT])),
    Conversation("bare tool", **loop(ReplyPlan(calls=(("ping", {}),)), OK, tools=[ToolSpec("ping")])),
    Conversation("many tools", once(tools=[tool(f"tool_{place}") for place in range(140)]), [OK]),
    Conversation("tool described at length", once(tools=[tool("add", "word " * 600)]), [OK]),
    *(
        Conversation(
            f"choice {choice}", once(tools=BOTH, settings=settings(tool_choice=choice)), [ONE], ends=ends
        )
        for choice, ends in {
            "auto": "tool_calls",
            "none": "tool_calls",
            "required": "tool_calls",
            "add": "tool_calls",
        }.items()
    ),
    Conversation(
        "choice as a map",
        once(tools=BOTH, settings=settings(tool_choice={"type": "function", "function": {"name": "add"}})),
        [ONE],
        ends="tool_calls",
    ),
    Conversation("choice without tools", once(settings=settings(tool_choice="auto")), [OK]),
    Conversation(
        "choice of an odd name",
        once(tools=[tool("maps.search")], settings=settings(tool_choice="maps.search")),
        [ReplyPlan(calls=(("maps.search", {}),))],
        ends="tool_calls",
    ),
    Conversation(
        "choices that cannot be forced",
        (
            Ask((ASKED,), tools=BOTH, settings=settings(tool_choice="required")),
            Ask((ASKED,), tools=BOTH, settings=settings(tool_choice="add")),
            Ask((ASKED,), tools=BOTH, settings=settings(tool_choice="none")),
        ),
        [ReplyPlan(text="no")],
        wires=("messages",),
        model={"messages": "anthropic/claude-sonnet-5-5"},
    ),
    Conversation(
        "system between results",
        once(
            ASKED,
            called(("call_1", "add", "{}")),
            result("call_1", "1"),
            system("Be quick."),
            user("So?"),
            tools=[ADD],
        ),
        [OK],
    ),
    Conversation(
        "a legacy call",
        once(),
        {
            "chat": [
                chat_body(
                    {"content": None, "function_call": {"name": "add", "arguments": "{}"}},
                    finish="function_call",
                )
            ]
        },
        ends="tool_calls",
    ),
    Conversation(
        "calls at one place",
        (Ask((ASKED,), tools=[ADD]),),
        {
            "chat": [
                chat_body(
                    {
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "a",
                                "index": 0,
                                "type": "function",
                                "function": {"name": "add", "arguments": "{}"},
                            },
                            {
                                "id": "b",
                                "index": 0,
                                "type": "function",
                                "function": {"name": "add", "arguments": "{}"},
                            },
                        ],
                    },
                    finish="tool_calls",
                )
            ]
        },
        ends="tool_calls",
        forms=("whole",),
    ),
    Conversation(
        "a provider's own call",
        once(tools=[ADD]),
        {
            "messages": [
                messages_body(
                    {"type": "text", "text": "I looked."},
                    {
                        "type": "server_tool_use",
                        "id": "srvtoolu_1",
                        "name": "web_search",
                        "input": {"query": "x"},
                    },
                    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                    {"type": "text", "text": "Nothing."},
                )
            ],
        },
        ends="stop",
    ),
)
