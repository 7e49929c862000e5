"""Ending the work on an entry: its insight on the card, or leaving it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .called import FACT, FILES, Called

TOOL = "update_timeline_card_insight"
CARD = "Cards/2026/09/17_ts_1.yaml"
PLACEHOLDER = f"fact_id: {FACT}\ntimestamp: 1789635600\nstatus: pending\ntags: []\nui_configs: []\n"
OTHER, THIRD = "2026/08/01.md#ts_2", "2026/08/02.md#ts_3"


@pytest.fixture
def tools(tmp_path: Path) -> Called:
    """A small knowledge base, and the entry's placeholder card."""
    return Called(tmp_path, {**FILES, CARD: PLACEHOLDER})


def card(tools: Called) -> Any:
    """Read the card with another reader than ours."""
    return yaml.safe_load((tools.root / CARD).read_text(encoding="utf-8"))


def test_the_insight_goes_on_the_card(tools: Called) -> None:
    """Text, related entries and the speaker are added; all else on the card stays, in its order."""
    result = tools.ok(TOOL, fact_id=FACT, insight_text=" Third coat: it holds. ", related_fact_ids=[OTHER])

    assert result == f"The insight is on the card of {FACT}, tied to 1 other fact."
    assert card(tools)["insight"] == {
        "text": "Third coat: it holds.",
        "related_facts": [{"id": OTHER}],
        "character_id": "0",
    }
    assert (tools.root / CARD).read_text().startswith("fact_id: ")
    assert list(card(tools)) == [*yaml.safe_load(PLACEHOLDER), "insight"]
    assert {**card(tools), **yaml.safe_load(PLACEHOLDER)} == card(tools)


def test_only_the_card_is_written(tools: Called) -> None:
    """The knowledge base and the entries stay as they are."""
    before = tools.tree()
    tools.ok(TOOL, fact_id=FACT, insight_text="x")

    after = tools.tree()
    assert {path for path in after if after.text(path) != before.text(path)} == {CARD}


def test_a_finished_card_keeps_its_fields(tools: Called) -> None:
    """Title, tags, templates, addresses and comments outlive the insight, and an older insight does not."""
    fields = {
        "fact_id": FACT,
        "timestamp": 1,
        "status": "completed",
        "tags": ["Project"],
        "ui_configs": [{"template_id": "snippet", "data": {"text": "a: b"}}],
        "title": "Varnish",
        "user_fixed_address": "Pier 3",
        "insight": {"text": "old", "related_facts": [{"id": THIRD}], "character_id": "4"},
        "comments": [{"text": "한글 #1"}],
    }
    tools.put(CARD, yaml.safe_dump(fields, allow_unicode=True).encode())

    tools.ok(TOOL, fact_id=FACT, insight_text="new")

    assert card(tools) == {**fields, "insight": {"text": "new", "related_facts": [], "character_id": "0"}}


@pytest.mark.parametrize("content", [None, b"", b"\n"])
def test_a_card_that_is_not_there_is_begun(tools: Called, content: bytes | None) -> None:
    """A missing card starts as the journal starts one, at the moment of the entry by the suite's clock."""
    (tools.root / CARD).unlink()
    if content is not None:
        tools.put(CARD, content)

    tools.ok(TOOL, fact_id=FACT, insight_text="x")

    made = card(tools)
    assert made.pop("insight")["text"] == "x"
    # 2026-09-17T09:00:00+00:00
    assert made == {
        "fact_id": FACT,
        "timestamp": 1789635600,
        "status": "pending",
        "tags": [],
        "ui_configs": [],
    }


@pytest.mark.parametrize(
    ("given", "related"),
    [
        (None, []),
        ([], []),
        (OTHER, [OTHER]),
        ([OTHER, THIRD, OTHER], [OTHER, THIRD]),
        ([FACT], []),
        ([THIRD, FACT, OTHER], [THIRD, OTHER]),
    ],
)
def test_related_entries_are_others_and_come_once(tools: Called, given: object, related: list[str]) -> None:
    """An entry is not related to itself, and no entry is named twice; the order is the agent's."""
    tools.ok(TOOL, fact_id=FACT, insight_text="x", related_fact_ids=given)

    assert card(tools)["insight"]["related_facts"] == [{"id": id} for id in related]


