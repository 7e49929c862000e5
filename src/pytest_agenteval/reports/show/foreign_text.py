"""Text that an agent, a tool or a judge wrote, as lines of a terminal: folded to its beginning, or whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.formatting import CUT, cell_width, one_line, printable, truncate, wrap

TAB = 4
FOLDED_LINES = 12
FOLDED_CHARACTERS = 2000
MOST_SHORT = 4000
MOST_KEY, LEAST_VALUE = 40, 8
"""Characters of a text that are looked at where only one line of it is shown."""


class Detail(FrozenValue, frozen=True):
    """How much is visible: in ``width`` columns what tells most or, where ``full``, everything and uncut.

    What is full is not broken into lines: a terminal does that, and a copy is what was written.
    """

    width: int
    full: bool = False

    def within(self, columns: int) -> Detail:
        """Give the same detail in fewer columns."""
        return Detail(max(20, self.width - columns), self.full)


def safe_lines(text: str) -> Iterator[str]:
    """Give the lines of a text, which can neither paint nor act, with tabs as spaces."""
    for line in text.splitlines():
        yield printable(line.expandtabs(TAB))


def block_lines(
    text: str, detail: Detail, indent: str = "", most: int = FOLDED_LINES, unfolded_by: str = "--full"
) -> Iterator[str]:
    """Give a text as indented lines: the first ``most`` of them, and what shows the rest; or all."""
    if detail.full:
        yield from (f"{indent}{line}".rstrip() for line in safe_lines(text))
        return
    text = text.strip("\n")
    lines = list(safe_lines(text[:FOLDED_CHARACTERS]))
    visible = [piece for line in lines[:most] for piece in wrap(indent + line, detail.width)]
    yield from (piece.rstrip() for piece in visible[: 2 * most])
    if len(text) > FOLDED_CHARACTERS or len(lines) > most or len(visible) > 2 * most:
        yield f"{indent}{CUT} {_size(text)} in all ({unfolded_by})"


def _size(text: str) -> str:
    lines, characters = text.count("\n") + 1, f"{len(text):,} characters"
    return f"{lines:,} lines, {characters}" if lines > 1 else characters


def first_line(text: str, most: int) -> str:
    """Give the beginning of a text on one line of at most ``most`` columns."""
    return cut(one_line(text, max(1, min(most, MOST_SHORT))), most)


def cut(text: str, most: int) -> str:
    """Cut a text to so many columns; a cut is shown."""
    return text if cell_width(text) <= most else truncate(text, max(0, most - 1)) + CUT


def compact_json(value: Any) -> str:
    """Write a JSON value on one line; a text in quotes, and what is no JSON as Python shows it."""
    return json.dumps(value, ensure_ascii=False, default=repr)


def indented_json(value: Any) -> str:
    """Write a JSON value over several lines; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=repr)


def arguments_text(args: Mapping[str, Any], raw_args: str | None, most: int) -> str:
    """Write arguments on one line: ``path="a.md", limit=3``; long values share what short ones leave."""
    if raw_args is not None:
        return first_line(raw_args, most)
    values = {one_line(name, MOST_KEY): _short_value(value) for name, value in args.items()}
    room = most - sum(cell_width(name) + len("=, ") for name in values)
    widest = dict.fromkeys(values, LEAST_VALUE)
    for remaining, name in zip(
        range(len(values), 0, -1), sorted(values, key=lambda name: len(values[name])), strict=True
    ):
        widest[name] = max(LEAST_VALUE, room // remaining)
        room -= min(widest[name], cell_width(values[name]))
    return cut(", ".join(f"{name}={cut(value, widest[name])}" for name, value in values.items()), most)


def _short_value(value: Any) -> str:
    if isinstance(value, str) and len(value) > MOST_SHORT:
        value = value[:MOST_SHORT]
    return one_line(compact_json(value), MOST_SHORT)
