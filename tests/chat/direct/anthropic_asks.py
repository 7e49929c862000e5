"""Asks of Anthropic's models that differ in one thing each, for litellm and for us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatSettings
from pytest_agenteval.records.tool_spec import ToolSpec

PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="
PLAIN = "claude-sonnet-4-5"
ADAPTS = "claude-opus-4-8"
NEWEST = "claude-opus-5-5"
OLD = "claude-3-haiku-20240307"
UNKNOWN = "claude-of-tomorrow"

ADD = ToolSpec(
    "add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
)
BARE = ToolSpec("now")


@dataclass(frozen=True)
class Asked:
    """One ask, and the parameters of the model's alias."""

    messages: Sequence[Mapping[str, Any]]
    model: str = PLAIN
    tools: Sequence[ToolSpec] = ()
    schema: Mapping[str, Any] | None = None
    settings: ChatSettings = DEFAULT_SETTINGS
    params: Mapping[str, Any] = field(default_factory=dict)


def user(content: Any = "What is 1 + 2?") -> dict[str, Any]:
    """Give what a user says."""
    return {"role": "user", "content": content}


def system(content: Any = "Be brief.") -> dict[str, Any]:
    """Give what the system says."""
    return {"role": "system", "content": content}


def said(content: Any = "", *calls: tuple[str, str, str]) -> dict[str, Any]:
    """Give a reply with calls: id, tool and arguments."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": text}}
            for id, name, text in calls
        ]
    return message


def result(id: str = "toolu_1", content: Any = "3") -> dict[str, Any]:
    """Give what a tool gave."""
    return {"role": "tool", "tool_call_id": id, "content": content}


def image(url: Any) -> dict[str, Any]:
    """Give an image as OpenAI's chat completions hold it."""
    return {"type": "image_url", "image_url": url}


def text(words: str) -> dict[str, Any]:
    """Give a text as a part."""
    return {"type": "text", "text": words}


def file(**told: Any) -> dict[str, Any]:
    """Give a file as OpenAI's chat completions hold it."""
    return {"type": "file", "file": told}


CALLED = [user(), said("", ("toolu_1", "add", '{"a": 1}')), result()]
PARALLEL = [
    user(),
    said("Both.", ("toolu_1", "add", '{"a": 1}'), ("toolu_2", "now", "{}")),
    result("toolu_1"),
    result("toolu_2", "noon"),
]
OBJECT = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
CLOSED = {**OBJECT, "additionalProperties": False}
RULES = {
    "type": "object",
    "description": "A sum.",
    "properties": {
        "sum": {"type": "integer", "minimum": 1, "maximum": 9},
        "names": {"type": "array", "items": {"type": "string", "minLength": 2}, "uniqueItems": True},
        "either": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {}}]},
        "some": {"anyOf": [{"type": "number", "multipleOf": 2}], "oneOf": [{"type": "null"}]},
        "all": {"allOf": [{"type": "string", "maxLength": 3}]},
        "odd": {"type": "string", "enum": ["a", 1, None]},
        "fine": {"type": "string", "enum": ["a", "b"]},
        "many": {"type": ["string", "null"], "enum": ["a", None]},
        "loose": {"type": "array", "uniqueItems": False, "contains": {"type": "integer"}},
    },
}
REFERRING = {
    "type": "object",
    "properties": {
        "head": {"$ref": "#/$defs/Node"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/Leaf"}},
    },
    "$defs": {
        "Leaf": {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0}}},
        "Node": {
            "type": "object",
            "properties": {"leaf": {"$ref": "#/$defs/Leaf"}, "no": {"$ref": "#/$defs/Gone"}},
        },
    },
}
LOOPED = {
    "type": "object",
    "properties": {"head": {"$ref": "#/definitions/Node"}},
    "definitions": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/definitions/Node"}}}},
}
OPENAPI = {
    "type": "object",
    "title": "Odd",
    "properties": {"one": {"$ref": "#/components/schemas/One"}},
    "components": {"schemas": {"One": {"type": "string"}}},
}


