"""The benchmark's tools: where they are declared, and all of them read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agenteval import Tool

_NAMES = ("naver_maps", "ls", "kis", "bithumb", "upbit", "naver", "daum", "aladin", "kakao", "tmap")
TOOL_FILES = tuple(Path(__file__).parent / "tools" / f"{name}.yaml" for name in _NAMES)
"""In the order of the benchmark's own catalogue."""


def korean_tools(*, bases: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Read its tools, by name; ``bases`` gives other addresses to ask, by provider: for tests and proxies."""
    return dict(_read(tuple(sorted((bases or {}).items()))))


@cache
def _read(bases: tuple[tuple[str, str], ...]) -> Mapping[str, Tool]:
    from pytest_agenteval.tools.http.http_tool import read_tools

    found = (read_tools(file, dict(bases)) for file in TOOL_FILES)
    return {name: tool for tools in found for name, tool in tools.items()}
