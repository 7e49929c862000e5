"""A program of its own: reads a pattern and texts as JSON, and writes where the pattern is found.

A pattern can keep Python busy for longer than anyone waits, and nothing in its own process can stop that: it
would stop every trial beside it. So it runs here, in a process that ends itself in time, whatever becomes of
the one that started it. The program imports nothing of the project, which makes it quick to start.

Started as ``python grep_process.py SECONDS``. A process that ended itself has written nothing.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any


def main() -> None:
    with open(os.devnull, "w", encoding="utf-8", newline="\n") as nowhere:
        # The watchdog of faulthandler is a thread of C: it ends the process while a regular expression holds
        # the interpreter. Its traceback goes nowhere.
        faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True, file=nowhere)
        answer = find_matches(json.load(sys.stdin))
        faulthandler.cancel_dump_traceback_later()
    json.dump(answer, sys.stdout)


def find_matches(request: dict[str, Any]) -> dict[str, Any]:
    """Give each text's matches, as pairs of first and last line from 0; or what is wrong with the pattern."""
    flags = (re.IGNORECASE if request["ignore_case"] else 0) | re.MULTILINE
    try:
        pattern = re.compile(request["pattern"], flags | (re.DOTALL if request["across_lines"] else 0))
    except (re.error, OverflowError, RecursionError) as wrong:
        return {"error": str(wrong) or type(wrong).__name__}
    search = _across if request["across_lines"] else _line_by_line
    return {"found": [list(search(pattern, lines)) for lines in request["texts"]]}


def _line_by_line(pattern: re.Pattern[str], lines: list[str]) -> Iterator[tuple[int, int]]:
    return ((number, number) for number, line in enumerate(lines) if pattern.search(line))


def _across(pattern: re.Pattern[str], lines: list[str]) -> Iterator[tuple[int, int]]:
    text, line, counted_to = "\n".join(lines), 0, 0
    for match in pattern.finditer(text) if lines else ():
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        # A line break at the very end of a match belongs to the line that it ends.
        yield line, line + text.count("\n", counted_to, max(counted_to, match.end() - 1))


if __name__ == "__main__":
    main()