def asks() -> Iterator[tuple[str, Asked]]:
    """Give every ask under its name."""
    yield from (
        ("a question", Asked([user()])),
        ("a model of before", Asked([user()], OLD)),
        ("a model nobody knows", Asked([user()], UNKNOWN)),
        ("the system", Asked([system(), user()])),
        ("two of the system", Asked([system(), system("Be kind."), user()])),
        ("an empty system", Asked([system(""), user()])),
        ("a blank system", Asked([system(" "), user()])),
        ("a system in parts", Asked([system([text("One."), text(""), text("Two.")]), user()])),
        ("a developer", Asked([{"role": "developer", "content": "Be brief."}, user()])),
        ("a later system", Asked([user(), said("3"), system("Now in French."), user("And 2 + 2?")])),
        ("a later system at the end", Asked([user(), said("3"), system("Now in French.")])),
        ("a later system before results", Asked([*CALLED[:2], system("Hurry."), CALLED[2]], tools=[ADD])),
        *((f"{name}, {NEWEST}", Asked(messages, NEWEST)) for name, messages in LATER_SYSTEMS.items()),
        ("two users", Asked([user("One."), user("Two.")])),
        ("two replies", Asked([user(), said("a"), said("b"), user()])),
        ("an empty question", Asked([user("")])),
        ("a blank question", Asked([user("  \n")])),
        ("a blank part", Asked([user([text(" "), text("Well?")])])),
        ("an empty reply", Asked([user(), said(""), user("Well?")])),
        ("a prefill", Asked([user(), said("It is  \n")])),
        ("a prefill in parts", Asked([user(), said([text("It "), text("is ")])])),
        ("a called prefix", Asked([user(), {**said("It is"), "prefix": True}])),
        ("a call", Asked(CALLED, tools=[ADD])),
        ("parallel calls", Asked(PARALLEL, tools=[ADD, BARE])),
        ("calls and no tools", Asked(CALLED)),
        ("a user after a result", Asked([*CALLED, user("Sure?")], tools=[ADD])),
        ("no text beside a call", Asked([user(), {**CALLED[1], "content": None}, result()], tools=[ADD])),
        ("an empty result", Asked([*CALLED[:2], result(content="")], tools=[ADD])),
        (
            "a result in parts",
            Asked([*CALLED[:2], result(content=[text("3"), image({"url": PNG})])], tools=[ADD]),
        ),
        ("a document as result", Asked([*CALLED[:2], result(content=[image({"url": PDF})])], tools=[ADD])),
        ("odd ids", Asked([user(), said("x", ("a.b:c", "add", "{}")), result("a.b:c")], tools=[ADD])),
        (
            "arguments that are none",
            Asked([user(), said("x", ("t1", "add", '{"a": 1')), result("t1")], tools=[ADD]),
        ),
        (
            "arguments that are a list",
            Asked([user(), said("x", ("t1", "add", "[1]")), result("t1")], tools=[ADD]),
        ),
        (
            "one id twice",
            Asked([user(), said("x", ("t1", "add", "{}")), said("y", ("t1", "add", "{}")), result("t1")]),
        ),
        ("an image", Asked([user([text("What?"), image({"url": PNG})])])),
        ("an image as text", Asked([user([image(PNG)])])),
        ("an image's own type", Asked([user([image({"url": PNG, "format": "image/webp"})])])),
        ("an image's address", Asked([user([image({"url": "https://a.example/x.png"})])])),
        ("a file's data", Asked([user([file(file_data=PDF, filename="a.pdf")])])),
        ("a kept document", Asked([user([file(file_id="file_1", format="application/pdf")])])),
        ("a kept image", Asked([user([file(file_id="file_1", format="image/png")])])),
        ("a kept file", Asked([user([text("x"), file(file_id="file_1")])], tools=[ADD])),
        ("a file's address", Asked([user([file(file_id="https://a.example/x.pdf")])])),
        (
            "a document",
            Asked([user([{"type": "document", "source": {"type": "url", "url": "https://a.example"}}])]),
        ),
        ("a part nobody knows", Asked([user([text("x"), {"type": "input_audio", "input_audio": {}}])])),
        (
            "marked for the cache",
            Asked(
                [
                    system([{**text("Long."), "cache_control": {"type": "ephemeral"}}]),
                    user([{**text("Long."), "cache_control": {"type": "ephemeral"}}]),
                ]
            ),
        ),
        (
            "a thought of its own",
            Asked(
                [
                    user(),
                    {
                        **CALLED[1],
                        "thinking_blocks": [
                            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                            {"type": "redacted_thinking", "data": "eA=="},
                            {"type": "thinking", "thinking": "unsigned", "signature": ""},
                        ],
                    },
                    result(),
                ],
                tools=[ADD],
            ),
        ),
        *(
            (
                f"tool_choice {choice}",
                Asked([user()], tools=[ADD, BARE], settings=ChatSettings(tool_choice=choice)),
            )
            for choice in ("auto", "none", "required", "now")
        ),
        *(
            (
                f"tool_choice {choice}, {NEWEST}",
                Asked([user()], NEWEST, tools=[ADD, BARE], settings=ChatSettings(tool_choice=choice)),
            )
            for choice in ("auto", "required", "now")
        ),
        ("tool_choice without tools", Asked([user()], settings=ChatSettings(tool_choice="required"))),
        *(
            (
                f"sampling, {model}",
                Asked([user()], model, settings=ChatSettings(temperature=0.2, top_p=0.9, seed=7)),
            )
            for model in (PLAIN, OLD, ADAPTS)
        ),
        ("temperature 1", Asked([user()], ADAPTS, settings=ChatSettings(temperature=1))),
        ("temperature 0", Asked([user()], settings=ChatSettings(temperature=0.0))),
        ("max_tokens", Asked([user()], settings=ChatSettings(max_tokens=77))),
        *(
            (f"effort {effort}, {model}", Asked([user()], model, params={"reasoning_effort": effort}))
            for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max")
            for model in (PLAIN, ADAPTS)
        ),
        ("effort of one that cannot", Asked([user()], OLD, params={"reasoning_effort": "low"})),
        ("effort and max_tokens", Asked([user()], params={"reasoning_effort": "low", "max_tokens": 5000})),
        *(
            (f"schema {name}, {model}", Asked([user()], model, schema=schema))
            for name, schema in SCHEMAS.items()
            for model in (PLAIN, OLD)
        ),
        ("schema and tools", Asked([user()], OLD, tools=[ADD], schema=OBJECT)),
        (
            "schema, tools and a choice",
            Asked([user()], OLD, tools=[ADD], schema=OBJECT, settings=ChatSettings(tool_choice="add")),
        ),
        ("schema, tools, native", Asked([user()], tools=[ADD], schema=OBJECT)),
        ("schema and effort", Asked([user()], OLD, schema=OBJECT, params={"reasoning_effort": "low"})),
        *(
            (f"arguments {name}", Asked([user()], tools=[ToolSpec("t", "", schema)]))
            for name, schema in {**SCHEMAS, "openapi": OPENAPI, "no object": {"type": "string"}}.items()
        ),
        (
            "odd names",
            Asked(
                [user(), said("x", ("t1", "a.b", "{}"), ("t2", "a/b", "{}")), result("t1"), result("t2")],
                tools=[ToolSpec("a.b"), ToolSpec("a/b"), ToolSpec("a_b"), ToolSpec("é" * 130)],
                settings=ChatSettings(tool_choice="a/b"),
            ),
        ),
        ("streamed", Asked([user()], params={"stream": True})),
        ("streamed with a schema", Asked([user()], OLD, schema=OBJECT, params={"stream": True})),
        (
            "extra_body",
            Asked([user()], params={"extra_body": {"metadata": {"user_id": "u1"}, "service_tier": "auto"}}),
        ),
        (
            "extra thinking",
            Asked([user()], params={"extra_body": {"thinking": {"type": "enabled", "budget_tokens": 3000}}}),
        ),
        (
            "extra effort",
            Asked([user()], "claude-opus-4-5", params={"extra_body": {"output_config": {"effort": "low"}}}),
        ),
        ("extra stop", Asked([user()], params={"extra_body": {"stop_sequences": ["END"]}})),
        ("half a character", Asked([user("x\ud800y")])),
    )


LATER_SYSTEMS = {
    "a system behind a question": [user(), system("Now in French."), said("3"), user("And?")],
    "a system behind a reply": [user(), said("3"), system("Now in French."), user("And?")],
    "a system between questions": [user(), system("Now in French."), user("And?")],
    "a system between replies": [user(), said("3"), system("Now in French."), said("4"), user("And?")],
    "a system at the end": [user(), said("3"), system("Now in French.")],
    "a system behind the last question": [user(), said("3"), user("And?"), system("Now in French.")],
    "systems around a question": [
        user(),
        said("3"),
        system("One."),
        user("And?"),
        system("Two."),
        system("Three."),
    ],
    "an empty later system": [user(), said("3"), system(""), user("And?")],
    "a system before results": [*CALLED[:2], system("Hurry."), CALLED[2]],
}
SCHEMAS = {
    "plain": OBJECT,
    "closed": CLOSED,
    "of rules": RULES,
    "that refers": REFERRING,
    "in a loop": LOOPED,
}
ASKS = dict(asks())
