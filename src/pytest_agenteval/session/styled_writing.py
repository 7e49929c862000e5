"""Lines of ours, written by pytest's terminal reporter in their colours."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.text.formatting import StyledLine


def write_line(reporter: Any, line: StyledLine) -> None:
    """Write a line in its colour."""
    looks = {
        "bold": {"bold": True},
        "dim": {"light": True},
        "red": {"red": True},
        "yellow": {"yellow": True},
        "green": {"green": True},
        "cyan": {"cyan": True},
    }
    reporter.write_line(line.text, **looks.get(line.style, {}))
