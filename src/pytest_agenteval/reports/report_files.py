"""Report files: the ending of a file's name decides its format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_agenteval.text.errors import UsageMistake, writing

if TYPE_CHECKING:
    from pytest_agenteval.reports.report_source import ReportSource


class FileKind(NamedTuple):
    """The place of the function that writes a kind of file, with the library and the extra that it needs."""

    place: str
    library: str = ""
    extra: str = ""

    @property
    def write(self) -> Callable[[Path, ReportSource], None]:
        # Imported here: most runs write no file, and each kind brings libraries of its own.
        module, _, function = self.place.partition(":")
        write: Callable[[Path, ReportSource], None] = getattr(import_module(module), function)
        return write


FILE_KINDS: Mapping[str, FileKind] = {
    ".html": FileKind("pytest_agenteval.reports.html_report:write_html"),
    ".md": FileKind("pytest_agenteval.reports.markdown_report:write_markdown"),
    ".json": FileKind("pytest_agenteval.reports.exports.json_report:write_json"),
    ".csv": FileKind("pytest_agenteval.reports.exports.row_files:write_csv"),
    ".xml": FileKind("pytest_agenteval.reports.junit_report:write_junit"),
    ".parquet": FileKind("pytest_agenteval.reports.exports.row_files:write_parquet", "pyarrow", "parquet"),
}

EXPECTED = f"a file that ends in {', '.join(FILE_KINDS)}"


def listed_files(text: str) -> list[str]:
    """Split a list of files at commas; a text with a part that has no report's ending is one file."""
    # A file's name may hold a comma itself.
    parts = [part.strip() for part in text.split(",")]
    return parts if all(Path(part).suffix.lower() in FILE_KINDS for part in parts) else [text]


def check_report_path(path: Path) -> None:
    """Raise UsageMistake where no such file can be written; called before a run, which takes long."""
    kind = FILE_KINDS.get(path.suffix.lower())
    if kind is None:
        raise UsageMistake(f"{path}: expected {EXPECTED}")
    if path.is_dir():
        raise UsageMistake(f"{path}: expected {EXPECTED}; found a folder")
    if kind.library and find_spec(kind.library) is None:
        install = f"pip install 'pytest-agenteval[{kind.extra}]'"
        raise UsageMistake(f"{path}: {kind.library} is needed, and not installed: {install}")


def write_report(path: Path, source: ReportSource) -> None:
    """Write a report in the form that the file's ending names; missing folders are made.

    Raises UsageMistake where that cannot be done.
    """
    check_report_path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        FILE_KINDS[path.suffix.lower()].write(path, source)
