"""Calls between marks: Hermes and Qwen, Mistral, Llama, Granite, Phi, functionary, DeepSeek."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TypeAlias

from pytest_agenteval.chat.local.written.written_call import CallsInText, WrittenCall, json_calls, json_text
from pytest_agenteval.records.tool import ToolSpec

Body: TypeAlias = Callable[[re.Match[str]], tuple[WrittenCall, ...]]

# Each body ends at its closing mark, or where the model was cut off.
JSON_BODIES = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"<tool_call>(?P<body>.*?)(?:</tool_call>|\Z)",
        r"<\|tool_call\|>(?P<body>.*?)(?:<\|/tool_call\|>|<\|tool_call\|>(?=\s*\Z)|\Z)",
        r"<function_call>(?P<body>.*?)(?:</function_call>|(?=<function_call>)|\Z)",
        r"<tool_calls>(?P<body>.*?)(?:</tool_calls>|\Z)",
        r"<TOOLCALL>(?P<body>.*?)(?:</TOOLCALL>|\Z)",
        r"functools(?P<body>\[.*)\Z",
    )
)
"""Hermes, Qwen, Granite 4; Granite 3 and Phi 4 mini; Granite 20B; Phi 4's instructed form; Nemotron."""

MISTRAL = re.compile(r"\[TOOL_CALLS\](?P<body>.*?)(?=\[TOOL_CALLS\]|\Z)", re.DOTALL)
_MISTRAL_NAMED = re.compile(
    r"\s*(?P<name>[\w.-]+)\s*(?:\[CALL_ID\]\w*)?\s*(?:\[ARGS\])?(?P<arguments>\s*\{.*)", re.DOTALL
)
FUNCTION = re.compile(
    r"<function=(?P<name>[\w.-]+)>(?P<body>\s*\{.*?)(?:</function>|(?=<function=)|\Z)", re.DOTALL
)
FUNCTIONARY = re.compile(r"(?:\A|(?<=\n))>>>(?P<name>[\w.-]+)\n(?P<body>.*?)(?=\n>>>|\Z)", re.DOTALL)
RECIPIENT = re.compile(
    r"<\|recipient\|>\s*(?P<name>[\w.-]+)\s*<\|content\|>(?P<body>.*?)(?:<\|stop\|>|(?=<\|from\|>|<\|recipient\|>)|\Z)",
    re.DOTALL,
)
DEEPSEEK = re.compile(
    r"<｜tool▁call▁begin｜>(?P<body>.*?)(?:<｜tool▁call▁end｜>|(?=<｜tool▁call▁begin｜>)|\Z)", re.DOTALL
)
_DEEPSEEK_AROUND = re.compile(r"<｜tool▁calls▁(?:begin|end)｜>|<｜tool▁outputs?▁\w+｜>")
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*(?:```|\Z)", re.DOTALL)
PYTHON_TAG = "<|python_tag|>"
_BUILT_IN = re.compile(r'\s*(?P<name>\w+)\.call\((?P<key>\w+)="(?P<value>.*)"\)\s*\Z', re.DOTALL)
CODE_TOOLS = ("code_interpreter", "python", "ipython")


def hermes_like(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read JSON between a pair of marks."""
    for pattern in JSON_BODIES:
        if pattern.search(text):
            return collect(pattern, text, lambda match: json_calls(match["body"]))
    return None


def mistral(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``[TOOL_CALLS]`` with a list behind it, or a name and its arguments."""
    return collect(MISTRAL, text, _mistral_body) if MISTRAL.search(text) else None


def _mistral_body(match: re.Match[str]) -> tuple[WrittenCall, ...]:
    named = _MISTRAL_NAMED.fullmatch(match["body"])
    if named:
        return (WrittenCall(named["name"], named["arguments"].strip()),)
    return json_calls(match["body"])


def function_tags(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read ``<function=NAME>{…}</function>``: functionary 3.1, and Llama 3 with tools of one's own."""
    return collect(FUNCTION, text, _calls_of_match) if FUNCTION.search(text) else None


def functionary(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read what is meant for whom: ``>>>NAME`` on a line, or ``<|recipient|>NAME``; ``all`` is the user."""
    for pattern in (RECIPIENT, FUNCTIONARY):
        matches = list(pattern.finditer(text))
        if matches:
            calls = tuple(
                call for match in matches if match["name"] != "all" for call in _calls_of_match(match)
            )
            said = [match["body"].strip() for match in matches if match["name"] == "all"]
            return CallsInText(calls, "\n".join(said))
    return None


def _calls_of_match(match: re.Match[str]) -> tuple[WrittenCall, ...]:
    return (WrittenCall(match["name"], match["body"].strip() or "{}"),)


def deepseek(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read DeepSeek's marks: V3 and R1 write ``function``, a name and fenced JSON, V3.1 name and JSON."""
    if not DEEPSEEK.search(text):
        return None
    return collect(DEEPSEEK, _DEEPSEEK_AROUND.sub("", text), _deepseek_body)


def _deepseek_body(match: re.Match[str]) -> tuple[WrittenCall, ...]:
    first, mark, rest = match["body"].partition("<｜tool▁sep｜>")
    if not mark:
        return ()
    if first.strip() == "function":
        name, _, arguments = rest.partition("\n")
        fenced = _FENCED.search(arguments)
        return (WrittenCall(name.strip(), (fenced[1] if fenced else arguments).strip()),)
    return (WrittenCall(first.strip(), rest.strip()),)


def llama(text: str, tools: Collection[ToolSpec]) -> CallsInText | None:
    """Read what stands behind ``<|python_tag|>``: JSON, ``NAME.call(query="…")``, or code for a code tool."""
    before, mark, body = text.partition(PYTHON_TAG)
    if not mark:
        return None
    body = body.replace(PYTHON_TAG, ";")
    built_in = _BUILT_IN.match(body)
    if built_in:
        call = WrittenCall(built_in["name"], json_text({built_in["key"]: built_in["value"]}))
        return CallsInText((call,), before)
    calls = json_calls(body) or _code_call(body, tools)
    return CallsInText(calls, before if calls else text)


def _code_call(code: str, tools: Collection[ToolSpec]) -> tuple[WrittenCall, ...]:
    for tool in tools:
        keys = list(tool.parameters.get("properties", {}))
        if tool.name in CODE_TOOLS and keys:
            return (WrittenCall(tool.name, json_text({keys[0]: code.strip()})),)
    return ()


def collect(pattern: re.Pattern[str], text: str, calls_of: Body) -> CallsInText:
    """Take the calls out of a text; what stands between marks and is no call stays where it is."""
    calls: list[WrittenCall] = []

    def take(match: re.Match[str]) -> str:
        written = calls_of(match)
        calls.extend(written)
        return "" if written else match[0]

    rest = pattern.sub(take, text)
    return CallsInText(tuple(calls), rest)
