"""What the PKM agent's prompt templates promise to the model and to those who replace them."""

from __future__ import annotations

import pytest

from pytest_agenteval.benchmarks.memex.pkm_agent.agent import PkmAgent
from pytest_agenteval.records.prompts import Prompts

PARTS = ("identity", "para", "notes", "language", "skipping", "insight", "workflow", "principles")
FACT = "2026/09/17.md#ts_1"


def system(**changed: str) -> str:
    """Render the system prompt, some parts of it replaced."""
    return Prompts(PkmAgent.templates, changed).render("system", language="English")


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_replaced_alone(part: str) -> None:
    """A variant's text takes the place of one part and leaves all others as they are."""
    whole = system()
    own = Prompts(PkmAgent.templates, {}).render(part, language="English")

    assert own in whole
    assert system(**{part: "NEW {{ language }}"}) == whole.replace(own, "NEW English")


def test_every_template_is_in_use() -> None:
    """There is no template whose replacement would change nothing."""
    assert set(PkmAgent.templates) == {*PARTS, "system", "overview", "entry", "unfinished"}


@pytest.mark.parametrize(
    "words",
    [
        *("/Projects", "/Areas", "/Resources", "/Archives", "/Inbox.md"),
        *("skip_pkm_organization", "update_timeline_card_insight", "related_fact_ids", "evidence"),
        *("<!-- fact_id: ", "4 levels", "2000 lines", "in any language"),
    ],
)
def test_the_rules_name_what_the_model_must_know(words: str) -> None:
    """Folders, tools, arguments, the marker and the limits stand in the prompt as they are checked."""
    assert words in system()


def test_no_template_knows_a_task() -> None:
    """No template has the day of the tasks: a prompt that knows them measures nothing."""
    assert [name for name, text in PkmAgent.templates.items() if "2026/09" in text] == []


@pytest.mark.parametrize(
    ("entries", "truncated", "header"),
    [(0, False, "is empty so far"), (3, False, "need not be listed again"), (1000, True, "there are more")],
)
def test_the_overview_says_what_it_shows(entries: int, truncated: bool, header: str) -> None:
    """An empty, a whole and a cut tree each have their own header; only an empty one is not drawn."""
    prompt = Prompts(PkmAgent.templates, {}).render(
        "overview", tree="TREE", entries=entries, truncated=truncated
    )

    assert header in prompt
    assert ("TREE" in prompt) == (entries > 0)


def test_a_tree_with_template_marks_is_shown_as_it_is() -> None:
    """File names are data: braces in them are not filled in."""
    prompt = Prompts(PkmAgent.templates, {}).render(
        "overview", tree="{{ language }}.md", entries=1, truncated=False
    )

    assert "{{ language }}.md" in prompt
