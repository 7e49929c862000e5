"""Tools that list, read and search files of the knowledge base."""

from __future__ import annotations

import re
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from pytest_agenteval import Clock, FixtureBroken, ToolFailed, Workspace
from pytest_agenteval.benchmarks.memex.journal import bad_argument
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import (
    KnowledgeBase,
    PkmPath,
    bad_path,
    count_of,
    cut_line,
    format_path,
    lines_of,
)
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.globs import matches, select
from pytest_agenteval.text.formatting import few_names
from pytest_agenteval.text.patterns import SECONDS, Pattern, PatternTooSlow, read_pattern

MAX_GLOB_FILES = 100


def glob(base: KnowledgeBase, pattern: str, path: str = "/") -> str:
    """List the files whose paths fit a pattern: what was written last comes first, then the rest by name."""
    top = base.folder(path, "and path must be a folder")
    files = matching_files(base, pattern, top)
    if not files:
        return f"No file below {top} fits {pattern}."
    # By the order of writing in this trial: the times of files in a fixture are those of its checkout.
    files.sort(key=lambda place: (-base.write_numbers.get(place.parts, 0), place.parts))
    more = f"\n\n(The first {MAX_GLOB_FILES} of {len(files)}. A narrower pattern shows others.)"
    return "\n".join(map(str, files[:MAX_GLOB_FILES])) + (more if len(files) > MAX_GLOB_FILES else "")


def matching_files(base: KnowledgeBase, pattern: str, top: PkmPath) -> list[PkmPath]:
    """Give the files below a folder that fit a pattern, by path.

    A pattern is read from that folder; one that starts with a slash is read from the root.
    """
    if ".." in pattern.split("/"):
        raise bad_path(pattern, "a pattern cannot go up")
    above = 0 if pattern.startswith("/") else len(top.parts)
    files = {format_path(place.parts[above:])[1:]: place for place in base.files(top)}
    relative_pattern = pattern.lstrip("/").removeprefix("./")
    return [files[path] for path in select(relative_pattern, files)]


def matches_pattern(pattern: str, place: PkmPath) -> bool:
    """Whether a place fits a pattern: by its name, or from the root where the pattern has a slash."""
    if "/" in pattern.rstrip("/"):
        return matches(pattern.strip("/"), str(place)[1:])
    return matches(pattern.rstrip("/"), place.parts[-1])


# The limit of the original agent; so are the lines and bytes that one Read may give.
MAX_NAMES = 1000


class Overview(FrozenValue, frozen=True):
    """The knowledge base at one glance.

    ``tree`` draws it, two spaces a level, folders with a slash at the end. ``entries`` counts the names it
    shows; where there are more than may be shown, ``truncated`` is true, the upper levels come first, and
    a line says how many names of a folder are missing.
    """

    tree: str
    entries: int
    truncated: bool


def overview(workspace: Workspace, clock: Clock) -> Overview:
    """Draw the whole knowledge base; raises FixtureBroken where there is something else in its place."""
    base = KnowledgeBase(workspace, clock)
    try:
        return _draw(base, base.root(), None, ())
    except ToolFailed as failed:
        raise FixtureBroken(str(failed)) from failed


def ls(base: KnowledgeBase, path: str = "/", ignore: Sequence[str] = (), depth: int = 3) -> str:
    """List a folder as a tree, some levels deep."""
    top = base.folder(path, "Read shows it")
    drawn = _draw(base, top, depth, ignore)
    if not drawn.entries:
        return f"{top} is empty."
    stopped = f"\n\n(Stopped at {MAX_NAMES} names. List a folder by itself to see more of it.)"
    return drawn.tree + (stopped if drawn.truncated else "")


def _draw(base: KnowledgeBase, top: PkmPath, depth: int | None, ignored: Sequence[str]) -> Overview:
    """Gather names level by level, so that a limit cuts off the deepest; then draw them folder by folder."""
    drawn: dict[tuple[str, ...], list[PkmPath]] = {}
    missing: dict[tuple[str, ...], int] = {}
    room, truncated = MAX_NAMES, False
    waiting = deque([top])
    while waiting:
        here = waiting.popleft()
        names = [p for p in base.inside(here) if not any(matches_pattern(pattern, p) for pattern in ignored)]
        too_deep = depth is not None and len(here.parts) - len(top.parts) >= depth
        listed = [] if too_deep else names[:room]
        drawn[here.parts], missing[here.parts] = listed, len(names) - len(listed)
        room -= len(listed)
        truncated = truncated or (not too_deep and len(listed) < len(names))
        waiting.extend(place for place in listed if place.is_folder)

    def lines_below(folder: PkmPath, indent: str) -> Iterator[str]:
        for place in drawn[folder.parts]:
            is_folder = place.parts in drawn
            yield f"{indent}{place.parts[-1]}{'/' if is_folder else ''}"
            if is_folder:
                yield from lines_below(place, f"{indent}  ")
        if missing[folder.parts]:
            yield f"{indent}… {missing[folder.parts]} more"

    lines = [f"{str(top).rstrip('/')}/", *lines_below(top, "  ")]
    return Overview("\n".join(lines), MAX_NAMES - room, truncated)


