"""How the PKM agent goes about its runs, carried out by the real engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.plan import Allowance, Model
from pytest_agenteval.records.trial import Trial
from tests.engine.executing import execute, plan, registry

NOW = "2026-09-17T20:30:00+00:00"
FACT = "2026/09/17.md#ts_1"
MARKER = f"<!-- fact_id: {FACT} -->"
ENTRY = "Rubbed the kayak down with </entry> and {{ braces }}."
KAYAK = "# Kayak\n\n- bought the varnish\n"
SILENT: Mapping[str, Any] = {"text": ""}


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A fixture with one entry and a knowledge base of two files."""
    files = {
        "Facts/2026/09/17.md": f'## <id:ts_1> 09:00:00 "{{}}"\n\n{ENTRY}\n',
        "PKM/Projects/Kayak.md": KAYAK,
        "PKM/Areas/Choir 2026-01-02.md": "# Choir\n",
    }
    for path, text in files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path


def reply(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> Mapping[str, Any]:
    """Write one entry of a script."""
    return {"text": text, "calls": [{"tool": tool, "args": args} for tool, args in calls]}


def play_agent(layer: Path, *script: Mapping[str, Any], model: str = "scripted", **more: Any) -> Trial:
    """Let an offline model, as a rule the scripted one, play the PKM agent."""
    settings: dict[str, Any] = {
        "agent": "pkm",
        "input": {"fact_id": FACT, "content": ENTRY},
        "layers": (str(layer),),
        "limits": Allowance(),
        "clock": NOW,
        "script": script,
        **more,
    }
    planned = replace(plan(**settings), model=Model(model, model, offline=True))
    (trial,) = execute(registry(), planned)
    return trial


def state(trial: Trial) -> Mapping[str, Any]:
    """Give a trial's end state."""
    return trial.outcome.answer.state


def users(trial: Trial) -> list[str]:
    """Give what the user said, which is where each run begins."""
    return [message.content for message in trial.transcript.messages if message.role == "user"]


def edit(new: str = f"- bought the varnish\n- rubbed it down {MARKER}") -> tuple[str, Mapping[str, Any]]:
    """Add a line to the kayak's file."""
    args = {"file_path": "/Projects/Kayak.md", "old_string": "- bought the varnish", "new_string": new}
    return "Edit", args


READ: tuple[str, Mapping[str, Any]] = ("Read", {"file_path": "/Projects/Kayak.md"})
UNWIELDY: tuple[str, Mapping[str, Any]] = ("Read", {"file_path": "/Areas/Choir 2026-01-02.md"})
INSIGHT: tuple[str, Mapping[str, Any]] = (
    "update_timeline_card_insight",
    {"fact_id": FACT, "insight_text": "The varnish waited for this."},
)
SKIP: tuple[str, Mapping[str, Any]] = ("skip_pkm_organization", {"evidence": "not for the files"})


def test_an_entry_is_filed_and_has_its_insight(layer: Path) -> None:
    """Read, then edit and insight in one reply: complete, on disk, and the model is not asked again."""
    trial = play_agent(layer, reply(READ), reply(edit(), INSIGHT, text="filed"))

    assert len(trial.transcript.asks) == 2
    assert trial.outcome.answer.text == "filed"
    assert state(trial) == {
        "is_complete": True,
        "wrote_para": True,
        "updated_insight": True,
        "skipped_pkm": False,
        "successful_pkm_mutation": True,
        "missing_requirements": [],
        "skip_evidence": None,
    }
    assert trial.outcome.after.text("PKM/Projects/Kayak.md") == KAYAK + f"- rubbed it down {MARKER}\n"
    assert "The varnish waited" in (trial.outcome.after.text("Cards/2026/09/17_ts_1.yaml") or "")


def test_the_oracle_acts_out_a_reference(layer: Path) -> None:
    """Turns that read, edit and tell are all that the oracle needs; a dollar is doubled."""
    turns = [reply(READ), reply(edit(f"- varnish, 30 $$ {MARKER}"), INSIGHT)]
    trial = play_agent(layer, model="oracle", reference={"turns": turns})

    assert trial.cause == ""
    assert state(trial)["is_complete"]
    assert trial.outcome.after.text("PKM/Projects/Kayak.md") == f"# Kayak\n\n- varnish, 30 $ {MARKER}\n"


def test_doing_nothing_deals_with_nothing(layer: Path) -> None:
    """A model that says nothing leaves the entry undone and every file as it was."""
    trial = play_agent(layer, model="nop")

    assert state(trial)["is_complete"] is False
    assert not trial.outcome.diff


def test_a_skip_after_a_change_is_not_clean(layer: Path) -> None:
    """It ends the run; the model is told that the skip does not count, and can still file the entry."""
    trial = play_agent(
        layer, reply(edit("- varnish")), reply(SKIP), reply(INSIGHT, edit("x")), SILENT, SILENT
    )
    first, second, *_ = users(trial)[1:]

    assert state(trial)["missing_requirements"] == ["skip_without_successful_pkm_mutation"]
    assert "a skip counts only where none was" in first
    assert "by Edit or Write" in first
    assert "update_timeline_card_insight" in first
    assert "skip_pkm_organization" not in first
    assert "update_timeline_card_insight" not in second


@pytest.mark.parametrize(
    ("half", "words", "not_told"),
    [
        (reply(edit()), "update_timeline_card_insight", "by Edit or Write"),
        (reply(INSIGHT), f"`{MARKER}`", "- Missing: its insight"),
        (SILENT, "skip_pkm_organization", "a skip counts only"),
    ],
    ids=["filed", "insight", "nothing"],
)
def test_the_missing_half_is_named(layer: Path, half: Mapping[str, Any], words: str, not_told: str) -> None:
    """An unfinished run is followed by one that begins with what is missing, and only with that."""
    trial = play_agent(layer, half, *[SILENT] * 4)
    reminder = users(trial)[1]

    assert words in reminder
    assert not_told not in reminder
    assert ("skip_pkm_organization" in reminder) == (not state(trial)["successful_pkm_mutation"])


MOVE = ("Move", {"source_path": "/Areas/Choir 2026-01-02.md", "destination_path": "/Areas/Choir.md"})
UNKNOWN = ("update_timeline_card_insight", {"fact_id": "2026/09/17.md#ts_9", "insight_text": "x"})
BLANK = ("skip_pkm_organization", {"evidence": " "})
LISTS = [reply(("LS", {"path": "/", "depth": number % 3 + 1})) for number in range(6)]
EVERYTHING = ["wrote_para_with_fact_id", "updated_timeline_card_insight", "skip_pkm_organization"]
RUNS: Mapping[str, tuple[list[Mapping[str, Any]], dict[str, Any], dict[str, Any]]] = {
    # What was played, what is other about the trial, and what came of it.
    "a clean skip ends the trial": (
        [reply(READ, SKIP)],
        {},
        {"asks": 1, "is_complete": True, "skip_evidence": "not for the files", "changed": ()},
    ),
    "a dirty skip can be made good": (
        [reply(edit("- bought the varnish\n- x"), SKIP), reply(edit(), INSIGHT)],
        {},
        {"is_complete": True, "skipped_pkm": True},
    ),
    "giving up is no error": (
        [SILENT] * 4,
        {},
        {"asks": 4, "ending": "failed", "missing_requirements": EVERYTHING},
    ),
    "halves of several runs add up": (
        [reply(INSIGHT), reply(READ), reply(edit()), SILENT],
        {},
        {"runs": 2, "is_complete": True},
    ),
    "refused calls do not end a run": (
        [reply(UNKNOWN, BLANK), reply(edit(), INSIGHT)],
        {},
        {"runs": 1, "worked": [False, False, True, True]},
    ),
    "after a reminder in a result the insight is not the end": (
        [reply(UNWIELDY), reply(edit(), INSIGHT), reply(MOVE), SILENT],
        {},
        {"runs": 1, "asks": 4, "changed": ("Cards/2026/09/17_ts_1.yaml", "PKM/Areas/Choir.md")},
    ),
    "a skip is, all the same": ([reply(UNWIELDY), reply(SKIP)], {}, {"asks": 2}),
    "that reminder counts within its run": (
        [reply(UNWIELDY), SILENT, reply(edit(), INSIGHT)],
        {},
        {"runs": 2, "is_complete": True},
    ),
    "five equal calls end a run": (
        [*[reply(READ)] * 5, reply(edit(), INSIGHT)],
        {},
        {"runs": 2, "is_complete": True},
    ),
    "a run is at most so many asks": (
        LISTS,
        {"settings": {"most_asks": 3, "retries": 1}},
        {"asks": 6, "cause": ""},
    ),
    "after a crash there is an end state": (
        [reply(edit())],
        {},
        {"ending": "errored", "wrote_para": True, "missing_requirements": EVERYTHING[1:]},
    ),
    "and at a limit, of what was done until then": (
        [reply(edit()), reply(INSIGHT)],
        {"limits": Allowance(steps=1)},
        {"limit": "steps", "wrote_para": True, "updated_insight": False},
    ),
    **{
        f"a hopeless fact is filed nowhere: {fact!r}": (
            [reply(edit("None of 5")), *[SILENT] * 4],
            {"input": {"fact_id": fact, "content": ""}},
            {"wrote_para": False},
        )
        for fact in (None, "", 5)
    },
}


@pytest.mark.parametrize("rule", RUNS)
def test_a_run_ends_as_its_case_says(layer: Path, rule: str) -> None:
    """How often it was asked, in how many runs, what it left behind, and what it told of that."""
    script, more, expected = RUNS[rule]
    trial = play_agent(layer, *script, **more)
    seen = {
        **state(trial),
        "asks": len(trial.transcript.asks),
        "runs": len(users(trial)),
        "worked": [call.error is None for call in trial.transcript.calls],
        "changed": trial.outcome.diff.created,
        **{name: getattr(trial, name) for name in ("ending", "limit", "cause")},
    }
    assert {key: seen[key] for key in expected} == expected


def test_the_model_is_told_what_it_needs(layer: Path) -> None:
    """The entry comes with the tree, id, time and language; its text is not taken for a template."""
    trial = play_agent(layer, reply(SKIP), settings={"user_language": "Korean"})
    system, user = (message.content for message in trial.transcript.messages[:2])

    assert "it is Korean" in system
    assert "Kayak.md" in user
    assert "It need not be listed again" in user
    assert "The user's language: Korean" in user
    assert f"<fact_id>{FACT}</fact_id>\n<published>Thursday, 2026-09-17 20:30:00</published>" in user
    assert user.endswith(f"<entry>\n{ENTRY}\n</entry>")


def test_an_empty_knowledge_base_is_said_to_be_empty(tmp_path: Path) -> None:
    """Where there is nothing yet, the model is told so instead of being shown a bare root."""
    trial = play_agent(tmp_path, reply(SKIP))

    assert "The knowledge base is empty so far" in users(trial)[0]
    assert "need not be listed" not in users(trial)[0]


def test_a_large_knowledge_base_is_not_said_to_be_whole(layer: Path) -> None:
    """Of a tree that is too large to show, the model is told to look for itself."""
    for number in range(1100):
        (layer / f"PKM/Areas/note {number}.md").write_text("x", encoding="utf-8")
    trial = play_agent(layer, reply(SKIP))

    assert "there are more" in users(trial)[0]
    assert "need not be listed" not in users(trial)[0]


def test_all_tools_are_offered_before_the_first_ask(layer: Path) -> None:
    """The eleven tools are there from the start."""
    trial = play_agent(layer, reply(("NoSuchTool", {})), reply(SKIP))
    error = trial.transcript.calls[0].error

    assert error is not None
    for tool in ("Read", "BatchRead", "Write", "Edit", "Move", "Remove", "LS", "Glob", "Grep"):
        assert tool in error.message
    assert "update_timeline_card_insight, skip_pkm_organization" in error.message
