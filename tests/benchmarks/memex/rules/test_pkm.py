"""The rule-based model at the knowledge base: what it makes of an entry, with the real tools and without."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.rules import (
    lines_read,
    new_file,
    unique_end,
)
from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.records.plan import Allowance, Model, Plan, PlannedTask
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.installed import installed_registry
from tests.engine.executing import execute, plan, registry

FACT = "2026/09/17.md#ts_1"
MARKER = f"<!-- fact_id: {FACT} -->"
MODEL = Model("rules", "rules", offline=True)
TOOLS = (ToolSpec("Read"), ToolSpec("update_timeline_card_insight"))
NO = '{"error":"no","error_type":"tool_error"}'
TREE = "/\n  Areas/\n    Choir/\n      Voice.md\n    健康/\n      睡眠.md\n  Resources/\n    Bread.md\n"
FILES = {
    "Areas/Choir/Voice.md": "# Voice\n\n- breathe low\n",
    "Areas/健康/睡眠.md": "# 睡眠\n\n- 周一:七小时\n- 周二:七小时\n",
    "Resources/Bread.md": "# Bread\n\nThe oven needs an hour.\n",
}


def entry(text: str) -> dict[str, Any]:
    """Write an entry as the PKM agent's user message does."""
    return {"role": "user", "content": f"{TREE}\n<fact_id>{FACT}</fact_id>\n<entry>\n{text}\n</entry>"}


def ask(messages: Sequence[Mapping[str, Any]]) -> Reply:
    """Ask a new model once."""
    plan = Plan(PlannedTask("s", "t", "pkm", "capability", "", ()), MODEL)
    return asyncio.run(installed_registry().model_factory("rules")(MODEL, plan).ask(messages, tools=TOOLS))


def answered(messages: list[dict[str, Any]], *contents: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Ask, note the reply and these results of its calls; give the calls."""
    reply = ask(messages)
    message = reply.message()
    ids = [f"{len(messages)}_{number}" for number in range(len(contents))]
    for call, id in zip(message.get("tool_calls") or (), ids, strict=True):
        call["id"] = id
    results = zip(ids, contents, strict=True)
    messages.append(message)
    messages.extend({"role": "tool", "tool_call_id": id, "content": content} for id, content in results)
    return [(call.tool, call.args) for call in reply.calls]


def play_agent(folder: Path, text: str, files: Mapping[str, str] = FILES) -> Trial:
    """Let the model play the PKM agent with its real tools."""
    tree = {f"PKM/{path}": content for path, content in files.items()}
    tree["Facts/2026/09/17.md"] = f'## <id:ts_1> 09:00:00 "{{}}"\n\n{text}\n'
    for path, content in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content.encode())
    given = {"fact_id": FACT, "content": text}
    planned = plan(agent="pkm", input=given, layers=(str(folder),), limits=Allowance(steps=20))
    (trial,) = execute(registry(), Plan(planned.task, MODEL))
    return trial


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("Voice lesson: vowels further forward.", "Areas/Choir/Voice.md"),
        ("昨晚睡眠只有五个小时。", "Areas/健康/睡眠.md"),
        ("My oven needs a stone.", "Resources/Bread.md"),
    ],
    ids=["by name", "by name in Chinese", "by content"],
)
def test_it_files_an_entry_where_it_sounds_right(tmp_path: Path, text: str, path: str) -> None:
    """It finds a file by name, else by content, adds entry and marker at its end, and tells an insight."""
    trial = play_agent(tmp_path, text)

    assert trial.outcome.answer.state["is_complete"]
    assert trial.outcome.after.text(f"PKM/{path}") == f"{FILES[path]}- {text} {MARKER}\n"
    assert trial.outcome.diff.modified == (f"PKM/{path}",)


def test_it_starts_a_file_where_none_sounds_right(tmp_path: Path) -> None:
    """A new file lies in the folder that a keyword speaks for, named by the entry's first words."""
    trial = play_agent(tmp_path, "Project kickoff on Monday, bring cake")

    assert trial.outcome.answer.state["is_complete"]
    assert trial.outcome.after.text("PKM/Projects/Project kickoff on Monday.md") == (
        f"# Project kickoff on Monday\n\n- Project kickoff on Monday, bring cake {MARKER}\n"
    )
    assert not trial.outcome.diff.modified


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("Passed the exam! Please don't save this.", "Please don't save this."),
        ("这条不要保存。考试过了。", "这条不要保存。"),
        ("시험에 붙었다. 이건 저장하지 마.", "이건 저장하지 마."),
        ("試験に受かった。これは記録しないで。", "これは記録しないで。"),
        ("👍🎉", "👍🎉"),
        ("...", "..."),
    ],
)
def test_it_skips_what_it_is_told_to(tmp_path: Path, text: str, quote: str) -> None:
    """A plain wish in four languages, or an entry without letters, is skipped with the words that say so."""
    trial = play_agent(tmp_path, text)

    assert trial.outcome.answer.state["is_complete"]
    assert trial.outcome.answer.state["skip_evidence"] == quote
    assert not trial.outcome.diff


