"""Cassette files on disk, in vcrpy's format: a save never loses what others saved.

What our own reader refuses and vcrpy may have written is read by vcrpy's own deserialiser, loaded only then.
Its releases, and the clients it records, differ in a file-like or iterated body (a Python tag), in a map for
what aiohttp sent, and in httpx's responses before vcrpy 6. vcrpy's loader makes plain values: no tag runs
code.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_agenteval.cassettes.cassette_format import (
    CassetteFormatError,
    file_problem,
    interactions_in,
    json_text,
    line_of,
    parse_text,
    yaml_text,
)
from pytest_agenteval.cassettes.interaction import NOTHING, Interaction
from pytest_agenteval.cassettes.request_matching import RequestKey, key_of
from pytest_agenteval.processes.files import file_lock, replacing
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake
from pytest_agenteval.text.json_values import compact_json


def _read_with_vcrpy(text: str, is_json: bool) -> Mapping[str, Any]:
    """Give the content of a cassette of vcrpy's in the form that our own reader takes; may raise anything."""
    # Not at the top: vcrpy imports every HTTP library that it finds, a quarter of a second for each process.
    import vcr
    from vcr.serialize import deserialize

    requests, responses, *_ = deserialize(text, vcr.VCR().serializers["json" if is_json else "yaml"])
    interactions = []
    for request, response in zip(requests, responses, strict=True):
        plain = {
            "method": request.method,
            "uri": request.uri,
            "body": _request_body(request.body),
            "headers": dict(request.headers),
        }
        # vcrpy 4 and 5 wrote httpx's responses in this form.
        if "status_code" in response:
            response = {
                "status": {"code": response["status_code"], "message": ""},
                "headers": response.get("headers"),
                "body": {"string": response.get("content")},
            }
        interactions.append({"request": plain, "response": response})
    return {"interactions": interactions}


def _request_body(body: Any) -> Any:
    if hasattr(body, "read"):
        return body.read()
    if isinstance(body, Mapping):
        # vcrpy stores aiohttp's ``json`` and ``data`` alike, as the map that was given.
        return compact_json(dict(body))
    if body is None or isinstance(body, str | bytes):
        return body
    return b"".join(part.encode() if isinstance(part, str) else part for part in body)


