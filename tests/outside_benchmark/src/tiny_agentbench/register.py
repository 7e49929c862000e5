"""What this benchmark offers, by name; each thing is imported when its name is first used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agenteval import Registry

HERE = Path(__file__).parent

pytest_plugins = ("tiny_agentbench.fixtures",)


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer all of it."""
    registry.agent("tiny_greeter", "tiny_agentbench.agent:Greeter")
    registry.tool("tiny_agentbench.agent:clock", name="tiny_clock")
    registry.toolset("tiny_names", [HERE / "tools.py"])
    registry.grader("tiny_greets", "tiny_agentbench.graders:Greets")
    registry.grader("tiny_short", "tiny_agentbench.graders:short")
    registry.grader_group("tiny", [("tiny_greets", "greets"), ("tiny_short", "short")])
    registry.rubrics(HERE / "rubrics")
    registry.model("tiny_judge", "tiny_agentbench.judge:tiny_judge")
    registry.judge_panel("tiny_panel", ["tiny_judge"])
    registry.rules_player("look_up_name", "tiny_agentbench.rules:play")
    registry.importer("tiny", "tiny_agentbench.importer:TinyImporter")
    registry.report_format("tiny", "tiny_agentbench.reports:write_lines")
    registry.scorecard(
        "tiny",
        "tiny_agentbench.reports:scorecard",
        graders=["greets", "short"],
        options="tiny_agentbench.reports:OPTIONS",
    )
