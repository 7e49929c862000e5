"""Templates of pages: every value that they show is escaped."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

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
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
