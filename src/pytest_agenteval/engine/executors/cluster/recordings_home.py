"""What actors have recorded, on its way into the cassettes of the project."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.cassettes import files
from pytest_agenteval.cassettes.interaction import Body, Interaction
from pytest_agenteval.cassettes.request_identity import Key, key_of
from pytest_agenteval.processes.files import locked
from pytest_agenteval.text.errors import Problem, ProblemsFound


class RecordingsHome:
    """Adds to each cassette what actors have recorded into theirs, as soon as a trial has ended.

    Of equal requests as many are kept as one actor has made, as between processes of one machine: the answers
    that came first. Where several actors have recorded into one file, what is new in it is put into one order
    at the end, whoever came first.
    """

    def __init__(self, root: Path, started: float | None) -> None:
        self._root, self._started = root, started or 0.0
        self._before: dict[str, int] = {}
        self._actors: defaultdict[str, set[int]] = defaultdict(set)
        self._dropped: defaultdict[str, set[Key]] = defaultdict(set)
        self.problems: list[Problem] = []

    def take(self, actor: int, name: str, content: bytes, *, replacing: bool) -> None:
        """Add what an actor's file holds; ``replacing``, what was there before the run is dropped."""
        try:
            self._add(actor, name, _recording(name, content), replacing)
        except ProblemsFound as broken:
            self.problems += broken.problems

    def _add(self, actor: int, name: str, recording: files.Recording, replacing: bool) -> None:
        path, theirs = self._root / name, recording.interactions
        if name not in self._before:
            before = files.read(path, name)
            self._before[name] = (
                0 if replacing and not before.since(self._started) else len(before.interactions)
            )
        files.save(
            path,
            theirs,
            name=name,
            since=self._started if replacing else None,
            started=self._started,
            unfinished=recording.unfinished,
        )
        self._actors[name].add(actor)
        kept = set(map(_answered, files.read(path, name).interactions))
        self._dropped[name] |= {key_of(each.request) for each in theirs if _answered(each) not in kept}

    def finish(self) -> Iterator[str]:
        """Put what several have recorded into one order; say where answers to one request differed."""
        for name, actors in sorted(self._actors.items()):
            if len(actors) > 1:
                self._sort(name)
        for name, dropped in sorted(self._dropped.items()):
            if dropped:
                calls = f"{len(dropped)} recorded call{'' if len(dropped) == 1 else 's'}"
                yield f"{name}: actors have other answers to {calls}; those that came first are kept"

    def _sort(self, name: str) -> None:
        path, old = self._root / name, self._before[name]
        try:
            with locked(path):
                recording = files.read(path, name)
                new = sorted(recording.interactions[old:], key=_place)
                interactions = (*recording.interactions[:old], *new)
                files.write(path, files.Recording(interactions, recording.header, recording.rest), name)
        except (OSError, ProblemsFound) as broken:
            self.problems.append(Problem(name, None, (), "a file that can be written", str(broken)))


def _answered(interaction: Interaction) -> tuple[Key, int, Body]:
    return key_of(interaction.request), interaction.response.status, interaction.response.body


def _place(interaction: Interaction) -> tuple[tuple[int | str, ...], ...]:
    """Say where an interaction stands: by repetition and number of the ask, then by what was asked."""
    request = interaction.request
    steps = request.uri.split("/")
    return tuple(
        (0, int(step), "") if step.isdecimal() else (1, 0, step) for step in [*steps, str(request.body)]
    )


def _recording(name: str, content: bytes) -> files.Recording:
    with tempfile.TemporaryDirectory(prefix="agenteval-") as folder:
        beside = Path(folder, Path(name).name)
        beside.write_bytes(content)
        return files.read(beside, name)
