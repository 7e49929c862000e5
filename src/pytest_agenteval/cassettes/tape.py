"""Tapes: what one trial replays and records, what it reports as missing, and the library that opens them."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from pytest_agenteval.cassettes.cassette import Cassette, RecordMode, TapeKind
from pytest_agenteval.cassettes.cassette_files import JSON, YAML
from pytest_agenteval.cassettes.interaction import (
    CHAT,
    TOOL,
    Interaction,
    Request,
    Response,
    chat_place,
    text_of,
    tool_call,
)
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.request_matching import (
    CallMatcher,
    InteractionSlot,
    RequestKey,
    address_of,
    json_body,
    key_of,
    request_parameters,
)
from pytest_agenteval.text.errors import CassetteMiss, Problem, ProblemsFound, UsageMistake
from pytest_agenteval.text.formatting import few_names, pluralize
from pytest_agenteval.text.json_values import json_equal

LONGEST, COMPARED = 60, 200
_NONE = object()


def describe_request(request: Request) -> str:
    """Name a request in a reader's words: ``search(keyword='x')``, ``agent asks gpt…``."""
    if request.uri.startswith(CHAT):
        role, model, repetition, ask = chat_place(request)
        return f"{role} asks {model} (repetition {repetition}, ask {ask})"
    args = ", ".join(f"{name}={_short(value)}" for name, value in request_parameters(request).items())
    return f"{_address(request)}({args})"


def nearest_recording(missed: Request, same: int, recorded: Sequence[Request]) -> str:
    """Say what the cassette holds instead; ``same`` counts recordings of this very request, all played."""
    nouns = {CHAT: ("ask", "role"), TOOL: ("call", "tool")}
    noun, place = nouns.get(_scheme(missed), ("request", "address"))
    if same:
        return f"{pluralize(same, 'recording')} of this {noun}, replayed already"
    if not recorded:
        return "no recordings at all"
    alike = [request for request in recorded if _address(request) == _address(missed)]
    if not alike:
        of_kind = [each for each in recorded if (_scheme(each) == CHAT) == (_scheme(missed) == CHAT)]
        others = few_names(sorted(set(map(_address, of_kind))), 5) or "(none)"
        return f"no {noun} of this {place}; recorded are: {others}"
    parameters = _parameters(missed)
    apart = [list(_differences(parameters, _parameters(request))) for request in alike]
    fewest = min(map(len, apart))
    # The nearest request has the fewest differing arguments; of several, the one with the most similar text.
    # Comparing texts is slow, so only some of them are compared.
    ties = [at for at, differences in enumerate(apart) if len(differences) == fewest]
    nearest = max(ties[:COMPARED], key=lambda at: _similarity(missed, alike[at]))
    differs = ", ".join(apart[nearest]) or "parts that are not shown here"
    return f"{pluralize(len(alike), noun)} of this {place}; the nearest differs in {differs}"


def _similarity(missed: Request, request: Request) -> float:
    ours, theirs = (text_of(side.body)[:500] + side.uri for side in (missed, request))
    return SequenceMatcher(None, ours, theirs, autojunk=False).ratio()


def _differences(ours: Any, theirs: Any, name: str = "") -> Iterable[str]:
    """Give the places that differ, those of ``ours`` first, each with what is recorded there.

    Of a list it is the first item that differs, and of that the first place.
    """
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in [*ours, *(key for key in theirs if key not in ours)]:
            below = f"{name}.{key}" if name else str(key)
            yield from _differences(ours.get(key, _NONE), theirs.get(key, _NONE), below)
    elif isinstance(ours, list) and isinstance(theirs, list):
        pairs = enumerate(zip(ours, theirs, strict=False))
        different = (next(iter(_differences(*both, f"{name}[{at}]")), "") for at, both in pairs)
        if first := next(filter(None, different), ""):
            yield first
        elif len(ours) != len(theirs):
            yield f"{name}: {len(theirs)} of them, not {len(ours)}"
    # As a look-up of a recording compares: ``1`` is not ``true``.
    elif ours is not theirs and (_NONE in (ours, theirs) or not json_equal(ours, theirs)):
        yield f"{name}: {'(not given)' if theirs is _NONE else _short(theirs)}"


