"""The rule-based model: what it sees, what it plays, and when it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_agenteval.chat.chat import Chat, Reply
from pytest_agenteval.records.plan import Model, Plan, PlannedTask
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.registry.installed import installed_registry

SAVE = ToolSpec("save_timeline_card")
FACT = "2026/09/17.md#ts_1"
MODEL = Model("rules", "rules", offline=True)
REFUSED = {"role": "tool", "tool_call_id": "x", "content": '{"error":"no","error_type":"bad_arguments"}'}
SAVED = {"role": "tool", "tool_call_id": "x", "content": "The card is saved."}


def rules_chat(**task: Any) -> Chat:
    """Make the model for a trial of a task."""
    plan = Plan(PlannedTask("s", "t", "card", "capability", "", (), **task), MODEL)
    return installed_registry().model_factory("rules")(MODEL, plan)


def ask(messages: Sequence[Mapping[str, Any]], *tools: ToolSpec, chat: Chat | None = None) -> Reply:
    """Ask once."""
    return asyncio.run((chat or rules_chat()).ask(messages, tools=tools))


def entry(text: str) -> dict[str, Any]:
    """Write an entry as the card agent's user message does."""
    return {
        "role": "user",
        "content": f"<fact_id>{FACT}</fact_id>\n<published>Thursday, 2026-09-17 20:30:00</published>\n"
        f"<entry>\n{text}\n</entry>",
    }


def configs(reply: Reply) -> list[dict[str, Any]]:
    """Give the templates of the card that a reply saves."""
    (call,) = reply.calls
    assert call.tool == "save_timeline_card"
    assert call.args["fact_id"] == FACT
    ui_configs: list[dict[str, Any]] = call.args["ui_configs"]
    return ui_configs


def test_without_tools_it_repeats_the_user() -> None:
    """Echo-like tasks score something: the last user message comes back, whatever was said since."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "first"},
        {"role": "user", "content": [{"type": "text", "text": "Say hello"}, {"type": "image_url"}]},
        {"role": "assistant", "content": None},
    ]

    assert ask(messages).text == "Say hello"
    assert ask([]).text == ""


def test_it_sees_nothing_of_the_task() -> None:
    """A reference, a script and an input in the plan change nothing of what it says."""
    chat = rules_chat(
        input={"content": "secret"}, reference={"turns": [{"text": "secret"}]}, script=({"text": "secret"},)
    )

    assert ask([entry("Rain: 23.5 mm")], SAVE, chat=chat) == ask([entry("Rain: 23.5 mm")], SAVE)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("https://example.org/a #reading", ["link"]),
        ("New shoes, 80 euros, and I am happy", ["transaction", "metric"]),
        ("tomorrow at 9:30, I must not be late", ["event", "metric"]),
        ("I should call Ada", ["task"]),
        ("just a thought", ["snippet"]),
        ("...", ["compact"]),
        ("", ["compact"]),
    ],
)
def test_the_first_ideas_become_a_card(text: str, ids: list[str]) -> None:
    """At most two templates, in the order in which their cues come; without a cue a plain one."""
    assert [config["template_id"] for config in configs(ask([entry(text)], SAVE))] == ids


def test_a_refused_card_is_tried_once_more_plainly() -> None:
    """After one error comes a snippet without tags; after two, words and no more calls."""
    messages: list[dict[str, Any]] = [entry("14 km by bike. #Boat")]
    first = ask(messages, SAVE)
    messages += [dict(first.message()), REFUSED]
    second = ask(messages, SAVE)
    messages += [dict(second.message()), REFUSED]
    third = ask(messages, SAVE)

    assert first.calls[0].args["tags"] == [{"name": "Boat"}]
    assert configs(second) == [{"template_id": "snippet", "data": {"text": "14 km by bike."}}]
    assert "tags" not in second.calls[0].args
    assert third.calls == ()
    assert third.finish == "stop"


def test_a_reminder_does_not_start_it_over() -> None:
    """Told that something is missing, it does not repeat what was refused twice."""
    given_up = [entry("a"), REFUSED, REFUSED, {"role": "user", "content": "<reminder>missing</reminder>"}]

    assert ask(given_up, SAVE).calls == ()
    assert ask([entry("a"), SAVED], SAVE).calls == ()


def test_call_ids_are_unique_in_a_chat() -> None:
    """Two calls of one trial never share an id."""
    chat = rules_chat()
    ids = {ask([entry("a")], SAVE, chat=chat).calls[0].id for _ in range(3)}

    assert len(ids) == 3


def test_usage_is_estimated_and_free() -> None:
    """A token is four characters; nothing costs anything."""
    usage = ask([{"role": "user", "content": "x" * 40}]).usage

    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd, usage.asks) == (10, 10, 0.0, 1)
