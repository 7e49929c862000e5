"""Trials as the page keeps them: a few together, compressed, and decoded when one of them is opened."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any

import msgspec
from msgspec.structs import replace

from pytest_agenteval.reports.html.index import TrialRow, page_json
from pytest_agenteval.reports.html.index_making import TrialSource
from pytest_agenteval.reports.trial.trial_view import TrialView, judges_disagree, trial_view
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.json_form import stand_in
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

MOST_TRIALS = 10
MOST_BYTES = 256 * 1024
"""Bytes of JSON from which on a chunk is full: one is decoded in some hundredths of a second."""

MOST_IN_FILE = 100_000_000
"""Bytes of chunks from which on trials that passed are left out: browsers open larger files, but slowly."""

MOST_TEXT = 200_000
"""Characters of one text."""

LARGEST = 2**53 - 1
"""The largest whole number that browsers tell from its neighbours."""

GZIP = 31
"""zlib's word for gzip, whose header is then without a date: the same run gives the same file."""


class ChunkWriter:
    """Writes trials as chunks, and says in which each of them is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting: list[bytes] = []
        self._chunk = 0
        self.bytes = 0

    def add(self, document: bytes) -> tuple[int, int]:
        """Take a trial's JSON; gives its chunk, and its place in there."""
        full = len(self._waiting) >= MOST_TRIALS or sum(map(len, self._waiting)) >= MOST_BYTES
        if full:
            self.flush()
        self._waiting.append(document)
        return self._chunk, len(self._waiting) - 1

    def flush(self) -> None:
        """Write what waits as one chunk."""
        if self._waiting:
            packed = base64.b64encode(_gzip(b"[" + b",".join(self._waiting) + b"]"))
            head = f'<script type="text/plain" class="chunk" id="c{self._chunk}">'.encode()
            self._file.write(head + packed + b"</script>\n")
            self.bytes += len(packed)
            self._waiting.clear()
            self._chunk += 1


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    return packer.compress(data) + packer.flush()


def write_chunks(
    file: IO[bytes], rows: list[TrialRow], sources: Sequence[TrialSource]
) -> tuple[list[TrialRow], str]:
    """Write the trials; gives the rows with their places, and a sentence where trials were left out.

    Trials that did not pass come first: they stay, however large the file becomes. One transcript at a time
    is in memory, beside the chunk that is being filled.
    """
    writer = ChunkWriter(file)
    index_rows, left_out, unreadable = list(rows), 0, 0
    for at in sorted(range(len(rows)), key=lambda at: rows[at].ending == "passed"):
        source = sources[at]
        if source.run is None:
            continue
        trial = source.run.trial_if_readable(source.entry)
        if trial is None:
            unreadable += 1
            continue
        index_rows[at] = replace(rows[at], disagree=judges_disagree(trial.grades))
        if rows[at].ending == "passed" and writer.bytes >= MOST_IN_FILE:
            left_out += 1
            continue
        chunk, place = writer.add(document_of(trial_view(trial)))
        index_rows[at] = replace(index_rows[at], chunk=chunk, at=place)
    writer.flush()
    return index_rows, " ".join(_left_out(left_out, unreadable))


def _left_out(passed: int, unreadable: int) -> Iterator[str]:
    if passed:
        yield (
            f"The transcripts of {pluralize(passed, 'trial')} that passed are not in this file, which would "
            "be larger than 100 MB: agenteval show opens them."
        )
    if unreadable:
        yield f"The transcripts of {pluralize(unreadable, 'trial')} cannot be read."


def document_of(view: TrialView) -> bytes:
    """Give a trial as JSON, without secrets, with texts of at most ``MOST_TEXT`` characters."""
    return page_json(_bounded(KNOWN_SECRETS.value(msgspec.to_builtins(view, enc_hook=stand_in))))


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(value) if len(value) > MOST_TEXT else value
    if isinstance(value, dict):
        return {key: _bounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_bounded(inner) for inner in value]
    # A browser reads larger numbers as the next one that it knows: an id of 64 bits would be another's.
    return str(value) if isinstance(value, int) and abs(value) > LARGEST else value


def _cut(text: str) -> str:
    half = MOST_TEXT // 2
    between = f"\n\n… {len(text) - 2 * half:,} characters are left out here: agenteval show --full …\n\n"
    return text[:half] + between + text[-half:]
