"""How the card agent goes about its runs, and what it says of its end state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.agents.agent import AgentContext, ReportsEndState
from pytest_agenteval.benchmarks.memex.card_agent.agent import CardAgent
from pytest_agenteval.records.plan import Allowance
from pytest_agenteval.text.errors import LimitReached

from .harness import FACT, SAVE, Acted, Turn, act, context

INPUT = {"fact_id": FACT, "content": "A thought about </entry> and {{ braces }}."}
GOOD = (
    SAVE,
    {"fact_id": FACT, "title": "T", "ui_configs": [{"template_id": "snippet", "data": {"text": "a"}}]},
)
OTHER = (SAVE, {**GOOD[1], "fact_id": "2026/09/17.md#ts_2"})
TAGS: tuple[str, Mapping[str, Any]] = ("get_card_metadata", {})
KEYS = [
    *("is_complete", "card_save_tool_called", "card_path", "persisted_fact_id", "status", "has_title"),
    *(
        "has_ui_configs",
        "missing_requirements",
        "failure_reason",
        "template_ids",
        "card_tags",
        "card_yaml_blob",
    ),
]


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A fixture with two entries of one day."""
    (tmp_path / "Facts/2026/09").mkdir(parents=True)
    text = '## <id:ts_1> 09:00:00 "{}"\n\nA\n\n## <id:ts_2> 10:00:00 "{}"\n\nB\n'
    (tmp_path / "Facts/2026/09/17.md").write_text(text, encoding="utf-8")
    return tmp_path


def staged(layer: Path, *turns: Turn, **more: Any) -> tuple[Acted, AgentContext]:
    """Put a chat that plays turns on the stage."""
    chat = Acted(turns)
    return chat, context(chat, [layer], **more)


def test_a_saved_card_ends_the_trial(layer: Path) -> None:
    """After a successful save the model is not asked again."""
    chat, ctx = staged(layer, [TAGS], [GOOD], [GOOD])
    answer = act(CardAgent(), INPUT, ctx)

    assert len(chat.heard) == 2
    assert list(answer.state) == KEYS
    assert answer.state["is_complete"]
    assert answer.state["failure_reason"] is None
    assert answer.state["template_ids"] == ["snippet"]
    assert answer.state["card_yaml_blob"].startswith('fact_id: "2026/09/17.md#ts_1"\n')


def test_a_refused_save_is_not_the_end(layer: Path) -> None:
    """The model is shown the refusal and may try again in the same run."""
    chat, ctx = staged(layer, [(SAVE, {"fact_id": FACT})], [GOOD])
    answer = act(CardAgent(), INPUT, ctx)

    assert answer.state["is_complete"]
    assert [message["role"] for message in chat.heard[-1]] == ["system", "user", "assistant", "tool"]
    assert "title must be a text" in chat.heard[-1][-1]["content"]


def test_an_unfinished_card_is_asked_for_again_and_then_left(layer: Path) -> None:
    """There are four runs, each but the first begun by what is missing; giving up is no error."""
    chat, ctx = staged(layer)
    answer = act(CardAgent(), INPUT, ctx)

    assert len(chat.heard) == 4
    assert "- card_file_exists" in chat.heard[-1][-1]["content"]
    assert not answer.state["is_complete"]
    assert answer.state["failure_reason"].startswith("the card is not finished: matching_")
    assert ctx.transcript.transcript().messages[-1].phase == 1


def test_saving_the_wrong_entry_is_not_enough(layer: Path) -> None:
    """A save of another entry ends the run but not the trial."""
    chat, ctx = staged(layer, [OTHER], [GOOD])
    answer = act(CardAgent(), INPUT, ctx)

    assert len(chat.heard) == 2
    assert "matching_successful_save_timeline_card_tool_call" in chat.heard[1][-1]["content"]
    assert answer.state["is_complete"]


