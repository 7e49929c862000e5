"""What all exports have in common: a file is written whole or not at all, and holds no secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pytest_agenteval.store.file_writing import replacing
from pytest_agenteval.store.rows.row_kinds import Row, RowKind, RowSource
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

OneRun = TypeVar("OneRun", bound=RowSource)


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


def distinct_runs(runs: Iterable[OneRun]) -> Iterator[OneRun]:
    """Give runs one after the other, each once; raises UsageMistake for two that share a name.

    Rows say by their run's name whose they are.
    """
    folders: dict[str, Path] = {}
    for run in runs:
        other = folders.get(run.name)
        if other is None:
            folders[run.name] = run.folder
            yield run
        elif other.resolve() != run.folder.resolve():
            where = f"{other} and {run.folder}"
            raise UsageMistake(f"two runs are called {run.name}, {where}: their rows could not be told apart")


def clean_rows(kind: RowKind, runs: Iterable[RowSource]) -> Iterator[Row]:
    """Give rows without what is known to be secret now: runs may be older than what is known."""
    for row in kind.rows(distinct_runs(runs)):
        # One look at the whole row, not one at each cell: it is a fifth of the time.
        dirty = KNOWN_SECRETS.dirty("\n".join(_texts_of(row)))
        yield tuple(map(KNOWN_SECRETS.value, row)) if dirty else row


def _texts_of(row: Row) -> Iterator[str]:
    for cell in row:
        if isinstance(cell, str):
            yield cell
        elif isinstance(cell, list):
            yield from cell
