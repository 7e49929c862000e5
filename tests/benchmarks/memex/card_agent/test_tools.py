"""The tools of the card agent: what they refuse, and what a saved card holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.benchmarks.memex.card_agent.agent import METADATA, card_tools
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import ToolResult, invalid_arguments

from .harness import FACT, SAVE, Acted, context, reference_calls

SNIPPET = {"template_id": "snippet", "data": {"text": "a thought"}}
PICTURE = {"template_id": "snapshot", "data": {"image_url": "fs://a.jpg"}}
CARD = "Cards/2026/09/17_ts_1.yaml"


@pytest.fixture
def ctx(tmp_path: Path) -> AgentContext:
    """A trial with one entry of one day, and the card agent's tools."""
    (tmp_path / "Facts/2026/09").mkdir(parents=True)
    (tmp_path / "Facts/2026/09/17.md").write_text(
        '## <id:ts_1> 09:00:00 "{}"\n\nA thought.\n', encoding="utf-8"
    )
    made = context(Acted([]), at=tmp_path)
    made.tools.offer(*card_tools(made.workspace, made.clock))
    return made


def call(ctx: AgentContext, tool: str, args: Mapping[str, Any]) -> ToolResult:
    """Call a tool through the box."""
    return asyncio.run(ctx.tools.call(ToolCall("c", 1, 0, tool, args)))


def save(ctx: AgentContext, **args: Any) -> ToolResult:
    """Save a card that is right but for the given arguments."""
    return call(ctx, SAVE, {"fact_id": FACT, "title": "T", "ui_configs": [SNIPPET], **args})


def saved(ctx: AgentContext) -> dict[str, Any]:
    """Read the saved card with another reader than ours."""
    card: dict[str, Any] = yaml.safe_load((ctx.path / CARD).read_text(encoding="utf-8"))
    return card


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"title": None}, "title must be a text that is not empty"),
        ({"title": "  "}, "title must be a text that is not empty"),
        ({"title": 7}, "title must be a text that is not empty"),
        ({"ui_configs": None}, "ui_configs must be a list with at least one template, not None"),
        ({"ui_configs": []}, "ui_configs must be a list with at least one template, not an empty list"),
        ({"ui_configs": SNIPPET}, "ui_configs must be a list with at least one template, not an object"),
        ({"ui_configs": "[oops"}, "ui_configs is a text that is not JSON"),
        ({"ui_configs": '"text"'}, "ui_configs must be a list"),
        ({"ui_configs": ["snippet"]}, "ui_configs[0] must be an object with template_id and data"),
        ({"ui_configs": [{"data": {}}]}, "ui_configs[0].template_id: missing"),
        ({"ui_configs": [SNIPPET, {"template_id": 3}]}, "ui_configs[1].template_id: missing"),
        ({"ui_configs": [{"template_id": "snipet"}]}, "no template 'snipet'; did you mean 'snippet'?"),
        (
            {"ui_configs": [{"template_id": "task"}]},
            "ui_configs[0].data must be an object with the fields of task",
        ),
        ({"ui_configs": [{"template_id": "task", "data": []}]}, "ui_configs[0].data must be an object"),
        ({"ui_configs": [{"template_id": "link", "data": {}}]}, "does not fill link: url is missing"),
        ({"fact_id": "today"}, "fact_id must look like 2026/09/17.md#ts_1, not 'today' (text)"),
        ({"fact_id": "2026/09/17.md#ts_2"}, "there is no entry ts_2 in Facts/2026/09/17.md"),
        ({"fact_id": "2026/09/18.md#ts_1"}, "there is no entry ts_1 in Facts/2026/09/18.md"),
        ({"tags": "Trip"}, "tags must be a list, not 'Trip' (text)"),
        ({"tags": [{"name": 5}]}, "tags[0] must be an object with a name"),
        ({"tags": [{"name": "Boat"}]}, "tags[0]: there is no tag 'Boat'; the tags are: Project, Trip"),
        ({"address": 5}, "address must be a text, not 5"),
    ],
)
def test_a_wrong_argument_is_refused_and_named(
    ctx: AgentContext, args: Mapping[str, Any], message: str
) -> None:
    """Whatever is wrong is told to the agent as the call's error, and nothing is written."""
    result = save(ctx, **args)

    assert result.error is not None
    assert message in result.error.message
    assert not (ctx.path / CARD).exists()


def test_a_card_that_cannot_be_written_is_an_error(ctx: AgentContext) -> None:
    """A file in the way of the card's folder comes back as a failed call."""
    (ctx.path / "Cards").write_text("in the way", encoding="utf-8")
    result = save(ctx)

    assert result.error is not None
    assert result.error.type == "write_failed"