YAML, JSON = (".yaml", ".yml"), (".json",)
UNFINISHED = "unfinished"
_HEADER = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*(?:[ \t]*#[^\n]*\Z)?")


@dataclass(frozen=True, slots=True)
class CassetteContent:
    """What a file holds; ``header`` are the comment lines at its top, ``rest`` keys that are not ours.

    A file that is missing, or has nothing but comments, is not ``there``. One is ``unfinished`` where a trial
    that recorded into it broke.
    """

    interactions: tuple[Interaction, ...] = ()
    header: str = ""
    rest: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    there: bool = False
    modified_at: float = 0.0

    @property
    def unfinished(self) -> bool:
        return bool(self.rest.get(UNFINISHED))

    def since(self, started: float) -> bool:
        """Was the file written by the run that began then, in seconds since 1970?"""
        return self.there and self.modified_at >= started


def read_cassette(path: Path, name: str = "") -> CassetteContent:
    """Read a file; ``name`` is what problems call it."""
    name = name or str(path)
    _check_suffix(path, name)
    try:
        modified_at, raw = path.stat().st_mtime, path.read_bytes()
    except FileNotFoundError:
        return CassetteContent()
    except OSError as why:
        raise file_problem(name, None, (), "a file that can be read", str(why)) from None
    # Editors on Windows put a byte order mark before the text.
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as why:
        line = raw.count(b"\n", 0, why.start) + 1
        raise file_problem(name, line, (), "text in UTF-8", f"the byte 0x{raw[why.start]:02x}") from None
    comments = None if path.suffix in JSON else _HEADER.match(text)
    header = comments[0].replace("\r\n", "\n") if comments else ""
    # As with vcrpy, a file without content is recorded anew; its comments stay.
    if not text[len(header) :].strip():
        return CassetteContent(header=header)
    data, interactions = _content(text, path.suffix in JSON, name)
    rest = {key: value for key, value in data.items() if key not in ("interactions", "version")}
    return CassetteContent(interactions, header, rest, there=True, modified_at=modified_at)


def _content(text: str, is_json: bool, name: str) -> tuple[Mapping[str, Any], tuple[Interaction, ...]]:
    """Read a file's text as we write it, else as vcrpy does; problems are those of our own reader."""
    try:
        data = parse_text(text, is_json, name)
        try:
            return data, interactions_in(data)
        except CassetteFormatError as wrong:
            line = line_of(text, wrong.path)
            raise file_problem(name, line, wrong.path, wrong.expected, wrong.found, wrong.hint) from None
    except ProblemsFound as problems:
        # vcrpy records neither tool calls nor chats, so it is not loaded for a mistake in a file of ours.
        ours = "tool://" in text or "chat://" in text
        if ours or "request" not in text or "response" not in text:
            raise
        try:
            data = _read_with_vcrpy(text, is_json)
            return data, interactions_in(data)
        # The file may be anything, and vcrpy's deserialiser may raise anything.
        except Exception:
            raise problems from None


def write_cassette(path: Path, recording: CassetteContent, name: str = "") -> None:
    """Replace a file as a whole: who reads it meanwhile, or after a crash, finds the old or the new one."""
    name = name or str(path)
    _check_suffix(path, name)
    try:
        if path.suffix in JSON:
            text = json_text(recording.interactions, recording.rest)
        else:
            text = yaml_text(recording.interactions, recording.header, recording.rest)
    except CassetteFormatError as wrong:
        raise file_problem(name, None, wrong.path, wrong.expected, wrong.found, wrong.hint) from None
    # A link stays a link: the file that it leads to is replaced.
    target = Path(os.path.realpath(path))
    with replacing(target) as beside:
        with beside.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            # Before it is renamed: after a power cut the new name could stand for an empty file.
            os.fsync(file.fileno())
        # A file that others may read stays readable for them.
        if target.exists():
            shutil.copymode(target, beside)
        # The time is ours: clocks of file systems run late, and ``since`` compares with when a run began.
        os.utime(beside, ns=(time.time_ns(),) * 2)


def save_cassette(
    path: Path,
    ours: Iterable[Interaction],
    *,
    name: str = "",
    since: float | None = None,
    started: float = 0.0,
    unfinished: bool = False,
    clean: Callable[[Interaction], Interaction | None] = lambda interaction: interaction,
) -> None:
    """Add what the file does not hold yet, while no other process writes it.

    With ``since``, what the file held before that time is dropped. ``clean`` redacts what the file held, and
    gives None for what is dropped. The file is marked as unfinished if the caller says so, or if a process
    of the same run, which began at ``started``, has marked it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path):
            # Read again: another worker may have saved into the file since this process opened it.
            before = read_cassette(path, name)
            stale = since is not None and not before.since(since)
            # Cassettes that vcrpy or an earlier version wrote may hold secrets: they go with the first save.
            cleaned = [] if stale else map(clean, before.interactions)
            previous = [interaction for interaction in cleaned if interaction is not None]
            rest = {key: value for key, value in before.rest.items() if key != UNFINISHED}
            if unfinished or (before.unfinished and before.since(started)):
                rest[UNFINISHED] = True
            write_cassette(
                path, CassetteContent(tuple(merge_interactions(previous, ours)), before.header, rest), name
            )
    except OSError as why:
        raise file_problem(name or str(path), None, (), "a file that can be written", str(why)) from None


def merge_interactions(previous: Iterable[Interaction], ours: Iterable[Interaction]) -> list[Interaction]:
    """Add our interactions to the previous ones.

    An equal request is added only as many times as we hold it more often than the previous ones do.
    """
    together = list(previous)
    held: Counter[RequestKey] = Counter(key_of(interaction.request) for interaction in together)
    seen: Counter[RequestKey] = Counter()
    for interaction in ours:
        key = key_of(interaction.request)
        seen[key] += 1
        if seen[key] > held[key]:
            together.append(interaction)
    return together


def _check_suffix(path: Path, name: str) -> None:
    if path.suffix not in (*YAML, *JSON):
        raise UsageMistake(f"{name}: a cassette's name ends in .yaml, .yml or .json")
