"""Tasks as they are usually written: an entry's text, and nothing that the journal makes up itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.benchmarks.memex.card_agent.agent import CardAgent
from pytest_agenteval.benchmarks.memex.journal import prepared
from pytest_agenteval.benchmarks.memex.pkm_agent.agent import PkmAgent
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.tasks.workspace import Workspace
from pytest_agenteval.text.errors import FixtureBroken
from tests.suites import only_our_plugin, run, suite, task, write

pytest_plugins = ["pytester"]

CLOCK = "2026-11-03T21:05:00+09:00"
TEXT = "Walked the dyke with Mina; the lanterns were lit by six."
OTHER = '## <id:ts_1> 08:00:00 "{}"\n\nBought tea.\n'
MINE = f'{OTHER}\n## <id:ts_2> 20:00:00 "{{}}"\n\n{TEXT}\n'
NOTES = f"name: notes\nagent: pkm\nkind: regression\ndefaults: {{clock: '{CLOCK}'}}\n"

FOREIGN = """
from pathlib import Path
from typing import Any

from pytest_agenteval.records.evidence import Answer


class ByHand:
    def run(self, task_input, ctx):
        fact, note = task_input["fact_id"], ctx.path / "PKM" / "Areas" / "Walks.md"
        note.parent.mkdir(parents=True)
        note.write_text(f"# Walks\\n\\n- {task_input['content']}\\n<!-- fact_id: {fact} -->\\n")
        day, _, entry = fact.partition(".md#")
        card = ctx.path / "Cards" / f"{day}_{entry}.yaml"
        card.parent.mkdir(parents=True)
        card.write_text("insight: Light again.\\n")
        return Answer("filed")


def pytest_agenteval_register(registry):
    registry.agent("by_hand", ByHand)