def test_a_saved_card_holds_what_was_given(ctx: AgentContext) -> None:
    """Every argument ends in its own key, in the file's stated order."""
    result = save(
        ctx,
        title=" Two things ",
        tags=[{"name": "trip", "icon": "boat"}, {"name": "TRIP"}, {"name": " "}, "health"],
        address="Harbour 1",
        user_mark_address="Home",
        content_creation_date="2026-09-16 10:00:00",
    )

    assert result.value == f"The card of {FACT} is saved."
    assert list(saved(ctx).items()) == [
        ("fact_id", FACT),
        ("timestamp", 1789552800),
        ("status", "completed"),
        ("tags", ["Trip", "Health"]),
        ("ui_configs", [SNIPPET]),
        ("title", "Two things"),
        ("address", "Harbour 1"),
        ("user_fixed_address", "Home"),
    ]


def test_a_card_has_the_time_of_its_entry(ctx: AgentContext) -> None:
    """Without a date of its own a card stands where its entry was written."""
    save(ctx)

    assert saved(ctx)["timestamp"] == 1789635600  # 2026-09-17 09:00 UTC


def test_a_card_keeps_its_time_unless_it_is_given_one(ctx: AgentContext) -> None:
    """Saving a card again moves it in the timeline only where a date was given."""
    save(ctx, content_creation_date="2026-09-16 10:00:00")
    save(ctx)
    assert saved(ctx)["timestamp"] == 1789552800
    save(ctx, content_creation_date="2026-09-16 11:00:00")
    assert saved(ctx)["timestamp"] == 1789552800 + 3600


def test_a_date_that_cannot_be_read_is_only_a_warning(ctx: AgentContext) -> None:
    """The card is saved all the same, and the agent is told that the date was not used."""
    result = save(ctx, content_creation_date="yesterday")

    assert result.error is None
    assert "content_creation_date 'yesterday' is no date" in result.value
    assert saved(ctx)["timestamp"] == 1789635600


def test_ui_configs_may_come_as_json_text(ctx: AgentContext) -> None:
    """Some models write nested arguments as text; it is read as if it were not."""
    assert save(ctx, ui_configs=json.dumps([SNIPPET])).error is None
    assert saved(ctx)["ui_configs"] == [SNIPPET]


@pytest.mark.parametrize(
    ("given", "saved_configs"),
    [([PICTURE, SNIPPET], [SNIPPET]), ([PICTURE, PICTURE], [PICTURE]), ([PICTURE], [PICTURE])],
)
def test_a_snapshot_among_others_is_dropped(
    ctx: AgentContext, given: list[Any], saved_configs: list[Any]
) -> None:
    """A snapshot beside another template goes; of nothing but snapshots one stays."""
    save(ctx, ui_configs=given)

    assert saved(ctx)["ui_configs"] == saved_configs


def test_what_a_card_had_survives(ctx: AgentContext) -> None:
    """Tags, address, timestamp and what others wrote stay when not given; status and failure do not."""
    (ctx.path / "Cards/2026/09").mkdir(parents=True)
    old = {
        "fact_id": FACT,
        "timestamp": 1779700000,
        "status": "failed",
        "tags": ["Health"],
        "ui_configs": [],
        "title": "Old",
        "address": "Pier 2",
        "user_fixed_title": "Mine",
        "comments": [{"text": "nice"}],
        "insight": {"text": "so it goes"},
        "failure_reason": "no luck",
    }
    (ctx.path / CARD).write_text(yaml.safe_dump(old), encoding="utf-8")
    save(ctx, title="New", tags=[])

    surviving = {"fact_id", "timestamp", "tags", "address", "user_fixed_title", "comments", "insight"}
    assert saved(ctx) == {
        **{key: value for key, value in old.items() if key in surviving},
        "status": "completed",
        "ui_configs": [SNIPPET],
        "title": "New",
    }


def test_a_broken_old_card_is_replaced(ctx: AgentContext) -> None:
    """A card file that is no YAML does not stop a new card."""
    (ctx.path / "Cards/2026/09").mkdir(parents=True)
    (ctx.path / CARD).write_text("a: b: c", encoding="utf-8")

    assert save(ctx).error is None
    assert saved(ctx)["title"] == "T"


def test_the_metadata_tool_lists_the_tags(ctx: AgentContext) -> None:
    """All ten tags are named in one text."""
    result = call(ctx, METADATA, {})

    assert result.value.startswith("The journal's tags: Project, Trip, ")
    assert result.value.count(",") == 9


def test_the_declared_schema_accepts_every_reference(ctx: AgentContext) -> None:
    """What the model is told of the arguments fits what the tools take."""
    specs = {spec.name: spec for spec in ctx.tools.specs}
    calls = list(reference_calls())

    assert [invalid_arguments(specs[tool], args) for tool, args in calls] == [""] * len(calls)
    assert not any(spec.checked or spec.taped or spec.blocking for spec in specs.values())
