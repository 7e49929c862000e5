"""The reference page of commands is made from the verbs' own help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.cli.main import VERBS, verb_function

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
HEAD = """# Commands

You find here every verb of `agenteval` with its options. The option `--help` of a verb prints them, too. The
exit status is 0, or 1 if the verb found something wrong, 2 after a mistake in the command, 130 after
Ctrl-C.

RUN is a run's folder, its name or the start of it, `latest`, or `MODEL@YYYYMMDD`. These options mean the same
for every verb that has them:

| option | meaning |
|---|---|
| `--json FILE` | write the result as JSON; `-` is the standard output |
| `--markdown FILE` | write the result as Markdown; `-` is the standard output |
| `--results DIR` | the folder of runs (default: `.agenteval/runs`, here or above in the repository) |
| `--models A,B` | compare these models of a run |
| `--variants A,B` | compare these prompt variants of a run; `base` is the agent's own prompts |
| `--verbose`, `--quiet` | print more, or less |
| `--no-pager` | print everything at once, also on a terminal |

<!-- Made by `python -m tests.cli.test_commands_page`. -->
"""
COMMON = {"help", "json", "markdown", "results", "models", "variants", "verbose", "quiet", "no_pager"}
"""Options that the first table explains."""


def commands_page() -> str:
    """Give docs/reference/commands.md, in Markdown."""
    parts = [HEAD]
    for verb, purpose in VERBS.items():
        parser = argparse.ArgumentParser()
        verb_function(verb, "_arguments")(parser)
        shown = [action for action in parser._actions if action.help not in (None, argparse.SUPPRESS)]
        rows = [_row(action) for action in shown if action.dest not in COMMON]
        end = "" if purpose.endswith("?") else "."
        parts.append(f"## agenteval {verb}\n\n{purpose[0].upper()}{purpose[1:]}{end}\n")
        parts.append(f"`{' '.join(['agenteval', verb, *_synopsis(shown)])}`\n")
        parts += ["|option|meaning|\n|---|---|", *rows, ""] if rows else []
        common = [_name(action) for action in shown if action.dest in COMMON - {"help", "json", "results"}]
        parts += [f"Also {', '.join(f'`{name}`' for name in common)}.\n"] if common else []
    return "\n".join(parts).rstrip()


def _synopsis(actions: list[argparse.Action]) -> Iterator[str]:
    """Give what a command needs: required options, and arguments."""
    optional = [action for action in actions if action.option_strings and not action.required]
    yield from (_name(action) for action in actions if action.option_strings and action.required)
    for action in actions:
        if not action.option_strings:
            text = _name(action) + (" ..." if action.nargs in ("*", "+") else "")
            yield f"[{text}]" if action.nargs in ("?", "*") else text
    if {action.dest for action in optional} - {"help"}:
        yield "[options]"


def _row(action: argparse.Action) -> str:
    text = str(action.help).replace("%%", "%").replace("|", r"\|")
    text = re.sub(r"(?<![\w-])--[a-z][a-z-]+", r"`\g<0>`", text)
    return f"|`{_name(action)}`|{text}|"


def _name(action: argparse.Action) -> str:
    """Give an option with its value, or an argument, as ``--help`` names it."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return ", ".join(action.option_strings)
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = action.metavar or choices or action.dest.upper()
    text = value if isinstance(value, str) else " ".join(value)
    return " ".join([*action.option_strings[-1:], *([text] if action.nargs != 0 else [])])


def test_the_page_of_commands_is_current() -> None:
    """`python -m tests.cli.test_commands_page` makes it again."""
    assert PAGE.read_text(encoding="utf-8") == commands_page() + "\n"


def test_each_option_of_a_verb_is_in_the_page() -> None:
    """None is left out but those of all verbs."""
    page = PAGE.read_text(encoding="utf-8")
    for verb in VERBS:
        parser = argparse.ArgumentParser()
        verb_function(verb, "_arguments")(parser)
        part = page.partition(f"## agenteval {verb}\n")[2].partition("\n## ")[0]
        named = {name for action in parser._actions for name in action.option_strings[-1:]}
        missing = named - set(re.findall(r"--?[\w-]+", part)) - {"--help", "--json", "--results"}
        assert missing == set(), verb


if __name__ == "__main__":
    print(commands_page())