"""


def starting_files(daily: str | None, day: str = "2026/11/03") -> Mapping[str, str]:
    """Give a starting workspace with one daily file."""
    return {} if daily is None else {f"Facts/{day}.md": daily}


@pytest.mark.parametrize(
    ("given", "clock", "daily", "id", "laid"),
    [
        ({}, CLOCK, None, "2026/11/03.md#ts_3168", f'## <id:ts_3168> 21:05:00 "{{}}"\n\n{TEXT}\n'),
        ({}, None, None, "2026/01/01.md#ts_3168", f'## <id:ts_3168> 09:00:00 "{{}}"\n\n{TEXT}\n'),
        ({}, CLOCK, OTHER, "2026/11/03.md#ts_3168", f'{OTHER}\n## <id:ts_3168> 21:05:00 "{{}}"\n\n{TEXT}\n'),
        ({}, CLOCK, MINE, "2026/11/03.md#ts_2", None),
        ({"fact_id": "2026/11/03.md#ts_1"}, CLOCK, OTHER, "2026/11/03.md#ts_1", None),
        (
            {"fact_id": "2026/11/02.md#ts_7"},
            CLOCK,
            OTHER,
            "2026/11/02.md#ts_7",
            f'## <id:ts_7> 09:00:00 "{{}}"\n\n{TEXT}\n',
        ),
    ],
    ids=["no-file", "no-clock", "other-entry", "same-text", "given", "given-but-not-written"],
)
def test_the_journal_gives_an_id_and_writes_the_entry_down(
    given: Mapping[str, str], clock: str | None, daily: str | None, id: str, laid: str | None
) -> None:
    """Day and hour are the clock's, the number the task's; an entry that is written already keeps its own."""
    whole, texts = prepared({"content": TEXT, **given}, "walk", clock, starting_files(daily).get)
    assert whole == {"content": TEXT, "fact_id": id}
    assert list(texts.values()) == ([] if laid is None else [laid])


def test_a_number_that_is_taken_is_not_given_again() -> None:
    """Two entries of a day never have one id."""
    daily = OTHER.replace("ts_1", "ts_3168")
    assert prepared({"content": TEXT}, "walk", CLOCK, starting_files(daily).get)[0]["fact_id"].endswith(
        "#ts_3169"
    )


@pytest.mark.posix
def test_what_is_written_into_a_workspace_is_there_before_the_trial(tmp_path: Path) -> None:
    """Snapshot and tree hold it, over what a layer has there; no link is written through."""
    (tmp_path / "layer").mkdir()
    (tmp_path / "layer" / "a.md").write_text("old", encoding="utf-8")
    (tmp_path / "layer" / "out").symlink_to(tmp_path)
    workspace = Workspace([tmp_path / "layer"], texts={"a.md": "new\udc80", "b/c.md": "더"}, parent=tmp_path)
    before = workspace.before()
    assert (before.text("a.md"), before.text("b/c.md")) == ("new?", "더")
    assert (workspace.path / "b" / "c.md").read_text(encoding="utf-8") == "더"
    assert workspace.after() == before
    with pytest.raises(FixtureBroken, match="behind a link that leads out"):
        _ = Workspace([tmp_path / "layer"], texts={"out/x.md": ""}, parent=tmp_path).path


def test_a_task_is_an_entry_and_its_graders(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an id and without a fixture the card, PKM and foreign agents do their task, each time alike."""
    only_our_plugin(monkeypatch)
    filed = {"name": "pkm_completion", "config": {"expected_path": "persist"}}
    task = {"id": "walk", "input": {"content": TEXT}, "graders": [filed]}
    write(
        pytester.path,
        {
            "conftest.py": FOREIGN,
            "evals/card/suite.yaml": "name: cards\nagent: card\nkind: regression\n",
            "evals/card/walk.json": {**task, "graders": [{"name": "card_completion"}]},
            "evals/pkm/suite.yaml": NOTES,
            "evals/pkm/walk.json": task,
            "evals/pkm/hand.json": {**task, "id": "hand", "agent": "by_hand"},
            "evals/pkm/bad.json": {**task, "id": "bad", "input": {"content": TEXT, "fact_id": "2026-11-03"}},
        },
    )
    refused = run(pytester, "evals", "--agent-model=rules")
    refused.stdout.fnmatch_lines(["*bad.json*input.fact_id", "*without one the entry gets its own*"])
    (pytester.path / "evals" / "pkm" / "bad.json").unlink()

    digests = []
    for _ in range(2):
        run(pytester, "evals", "--agent-model=rules").assert_outcomes(passed=3)
        entries = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve()).entries
        # The first message holds the time of day, which may be the next second in the second run.
        given = {entry.key.task + entry.key.suite: replace(entry.digests, sent={}) for entry in entries}
        digests.append(given)
    assert digests[0] == digests[1]


@pytest.mark.usefixtures("quick")
def test_an_id_that_is_none_is_told_at_its_line(pytester: pytest.Pytester) -> None:
    """Before any trial starts, as any other key of a task."""
    wrong = task("greet", agent="card", input={"content": "Say hello to Mina.", "fact_id": "ts_1"})
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/task.json": wrong})

    result = run(pytester)

    result.assert_outcomes(errors=1)
    lines = ["evals/task.json:5: input.fact_id", "*the id of an entry, like 2026/09/17.md#ts_1*", "*'ts_1'*"]
    result.stdout.fnmatch_lines(lines, consecutive=True)


@pytest.mark.parametrize(
    ("task_input", "problems"),
    [
        ({"fact_id": "2026/09/17.md#ts_1", "content": ""}, []),
        ({"content": ""}, []),
        ({}, [("content", "nothing")]),
        ({"fact_id": None, "content": ""}, [("fact_id", "None")]),
        ({"fact_id": "ts_1", "content": 5}, [("fact_id", "'ts_1' (text)"), ("content", "5")]),
    ],
)
def test_problems_of_the_input_are_told_before_any_trial(
    task_input: Mapping[str, Any], problems: list[tuple[str, str]]
) -> None:
    """No content, or an improper fact id, is the author's mistake: where, and what was found."""
    for agent in (CardAgent, PkmAgent):
        assert [(path[0], what) for path, _, what in agent.input_problems(task_input)] == problems