def _scheme(request: Request) -> str:
    return next((scheme for scheme in (CHAT, TOOL) if request.uri.startswith(scheme)), "")


def _address(request: Request) -> str:
    if request.uri.startswith(CHAT):
        return chat_place(request)[0]
    return tool_call(request)[0] if request.uri.startswith(TOOL) else " ".join(address_of(request))


def _parameters(request: Request) -> Mapping[str, Any]:
    """Give what may differ between two requests of one tool, role or address."""
    if not request.uri.startswith(CHAT):
        return request_parameters(request)
    _, model, repetition, ask = chat_place(request)
    return {"alias": model, "repetition": int(repetition), "ask": int(ask), **json_body(request)}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


class Tape:
    """Plays and records for one trial; calls may come from several threads at once.

    ``play`` gives None where nothing recorded answers. If ``recording``, send the request and ``record`` the
    response; else it is a miss. Identical requests play their recordings in the order of recording.
    Beyond the last one, a replay of tools plays the last one again, and one of chats misses;
    while recording, a request made more often than it was recorded is new, and is recorded.

    ``hits`` counts requests played, ``misses`` those that were neither played nor could be recorded,
    ``recorded`` those recorded, also where another trial had recorded an equal one first.
    """

    def __init__(self, cassette: Cassette) -> None:
        self.cassette = cassette
        self.hits = self.misses = self.recorded = 0
        self._played: set[InteractionSlot] = set()
        self._next: dict[RequestKey, int] = defaultdict(int)

    @property
    def recording(self) -> bool:
        """May a request that was not played be sent and recorded?"""
        return self.cassette.recording

    def play(self, request: Request) -> Response | None:
        """Give the recorded response to an equal request, or None, which is counted as a miss."""
        interaction = self.find((request,))
        if interaction is None:
            self.missed()
        return interaction.response if interaction else None

    def find(self, ways: Sequence[Request], matcher: CallMatcher | None = None) -> Interaction | None:
        """Play what answers one request, written in several ways; None, which is not counted, if nothing.

        A recording equal to one of the ways comes first, then one that ``matcher`` takes for the same call.
        """
        # Recorded requests are redacted too: only so does a request with a secret in it meet its recording.
        redacted_ways = [self.cassette.redactor.request(way) for way in ways]
        with self.cassette.lock:
            if not self.cassette.plays:
                return None
            slots = (self._find_equal(key_of(way)) for way in redacted_ways)
            slot = next((slot for slot in slots if slot is not None), None)
            if slot is None and matcher is not None:
                slot = self._find_accepted(redacted_ways[0], matcher)
            return None if slot is None else self._use(slot)

    def _use(self, slot: InteractionSlot) -> Interaction:
        self.hits += 1
        self._played.add(slot)
        return self.cassette.use(slot)

    def find_next(self, accepts: Callable[[Request], bool]) -> Interaction | None:
        """Play the first recording, in the order of the file, that is accepted and was not played; or None.

        None is not counted. What was played once is not played again.
        """
        with self.cassette.lock:
            if not self.cassette.plays:
                return None
            for slot, recorded in enumerate(self.cassette.requests):
                if slot not in self._played and accepts(recorded):
                    return self._use(slot)
            return None

    def find_nearest(self, nearness: Callable[[Request], float | None]) -> Interaction | None:
        """Play the nearest recording that was not played, of several the first in the file; or None.

        ``nearness`` gives None for one that is no answer at all. Not counted, and played once, as above.
        """
        with self.cassette.lock:
            if not self.cassette.plays:
                return None
            requests = enumerate(self.cassette.requests)
            near = {slot: nearness(recorded) for slot, recorded in requests if slot not in self._played}
            known = {slot: each for slot, each in near.items() if each is not None}
            return self._use(max(known, key=lambda slot: known[slot])) if known else None

    def missed(self) -> None:
        """Count a request that nothing answered; no miss if it may be sent and recorded."""
        with self.cassette.lock:
            self.misses += not self.recording

    def record(self, request: Request, response: Response) -> None:
        """Store a response that was really given.

        Of equal requests only as many are stored as one trial made: the third is stored if two are held.
        """
        if not self.recording:
            raise RuntimeError(f"{self.cassette.name} is open for replay only: {describe_request(request)}")
        redacted = self.cassette.redactor.request(request)
        given = self.cassette.redactor.response(response)
        with self.cassette.lock:
            # Another trial may have recorded the same request meanwhile: its recording serves both.
            slot = self._unplayed(key_of(redacted))
            if slot is None:
                slot = self.cassette.add(Interaction(redacted, given))
            self.cassette.use(slot)
            self._played.add(slot)
            self.recorded += 1

    def miss(
        self,
        request: Request,
        retry_command: str,
        recorded: Sequence[Request] | None = None,
        *,
        other_way: str = "",
        found: str = "",
    ) -> CassetteMiss:
        """Make the error that names the nearest recording and the command that records this request.

        ``recorded`` are the requests that it might have been, if they are not just those of the cassette.
        ``found`` is what the cassette holds instead, if that is known already.
        ``other_way`` is what else can be done; without a command, the only thing.
        """
        redacted = self.cassette.redactor.request(request)
        with self.cassette.lock:
            same = len(self.cassette.recorded.by_request(key_of(redacted)))
        others = self.cassette.requests if recorded is None else recorded
        nearest = found or nearest_recording(redacted, same, others)
        what = "reply" if self.cassette.kind == "chat" else "call"
        mode = self.cassette.mode
        mode_text = "replay" if mode == "none" else f"{mode}, and the file already exists"
        expected = f"a recorded {what} (mode is {mode_text}: nothing is sent)"
        ways = [f"record it:  {retry_command}" if retry_command else "", other_way]
        hint = f"\n{' ' * 12}".join(filter(None, ways))
        return CassetteMiss(
            Problem(self.cassette.name, None, (describe_request(redacted),), expected, nearest, hint)
        )

    def _find_equal(self, key: RequestKey) -> InteractionSlot | None:
        same = self.cassette.recorded.by_request(key)
        slot = self._unplayed(key)
        return same[-1] if slot is None and same and self._repeats else slot

    @property
    def _repeats(self) -> bool:
        return self.cassette.kind == "tool" and not self.recording

    def _unplayed(self, key: RequestKey) -> InteractionSlot | None:
        """Give the first equal request that this tape has not played; never walks over one twice."""
        same, at = self.cassette.recorded.by_request(key), self._next[key]
        while at < len(same) and same[at] in self._played:
            at += 1
        self._next[key] = at
        return same[at] if at < len(same) else None

    def _find_accepted(self, request: Request, matcher: CallMatcher) -> InteractionSlot | None:
        """Prefer the nearest call: the same question gets the same answer again."""
        args = matcher.read(request)
        if args is None:
            return None
        index = self.cassette.recorded.by_call(matcher)
        open_ = [slot for slot in index.candidates(args) if self._repeats or slot not in self._played]
        accepted = [slot for slot in open_ if matcher.matchers.accepts(index.args(slot), args)]
        if len(accepted) < 2:
            return accepted[0] if accepted else None

        def rank(slot: InteractionSlot) -> tuple[object, ...]:
            # Of calls as near as each other, the first not yet played, else the last one again.
            unplayed = slot not in self._played
            nearness = matcher.matchers.nearness(index.args(slot), args)
            return (*nearness, unplayed, -slot if unplayed else slot)

        return max(accepted, key=rank)


