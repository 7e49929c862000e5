"""A run read back: the last attempt of every trial at once, transcripts when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.processes.startup import garbage_collection_paused
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry, NotRunTrial, StartedAttempt
from pytest_agenteval.store.journal_reader import Journal
from pytest_agenteval.store.record_files import Line, check_version, has_checksums, read_intact_line
from pytest_agenteval.store.run_folder import (
    PLANNED,
    ROOT,
    PlannedGroup,
    RunHeader,
    damage_text,
    find_run,
    read_header_or_name,
    read_json,
    read_planned,
)
from pytest_agenteval.text.errors import TranscriptLost

if TYPE_CHECKING:
    from pytest_agenteval.store.rows import PandasFrame, PolarsFrame
    from pytest_agenteval.store.run_documents import SuiteLook
    from pytest_agenteval.store.transcript_reader import TextIndex

MOST_UNREADABLE = 10


class Run:
    """A stored run.

    ``entries`` and ``begun`` are sorted by key, so that they do not depend on who ran what. ``begun`` are
    attempts that never finished. ``odd`` says, by file and line, what could not be read and was left out:
    lines that a crash left half written, and whatever else is no line of a journal. ``looks`` say how it was
    decided how often suites are repeated; empty where that was fixed, and before it was decided. ``not_run``
    are trials that were held back and have no ending since, each with the reason.
    """

    def __init__(
        self,
        folder: Path,
        header: RunHeader,
        planned: tuple[PlannedGroup, ...],
        entries: tuple[JournalEntry, ...],
        begun: tuple[StartedAttempt, ...] = (),
        odd: tuple[str, ...] = (),
        looks: tuple[SuiteLook, ...] = (),
        not_run: tuple[NotRunTrial, ...] = (),
    ) -> None:
        self.folder, self.header, self.planned = folder, header, planned
        self.entries, self.begun, self.odd = entries, begun, odd
        self.looks, self.not_run = looks, not_run
        self._texts: TextIndex | None = None

    @property
    def name(self) -> str:
        """What the run is called: as its header says, else as its folder."""
        return self.header.name or self.folder.name

    @property
    def never_ended(self) -> str:
        """How many of the planned trials have no ending, in words; empty where all have one."""
        planned = sum(group.trials for group in self.planned)
        missing = planned - len(self.entries)
        return f"{missing} of {planned} planned trials never ended" if missing > 0 else ""

    @cached_property
    def lost(self) -> tuple[StartedAttempt, ...]:
        """Those of ``begun`` that ran in a process which has died, as an xdist worker does that crashed.

        One that ran in several is there as often. Of a run that has no end, nobody knows: it may still go on.
        """
        lost: list[StartedAttempt] = []
        unfinished = set(self.begun)
        for process in self.header.died:
            journal, path = Journal(), self.folder / f"journal-{process}.jsonl"
            if path.is_file():
                journal.read(path)
                journal.settle()
                lost += unfinished.intersection(journal.begun())
        return tuple(sorted(lost))

    @property
    def has_checksums(self) -> bool:
        """Whether damage to the journals would be noticed; those of earlier versions have no checksums."""
        return all(has_checksums(path) for path in self.folder.glob("journal-*.jsonl"))

    def rows(self, rows: str = "trials") -> Iterator[dict[str, Any]]:
        """Give one flat dict for each of the run's ``trials``, ``grades``, ``calls`` or ``messages``.

        ``runs`` gives one for the run itself. Each column has one type in every row, None where there is no
        value: docs/data.md lists them. Calls and messages are read from transcripts, one after the other; a
        transcript that cannot be read is left out, and named in ``odd``. Raises UsageMistake for rows of
        another name.
        """
        from pytest_agenteval.store.rows import row_kind

        kind = row_kind(rows)
        names = [column.name for column in kind.columns]
        return (dict(zip(names, row, strict=True)) for row in kind.rows([self]))

    def to_pandas(self, rows: str = "trials") -> PandasFrame:
        """Give the ``rows`` of this name as a data frame of pandas, with the same types for every run.

        Raises UsageMistake where pandas is not installed, which the extra ``[pandas]`` does.
        """
        from pytest_agenteval.store.rows import pandas_frame, row_kind

        kind = row_kind(rows)
        return pandas_frame(kind.columns, kind.rows([self]))

    def to_polars(self, rows: str = "trials") -> PolarsFrame:
        """Give the ``rows`` of this name as a data frame of polars, with the same types for every run.

        Raises UsageMistake where polars is not installed, which the extra ``[polars]`` does.
        """
        from pytest_agenteval.store.rows import polars_frame, row_kind

        kind = row_kind(rows)
        return polars_frame(kind.columns, kind.rows([self]))

    def trial(self, entry: JournalEntry) -> Trial:
        """Read the whole record of a trial.

        Raises TranscriptLost where the transcript is not what the journal says: a file was cut or exchanged.
        """
        from pytest_agenteval.store.transcript_reader import TextIndex, check_types, read_trial

        line = self._line(entry)
        check_version(line, self.folder / entry.location.file)
        self._texts = self._texts or TextIndex(self.folder)
        try:
            trial = read_trial(entry, line, self._texts.text)
            check_types(trial)
            return trial
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
            raise self._lost_transcript(entry, broken) from broken

    def trial_if_readable(self, entry: JournalEntry) -> Trial | None:
        """Read the whole record of a trial; where it cannot be read, say so in ``odd`` and give None."""
        try:
            return self.trial(entry)
        except TranscriptLost as lost:
            remark = f"{entry.key.label}: {str(lost).removeprefix(f'{self.folder}: ')}"
            if remark not in self.odd:
                self.odd = (*self.odd, remark)
            return None

    def _line(self, entry: JournalEntry) -> Line:
        file, offset, length = entry.location
        try:
            # Unbuffered: it is one look into a large file.
            with open(f"{self.folder}/{file}", "rb", buffering=0) as transcripts:
                transcripts.seek(offset)
                line = read_intact_line(transcripts.read(length))
            trial_key = tuple(line["trial"])
        except (OSError, ValueError, KeyError, TypeError) as broken:
            raise self._lost_transcript(entry, broken) from broken
        if trial_key != (*entry.key, entry.attempt):
            raise TranscriptLost(f"{self.folder}: {entry.location} holds the transcript of another trial")
        return dict(line)

    def _lost_transcript(self, entry: JournalEntry, broken: Exception) -> TranscriptLost:
        why = broken.strerror if isinstance(broken, OSError) else damage_text(broken)
        return TranscriptLost(f"{self.folder}: no transcript at {entry.location} ({why})")


def first_unreadable(problems: Sequence[str]) -> Iterator[str]:
    """Give the first few things that could not be read, and how many more there are."""
    yield from problems[:MOST_UNREADABLE]
    if len(problems) > MOST_UNREADABLE:
        yield f"and {len(problems) - MOST_UNREADABLE} more that could not be read"


def load_run(run: str | PathLike[str], results: str | PathLike[str] = ROOT) -> Run:
    """Read a stored run: a folder, or the name of one in ``results`` as ``agenteval report`` takes it.

    Names are ``latest``, ``MODEL@latest``, ``MODEL@YYYYMMDD`` and how a run's name begins; a path that is no
    text is a folder. Header, plan and journals are read as far as they can be, transcripts when they are
    asked for; ``Run.odd`` says what cannot be read. Raises UsageMistake where there is no run.
    """
    is_name = isinstance(run, str) and not Path(run).is_dir()
    folder = find_run(Path(results), str(run)) if is_name else Path(run)
    (header, header_problem), journal = read_header_or_name(folder), Journal()
    with garbage_collection_paused():
        for path in sorted(folder.glob("journal-*.jsonl")):
            journal.read(path)
        journal.settle()
        planned, plan_problem = _read_plan(folder / PLANNED)
        planned, looks, looks_problem = _after_looks(folder, header, planned)
        problems = (*filter(None, (header_problem, plan_problem, looks_problem)), *journal.odd)
        entries, unfinished, not_run = journal.entries(), journal.begun(), journal.not_run()
        return Run(folder, header, planned, entries, unfinished, problems, looks, not_run)


def _after_looks(
    folder: Path, header: RunHeader, planned: tuple[PlannedGroup, ...]
) -> tuple[tuple[PlannedGroup, ...], tuple[SuiteLook, ...], str]:
    """Give the plan as it is once it was decided who is repeated more often, and how that was decided."""
    if header.repetition_rule is None:
        return planned, (), ""
    from pytest_agenteval.store.run_documents import LOOKS, planned_after, read_extra, read_looks

    try:
        extra, looks = read_extra(folder), read_looks(folder)
    except (OSError, ValueError, LookupError, TypeError) as broken:
        return planned, (), f"{LOOKS}: left out: {damage_text(broken)}"
    if extra is None or looks is None:
        return planned, (), ""
    return planned_after(planned, extra, looks), looks, ""


def _read_plan(path: Path) -> tuple[tuple[PlannedGroup, ...], str]:
    """Read what was planned; without it nobody can say how many trials are missing."""
    if not path.is_file():
        return (), ""
    try:
        data: Any = read_json(path)
        check_version(data, path)
        return read_planned(data), ""
    except (OSError, ValueError, LookupError, TypeError) as broken:
        return (), f"{path.name}: left out: {damage_text(broken)}; nobody knows how many trials were planned"
