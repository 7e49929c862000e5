"""Report files: what a file is like is told by how its name ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.reports.report_source import ReportSource


class FileKind(NamedTuple):
    """What writes a kind of file: a function of a module below this room, and the extra that it takes."""

    module: str
    function: str
    library: str = ""
    extra: str = ""

    @property
    def write(self) -> Callable[[Path, ReportSource], None]:
        """The function that writes such a file; its module is imported when it is asked for."""
        module = import_module(f"pytest_agenteval.reports.{self.module}")
        write: Callable[[Path, ReportSource], None] = getattr(module, self.function)
        return write


FILE_KINDS: Mapping[str, FileKind] = {
    ".html": FileKind("html.report", "write_html"),
    ".md": FileKind("exports.markdown_file", "write_markdown"),
    ".json": FileKind("exports.json_file", "write_json"),
    ".csv": FileKind("exports.csv_file", "write_csv"),
    ".xml": FileKind("exports.junit_file", "write_junit"),
    ".parquet": FileKind("exports.parquet_file", "write_parquet", "pyarrow", "parquet"),
}

EXPECTED = f"a file that ends in {', '.join(FILE_KINDS)}"


def listed_files(text: str) -> list[str]:
    """Give the files of a comma list; a text in which not each part ends as a report does names one file."""
    parts = [part.strip() for part in text.split(",")]
    return parts if all(Path(part).suffix.lower() in FILE_KINDS for part in parts) else [text]


def check_report_path(path: Path) -> None:
    """Raise UsageMistake where no such file can be written: before a run, not after it."""
    kind = FILE_KINDS.get(path.suffix.lower())
    if kind is None:
        raise UsageMistake(f"{path}: expected {EXPECTED}")
    if path.is_dir():
        raise UsageMistake(f"{path}: expected {EXPECTED}; found a folder")
    if kind.library and find_spec(kind.library) is None:
        install = f"pip install 'pytest-agenteval[{kind.extra}]'"
        raise UsageMistake(f"{path}: {kind.library} is needed, and not installed: {install}")


def write_report(path: Path, source: ReportSource) -> None:
    """Write a report in the form that the file's name asks for, in folders that need not be there.

    Raises UsageMistake where that cannot be done.
    """
    check_report_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        FILE_KINDS[path.suffix.lower()].write(path, source)
    except OSError as refused:
        raise UsageMistake(f"{path}: cannot be written ({refused.strerror or refused})") from None
