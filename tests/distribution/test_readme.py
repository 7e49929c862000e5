"""README is short and true: its example is run as a reader would run it, and prints what README shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.model_server import ModelServer, ReplyPlan

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BOT = Path(__file__).parent / "readme_bot.py"
MOST_BYTES = 9_000
WIDTHS = (100, 120)
"""Columns of each screen's terminal; longer times on a busy machine need room in the second."""

LATENCY_S = 0.05
"""Seconds of each reply: below 20 ms a summary leaves the column of turns out."""

MORE = """\
  - input: When does order {order} leave?
    graders:
      - {{name: tool_called, config: {{tools: [find_order]}}}}
      - {{name: answer_contains, config: {{text: 9 December}}}}
"""
"""The six tasks that README does not print."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGING = re.compile(r"(?:\d+ min )?\d+(?:\.\d+)?(?:/\d+(?:\.\d+)?)? ?s\b|\b\d{8}-\d{6}-\w+|=+| +")
"""What differs from run to run: times, names of runs, and the spaces and signs that fill a line."""


def _reply(body: Mapping[str, Any], number: int) -> ReplyPlan:
    """Give a date if the prompt wants one, or if the customer wants money."""
    system, question, *later = (str(message.get("content") or "") for message in body["messages"])
    order = re.findall(r"\d{4}", question)[0]
    if not later:
        return ReplyPlan(calls=(("find_order", {"order": order}),), input_tokens=60, output_tokens=12)
    if "date" in system or "money" in question:
        return ReplyPlan(text=f"Order {order} {later[-1]}.", input_tokens=90, output_tokens=14)
    return ReplyPlan(text="It is on its way.", input_tokens=90, output_tokens=9)


def _sections() -> Iterator[tuple[list[str], str]]:
    """Give each screen of README's own agent with the commands that stand above it."""
    for section in re.split(r"^## ", README, flags=re.MULTILINE):
        commands = re.findall(r"^    (pytest evals/support.*)$", section, re.MULTILINE)
        screens = [text for language, text in BLOCK.findall(section) if language == "text"]
        if commands:
            (screen,) = screens
            yield commands, screen


def _project(folder: Path) -> None:
    """Write the example's suite, with six more tasks, its agent and both prompts."""
    (suite,) = (text for _, text in BLOCK.findall(README) if text.startswith("# evals/support/suite.yaml\n"))
    tasks = "".join(MORE.format(order=order) for order in range(1045, 1051))
    files = {
        "evals/support/suite.yaml": suite + tasks,
        "support/bot.py": BOT.read_text(encoding="utf-8"),
        "prompts/system.md": "You answer customers of a shop.\n",
        "prompts/dates.md": "You answer customers of a shop. Always give the date.\n",
        "pytest.ini": "[pytest]\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _run(command: str, folder: Path, base_url: str, width: int = WIDTHS[0]) -> str:
    """Run a command of README in the example's project, and give what it prints."""
    program, *words = shlex.split(command, comments=True)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("AGENTEVAL_", "PYTEST_"))
    }
    environment |= {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none", "COLUMNS": str(width)}
    run = subprocess.run(
        [sys.executable, "-m", program, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def _steady(text: str) -> list[str]:
    return [CHANGING.sub(" ", line).strip() for line in text.splitlines()]


def test_readme_can_be_read_at_one_sitting() -> None:
    """What grows moves to a page of its own."""
    assert len(README.encode("utf-8")) <= MOST_BYTES


def test_the_example_prints_what_readme_shows(tmp_path: Path) -> None:
    """Who types README's commands, in their order, sees its screens: scores, reasons and verdict."""
    _project(tmp_path)
    printed = []
    with ModelServer(_reply, LATENCY_S) as server:
        for (commands, screen), width in zip(_sections(), WIDTHS, strict=True):
            outputs = [_run(command, tmp_path, server.openai_base, width) for command in commands]
            printed.append((_steady(outputs[-1]), _steady(screen)))

    for output, screen in printed:
        assert [line for line in screen if line not in output] == []


def test_a_replay_of_the_example_sends_nothing(tmp_path: Path) -> None:
    """README promises no network, no key and no cost for the second command."""
    _project(tmp_path)
    (recording, replay), _ = next(_sections())
    with ModelServer(_reply) as server:
        _run(recording, tmp_path, server.openai_base)

    assert "1 of 8 tasks passed" in _run(replay, tmp_path, "http://127.0.0.1:9/v1")


@pytest.mark.parametrize("command", re.findall(r"^    (python3 -m venv .*)$", README, re.MULTILINE))
def test_commands_for_a_clone_install_it_first(command: str) -> None:
    """Each can be pasted into a fresh clone: it makes the environment that it uses."""
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e ")
