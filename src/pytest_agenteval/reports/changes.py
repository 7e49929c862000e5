"""What a trial changed in its workspace, as a bounded diff."""

from __future__ import annotations

from pytest_agenteval.records.evidence import Outcome, unified
from pytest_agenteval.reports.wording import counted, safe

MOST_LINES = 40
MOST_PER_FILE = 12
MOST_LINE = 160
LARGE = 64 * 1024


def workspace_changes(outcome: Outcome) -> list[str]:
    """Give one line that counts, then unified diffs; what was left out of them is counted."""
    diff = outcome.diff
    if not diff:
        return []
    kinds = (("created", diff.created), ("changed", diff.modified), ("deleted", diff.deleted))
    paths = [path for _, found in kinds for path in found]
    lines = ["workspace: " + ", ".join(f"{len(found)} {kind}" for kind, found in kinds if found)]
    for shown, path in enumerate(paths):
        room = MOST_LINES - len(lines)
        if room < 4:
            return [*lines, f"... {counted(len(paths) - shown, 'more file')}"]
        lines += _file(outcome, path, min(MOST_PER_FILE, room - 1))
    return lines


def _file(outcome: Outcome, path: str, most: int) -> list[str]:
    if any(len(tree.text(path) or "") > LARGE for tree in (outcome.before, outcome.after)):
        return [_line(f"{path}: too large to show")]
    lines = unified(outcome.before, outcome.after, path) or [f"{path}: differs only in how its lines end"]
    shown = [_line(line) for line in lines[:most]]
    left = len(lines) - most
    return [*shown, f"... {counted(left, 'more line')} of {_line(path)}"] if left > 0 else shown


def _line(line: str) -> str:
    text = safe(line.expandtabs(4)).replace("\n", "\\n")  # a file's name may hold a line break
    return text if len(text) <= MOST_LINE else text[: MOST_LINE - 1] + "…"
