"""Workflow commands: ours say what they should, and no foreign text is one."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.text.formatting import without_commands, workflow_command
from tests.actions_runner import Command, commands_in

PIECES = (*":[]x \n\r\t\x0b", "::", "error", "add-mask", "stop-commands", "##[")
TEXTS = st.lists(st.sampled_from((*PIECES, "%0A", "\u2003", "\u0085", "ünd")), max_size=12).map("".join)


@given(TEXTS, TEXTS.map(lambda text: text.replace("=", "")))
def test_a_command_arrives_as_it_was_meant(message: str, title: str) -> None:
    """Whatever stands in message and title, it is one command and they come out unchanged."""
    line = workflow_command("warning", message, file="evals/a,b:c.yaml", line=7, title=title)
    properties = {"file": "evals/a,b:c.yaml", "line": "7", **({"title": title} if title else {})}

    assert commands_in(line) == [Command("warning", properties, message)]


VALUES = st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)


@given(VALUES)
def test_json_says_the_same(value: object) -> None:
    """A step may hand what it prints to another program."""
    text = without_commands(json.dumps(value, indent=2))
    assert json.loads(text) == value
    assert commands_in(text) == []


@given(TEXTS)
def test_no_foreign_text_is_a_command(text: str) -> None:
    """In either spelling, behind any white space and line break: nothing of it acts."""
    assert commands_in(without_commands(text)) == []


def test_a_text_without_commands_stays_as_it_is() -> None:
    """Node ids and headings have colons and hashes, too; what is changed can still be read."""
    plain = "evals/a.yaml::b[rules-1] ## [x]\n  a::b"
    assert without_commands(plain) == plain
    assert without_commands("a\n ::error::x ##[group]") == "a\n :\\u003aerror::x ##\\u005bgroup]"
