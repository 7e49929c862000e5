"""A comparison as a file: Markdown for a pull request or a job's summary, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.reports.comparison.headline import headline
from pytest_agenteval.reports.comparison.screen import comparison_lines
from pytest_agenteval.store.run_comparison import RULES
from pytest_agenteval.text.formatting import escape_markdown
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

FORMAT = RULES
"""The form of the file changes with the rules that its verdicts were made by."""

WIDE = 120
"""Columns of what is not written into a terminal."""


def comparison_markdown(comparison: Comparison) -> str:
    """Give the verdict as a heading, and the screen folded away below it."""
    lines = [line.text.replace("`", "'") for line in comparison_lines(comparison, WIDE, basis=True)]
    verdict = KNOWN_SECRETS.text(headline(comparison))
    return "\n".join([f"### {escape_markdown(verdict, len(verdict))}", "", *_folded(lines), ""])


def _folded(lines: list[str]) -> Iterator[str]:
    first_blank = lines.index("") if "" in lines else len(lines)
    yield from ("<details><summary>what the verdict rests on</summary>", "", "```text")
    yield from lines[first_blank + 1 :]
    yield from ("```", "", "</details>")


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Give every figure of a comparison, with all digits, as JSON values."""
    figures: dict[str, Any] = msgspec.to_builtins(comparison)
    return {"v": FORMAT, "headline": headline(comparison), **figures}