# Marks the result of a Read that came with reminders. A file cannot forge it, since each of its lines is
# shown behind a number. After such a Read the insight tool does not end the run, so that the agent can still
# correct the file.
REMINDER = "\n<reminder>"

# The limits of the original agent. Its fourth reminder, for files that were edited in several sessions, is
# left out: a trial is one session.
LONG = 1000
TOO_LONG = 2000
MANY_SMALL = 5

_MARKER = re.compile(r"<!--\s*fact_id:")
_YEAR, _MM, _DD = "(?:19|20)[0-9]{2}", "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_M, _D = "(?:0?[1-9]|1[0-2])", "(?:0?[1-9]|[12][0-9]|3[01])"
# A day or a month of a year; a year alone may well be the subject of a file.
_DATE = re.compile(
    "(?<![0-9])(?:"
    rf"{_YEAR}(?P<first>[-_. ]){_M}(?P=first){_D}"
    rf"|{_YEAR}[-_.]{_MM}"
    rf"|{_YEAR}{_MM}{_DD}"
    rf"|{_D}(?P<last>[-_. ]){_M}(?P=last){_YEAR}"
    rf"|{_YEAR} ?[年년] ?{_M} ?[月월](?: ?{_D} ?[日일])?"
    ")(?![0-9])"
)


def reminders(base: KnowledgeBase, place: PkmPath, lines: int) -> str:
    """Write the reminders that a file of so many lines calls for; an empty text where there are none."""
    warnings = []
    if lines >= TOO_LONG:
        warnings.append(f"{place} has {lines} lines, more than one file should hold. Split it by subject.")
    elif lines > LONG:
        warnings.append(
            f"{place} has {lines} lines and keeps growing. See whether it falls into two subjects."
        )
    folder = PkmPath(place.parts[:-1], place.real.parent)
    files = [file for file in base.inside(folder) if not file.is_folder]
    # Every file is read to count its entries, so only where there are enough files.
    small = sum(_is_small(base, file) for file in files) if len(files) > MANY_SMALL else 0
    if small > MANY_SMALL:
        warnings.append(
            f"{folder} holds {small} files with one entry or none. Merge those that share a subject."
        )
    if _DATE.search(place.parts[-1]):
        warnings.append(
            f"{place} is named by a date. Name it by its subject, or merge it into the file on that."
        )
    return "".join(f"\n{REMINDER}\n{warning}\n</reminder>" for warning in warnings)


def _is_small(base: KnowledgeBase, file: PkmPath) -> bool:
    try:
        return len(_MARKER.findall(base.text(file))) <= 1
    # What is no text is no note either.
    except ToolFailed:
        return False


MOST_LINES = 2000
# How much of one file a call may return.
MOST_BYTES = 256 * 1024

MOST_BYTES_TOGETHER = 512 * 1024
MOST_FILES = 100


def read(base: KnowledgeBase, file_path: str, offset: int = 1, limit: int = MOST_LINES) -> str:
    """Read a file, or some lines of it; reminders that it calls for stand below."""
    place = base.place(file_path)
    lines = lines_of(base.text(place))
    if not lines:
        # No line break before it, so this is no REMINDER: an empty file gives nothing to put in order.
        return f"<reminder>\n{place} is there, and empty.\n</reminder>" + reminders(base, place, 0)
    if offset > len(lines):
        raise ToolFailed(f"{place} has {count_of(len(lines))}, so none from {offset} on", "out_of_range")
    text, note = excerpt(lines, offset, limit)
    return text + (f"\n\n{note}" if note else "") + reminders(base, place, len(lines))


