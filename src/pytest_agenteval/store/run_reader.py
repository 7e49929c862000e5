"""A run read back: the last attempt of every trial at once, transcripts when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.processes.startup import garbage_collection_paused
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry, NotRunTrial, StartedAttempt
from pytest_agenteval.store.journal_reader import Journal
from pytest_agenteval.store.notes import Note, read_notes
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
from pytest_agenteval.text.formatting import first_few

if TYPE_CHECKING:
    from pytest_agenteval.store.rows import ArrowTable, PandasFrame
    from pytest_agenteval.store.run_documents import SuiteLook
    from pytest_agenteval.store.transcript_lines import TextIndex

MOST_UNREADABLE = 10
JOURNALS = "journal-*.jsonl"


class Run:
    """A stored run.

    ``entries`` and ``begun`` are sorted by key, so that they do not depend on which process ran what.
    ``begun`` are attempts that never finished. ``odd`` names, by file and line, what could not be read and
    was left out: lines that a crash left half written, and whatever else is not a line of a journal.
    ``looks`` say how it was decided how often suites are repeated; empty if that was fixed, and before it was
    decided. ``not_run`` are trials that were held back and have not ended since, each with the reason.
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
        # Who follows a run that is going on keeps what was found before.
        self._texts: TextIndex | None = None

    @property
    def name(self) -> str:
        """The run's name in its header, else that of its folder."""
        return self.header.name or self.folder.name

    @property
    def never_ended(self) -> str:
        """How many of the planned trials have no ending, in words; empty if all have one."""
        planned = sum(group.trials for group in self.planned)
        missing = planned - len(self.entries)
        return f"{missing} of {planned} planned trials never ended" if missing > 0 else ""

    @cached_property
    def lost(self) -> tuple[StartedAttempt, ...]:
        """Those of ``begun`` whose process died, such as an xdist worker that crashed.

        An attempt that ran in several such processes is listed as often. A run that has not ended has none:
        it may still be going on.
        """
        lost: list[StartedAttempt] = []
        unfinished = set(self.begun)
        for process in self.header.died:
            journal, path = Journal(), self.folder / f"journal-{process}.jsonl"
            if path.is_file():
                journal.read(path)
                lost += unfinished.intersection(journal.merged()[1])
        return tuple(sorted(lost))

    @property
    def has_checksums(self) -> bool:
        """Whether damage to the journals would be noticed; those of earlier versions have no checksums."""
        return all(has_checksums(path) for path in self.folder.glob(JOURNALS))

    def rows(self, rows: str = "trials") -> Iterator[dict[str, Any]]:
        """Give one flat dict for each of the run's ``trials``, ``grades``, ``calls`` or ``messages``.

        ``runs`` gives one for the run itself. Each column has one type in every row, or None if there is no
        value: docs/reference/data.md lists them. Calls and messages are read from transcripts, one after the
        other; a transcript that cannot be read is left out, and named in ``odd``. Raises UsageMistake for any
        other name.
        """
        from pytest_agenteval.store.rows import row_kind

        kind = row_kind(rows)
        names = [column.name for column in kind.columns]
        return (dict(zip(names, row, strict=True)) for row in kind.rows([self]))

    def to_pandas(self, rows: str = "trials") -> PandasFrame:
        """Give the ``rows`` of this name as a data frame of pandas, with the same types for every run.

        Raises UsageMistake if pandas is not installed; the extra ``[pandas]`` installs it.
        """
        from pytest_agenteval.store.rows import pandas_frame, row_kind

        kind = row_kind(rows)
        return pandas_frame(kind.columns, kind.rows([self]))

    def to_arrow(self, rows: str = "trials") -> ArrowTable:
        """Give the ``rows`` of this name as a table of Arrow, which polars, DuckDB and others take as it is.

        Types are the same for every run. Raises UsageMistake if pyarrow is not installed; the extra
        ``[parquet]`` installs it.
        """
        from pytest_agenteval.store.rows import arrow_rows, row_kind

        kind = row_kind(rows)
        return arrow_rows(kind, kind.rows([self])).read_all()

    def trial(self, entry: JournalEntry) -> Trial:
        """Read the whole record of a trial.

        Raises TranscriptLost if the transcript does not match the journal: a file was cut or exchanged.
        """
        # Imported here, as a run that only writes needs no reader of transcripts.
        from pytest_agenteval.store.transcript_lines import TextIndex, read_trial

        line = self._line(entry)
        check_version(line, self.folder / entry.location.file)
        self._texts = self._texts or TextIndex(self.folder)
        try:
            return read_trial(entry, line, self._texts.text)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
            raise self._lost_transcript(entry, broken) from broken

    def trial_if_readable(self, entry: JournalEntry) -> Trial | None:
        """Read the whole record of a trial; if it cannot be read, note that in ``odd`` and give None."""
        try:
            return self.trial(entry)
        except TranscriptLost as lost:
            remark = f"{entry.key.label}: {str(lost).removeprefix(f'{self.folder}: ')}"
            if remark not in self.odd:
                self.odd = (*self.odd, remark)
            return None

    def transcript_bytes(self, entry: JournalEntry) -> bytes:
        """Read the line of a transcript as it is stored; raises OSError where its file cannot be read."""
        file, offset, length = entry.location
        # Unbuffered: it reads one part of a large file.
        with open(f"{self.folder}/{file}", "rb", buffering=0) as transcripts:
            transcripts.seek(offset)
            return transcripts.read(length)

    def _line(self, entry: JournalEntry) -> Line:
        try:
            line = read_intact_line(self.transcript_bytes(entry))
            trial_key = tuple(line["trial"])
        except (OSError, ValueError, KeyError, TypeError) as broken:
            raise self._lost_transcript(entry, broken) from broken
        # The file may have been exchanged: another trial would stand at the same place.
        if trial_key != (*entry.key, entry.attempt):
            raise TranscriptLost(f"{self.folder}: {entry.location} holds the transcript of another trial")
        return dict(line)

    def _lost_transcript(self, entry: JournalEntry, broken: Exception) -> TranscriptLost:
        why = broken.strerror if isinstance(broken, OSError) else damage_text(broken)
        return TranscriptLost(f"{self.folder}: no transcript at {entry.location} ({why})")