class Library:
    """Opens tapes and saves what they recorded.

    ``root`` is the folder that names in messages are relative to. ``started`` is when the whole run began, in
    seconds since 1970; workers are given the controller's, and so tell each other's recordings from old ones.
    """

    def __init__(
        self, root: Path | None = None, *, redactor: Redactor | None = None, started: float | None = None
    ) -> None:
        self._root = (root or Path.cwd()).resolve()
        self._redactor = redactor or Redactor.from_environ()
        self._started = time.time() if started is None else started
        self._open: dict[Path, Cassette] = {}
        self._shared: dict[Path, Cassette] = {}
        self._lock = threading.Lock()

    @property
    def cassettes(self) -> tuple[Cassette, ...]:
        """All cassettes opened so far, without the shared ones: into those nothing is recorded."""
        with self._lock:
            return tuple(self._open.values())

    def open(self, path: Path, mode: RecordMode, kind: TapeKind) -> Tape:
        """Give a trial its own tape of a file; a file has one mode and one kind in a run."""
        whole = self._whole(path)
        with self._lock:
            held = self._open.get(whole)
            if held is None:
                name = self._name(whole)
                held = Cassette(whole, mode, kind, name=name, redactor=self._redactor, started=self._started)
                self._open[whole] = held
        if (held.mode, held.kind) != (mode, kind):
            was, now = f"{held.kind} cassette in mode {held.mode}", f"{kind} cassette in mode {mode}"
            raise UsageMistake(f"{held.name} is open as a {was}; it cannot be a {now} too")
        return Tape(held)

    def open_shared(self, path: Path, tool: str) -> Tape | None:
        """Give a trial its own tape of a cassette that tasks share; nothing is ever recorded into it.

        The path is a file, or a folder that holds a file for each tool, ``TOOL.json`` or ``TOOL.yaml``: then
        None says that it holds none for this tool. A file is read at first use.
        """
        whole = self._place(path, tool)
        if whole is None:
            return None
        with self._lock:
            held = self._shared.get(whole)
            if held is None:
                name = self._name(whole)
                held = Cassette(whole, "none", "tool", name=name, redactor=self._redactor)
                self._shared[whole] = held
        return Tape(held)

    def save(self, paths: Iterable[Path] | None = None) -> tuple[Path, ...]:
        """Save those of all, or of these, cassettes that hold something new; give their paths.

        Every cassette is tried before ProblemsFound is raised for those that could not be saved.
        """
        saved: list[Path] = []
        problems: list[Problem] = []
        for cassette in self.cassettes if paths is None else self.cassettes_at(paths):
            try:
                if cassette.save():
                    saved.append(cassette.path)
            except ProblemsFound as error:
                problems += error.problems
        if problems:
            raise ProblemsFound(problems)
        return tuple(saved)

    def note_trial(self, paths: Iterable[Path], trial: str, *, broken: bool) -> None:
        for cassette in self.cassettes_at(paths):
            cassette.note_trial(trial, broken=broken)

    def cassettes_at(self, paths: Iterable[Path]) -> list[Cassette]:
        """Give those of these cassettes that have been opened."""
        return [self._open[whole] for whole in map(self._whole, paths) if whole in self._open]

    def _whole(self, path: Path) -> Path:
        """Give where a file lies, with links followed: a file and a link to it are one cassette."""
        return Path(os.path.realpath(self._root / path))

    def _place(self, path: Path, tool: str) -> Path | None:
        """Find the file in which a shared path holds a tool's calls; None where it holds none.

        Raises UsageMistake where the path does not exist.
        """
        whole = self._whole(path)
        if not whole.exists():
            raise UsageMistake(
                f"there is no shared cassette {self._name(whole)}: a file, or a folder of them"
            )
        named = [whole / f"{tool.replace('/', '_')}{ending}" for ending in (*JSON, *YAML)]
        return whole if whole.is_file() else next((file for file in named if file.is_file()), None)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix() if path.is_relative_to(self._root) else str(path)
