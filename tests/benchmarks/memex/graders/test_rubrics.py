"""The rubrics by which judges grade insights and additions."""

from __future__ import annotations

from pytest_agenteval.registry.installed import installed_registry
from tests.fresh_imports import imported_by

RUBRICS = installed_registry()


def test_the_rubrics_of_the_pkm_agent_have_the_names_that_labels_use() -> None:
    """Labels are written for these values and dimensions."""
    insight, append = RUBRICS.rubric("pkm_insight_quality"), RUBRICS.rubric("pkm_append_coherence")

    three = RUBRICS.rubric("pkm_insight_quality_upstream").names
    assert three == ("groundedness", "non_redundancy", "expression_quality")
    assert insight.names == (*three, "conciseness")
    assert (list(insight.shows), insight.output) == (["fact", "notes", "changes", "insight"], "insight")
    assert (append.names, list(append.shows)) == (("coherence",), ["fact", "before", "changes"])
    assert append.output == "changes"
    assert {(made.low, made.high) for made in (insight, append)} == {(0, 1)}


def test_importing_the_graders_imports_nothing_heavy() -> None:
    """Whoever only collects tests pays for no template engine and no provider."""
    assert (
        imported_by(
            "import pytest_agenteval.benchmarks.memex.graders", "jinja2", "litellm", "pydantic", "vcr"
        )
        == []
    )
