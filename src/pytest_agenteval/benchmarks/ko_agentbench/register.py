"""What this benchmark offers, by name; nothing of it is imported before a name of it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agenteval.benchmarks.ko_agentbench.graders.groups import GRADERS, GROUPS, OWN
from pytest_agenteval.benchmarks.ko_agentbench.tool_files import TOOL_FILES

if TYPE_CHECKING:
    from pytest_agenteval import Registry

PACKAGE = "pytest_agenteval"
HERE = f"{PACKAGE}.benchmarks.ko_agentbench"
JUDGES = ("openai/gpt-4o", "claude", "gemini")
"""The judges that its documentation names."""


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer its tools, its metrics as graders and groups of them, rubrics, judges, levels and reports."""
    registry.toolset("ko_agentbench", TOOL_FILES)
    for name, place in GRADERS.items():
        registry.grader(name, f"{PACKAGE}.{place}")
    for name, members in GROUPS.items():
        registry.grader_group(name, members)
    registry.rubrics(f"{HERE}:rubrics")
    registry.judge_panel("ko", JUDGES)
    registry.importer("ko-agentbench", f"{HERE}.importer.command:KoAgentBenchImporter")
    registry.scorecard(
        "ko-agentbench",
        f"{HERE}.scorecard:scorecard",
        graders=[label for own in OWN.values() for _, label in own],
        options=f"{HERE}.scorecard:OPTIONS",
    )
    registry.report_format("ko-agentbench", f"{HERE}.report.report_files:write_reports")
