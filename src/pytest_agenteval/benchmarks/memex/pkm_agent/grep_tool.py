"""Finding text in files: the tool ``Grep``."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from subprocess import PIPE
from typing import Any, TypeAlias

from pytest_agenteval import ToolFailed, TrialBroken
from pytest_agenteval.benchmarks.memex.journal import bad_argument
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import (
    KnowledgeBase,
    PkmPath,
    count_of,
    cut_line,
    lines_of,
)
from pytest_agenteval.benchmarks.memex.pkm_agent.reading_tools import matches_pattern, matching_files
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.record import FrozenValue

TYPES: Mapping[str, tuple[str, ...]] = {
    "md": (".md", ".markdown"),
    "txt": (".txt", ".text"),
    "yaml": (".yaml", ".yml"),
    "json": (".json", ".jsonl"),
    "csv": (".csv", ".tsv"),
    "html": (".html", ".htm"),
    "org": (".org",),
    "toml": (".toml",),
    "xml": (".xml",),
}
# How long a search may take.
SECONDS = 10.0

STARTS, WAIT_S = 4, 0.25
# One start at a time: processes that several threads start at once do not always come up.
_starting = threading.Lock()

MOST_SHOWN = 1000
MOST_BYTES = 256 * 1024

Spans: TypeAlias = Sequence[tuple[int, int]]


class GrepHits(FrozenValue, frozen=True):
    """A file's lines, and which of them match, as pairs of first and last from 0."""

    place: PkmPath
    lines: Sequence[str]
    spans: Spans


async def grep(
    base: KnowledgeBase,
    pattern: str,
    path: str = "/",
    include: str | None = None,
    output_mode: str = "files_with_matches",
    type: str | None = None,
    head_limit: int = MOST_SHOWN,
    i: bool = True,
    multiline: bool = False,
    A: int | None = None,
    B: int | None = None,
    C: int = 0,
    n: bool = True,
) -> str:
    """Look for a regular expression in files; raises ToolFailed where it is none, or takes too long."""
    # Read before anything is awaited: calls of the same
    # reply that come later must not change what is searched.
    texts, unread = _texts(base, path, include, type)
    request = {
        "pattern": pattern,
        "ignore_case": i,
        "across_lines": multiline,
        "texts": list(texts.values()),
    }
    # In a thread, because the event loop serves other trials meanwhile.
    spans = await in_daemon_thread(_run_search, request, SECONDS)
    searched = zip(texts.items(), spans, strict=True)
    hits = [GrepHits(place, lines, matched) for (place, lines), matched in searched if matched]
    note = f"\n\n(Not searched, as they are not text: {', '.join(map(str, unread[:10]))})" if unread else ""
    if not hits:
        return f"No match for {pattern!r} in {count_of(len(texts), 'file')}.{note}"
    most, in_files = min(head_limit, MOST_SHOWN), f"in {count_of(len(hits), 'file')}:\n"
    if output_mode == "content":
        # A and B say more than C where both are given.
        return _join_within(most, "", _content(hits, C if B is None else B, C if A is None else A, n)) + note
    if output_mode == "count":
        total = count_of(sum(len(hit.spans) for hit in hits), "match", "es")
        counts = (f"{hit.place}:{len(hit.spans)}" for hit in hits)
        return _join_within(most, f"{total} {in_files}", counts) + note
    return _join_within(most, f"Found {in_files}", (str(hit.place) for hit in hits)) + note


def _run_search(request: Mapping[str, Any], seconds: float) -> list[Spans]:
    """Look for the pattern in a process of its own, which ends in time."""
    program = str(Path(__file__).with_name("grep_process.py"))
    # -I and -S leave out the environment and site-packages,
    # of which the program needs nothing: it starts sooner.
    process = start_process([sys.executable, "-I", "-S", program, str(seconds)])
    output, _ = process.communicate(json.dumps(request).encode())
    if process.returncode or not output:
        raise ToolFailed(
            f"the search did not end within {seconds:g} seconds; write a simpler pattern", "too_slow"
        )
    answer = json.loads(output)
    if "error" in answer:
        message = f"pattern is no regular expression: {answer['error']}; a text to be found as it is needs \\"
        raise bad_argument(f"{message} before each of . ^ $ * + ? {{ }} [ ] | ( )")
    matches: list[Spans] = answer["found"]
    return matches


def start_process(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process with pipes, and try again where the system refuses; raises TrialBroken in the end.

    A busy system may have no process to spare for a moment. The agent must not see that: it would look
    elsewhere, and be judged for it.
    """
    refusal: OSError | None = None
    for _ in range(STARTS):
        try:
            with _starting:
                return subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        except OSError as refused:
            refusal = refused
            time.sleep(WAIT_S)
    raise TrialBroken(f"the search of Grep could not be started: {refusal}") from refusal


def _texts(
    base: KnowledgeBase, path: str, include: str | None, kind: str | None
) -> tuple[dict[PkmPath, list[str]], list[PkmPath]]:
    """Read the files that are to be searched; give also those that are no text."""
    top = base.place(path)
    base.must_exist(top)
    files = base.files(top)
    if include is not None:
        below = set(matching_files(base, include, top)) if top.is_folder else set()
        files = [place for place in files if place in below or matches_pattern(include, place)]
    if kind is not None:
        files = [place for place in files if place.parts[-1].lower().endswith(TYPES[kind])]
    texts: dict[PkmPath, list[str]] = {}
    unread = []
    for place in files:
        try:
            texts[place] = lines_of(base.text(place))
        except ToolFailed:
            # A file that was named has to be readable; of a
            # folder, the other files are searched all the same.
            if place == top:
                raise
            unread.append(place)
    return texts, unread


def _content(hits: Sequence[GrepHits], before: int, after: int, numbers: bool) -> Iterator[str]:
    """Give matching lines with what is around them, as ``grep`` writes them."""
    for count, hit in enumerate(hits):
        last = None if count else -1
        shown = 0
        matching = {line for first, end in hit.spans for line in range(first, end + 1)}
        for line in sorted(matching):
            # Lines around two matches may be the same: each is shown once.
            first, shown = max(shown, line - before), min(line + after + 1, len(hit.lines))
            for number in range(first, shown):
                if (before or after) and last != -1 and last != number - 1:
                    yield "--"
                mark = ":" if number in matching else "-"
                at = f"{number + 1}{mark}" if numbers else ""
                yield f"{hit.place}{mark}{at}{cut_line(hit.lines[number])}"
                last = number


def _join_within(most: int, head: str, lines: Iterator[str]) -> str:
    """Put lines together, as many as are wanted and as one result may hold."""
    result: list[str] = []
    size = 0
    # One line more than wanted, to know whether there is more.
    for line in islice(lines, most + 1):
        size += len(line.encode("utf-8")) + 1
        if len(result) == most or (size > MOST_BYTES and result):
            stopped = f"\n\n(Stopped after {count_of(len(result))}. There is more.)"
            return head + "\n".join(result) + stopped
        result.append(line)
    return head + "\n".join(result)
