"""How the runner of GitHub Actions reads what a step prints: which lines are commands, and what they say.

Written from how actions/runner parses a line, as it was at the end of 2026.
"""

from __future__ import annotations

import re
from typing import NamedTuple

REGISTERED = {
    *("add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group", "notice"),
    *("remove-matcher", "save-state", "set-env", "set-output", "stop-commands", "warning"),
}


class Command(NamedTuple):
    """A command that the runner obeys."""

    name: str
    properties: dict[str, str]
    data: str


def commands_in(output: str) -> list[Command]:
    """Give every command that a runner finds in a step's output, in both spellings that it knows.

    Once one has stopped it, it obeys none until the word that was named stands there as one.
    """
    commands, resuming = [], ""
    for line in re.split(r"\r\n|\r|\n", output):
        if resuming:
            resuming = "" if line.lstrip().startswith(f"::{resuming}::") else resuming
        elif command := _new(line.lstrip()) or _old(line):
            commands.append(command)
            resuming = command.data if command.name == "stop-commands" else ""
    return commands


def _new(line: str) -> Command | None:
    head, found, data = line[2:].partition("::")
    name, _, pairs = head.partition(" ")
    if not (line.startswith("::") and found and name.lower() in REGISTERED):
        return None
    properties = dict(pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)
    return Command(name, {key: _unescape(value, ":,") for key, value in properties.items()}, _unescape(data))


def _old(line: str) -> Command | None:
    match = re.search(r"##\[([^ \]]*)[^\]]*\](.*)", line)
    return Command(match[1], {}, match[2]) if match and match[1].lower() in REGISTERED else None


def _unescape(text: str, more: str = "") -> str:
    for character in f"\r\n{more}%":
        text = text.replace(f"%{ord(character):02X}", character)
    return text
