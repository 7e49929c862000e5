"""Calls whose arguments stand one by one: Qwen3-Coder's and GLM's tags, DeepSeek's DSML, Gemma's braces.

Nothing says of what type a value is, other than the tool's own schema: a text stays a text where the schema
wants one, or says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pytest_agenteval.chat.local.written.marked_calls import collect
from pytest_agenteval.chat.local.written.written_call import (
    CallsInText,
    WrittenCall,
    json_text,
    parameters_of,
)
from pytest_agenteval.records.tool import ToolSpec

QWEN_CODER = re.compile(
    r"(?:<tool_call>\s*)?<function=(?P<name>[\w.-]+)>(?P<body>.*?)(?P<end></function>|(?=<function=|</tool_call>)|\Z)"
    r"(?:\s*</tool_call>)?",
    re.DOTALL,
)
_QWEN_PARAMETER = re.compile(r"<parameter=([^>\s]+)>(.*?)(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
GLM = re.compile(
    r"<tool_call>\s*(?P<name>[\w.-]+)\s*(?P<body>(?:<arg_key>.*?)?)(?P<end></tool_call>|(?=<tool_call>)|\Z)",
    re.DOTALL,
)
_GLM_PARAMETER = re.compile(
    r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|(?=<arg_key>)|\Z)", re.DOTALL
)
INVOKE = re.compile(
    r'<(?:｜DSML｜)?invoke name="(?P<name>[^"]+)">(?P<body>.*?)(?P<end></(?:｜DSML｜)?invoke>|\Z)',
    re.DOTALL,
)
_INVOKE_PARAMETER = re.compile(
    r'<(?:｜DSML｜)?parameter name="([^"]+)"([^>]*)>(.*?)(?:</(?:｜DSML｜)?parameter>|\Z)', re.DOTALL
)
_INVOKE_AROUND = re.compile(r"</?(?:｜DSML｜)?(?:function_calls|tool_calls)>|</?minimax:tool_call>")
GEMMA = re.compile(
    r"(?:<start_function_call>|<\|tool_call>)\s*call:(?P<name>[\w.-]+)(?P<body>\{.*?)"
    r"(?:<end_function_call>|<tool_call\|>|(?=<start_function_call>|<\|tool_call>)|\Z)",
    re.DOTALL,
)
_GEMMA_QUOTE = re.compile(r'<escape>|<\|"\|>')
_CLOSED = ("</parameter>", "</｜DSML｜parameter>", "</arg_value>")
_GEMMA_KEY = re.compile(r"([{,]\s*)([A-Za-z_][\w.-]*)\s*:")


def qwen_coder(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``<function=NAME><parameter=KEY>…</parameter></function>``, in ``<tool_call>`` or without."""

    def call(match: re.Match[str]) -> tuple[WrittenCall, ...]:
        pairs = [(key, _one_line_less(value)) for key, value in _QWEN_PARAMETER.findall(match["body"])]
        return (_typed_call(match, pairs, tools),)

    if "<parameter=" not in text and not re.search(r"<function=[\w.-]+>\s*(?:</function>|\Z)", text):
        return None
    return collect(QWEN_CODER, text, call)


def glm(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``<tool_call>NAME<arg_key>KEY</arg_key><arg_value>…</arg_value></tool_call>``."""

    def call(match: re.Match[str]) -> tuple[WrittenCall, ...]:
        pairs = [(key.strip(), value) for key, value in _GLM_PARAMETER.findall(match["body"])]
        return (_typed_call(match, pairs, tools),)

    return collect(GLM, text, call) if "<arg_key>" in text and GLM.search(text) else None


def invoke_tags(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``<invoke name="NAME"><parameter name="KEY">…``: DeepSeek V3.2, and MiniMax."""

    def call(match: re.Match[str]) -> tuple[WrittenCall, ...]:
        pairs = [
            (key, value if 'string="false"' not in flags else _Value(value))
            for key, flags, value in _INVOKE_PARAMETER.findall(match["body"])
        ]
        return (_typed_call(match, pairs, tools),)

    return collect(INVOKE, _INVOKE_AROUND.sub("", text), call) if INVOKE.search(text) else None


def gemma(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``call:NAME{key:<escape>text<escape>,n:3}``: FunctionGemma, and Gemma 4 with its own quotes."""

    def call(match: re.Match[str]) -> tuple[WrittenCall, ...]:
        return (WrittenCall(match["name"], _gemma_json(match["body"].strip())),)

    return collect(GEMMA, text, call) if GEMMA.search(text) else None


class _Value(str):
    """A text that is JSON, whatever the schema says."""


def _typed_call(
    match: re.Match[str], pairs: Iterable[tuple[str, str]], tools: Collection[ToolSpec]
) -> WrittenCall:
    """Give the call; of one that was cut off, the text as it stands: half a value is no value."""
    name, body = match["name"], match["body"].strip()
    if not match["end"] and not body.endswith(_CLOSED):
        return WrittenCall(name, body)
    schemas = parameters_of(tools, name)
    return WrittenCall(name, json_text({key: _value(text, schemas.get(key)) for key, text in pairs}))


def _value(text: str, schema: Any) -> Any:
    types = schema.get("type") if isinstance(schema, Mapping) else None
    wanted = {types} if isinstance(types, str) else set(types or ())
    plain = text.strip()
    is_text = not isinstance(text, _Value) and (not wanted or "string" in wanted)
    if is_text and not ("null" in wanted and plain == "null"):
        return text
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(plain, plain))
    except (ValueError, RecursionError):
        return str(text)


def _one_line_less(value: str) -> str:
    """Leave out the line breaks next to the tags, which are no part of the value."""
    return value.removeprefix("\n").removesuffix("\n")


def _gemma_json(body: str) -> str:
    """Quote texts and keys as JSON does; what was cut off stays broken."""
    parts = _GEMMA_QUOTE.split(body)
    texts = [
        json_text(part) if place % 2 else _GEMMA_KEY.sub(r'\1"\2":', part) for place, part in enumerate(parts)
    ]
    return "".join(texts)
