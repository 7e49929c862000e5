"""A page of a run taken apart, as a browser does it."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple


class Element(NamedTuple):
    """An element's start, and the text right below it."""

    tag: str
    attributes: dict[str, str | None]
    texts: list[str]

    @property
    def text(self) -> str:
        """The text that stands in the element itself."""
        return "".join(self.texts)


def rows_of(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the rows of a table whose columns travel as values, as one value, or as numbers of values."""
    columns = {}
    for name, column in table["columns"].items():
        if isinstance(column, dict):
            column = (
                [column["same"]] * table["rows"]
                if "same" in column
                else [column["of"][at] for at in column["at"]]
            )
        columns[name] = column
    return [{name: column[at] for name, column in columns.items()} for at in range(table["rows"])]


class Page(HTMLParser):
    """All elements of a file, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of an element."""
        self.elements.append(Element(tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        """Add a text to the element that was opened last."""
        if self.elements:
            self.elements[-1].texts.append(data)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Give the elements of a kind with these attributes."""
        return [
            element
            for element in self.elements
            if element.tag == tag and attributes.items() <= element.attributes.items()
        ]

    @property
    def index(self) -> dict[str, Any]:
        """What the page knows before a trial is opened."""
        (element,) = self.all("script", id="index")
        index: dict[str, Any] = json.loads(element.text)
        return {**index, **{name: rows_of(index[name]) for name in ("tasks", "trials")}}

    def trial(self, row: dict[str, Any]) -> dict[str, Any]:
        """Decode the trial of a row."""
        (chunk,) = self.all("script", id=f"c{row['chunk']}")
        trial: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(chunk.text)))[row["at"]]
        return trial
