"""What this benchmark offers, by name; nothing of it is imported before a name of it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agenteval import Registry

pytest_plugins = ("pytest_agenteval.benchmarks.memex.plugin",)

HERE = "pytest_agenteval.benchmarks.memex"
CARD, PKM = f"{HERE}.card_agent.agent:CardAgent", f"{HERE}.pkm_agent.agent:PkmAgent"
AGENTS: Mapping[str, str] = {
    "card": CARD,
    "pkm": PKM,
    # As Memex's suites name them, so that a folder of them runs as it is.
    "card_agent": CARD,
    "pkm_agent": PKM,
}
GRADERS: Mapping[str, str] = {
    "card_completion": "card:CardCompletion",
    "card_template_choice": "card:CardTemplateChoice",
    "card_must_contain": "card:CardMustContain",
    "card_numbers_given": "card:CardNumbersGiven",
    "pkm_facts_filed": "pkm_completion:PkmFactsFiled",
    "pkm_completion": "pkm_completion:PkmCompletion",
    "pkm_routed_correctly": "pkm_routing:PkmRoutedCorrectly",
    "pkm_read_before_write": "pkm_routing:PkmReadBeforeWrite",
    "pkm_no_overwrite": "pkm_preservation:PkmNoOverwrite",
    "pkm_insight_quality": "pkm_judged:PkmInsightQuality",
    "pkm_append_coherence": "pkm_judged:PkmAppendCoherence",
}
EXAMPLES: Mapping[str, Sequence[str]] = {"card": ("evals/card",), "pkm": ("evals/pkm", "fixtures/pkm")}
# Where the suites are in a wheel, and in a clone.
EXAMPLE_FOLDERS = (Path(__file__).parent / "examples", Path(__file__).parents[4])


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer two agents, their graders and rubrics, who plays them, and the importer."""
    for name, place in AGENTS.items():
        registry.agent(name, place)
    for name, place in GRADERS.items():
        registry.grader(name, f"{HERE}.graders.{place}")
    registry.rubrics(f"{HERE}:rubrics")
    registry.rules_player("save_timeline_card", f"{HERE}.rules:play_card")
    registry.rules_player("update_timeline_card_insight", f"{HERE}.rules:play_pkm")
    for agent in ("pkm", "pkm_agent"):
        registry.file_writer(agent, "Write", path="file_path", text="content", root="PKM")
    registry.importer("memex", f"{HERE}.importing:MemexImporter")
    for name, parts in EXAMPLES.items():
        registry.example(name, parts, EXAMPLE_FOLDERS)