def first_unreadable(problems: Sequence[str]) -> list[str]:
    return first_few(problems, MOST_UNREADABLE, "and {} more that could not be read")


def load_run(run: str | PathLike[str], results: str | PathLike[str] = ROOT) -> Run:
    """Read a stored run: its folder, or its name in ``results``.

    Names are ``latest``, ``MODEL@latest``, ``MODEL@YYYYMMDD`` and the beginning of a run's name; a path that
    is not a text is a folder. Header, plan and journals are read as far as possible, transcripts only when
    needed; ``Run.odd`` names what cannot be read. Raises UsageMistake if there is no run.
    """
    is_name = isinstance(run, str) and not Path(run).is_dir()
    return load_tasks(find_run(Path(results), str(run)) if is_name else Path(run))


def load_tasks(folder: Path, of_task: Callable[[str], bool] | None = None) -> Run:
    """Read a stored run of which only the trials of certain tasks are needed; those of others may be missing.

    ``odd`` names all the same what is damaged.
    """
    journal = Journal()
    # Everything that is made here stays, so looking for garbage would find none.
    with garbage_collection_paused():
        documents = read_documents(folder)
        for path in sorted(folder.glob(JOURNALS)):
            journal.read(path, of_task)
        return run_of(folder, documents, journal)


class RunDocuments(NamedTuple):
    """What a run's folder holds beside its journals; ``problems`` name what of it could not be read."""

    header: RunHeader
    planned: tuple[PlannedGroup, ...]
    looks: tuple[SuiteLook, ...]
    problems: tuple[str, ...]
    notes: Mapping[TrialKey, Note]
    note_problems: tuple[str, ...]


def read_documents(folder: Path) -> RunDocuments:
    """Read header, plan, looks and notes of a run; raises UsageMistake where the folder is no run."""
    header, header_problem = read_header_or_name(folder)
    planned, plan_problem = _read_plan(folder / PLANNED)
    planned, looks, looks_problem = _after_looks(folder, header, planned)
    problems, note_problems = filter(None, (header_problem, plan_problem, looks_problem)), list[str]()
    notes = read_notes(folder, note_problems)
    return RunDocuments(header, planned, looks, tuple(problems), notes, tuple(note_problems))


def run_of(folder: Path, documents: RunDocuments, journal: Journal, texts: TextIndex | None = None) -> Run:
    """Make the run of what was read of its folder; ``texts`` are those that were found before."""
    header, planned, looks, problems, notes, note_problems = documents
    entries, begun = journal.merged()
    entries, unreadable = with_notes(entries, notes), (*problems, *journal.odd, *note_problems)
    run = Run(folder, header, planned, entries, begun, unreadable, looks, journal.not_run())
    run._texts = texts
    return run


def with_notes(entries: tuple[JournalEntry, ...], notes: Mapping[TrialKey, Note]) -> tuple[JournalEntry, ...]:
    """Give each entry its trial's note.

    A comment stays when the trial is run again, with the attempt that it is about; but whoever looked at an
    earlier attempt has not looked at this one: then the note's ``looked_at`` is empty.
    """
    if not notes:
        return entries
    return tuple(
        replace(entry, note=_note_on(entry, notes[entry.key])) if entry.key in notes else entry
        for entry in entries
    )


def _note_on(entry: JournalEntry, note: Note) -> Note:
    # What a trial was taken over from, or graded again from, is what the agent did in this one.
    if entry.origin is not None and note.attempt == entry.origin.attempt:
        return replace(note, attempt=entry.attempt)
    return note if note.attempt == entry.attempt else replace(note, looked_at="")


def _after_looks(
    folder: Path, header: RunHeader, planned: tuple[PlannedGroup, ...]
) -> tuple[tuple[PlannedGroup, ...], tuple[SuiteLook, ...], str]:
    """Return the plan after the look, with what the look decided, and the problem if that cannot be read."""
    if header.repetition_rule is None:
        return planned, (), ""
    from pytest_agenteval.store.run_documents import LOOKS, ExtraRepetitions, planned_after, read_looks

    try:
        extra, looks = ExtraRepetitions.read(folder), read_looks(folder)
    except (OSError, ValueError, LookupError, TypeError) as broken:
        return planned, (), f"{LOOKS}: left out: {damage_text(broken)}"
    if extra is None or looks is None:
        return planned, (), ""
    return planned_after(planned, extra, looks), looks, ""


def _read_plan(path: Path) -> tuple[tuple[PlannedGroup, ...], str]:
    """Read what was planned, and the problem if it cannot be read."""
    # Without a plan nobody knows how many trials are missing, but the others can be read.
    if not path.is_file():
        return (), ""
    try:
        data: Any = read_json(path)
        check_version(data, path)
        return read_planned(data), ""
    except (OSError, ValueError, LookupError, TypeError) as broken:
        return (), f"{path.name}: left out: {damage_text(broken)}; the number of planned trials is unknown"
