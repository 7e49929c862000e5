"""What all exports have in common: a file is written whole or not at all, and holds no secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.redaction.secrets import KNOWN_SECRETS
from pytest_agenteval.store.file_writing import replacing
from pytest_agenteval.store.rows.row_kinds import Row, RowKind, RowSource


@contextmanager
def export_file(path: Path) -> Iterator[Path]:
    """Give a place to write to, which becomes the file when all is written; what was there stays until then.

    Raises UsageMistake where the file cannot be written.
    """
    path = path.resolve()
    try:
        if path.exists() and not path.is_file():  # a pipe, or the terminal: there is nothing to replace
            yield path
        else:
            with replacing(path) as beside:
                yield beside
    except OSError as refused:
        raise UsageMistake(f"{path}: cannot be written ({refused.strerror or refused})") from None


def clean_rows(kind: RowKind, runs: Iterable[RowSource]) -> Iterator[Row]:
    """Give rows without what is known to be secret now: runs may be older than what is known."""
    for row in kind.rows(runs):
        # One look at the whole row, not one at each cell: it is a fifth of the time.
        dirty = KNOWN_SECRETS.dirty("\n".join(_texts_of(row)))
        yield tuple(map(KNOWN_SECRETS.value, row)) if dirty else row


def _texts_of(row: Row) -> Iterator[str]:
    for cell in row:
        if isinstance(cell, str):
            yield cell
        elif isinstance(cell, list):
            yield from cell
