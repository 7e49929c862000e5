"""What this benchmark offers, by name; nothing of it is imported before a name of it is used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.benchmarks.ko_agentbench.graders import GRADERS, GROUPS, OWN

if TYPE_CHECKING:
    from pytest_agenteval import Registry, Tool

_PROVIDERS = ("naver_maps", "ls", "kis", "bithumb", "upbit", "naver", "daum", "aladin", "kakao", "tmap")
# The files of its tools, in the order of the benchmark's own catalogue.
TOOL_FILES = tuple(Path(__file__).parent / "tools" / f"{name}.yaml" for name in _PROVIDERS)


def korean_tools(*, bases: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Read the benchmark's tools, by name; ``bases`` replaces providers' addresses, for tests and proxies."""
    return dict(_read_tools(tuple(sorted((bases or {}).items()))))


@cache
def _read_tools(bases: tuple[tuple[str, str], ...]) -> Mapping[str, Tool]:
    # Imported here: a run that uses nothing of this benchmark must not pay for its tools.
    from pytest_agenteval.tools.http_tool import read_tools

    by_file = (read_tools(file, dict(bases)) for file in TOOL_FILES)
    return {name: tool for tools in by_file for name, tool in tools.items()}


PACKAGE = "pytest_agenteval"
HERE = f"{PACKAGE}.benchmarks.ko_agentbench"
JUDGES = ("openai/gpt-4o", "claude", "gemini")
"""The judges that its documentation names."""
# Where its suite is in a wheel, and in a clone.
EXAMPLE_FOLDERS = (Path(__file__).parent / "examples", Path(__file__).parents[4])


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer its tools, its metrics as graders and groups of them, rubrics, judges, levels and reports."""
    registry.toolset("ko_agentbench", TOOL_FILES)
    for name, place in GRADERS.items():
        registry.grader(name, f"{PACKAGE}.{place}")
    for name, members in GROUPS.items():
        registry.grader_group(name, members)
    registry.rubrics(f"{HERE}:rubrics")
    registry.judge_panel("ko", JUDGES)
    registry.importer("ko-agentbench", f"{HERE}.importer.importing:KoAgentBenchImporter")
    registry.scorecard(
        "ko-agentbench",
        f"{HERE}.scorecard:scorecard",
        graders=[label for own in OWN.values() for _, label, _ in own],
        options=f"{HERE}.scorecard:OPTIONS",
    )
    registry.report_format("ko-agentbench", f"{HERE}.report_files:write_reports")
    registry.example("ko", ("evals/ko", "cassettes/ko"), EXAMPLE_FOLDERS)
