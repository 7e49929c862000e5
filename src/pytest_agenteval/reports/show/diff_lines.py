"""What a trial changed in its workspace, as coloured lines of a diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.reports.show.foreign_text import TAB, Detail, cut
from pytest_agenteval.reports.trial.file_changes import FileChange, Hunk, Row
from pytest_agenteval.reports.trial.trial_view import TrialView
from pytest_agenteval.text.formatting import INDENT, Style, StyledLine, pluralize, printable, wrapped_lines

MOST_FILES = 12
MOST_LINES = 24
"""Lines of one file's diff that are shown where not all is."""

MOST_PATH = 300
CHANGES: dict[str, Style] = {"created": "green", "modified": "", "deleted": "red"}


def workspace_title(view: TrialView) -> str:
    """Count the files that came, changed and went: ``1 created, 2 modified``."""
    counts = {change: sum(file.change == change for file in view.files) for change in CHANGES}
    left_out = f", {view.files_left_out} more" if view.files_left_out else ""
    return ", ".join(f"{count} {change}" for change, count in counts.items() if count) + left_out


def workspace_lines(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    """Give the diff of each file, as much of it as fits on some screens, or all."""
    files = view.files if detail.full else view.files[:MOST_FILES]
    for file in files:
        yield from file_lines(file, detail)
    remaining = len(view.files) - len(files) + view.files_left_out
    if remaining:
        how = " (--full)" if len(files) < len(view.files) else " that are not compared"
        yield StyledLine(f"{INDENT}and {pluralize(remaining, 'more file')}{how}", "dim")


def file_lines(file: FileChange, detail: Detail) -> Iterator[StyledLine]:
    """Give the diff of one file below its name."""
    note = f", {printable(file.note)}" if file.note else ""
    yield from wrapped_lines(f"{_path(file.path)}  {file.change}{note}", detail.width, "bold")
    lines = list(hunk_lines(file.hunks))
    visible = lines if detail.full else lines[:MOST_LINES]
    for line in visible:
        text = f"{INDENT * 2}{printable(line.text.expandtabs(TAB))}" if line.text.strip() else ""
        yield StyledLine(text if detail.full else cut(text, detail.width), line.style)
    if len(visible) < len(lines):
        remaining = pluralize(len(lines) - len(visible), "more line")
        yield StyledLine(f"{INDENT * 2}… {remaining} (--full)", "dim")


def _path(path: str) -> str:
    """Write a path as it is, with blanks that come together, and tabs seen as such."""
    return cut(printable(path).replace("\t", "\\t").replace("\n", "\\n"), MOST_PATH)


def hunk_lines(hunks: Sequence[Hunk]) -> Iterator[StyledLine]:
    """Give hunks as a unified diff."""
    for hunk in hunks:
        old = _range(hunk.old_start, sum(row[1] is not None for row in hunk.rows))
        new = _range(hunk.new_start, sum(row[2] is not None for row in hunk.rows))
        yield StyledLine(f"@@ -{old} +{new} @@", "cyan")
        yield from _row_lines(hunk.rows)


def _range(start: int, lines: int) -> str:
    """Write a range as unified diffs do: of no lines, the one before it is named."""
    return f"{start if lines else start - 1},{lines}"


def _row_lines(rows: Sequence[Row]) -> Iterator[StyledLine]:
    """Give rows as a unified diff: what is gone before what came, run by run."""
    removed: list[str] = []
    added: list[str] = []
    for tag, old, new in (*rows, (" ", None, None)):
        if tag == " ":
            yield from (StyledLine(f"-{text}", "red") for text in removed)
            yield from (StyledLine(f"+{text}", "green") for text in added)
            removed, added = [], []
            if old is not None:
                yield StyledLine(f" {old}")
            continue
        removed += [] if old is None else [old]
        added += [] if new is None else [new]
