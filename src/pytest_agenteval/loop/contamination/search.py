"""Which texts of a suite's tasks stand in files, and whether they stood there at an earlier commit."""

from __future__ import annotations

import codecs
import glob
import os
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice, takewhile
from pathlib import Path

from pytest_agenteval.loop.contamination.prompt_index import PromptIndex, Span
from pytest_agenteval.loop.contamination.task_index import ENOUGH_ALONE, TaskIndex, TextOwner, letters_of
from pytest_agenteval.loop.contamination.task_texts import Leak, SuiteWithTasks, read_suites
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.globs import matches
from pytest_agenteval.text.errors import UsageMistake

# If a new file holds this share of a file's lines, the file has moved there.
MOVED_SHARE = 0.5

# Two ordinary words are a leak together if at most this many letters and digits separate them.
NEAR = 40


class FilesAtCommit(FrozenValue, frozen=True):
    """Files as they were: the commit that was looked at, or nothing where there is none, and their texts."""

    commit: str
    texts: Mapping[str, str]


def read_files(globs: Iterable[str]) -> dict[str, str]:
    """Give the texts of the files that globs name, from the current folder, by their paths.

    Raises UsageMistake for a glob that names none, and for a file that cannot be read.
    """
    texts: dict[str, str] = {}
    for pattern in globs:
        named = [path for path in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(path)]
        if not named:
            why = f"no file there; write a glob from {Path.cwd()}, in quotes"
            if os.path.isdir(pattern):
                why = f"a folder; for the files below it write {os.path.join(pattern, '**')!r}"
            raise UsageMistake(f"{pattern}: {why}")
        for path in map(Path, named):
            try:
                texts[short_path(Path(os.path.abspath(path)))] = _decoded(path.read_bytes())
            except OSError as refused:
                raise UsageMistake(f"{path}: cannot be read ({refused.strerror})") from None
    return texts