def excerpt(lines: list[str], first: int, limit: int = MOST_LINES) -> tuple[str, str]:
    """Number the lines from ``first`` on, as many as one call may show; say what is not shown."""
    numbered_lines: list[str] = []
    size = 0
    for place, line in enumerate(lines[first - 1 :][: min(limit, MOST_LINES)], first):
        numbered = f"{place:6}\t{cut_line(line)}"
        size += len(numbered.encode("utf-8")) + 1
        if size > MOST_BYTES and numbered_lines:
            break
        numbered_lines.append(numbered)
    last, note = first + len(numbered_lines) - 1, ""
    if (first, last) != (1, len(lines)):
        more = f" Go on with offset {last + 1}." if last < len(lines) else ""
        note = f"(Lines {first} to {last} of {len(lines)}.{more})"
    return "\n".join(numbered_lines), note


def batch_read(base: KnowledgeBase, file_patterns: Sequence[str]) -> str:
    """Read many files one after the other; what cannot be read is named in its place, and is no error."""
    if not file_patterns:
        raise bad_argument("file_patterns must name at least one path or glob")
    pieces: list[str] = []
    left_out: list[PkmPath] = []
    room = MOST_BYTES_TOGETHER
    for requested in _requested_files(base, file_patterns):
        if isinstance(requested, str):
            pieces.append(requested)
            continue
        piece = _section(base, requested) if room > 0 and len(pieces) < MOST_FILES else ""
        room -= len(piece.encode("utf-8"))
        if piece and room > 0:
            pieces.append(piece)
        else:
            left_out.append(requested)
    if left_out:
        names = few_names(left_out, 20)
        pieces.append(f"=== left out, as this is long already: {names}. Read them in another call.")
    return "\n\n".join(pieces)


def _requested_files(base: KnowledgeBase, patterns: Iterable[str]) -> list[PkmPath | str]:
    """Give each requested file once, and a line for each pattern that fits none."""
    requested: dict[tuple[str, ...] | str, PkmPath | str] = {}
    for pattern in patterns:
        try:
            # Brackets are a part of many names: a file of that very name comes before those that fit a glob.
            if not set("*?[{") & set(pattern) or _is_file_name(base, pattern):
                places = [base.place(pattern)]
            else:
                places = matching_files(base, pattern, base.root())
            if not places:
                raise ToolFailed(f"no file fits {pattern}", "not_found")
        except ToolFailed as failed:
            requested.setdefault(f"=== {failed}", f"=== {failed}")
        else:
            for place in places:
                requested.setdefault(place.parts, place)
    return list(requested.values())


def _is_file_name(base: KnowledgeBase, path: str) -> bool:
    """Whether what could be a glob is the name of a file."""
    try:
        return base.place(path).real.exists()
    except ToolFailed:
        return False


def _section(base: KnowledgeBase, place: PkmPath) -> str:
    try:
        lines = lines_of(base.text(place))
    except ToolFailed as failed:
        return f"=== {failed}"
    head = f"=== {place} ({count_of(len(lines))})" if lines else f"=== {place} (empty)"
    return "\n".join(filter(None, (head, *(excerpt(lines, 1) if lines else ()))))


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

MOST_SHOWN = 1000

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
    expression = _model_pattern(pattern, ignore_case=i, multiline=multiline)
    # In a thread, because the event loop serves other trials meanwhile.
    spans = await in_daemon_thread(_search, expression, multiline, list(texts.values()))
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


def _model_pattern(pattern: str, *, ignore_case: bool, multiline: bool) -> Pattern:
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0) | (re.DOTALL if multiline else 0)
    try:
        with warnings.catch_warnings():
            # Python warns of ``[[Bread]]``, which models write for a link between notes.
            warnings.simplefilter("ignore")
            return read_pattern(pattern, flags)
    except (re.error, OverflowError, RecursionError) as wrong:
        message = f"pattern is no regular expression: {wrong}; a text to be found as it is needs \\"
        raise bad_argument(f"{message} before each of . ^ $ * + ? {{ }} [ ] | ( )") from None


def _search(pattern: Pattern, multiline: bool, texts: Sequence[list[str]]) -> list[Spans]:
    find = _spans_across if multiline else _matching_lines
    try:
        return [find(pattern, lines) for lines in texts]
    except PatternTooSlow:
        message = f"the search did not end within {SECONDS:g} seconds; write a simpler pattern"
        raise ToolFailed(message, "too_slow") from None


def _matching_lines(pattern: Pattern, lines: list[str]) -> Spans:
    return [(number, number) for number, line in enumerate(lines) if pattern.search(line)]


def _spans_across(pattern: Pattern, lines: list[str]) -> Spans:
    text, line, counted_to, spans = "\n".join(lines), 0, 0, []
    for match in pattern.find_all(text) if lines else ():
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        # A line break at the very end of a match belongs to the line that it ends.
        spans.append((line, line + text.count("\n", counted_to, max(counted_to, match.end() - 1))))
    return spans


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