@pytest.mark.parametrize(
    ("args", "kind", "words"),
    [
        ({"fact_id": "2026/09/17.md#ts_2"}, "not_found", "there is no entry ts_2 in Facts/2026/09/17.md"),
        ({"fact_id": "2026/09/16.md#ts_1"}, "not_found", "there is no entry ts_1 in Facts/2026/09/16.md"),
        ({"fact_id": "ts_1"}, "bad_arguments", "fact_id must look like 2026/09/17.md#ts_1, not 'ts_1'"),
        ({"fact_id": "../../x.md#ts_1"}, "bad_arguments", "fact_id must look like"),
        ({"fact_id": None}, "bad_arguments", "fact_id must be a text, not nothing"),
        ({"insight_text": ""}, "bad_arguments", "insight_text must not be empty"),
        ({"insight_text": " \n"}, "bad_arguments", "insight_text must not be empty"),
        ({"insight_text": 7}, "bad_arguments", "insight_text must be a text, not 7"),
        (
            {"related_fact_ids": ["fact_paint_001"]},
            "bad_arguments",
            "each of related_fact_ids must look like",
        ),
        ({"related_fact_ids": [OTHER, "2026/13/01.md#ts_1"]}, "bad_arguments", "'2026/13/01.md#ts_1'"),
        ({"related_fact_ids": [7]}, "bad_arguments", "related_fact_ids must be a list of texts"),
    ],
)
def test_an_insight_that_fits_no_entry_is_refused(
    tools: Called, args: dict[str, object], kind: str, words: str
) -> None:
    """An entry that is not in its daily file, ids that are none, and a blank text change nothing."""
    before = tools.tree()

    error_type, message = tools.refused(TOOL, **{"fact_id": FACT, "insight_text": "x", **args})

    assert (error_type, words in message) == (kind, True), message
    assert tools.tree() == before


@pytest.mark.parametrize("broken", ["- a list\n", "a: [b\n", "just words\n"])
def test_a_card_that_cannot_be_read_is_not_written_over(tools: Called, broken: str) -> None:
    """What is no map of fields cannot be kept, and so it is left alone."""
    tools.put(CARD, broken.encode())

    assert tools.refused(TOOL, fact_id=FACT, insight_text="x")[0] == "card_broken"
    assert (tools.root / CARD).read_text() == broken


@pytest.mark.posix
def test_a_card_behind_a_link_is_not_written(tools: Called) -> None:
    """The card's path may not lead into the knowledge base, nor anywhere else."""
    (tools.root / CARD).unlink()
    (tools.root / CARD).symlink_to("../../../PKM/Inbox.md")

    assert tools.refused(TOOL, fact_id=FACT, insight_text="x")[0] == "outside"
    assert tools.file("Inbox.md") == b"- a thought\n"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip))
def test_any_text_is_read_back_as_it_was_given(tools: Called, text: str) -> None:
    """Whatever the insight says, the card says the same, but for space around it."""
    tools.ok(TOOL, fact_id=FACT, insight_text=text)

    assert card(tools)["insight"]["text"] == text.strip()


def test_a_skip_changes_no_file(tools: Called) -> None:
    """Leaving an entry alone is only said."""
    before = tools.tree()

    assert tools.ok("skip_pkm_organization", evidence="do not keep this") == (
        "The entry is left alone; nothing was filed."
    )
    assert tools.tree() == before


@pytest.mark.parametrize("evidence", [None, "", " \n", 7, ["do not"]])
def test_a_skip_needs_the_words_that_decided_it(tools: Called, evidence: object) -> None:
    """Without the user's own words there is nothing to go by."""
    kind, message = tools.refused("skip_pkm_organization", evidence=evidence)

    assert (kind, message[:8]) == ("bad_arguments", "evidence")