def test_it_starts_an_empty_knowledge_base(tmp_path: Path) -> None:
    """With no file to look at it writes one at once."""
    trial = play_agent(tmp_path, "Swim every morning before work", {})

    assert trial.outcome.answer.state["is_complete"]
    assert len(trial.transcript.asks) == 1
    assert "PKM/Areas/Swim every morning before.md" in trial.outcome.after


@pytest.mark.parametrize("content", ["", "\n\n", "a\na\na\n", "x" * 3000 + "\n", "a\r\nb\r\n"])
def test_no_file_makes_it_stumble(tmp_path: Path, content: str) -> None:
    """Empty files, equal lines, lines too long to be shown: the entry is filed, and nothing is lost."""
    trial = play_agent(tmp_path, "Bread again", {"Resources/Bread.md": content})

    assert trial.outcome.answer.state["is_complete"]
    after = trial.outcome.after.text("PKM/Resources/Bread.md") or ""
    assert re.sub(rf"\r?\n- Bread again {MARKER}", "", after) == content


def test_a_refused_read_leads_to_a_new_file() -> None:
    """Where the file cannot be read it does not insist."""
    messages = [entry("Bread again")]

    assert [tool for tool, _ in answered(messages, NO)] == ["Read"]
    assert [tool for tool, _ in answered(messages, "", "")] == ["Write", "update_timeline_card_insight"]


def test_what_was_refused_is_tried_once_more_plainly() -> None:
    """Each refused call comes again in its plainest form; after that there are words and no more calls."""
    messages = [entry("Bread again")]
    answered(messages, "     1\t# Bread")
    first = answered(messages, NO, NO)
    second = answered(messages, NO, NO)

    assert [tool for tool, _ in first] == ["Edit", "update_timeline_card_insight"]
    assert [tool for tool, _ in second] == ["Write", "update_timeline_card_insight"]
    assert second[0][1]["file_path"] == "/Resources/2026 09 17 md ts_1.md"
    assert second[1][1] == {"fact_id": FACT, "insight_text": "Noted."}
    assert answered(messages) == []


def test_only_what_was_refused_is_tried_again() -> None:
    """An edit that went through is not made twice because its insight was refused."""
    messages = [entry("Bread again")]
    answered(messages, "     1\t# Bread")
    answered(messages, "done", NO)

    assert [tool for tool, _ in answered(messages, "done")] == ["update_timeline_card_insight"]
    assert answered(messages) == []


def test_a_refused_skip_is_tried_once_more_with_the_whole_entry() -> None:
    """What it was told not to keep it does not file, even where the skip is refused twice."""
    messages = [entry("Do not save this. It is mine.")]
    skips = [answered(messages, NO), answered(messages, NO), answered(messages)]

    assert [[args["evidence"] for _, args in calls] for calls in skips] == [
        ["Do not save this."],
        ["Do not save this. It is mine."],
        [],
    ]


def test_a_reminder_does_not_start_it_over() -> None:
    """Told that something is missing when nothing was refused, it has no more to give."""
    messages = [entry("Bread again")]
    answered(messages, NO)
    answered(messages, "done", "done")
    messages.append({"role": "user", "content": "<reminder>missing</reminder>"})

    assert answered(messages) == []


@given(st.lists(st.text(st.characters(exclude_characters="\n\r"))))
def test_numbered_lines_are_read_back(lines: list[str]) -> None:
    """What a numbered listing shows is the file's; what stands around it is not."""
    numbered = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, start=1))

    assert lines_read(f"<reminder>a\tb</reminder>\n{numbered}\n\nreminder") == lines


@given(st.lists(st.sampled_from(("", "a", "aa", "- b")), max_size=8))
def test_the_end_of_a_file_is_found_only_there(lines: list[str]) -> None:
    """The text to be replaced stands at the end, once; a file of blank lines has none."""
    end = unique_end(lines)
    whole = "\n".join(lines).rstrip("\n")

    if end is None:
        assert whole == ""
    else:
        assert whole.endswith(end)
        assert whole.find(end) == len(whole) - len(end)


@given(st.text())
def test_a_new_file_is_always_a_file_of_a_folder(text: str) -> None:
    """Whatever the entry says, its file lies in one of the folders of the root."""
    root, folder, name = new_file(text + "a").split("/")

    assert (root, folder in ("Projects", "Areas", "Resources")) == ("", True)
    assert len(name.removesuffix(".md")) > 0
