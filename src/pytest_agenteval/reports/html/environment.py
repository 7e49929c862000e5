"""Templates of pages: every value that they show is escaped, and turns no writing direction."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_agenteval.text.formatting import printable

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def page_environment() -> Environment:
    """Give the templates of all pages; a value that a template lacks is an error."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    folder = files("pytest_agenteval").joinpath("reports/html/templates")
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.is_file()}
    return Environment(
        loader=DictLoader(texts),
        autoescape=True,
        finalize=_written_out,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _written_out(value: Any) -> Any:
    # What a template calls safe, such as a script, is of another type and stays as it is.
    return printable(value) if type(value) is str else value


def page_file(name: str) -> str:
    """Read a script or a style of the pages."""
    return files("pytest_agenteval").joinpath(f"reports/html/page/{name}").read_text(encoding="utf-8")