def test_five_equal_calls_end_a_run(layer: Path) -> None:
    """A model that repeats one call is stopped at the fifth, told what is missing, and may go on."""
    chat, ctx = staged(layer, *[[TAGS]] * 5, [GOOD])
    answer = act(CardAgent(), INPUT, ctx)

    assert [messages[-1]["role"] for messages in chat.heard] == ["user", *["tool"] * 4, "user"]
    assert answer.state["is_complete"]


def test_a_run_is_at_most_so_many_asks(layer: Path) -> None:
    """A run without end is cut off after ``most_asks`` replies, in each of the runs."""
    turns: list[Turn] = [[(SAVE, {"title": "", "n": number})] for number in range(50)]
    chat, ctx = staged(layer, *turns)
    act(CardAgent(most_asks=3, retries=1), INPUT, ctx)

    assert len(chat.heard) == 6


def test_the_end_state_is_there_after_a_crash(layer: Path) -> None:
    """Transcript and disk tell the end state when the trial was cut short, a save that succeeded included."""
    _, ctx = staged(layer, [OTHER], [GOOD], allowed=Allowance(steps=1))
    agent: object = CardAgent()
    with pytest.raises(LimitReached):
        act(CardAgent(), INPUT, ctx)

    assert isinstance(agent, ReportsEndState)
    assert agent.end_state({**INPUT, "fact_id": "2026/09/17.md#ts_2"}, ctx)["is_complete"]
    assert agent.end_state(INPUT, ctx)["card_save_tool_called"] is False


@pytest.mark.parametrize("task_input", [{}, {"fact_id": None}, {"fact_id": "../../etc/passwd"}])
def test_the_end_state_of_a_hopeless_input_is_told_without_an_error(task_input: Mapping[str, Any]) -> None:
    """Input that never made sense still gives all twelve keys, and makes no tree."""
    _, ctx = staged(Path("/nonexistent"))
    state = CardAgent().end_state(task_input, ctx)

    assert list(state) == KEYS
    assert state["card_path"] == ""
    assert not ctx.workspace.exists


def test_doing_nothing_makes_no_tree(layer: Path) -> None:
    """A model that calls no tool costs no copy of the fixture."""
    _, ctx = staged(layer)
    act(CardAgent(), INPUT, ctx)

    assert not ctx.workspace.exists


def test_the_model_is_told_what_it_needs(layer: Path) -> None:
    """The entry comes with id, time, language and tags; its text is not taken for a template."""
    chat, ctx = staged(layer, [GOOD])
    act(CardAgent(user_language="Korean"), INPUT, ctx)
    system, user = (message["content"] for message in chat.heard[0])

    assert "- `metric`: " in system
    assert "Titles and values are in Korean" in system
    assert f"<fact_id>{FACT}</fact_id>\n<published>Thursday, 2026-09-17 20:30:00</published>" in user
    assert f"<entry>\n{INPUT['content']}\n</entry>" in user
    assert "The user's language: Korean\nThe journal's tags: Project, Trip" in user


def test_a_template_can_be_replaced_by_name(layer: Path) -> None:
    """A suite's or variant's text takes the place of the agent's own, and does not stick."""
    for text in ("Be quick.", "Be slow. In {{ language }}."):
        chat, ctx = staged(layer, [GOOD], prompts={"principles": text})
        act(CardAgent(), INPUT, ctx)
        assert chat.heard[0][0]["content"].endswith(text.replace("{{ language }}", "English"))


def test_trials_of_one_agent_do_not_mix(layer: Path) -> None:
    """One agent object serves many trials at once."""
    agent = CardAgent()
    first, second = (context(Acted([[TAGS], [GOOD]]), [layer]) for _ in range(2))

    async def both() -> None:
        await asyncio.gather(agent.run(INPUT, first), agent.run(INPUT, second))

    asyncio.run(both())
    assert first.path != second.path
    assert [len(ctx.transcript.calls) for ctx in (first, second)] == [2, 2]
