"""Replies that have to fit a schema: strict, open, nested, and of models that know none."""

from __future__ import annotations

from .conversation import ADD, OK, Ask, Conversation, ReplyPlan, once, settings, system, user
from .wire_bodies import messages_body

CLOSED = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}}}
NESTED = {
    "type": "object",
    "title": "Verdict",
    "description": "what was found",
    "properties": {
        "checks": {"type": "array", "items": {"$ref": "#/$defs/check"}, "minItems": 1, "maxItems": 4},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "of": {"anyOf": [{"$ref": "#/$defs/check"}, {"type": "null"}]},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["checks", "score", "of", "kind"],
    "additionalProperties": False,
    "$defs": {
        "check": {
            "type": "object",
            "properties": {"name": {"type": "string", "pattern": "^x", "format": "email"}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}
RECURSIVE = {
    "type": "object",
    "properties": {"child": {"$ref": "#"}, "name": {"type": "string"}},
    "required": ["name", "child"],
    "additionalProperties": False,
}
LIST = {"type": "array", "items": {"type": "string"}}
SCHEMAS = {
    "closed": CLOSED,
    "open": OPEN,
    "nested": NESTED,
    "recursive": RECURSIVE,
    "list": LIST,
    "empty": {},
}
TRUE = ReplyPlan(text='{"ok": true}')
OLDER = "anthropic/claude-3-haiku-20240307"
FORCED = {"type": "tool_use", "id": "toolu_j", "name": "json_tool_call", "input": {"ok": True}}

CONVERSATIONS = (
    *(Conversation(f"{name} schema", once(schema=schema), [TRUE]) for name, schema in SCHEMAS.items()),
    *(
        Conversation(
            f"{name} schema of {model.replace('/', ' ')}",
            once(schema=schema),
            [TRUE],
            wires=("chat",),
            model={"chat": model},
            forms=("whole",),
        )
        for name, schema in (("closed", CLOSED), ("open", OPEN))
        for model in (
            "openai/gpt-3.5-turbo",
            "openai/gpt-4",
            "openai/gpt-5",
            "openai/o1",
            "openai/some-model",
        )
    ),
    *(
        Conversation(
            f"{name} schema of {model.replace('/', ' ')}",
            once(schema=schema),
            [TRUE],
            wires=("messages",),
            model={"messages": model},
            forms=("whole",),
        )
        for name, schema in (("closed", CLOSED), ("open", OPEN), ("nested", NESTED))
        for model in (
            "anthropic/claude-opus-4-6",
            "anthropic/claude-sonnet-5-5",
            "anthropic/claude-haiku-4-5",
            "anthropic/some-model",
        )
    ),
    *(
        Conversation(
            f"{name} schema as a tool",
            once(schema=schema),
            {"messages": [messages_body(FORCED, stop="tool_use")]},
            model={"messages": OLDER},
        )
        for name, schema in SCHEMAS.items()
    ),
    Conversation(
        "schema as a tool, not called", once(schema=OPEN), {"messages": [TRUE]}, model={"messages": OLDER}
    ),
    Conversation(
        "schema as a tool beside tools",
        (Ask((user("Go"),), tools=[ADD], schema=CLOSED), Ask(results=["3"], tools=[ADD], schema=CLOSED)),
        {"messages": [ReplyPlan(calls=(("add", {"a": 1}),)), messages_body(FORCED, stop="tool_use")]},
        model={"messages": OLDER},
        ends="tool_calls stop",
    ),
    Conversation(
        "schema as a tool with thoughts",
        once(schema=CLOSED, settings=settings(max_tokens=3000)),
        {"messages": [messages_body(FORCED, stop="tool_use")]},
        model={"messages": OLDER},
        params={"reasoning_effort": "low"},
    ),
    Conversation("schema beside tools", once(schema=CLOSED, tools=[ADD]), [TRUE]),
    Conversation(
        "schema and a forced tool",
        once(schema=CLOSED, tools=[ADD], settings=settings(tool_choice="required")),
        [ReplyPlan(calls=(("add", {"a": 1}),))],
        ends="tool_calls",
    ),
    Conversation("schema and system", once(system("Terse."), user("Hi"), schema=CLOSED), [TRUE]),
    Conversation("schema refused", once(schema=CLOSED), [ReplyPlan(refusal="No.")], ends="content_filter"),
    Conversation(
        "reply that does not fit", once(schema=CLOSED), [ReplyPlan(text="It is fine."), OK], ends="stop"
    ),
    Conversation("schema of a thinker", once(schema=CLOSED), [TRUE], params={"reasoning_effort": "low"}),
)
