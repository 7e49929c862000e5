"""Workflow commands of GitHub Actions: lines of output that its runner acts upon, ours and nobody else's.

A line is one if it begins with ``::``, white space aside, or has ``##[`` anywhere. By what it answers an
agent could so set outputs, mask words of the log, or stop the commands of a step.
"""

from __future__ import annotations

import os
import re

_COMMAND = re.compile(r"((?:\A|[\r\n])\s*)::")
_OLD_COMMAND = "##["
_IN_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTY = {**_IN_DATA, ":": "%3A", ",": "%2C"}


def in_actions() -> bool:
    """Whether a runner of GitHub Actions reads what is printed."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def workflow_command(name: str, message: str, **properties: str | int | None) -> str:
    """Write a command on one line: ``::warning file=evals/a.yaml,line=7::…``; what is empty is left out."""
    pairs = ",".join(
        f"{key}={_escaped(str(value), _IN_PROPERTY)}" for key, value in properties.items() if value
    )
    return f"::{name}{' ' if pairs else ''}{pairs}::{_escaped(message, _IN_DATA)}"


def without_commands(text: str) -> str:
    r"""Give foreign text in which a runner finds no command: one begins with ``:\u003a`` or ``##\u005b`` now.

    JSON says the same as before: no line of it begins with a colon, and its texts may spell a bracket so.
    """
    if "::" in text:
        text = _COMMAND.sub(r"\1:\\u003a", text)
    return text.replace(_OLD_COMMAND, r"##\u005b")


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