def files_at_commit(
    globs: Sequence[str], new: Mapping[str, str], since: str | None, suites: Iterable[Path]
) -> FilesAtCommit:
    """Give the files that the globs named at a commit, and those that have since moved to where they name.

    ``since`` is HEAD where it is None. Without git, and before the first commit, nothing is old. Raises
    UsageMistake for a commit that there is not. What lay in the folders of ``suites`` was no prompt.
    """
    top = _git(["rev-parse", "--show-toplevel"], Path.cwd())
    rev = since or "HEAD"
    arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}"]
    commit = (_git(arguments, Path.cwd()) or b"").decode().strip() if top else ""
    if since and not commit:
        why = "no such commit" if top else "there is no git repository here"
        raise UsageMistake(f"--since {since}: {why}")
    if not top or not commit:
        return FilesAtCommit("", {})
    root = Path(top.decode("utf-8", "surrogateescape").rstrip("\n"))
    named = _git(["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit], root) or b""
    names = [name.decode("utf-8", "surrogateescape") for name in named.split(b"\0") if name]
    # git names files from the top of the repository.
    patterns = [os.path.relpath(os.path.abspath(pattern), root) for pattern in globs]
    known = [name for name in names if any(matches(pattern, name) for pattern in patterns)]
    folders = {os.path.abspath(place if place.is_dir() else place.parent) for place in suites}
    # A prompt may have been renamed since. What lay below the suites was a task and no prompt.
    gone = [
        name
        for name in set(names).difference(known)
        if not os.path.lexists(root / name) and folders.isdisjoint(map(str, (root / name).parents))
    ]
    texts = dict(_texts_at_commit(root, commit, known))
    new_lines = [{line.strip() for line in text.splitlines()} for text in new.values()]
    for name, text in _texts_at_commit(root, commit, gone):
        lines = {line.strip() for line in text.splitlines()} - {""}
        # A file without lines has moved nowhere.
        if any(len(lines & each) >= MOVED_SHARE * len(lines) > 0 for each in new_lines):
            texts[name] = text
    return FilesAtCommit(commit, texts)


def _decoded(data: bytes) -> str:
    """Read UTF-8, or UTF-16 where the first bytes say so."""
    # Some editors write UTF-16; read byte by byte it would hide every text.
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")


def _texts_at_commit(root: Path, commit: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give the texts of files at a commit; links and what is no file are left out."""
    if not names:
        return
    # A name with a line end in it cannot be requested in this protocol of git.
    objects = "".join(f"{commit}:{name}\n" for name in names if "\n" not in name)
    answer = _git(["cat-file", "--batch"], root, objects.encode("utf-8", "surrogateescape")) or b""
    place = 0
    for name in (name for name in names if "\n" not in name):
        head, _, _ = answer[place : place + 4096].partition(b"\n")
        place += len(head) + 1
        # For what is no file git names another type, or says that it is missing.
        if head.split(b" ")[1:2] == [b"blob"]:
            size = int(head.rpartition(b" ")[2])
            yield name, _decoded(answer[place : place + size])
            place += size + 1


def _git(arguments: Sequence[str], folder: Path, given: bytes = b"") -> bytes | None:
    """Run git; None where there is no git, or it refuses."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, input=given, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def prompt_leaks(old: Mapping[str, str], new: Mapping[str, str], suite: Path) -> tuple[Leak, ...]:
    """Give the texts of the suite's tasks that stand in the new files, in the order of files and lines.

    ``old`` and ``new`` are the texts of all files that are looked at, by their paths; a file may have moved
    from one path to another. What is wrong with the suite raises UsageMistake, or ProblemsFound.
    """
    return suite_leaks(old, new, read_suites(suite))


def suite_leaks(
    old: Mapping[str, str],
    new: Mapping[str, str],
    suites: Iterable[SuiteWithTasks],
    code: Collection[str] = (),
) -> tuple[Leak, ...]:
    """Give the texts of these suites' tasks that stand in the new files, in the order of files and lines.

    ``code`` names the files that are no prompts: in those, ordinary words and names of code are no leak. See
    ``prompt_leaks``.
    """
    index, before = PromptIndex(new, code), PromptIndex(old)
    tasks = TaskIndex(suites, index.beginnings)
    hits = [*_value_hits(tasks, index, before), *_passage_hits(tasks, index, before)]
    # Names in code belong to its authors; an id of a task is a leak there too.
    leaking = (hit for hit in hits if hit.owner.kind == "task_id" or not index.is_name_of_code(hit.span))
    leaks = ((hit.span.reading, _leak(hit, tasks, index)) for hit in _outermost(leaking))
    files = [*new]
    first: dict[tuple[str, int, str, str, str], tuple[int, set[Leak]]] = {}
    for reading, leak in leaks:
        key = leak.file, leak.line, leak.kind, leak.task, leak.split
        # A file is read in several forms; a leak that several of them show is reported once, by the first.
        first_reading, same = first.setdefault(key, (reading, set()))
        if first_reading == reading:
            same.add(leak)
    every = (leak for _, same in first.values() for leak in same)
    return tuple(sorted(every, key=lambda leak: (files.index(leak.file), leak.line, leak.text)))


class _Hit(FrozenValue, frozen=True):
    """A text of a task that stands in a new file; ``more`` is where the second of two words stands."""

    span: Span
    owner: TextOwner
    added: bool
    more: Span | None = None


def _value_hits(tasks: TaskIndex, new: PromptIndex, old: PromptIndex) -> Iterator[_Hit]:
    ordinary = list[tuple[str, Span, TextOwner, bool]]()
    for value, owners in tasks.values.items():
        spans = list(new.places_of_value(value))
        if not spans or tasks.is_anybodys(value, owners):
            continue
        # By text and not by place: a line that only moved is not new.
        added = next(old.places_of_value(value), None) is None
        for owner in owners:
            if tasks.is_leak_as_spelt(value, owner):
                yield from (_Hit(span, owner, added) for span in spans if new.is_spelt(span, owner.spelling))
        owners = [owner for owner in owners if owner.spelling == "any"]
        if not owners:
            continue
        # The same text may be of several tasks; only one is named.
        owner = tasks.owner_of(owners)
        if tasks.says_enough(value, owners):
            yield from (_Hit(span, owner, added) for span in spans)
            continue
        # Tool descriptions and code have to use ordinary words.
        spans = [span for span in spans if not new.is_code(span)]
        if tasks.is_rare(value, owners):
            yield from (_Hit(span, owner, added) for span in spans if _is_word(span, value, owner, new))
        else:
            own = [owner for owner in owners if owner.kind == "expected_value"]
            ordinary += ((value, span, owner, added) for span in spans for owner in own)
    # Ordinary words of a task leak where two of them, of different facts, stand near each other.
    by_task = defaultdict[tuple[int, int, bool], list[tuple[str, Span, TextOwner]]](list)
    for word, span, whose, is_new in ordinary:
        by_task[whose.task, span.reading, is_new].append((word, span, whose))
    for (_, _, is_new), words in by_task.items():
        # By place, so that only the next words have to be looked at.
        words.sort(key=lambda word: word[1])
        for number, (one, first, whose) in enumerate(words):
            for other, second, its in takewhile(partial(_is_near, first), islice(words, number + 1, None)):
                # Alternatives of one fact, or a word and its part, are no two words of an answer.
                if whose.fact != its.fact and one not in other and other not in one:
                    yield _Hit(first, whose, is_new, second)
                    break


def _is_word(span: Span, value: str, owner: TextOwner, new: PromptIndex) -> bool:
    """Whether a rare word stands there as such: overtime is not in "over time", nor polite in "politely"."""
    is_apart = owner.words == 1 and letters_of(value) == len(value) and " " in new.words_of(span)
    return not is_apart and (letters_of(value) > ENOUGH_ALONE or new.ends_word(span))


def _is_near(first: Span, word: tuple[str, Span, TextOwner]) -> bool:
    return word[1].start - first.end <= NEAR


def _passage_hits(tasks: TaskIndex, new: PromptIndex, old: PromptIndex) -> Iterator[_Hit]:
    """Give the longest stretches that are copied, each put together from its pieces of eight words."""
    pieces = defaultdict[TextOwner, list[tuple[Span, bool]]](list)
    for piece, owners in tasks.pieces.items():
        if tasks.is_in_several_tasks(piece):
            continue
        added = next(old.places_of_piece(piece), None) is None
        owner = tasks.owner_of(owners)
        pieces[owner] += ((span, added) for span in new.places_of_piece(piece))
    for owner, spans in pieces.items():
        yield from (_Hit(span, owner, added) for span, added in _joined(sorted(spans)))


def _joined(spans: Iterable[tuple[Span, bool]]) -> Iterator[tuple[Span, bool]]:
    current, added = Span(-1, 0, 0), False
    for span, new in spans:
        # Pieces of eight words overlap: a copied paragraph is one leak and not fifty.
        if span.reading == current.reading and span.start <= current.end:
            current = Span(span.reading, current.start, max(current.end, span.end))
            added = added or new
        else:
            if current.reading >= 0:
                yield current, added
            current, added = span, new
    if current.reading >= 0:
        yield current, added


def _outermost(hits: Iterable[_Hit]) -> Iterator[_Hit]:
    """Leave out what stands within a longer text that is reported anyway."""
    ordered = sorted(hits, key=lambda hit: (hit.span.reading, hit.span.start, -hit.span.end))
    for _, of_reading in groupby(ordered, key=lambda hit: hit.span.reading):
        end = -1
        for hit in of_reading:
            if hit.span.end > end:
                yield hit
                end = hit.span.end


def _leak(hit: _Hit, tasks: TaskIndex, index: PromptIndex) -> Leak:
    task = tasks.tasks[hit.owner.task]
    # Of a held-out task nobody may learn the id, or which words matched: the whole line is quoted.
    held_out = task.split == "held_out"
    text = index.words_of(hit.span)
    if hit.more:
        text = f"{text} … {index.words_of(hit.more)}"
    return Leak(
        file=index.readings[hit.span.reading].file,
        line=index.line_of(hit.span),
        kind=hit.owner.kind,
        text=index.whole_line(hit.span) if held_out else text,
        task="" if held_out else task.id,
        split=task.split,
        added=hit.added,
    )
