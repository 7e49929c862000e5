"""docs/benchmarks/memex.md: its tasks and suites run as they are pasted; a program does as its Dart does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.suites import only_our_plugin, run, write

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "benchmarks" / "memex.md").read_text(encoding="utf-8")
SUITES = {
    path: text
    for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for path in re.findall(r"^# (\S+)\n", text)
}
PASTED = dict(re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
COMMANDS = (DOCS / "guides" / "command-agents.md").read_text(encoding="utf-8")
(DART,) = re.findall(r"^```dart\n(.*?)^```$", COMMANDS, re.MULTILINE | re.DOTALL)

STAND_IN = '''#!{python}
"""What the page's Dart program does, in the place of Dart, which is not installed here."""
import json, os, pathlib, sys

task = json.loads(sys.stdin.readline())
day, _, name = task["input"]["fact_id"].partition(".md#")
assert task["input"]["content"] in pathlib.Path("Facts", day + ".md").read_text()
assert os.environ["OPENAI_BASE_URL"].startswith("http://127.0.0.1")
card = pathlib.Path("Cards", day + "_" + name + ".yaml")
card.parent.mkdir(parents=True)
event = "{{template_id: event, data: {{title: Lantern walk, start_time: '2026-01-02T19:00:00'}}}}"
lines = ["fact_id: " + task["input"]["fact_id"], "status: completed", "title: Lantern walk"]
card.write_text("\\n".join([*lines, "ui_configs: [" + event + "]"]))
print(json.dumps({{"type": "answer", "text": "done", "state": {{"is_complete": True}}}}))
'''


def test_pasted_tasks_run_with_three_lines_of_suite(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's files, as they stand there, give the figures that it prints."""
    only_our_plugin(monkeypatch)
    assert len(PASTED) == 3
    write(pytester.path, {**SUITES, **PASTED})

    screen = run(pytester, "evals", "-q").stdout.str()

    printed = re.findall(r"^(my_\w+ +\d\.\d\d +\d of 1 task passed) ", PAGE, re.MULTILINE)
    assert len(printed) == 2
    for line in printed:
        assert line in screen


@pytest.mark.posix
def test_a_program_that_does_as_the_dart_one_is_graded_by_its_files(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads one line, works in the folder it is started in, and prints one line."""
    only_our_plugin(monkeypatch)
    task = (
        "id: walk\ninput: {content: Lantern walk on Friday at 7 pm.}\n"
        "graders:\n  - {name: card_completion}\n"
        "  - {name: card_template_choice, config: {expected_template_ids: [event]}}\n"
    )
    program = pytester.path / "evals/diary_app/agent"
    suite = SUITES["evals/diary_app/suite.yaml"]
    write(
        pytester.path,
        {"evals/diary_app/suite.yaml": suite, "evals/diary_app/walk.yaml": task, "evals/diary_app/agent": ""},
    )
    program.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)

    result = run(pytester, "evals", "-q")

    assert re.search(r"diary_app +1\.00 ", result.stdout.str()), result.stdout.str()


def test_the_dart_program_uses_the_protocol_that_the_stand_in_uses() -> None:
    """The same keys are read, and the same written."""
    for word in ("readLineSync", "content", "OPENAI_BASE_URL", "'type': 'answer'", "Directory.current"):
        assert word in DART
    for word in ("fact_id", "content", "state", "Facts/", "Cards/", "Directory.current"):
        assert word in PAGE.partition("## A Dart program")[2]
