"""How files of a run are written and read: whole or not at all, and line by line with checksums."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple

from pytest_agenteval.processes.files import APPEND, make_pointer, replace_pointer, replacing
from pytest_agenteval.records.record import Amount, Count
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.json_values import compact_json, encoder_fallback, jsonable


def replace_json(path: Path, value: object) -> None:
    replace_text(path, compact_json(value) + "\n")


def replace_text(path: Path, text: str) -> None:
    with replacing(path) as beside:
        # UTF-8 cannot encode half a surrogate pair, which texts of models may hold.
        beside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def replace_link(path: Path, target: str) -> None:
    """Create a relative link; where links cannot be made, a file with the target as its text."""
    with replacing(path, replace_pointer) as beside:
        make_pointer(beside, target)


class AppendedFile:
    """A file of lines for one writer, opened when it is first written to.

    If a crash or a full disk left half a line, the next write starts on a new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._torn = False

    def append(self, data: bytes) -> int:
        """Add data in one write and return the offset at which it begins.

        The offset comes from the system after the write: counting would be wrong if another process wrote
        too.
        """
        fd = self._open() if self._fd is None else self._fd
        if self._torn:
            os.write(fd, b"\n")
        # It stays true if the write raises halfway.
        self._torn = True
        count = os.write(fd, data)
        # A nearly full disk takes only a part: go on until the system raises an error.
        while count < len(data):
            count += os.write(fd, data[count:])
        self._torn = False
        return os.lseek(fd, 0, os.SEEK_CUR) - len(data)

    def close(self) -> None:
        """Close the file if it is open; a later write opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        fd = self._fd = os.open(self.path, APPEND, 0o644)
        end = os.lseek(fd, 0, os.SEEK_END)
        if end:
            os.lseek(fd, end - 1, os.SEEK_SET)
            # A process that was killed before may have left half a line.
            self._torn = os.read(fd, 1) != b"\n"
        return fd


VERSION = 1

Line = dict[str, Any]
_encode = msgspec.json.Encoder(enc_hook=encoder_fallback).encode
_decode = msgspec.json.Decoder().decode


def encode_line(line: Line) -> bytes:
    """Encode one line; half a surrogate pair, which UTF-8 does not know, becomes its JSON escape."""
    try:
        # Seven times as quick as the standard library's encoder, and every trial writes three lines.
        text = _encode(line)
        # msgspec also writes null for infinity, which the standard library refuses: then it raises here.
        if b"null" in text:
            compact_json(line)
        return text + b"\n"
    # Infinity, keys that are not texts, half surrogate pairs, and values that contain themselves.
    except (TypeError, ValueError, RecursionError):
        return compact_json(jsonable(line)).encode("utf-8", "backslashreplace") + b"\n"


CHECKSUM = b',"crc":"'
CHECKSUM_BYTES = len(b',"crc":"01234567"}')


def add_checksum(raw: bytes) -> bytes:
    """Add the CRC-32 of all bytes of an encoded line to it, as its last key."""
    # Without the closing brace and the line break.
    body = raw[:-2]
    return b'%b%b%08x"}\n' % (body, CHECKSUM, zlib.crc32(body))


def is_intact(raw: bytes) -> bool | None:
    """Whether a line is as it was written; None if it has no checksum, as in earlier versions."""
    line = raw.rstrip(b"\r\n")
    body, end = line[:-CHECKSUM_BYTES], line[-CHECKSUM_BYTES:]
    return end[8:] == b'%08x"}' % zlib.crc32(body) if end.startswith(CHECKSUM) else None


def are_all_intact(raws: Sequence[bytes]) -> bool:
    """Whether each of these lines is whole and has its right checksum: quicker than one at a time."""
    end = CHECKSUM_BYTES + 1
    return all(raw[-end:] == b'%b%08x"}\n' % (CHECKSUM, zlib.crc32(raw[:-end])) for raw in raws)


def has_checksums(path: Path) -> bool:
    """Whether the lines of a file have checksums, as the first one shows; an empty file counts as sound."""
    with path.open("rb") as file:
        first = file.readline()
    return not first or is_intact(first) is not None


DAMAGED = "damaged since it was written, as its checksum shows; `--agent-resume` runs its trial again"


def read_intact_line(raw: bytes) -> Any:
    """Read a line as ``read_line`` does; also raises ValueError if its checksum is wrong."""
    if is_intact(raw) is False:
        raise ValueError(DAMAGED)
    return read_line(raw)


def read_line(raw: bytes) -> Any:
    """Read what ``encode_line`` wrote; raises ValueError for what is not JSON."""
    try:
        return _decode(raw)
    # Before msgspec 0.21 its DecodeError was not a ValueError.
    except (ValueError, msgspec.DecodeError):
        # msgspec refuses half a surrogate pair; the slower decoder reads it, and no trial is lost.
        return json.loads(raw)


def check_version(line: Mapping[str, Any], where: object) -> None:
    """Refuse what a newer version of this package wrote: guessing at it would give wrong figures."""
    version = line.get("v", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise UsageMistake(
            f"{where}: written in format {version!r}, and this pytest-agenteval knows none above {VERSION}: "
            "upgrade pytest-agenteval to read it"
        )


def present(**values: Any) -> Line:
    """Give the values that are not empty, 0, false or None."""
    return {name: value for name, value in values.items() if value}


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def last_lines(text: str, most: int) -> str:
    """Return the end of a text, from the beginning of a line if one fits into ``most``."""
    if len(text) <= most:
        return text
    end = text[-most:]
    cut, _, whole = end.rstrip("\n").partition("\n")
    return end[len(cut) + 1 :] if whole else end


def if_too_long(text: str, most: int) -> str:
    """Return the text if ``shorten`` would cut it, else nothing."""
    return text if len(text) > most else ""


class UsageLine(msgspec.Struct, frozen=True, gc=False):
    """Usage as a line has it, in the order of ``Usage``: what is 0 is left out, what is unknown is null."""

    # Older versions could write counts below 0.
    input_tokens: int | None = msgspec.field(default=0, name="in")
    output_tokens: int | None = msgspec.field(default=0, name="out")
    cached: int | None = 0
    reasoning: int | None = 0
    cost_usd: Amount | None = 0.0
    asks: Count | None = 0
    attempts: Count | None = 0
    partial_tokens: Count = 0
    partial_cost_usd: Amount = 0.0

    @property
    def usage(self) -> Usage:
        counts = (self.input_tokens, self.output_tokens, self.cached, self.reasoning)
        # In a sum, a count below 0 would take tokens off other trials.
        if min([count or 0 for count in counts]) < 0:
            return Usage(None, None, None, None, None, self.asks, self.attempts)
        return Usage(
            *counts, self.cost_usd, self.asks, self.attempts, self.partial_tokens, self.partial_cost_usd
        )


_USAGE_KEYS = tuple(field.encode_name for field in msgspec.structs.fields(UsageLine))


def usage_line(used: Usage) -> Line:
    return {key: figure for key, figure in zip(_USAGE_KEYS, astuple(used), strict=True) if figure != 0}
