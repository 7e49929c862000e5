"""What models write is read as what they said, thought and called, whatever their family's form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_agenteval.chat.local.written_calls import opening_of, read_reply_text
from pytest_agenteval.records.tool_spec import ToolSpec, parse_arguments

FOLDER = Path(__file__).parent / "written_replies"


def _tool(name: str, **types: str) -> ToolSpec:
    properties = {key: {"type": type} for key, type in types.items()}
    return ToolSpec(name, "", {"type": "object", "properties": properties})


TOOLS = (
    _tool("get_weather", city="string", days="integer"),
    _tool("write_file", text="string", lines="array"),
    _tool("now"),
)


def _replies() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for number, case in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")), 1):
            yield pytest.param(case, id=f"{path.stem}-{number}")


@pytest.mark.parametrize("case", list(_replies()))
def test_a_reply_is_read(case: dict[str, Any]) -> None:
    """A broken or cut-off call keeps its text as raw arguments; what is no call is said."""
    text = case["text"].removesuffix("<|eom_id|>")
    reply = read_reply_text(text, TOOLS)

    calls = []
    for call in reply.calls:
        args, raw = parse_arguments(call.arguments)
        calls.append({call.tool: dict(args) if raw is None else raw})
    found = {"said": reply.text, "reasoning": reply.reasoning, "calls": calls}
    assert found == {
        "said": "",
        "reasoning": "",
        "calls": [],
        **{k: v for k, v in case.items() if k != "text"},
    }


def test_without_tools_nothing_is_a_call() -> None:
    """What nobody may call is text."""
    text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    assert read_reply_text(text, ()).text == text
    assert read_reply_text(text, ()).calls == ()


@pytest.mark.parametrize(
    ("prompt", "opening"),
    [
        ("<｜Assistant｜><think>\n", "<think>"),
        ("assistant\n", ""),
    ],
)
def test_a_prompt_may_begin_the_reply(prompt: str, opening: str) -> None:
    """DeepSeek's templates write the reply's first mark themselves."""
    assert opening_of(prompt) == opening


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "<tool_call>" * 3_000,
        "<function=a>" * 3_000,
        "[TOOL_CALLS]" * 3_000,
        "{" * 9_000,
    ],
)
def test_a_reply_gone_mad_is_read_all_the_same(text: str) -> None:
    """A tiny model repeats a mark for ever: reading ends, and nothing is lost."""
    reply = read_reply_text(text, TOOLS)
    assert reply.calls == () or all(call.tool for call in reply.calls)
