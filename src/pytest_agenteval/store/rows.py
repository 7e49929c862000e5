"""A run as rows of a table: trials, grades, calls, messages; as a frame of pandas, a table of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import PlannedGroup, RunHeader
from pytest_agenteval.text.errors import UsageMistake, did_you_mean
from pytest_agenteval.text.json_values import compact_json, jsonable

ColumnType = Literal["text", "texts", "json", "integer", "number", "flag", "time"]
"""What a column holds: ``texts`` are lists of texts, ``json`` is a JSON value as text, ``time`` is in UTC."""

# The largest whole number in tables: 64 bits with a sign.
_LARGEST = 2**63 - 1


class Column(FrozenValue, frozen=True):
    """A column of rows: ``value`` takes it from the source of a row.

    Only an ``optional`` column may be None; every other one has a value in every row.
    """

    name: str
    type: ColumnType
    meaning: str
    value: Callable[[Any], Any]
    optional: bool = False

    def of(self, source: object) -> Any:
        """Return the column's value for a row; None also for a value that cannot be of the column's type."""
        value = self.value(source)
        return None if value is None else self.read(value)

    @property
    def read(self) -> Callable[[Any], Any]:
        """The function that turns a value other than None into the column's type, or else into None."""
        return _TYPES[self.type].read


def column(name: str, type: ColumnType, value: str | Callable[[Any], Any], meaning: str) -> Column:
    """Make a column; ``value`` may be a path of attributes, such as ``entry.key.suite``."""
    return Column(name, type, meaning, attrgetter(value) if isinstance(value, str) else value)


def optional(name: str, type: ColumnType, value: str | Callable[[Any], Any], meaning: str) -> Column:
    return replace(column(name, type, value, meaning), optional=True)


# Transcripts are files that anybody may have edited, and a data frame takes no number in a column of texts: a
# value of another type is turned into text, or left out.
def _text(value: Any) -> str:
    text = value if isinstance(value, str) else compact_json(jsonable(value))
    # Data frames refuse half a surrogate pair.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _texts(value: Any) -> list[str]:
    return [_text(text) for text in value] if isinstance(value, Iterable) else []


def _integer(value: Any) -> int | None:
    return value if type(value) is int and -_LARGEST <= value <= _LARGEST else None


def _number(value: Any) -> float | None:
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value)
    except (ValueError, TypeError):
        return None
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    # The first day of year 1 in a time zone east of Greenwich is before the first one in UTC.
    except OverflowError:
        return None


class _Type(NamedTuple):
    """How values become those of a column's type, and its types in pandas and, given pyarrow, in Arrow."""

    read: Callable[[Any], Any]
    pandas: str
    arrow: Callable[[Any], Any]


# Types of pandas that know missing values, so that a column of whole numbers does not become one of floats.
_TYPES: Mapping[ColumnType, _Type] = {
    "text": _Type(_text, "string", lambda arrow: arrow.string()),
    "texts": _Type(_texts, "object", lambda arrow: arrow.list_(arrow.string())),
    "json": _Type(lambda value: _text(compact_json(jsonable(value))), "string", lambda arrow: arrow.string()),
    "integer": _Type(_integer, "Int64", lambda arrow: arrow.int64()),
    "number": _Type(_number, "float64", lambda arrow: arrow.float64()),
    "flag": _Type(
        lambda value: value if isinstance(value, bool) else None, "boolean", lambda arrow: arrow.bool_()
    ),
    "time": _Type(_time, "datetime64[us, UTC]", lambda arrow: arrow.timestamp("us", tz="UTC")),
}


class TrialSource(NamedTuple):
    """The source of a row; ``part`` is the trial's grade, call or message at ``position``, counted from 1."""

    run: str
    entry: JournalEntry
    part: Any = None
    position: int = 0


# The columns that rows of trials, grades, calls and messages share, and by which they can be joined.
TRIAL_KEY: tuple[Column, ...] = (
    column("run", "text", "run", "the run's name, as in `agenteval runs`"),
    column("trial", "text", "entry.key.label", "`suite/task[model@variant-repetition]`"),
    column("suite", "text", "entry.key.suite", "its name"),
    column("bucket", "text", "entry.bucket", "its name; may be empty"),
    column("task", "text", "entry.key.task", "its name"),
    column("agent", "text", "entry.key.agent", "its name"),
    column("model", "text", "entry.key.model", "its name, as you gave it"),
    column("variant", "text", "entry.key.variant", "its name; empty for the agent's own prompts"),
    optional("repetition", "integer", "entry.key.repetition", "from 1"),
    optional("attempt", "integer", "entry.attempt", "its number, from 1"),
    column("ending", "text", "entry.ending", "`passed`, `missed`, `failed` or `errored`"),
)


# Errored trials are in no average, so their scores are in no column either.
def _score(source: TrialSource) -> float | None:
    return source.entry.score if source.entry.averaged else None


def _passed(source: TrialSource) -> bool | None:
    return source.entry.ending == "passed" if source.entry.averaged else None


def _undecided(source: TrialSource) -> int:
    return sum(grade.score is None for grade in source.entry.grades)


def _turn_seconds(source: TrialSource) -> list[float] | None:
    return list(source.entry.turn_seconds) if source.entry.turns_known else None


def _origin(source: TrialSource) -> str | None:
    origin = source.entry.origin
    return origin.run or None if origin is not None else None


TRIALS: tuple[Column, ...] = (
    *TRIAL_KEY,
    column("kind", "text", "entry.kind", "`capability`, `regression` or `mixed`"),
    column("file", "text", "entry.file", "the task's file, from pytest's rootdir"),
    column("tags", "texts", "entry.tags", "of the task"),
    column("label", "text", "entry.label", "should the agent act: `positive`, `negative` or empty"),
    column("doubtful_events", "json", "entry.doubtful_events", "what makes figures doubtful, with counts"),
    column("own_models", "texts", "entry.own_models", "models that its own code called"),
    optional("split", "text", "entry.split", "`dev` or `held_out`"),
    optional("acted", "flag", "entry.acted", "whether it did, for tasks with a label"),
    optional("score", "number", _score, "0 to 1; missing if errored"),
    optional("passed", "flag", _passed, "missing without a score"),
    column("all_full", "flag", "entry.full", "every decided grade is 1"),
    column("grade_count", "integer", lambda source: len(source.entry.grades), "grades in all"),
    column("undecided_count", "integer", _undecided, "grades without a score"),
    column("limit_reached", "text", "entry.limit", "the limit that it reached; else empty"),
    column("cause", "text", "entry.cause", "why it errored (docs/concepts/trials.md); else empty"),
    column("message", "text", "entry.message", "the error, cut to 300 characters"),
    optional("started_at", "time", "entry.started_at", "of the attempt"),
    optional("seconds", "number", "entry.elapsed_seconds", "the agent's elapsed time"),
    optional("charged_seconds", "number", "entry.charged_seconds", "the part that its limit counts"),
    optional("wall_seconds", "number", "entry.wall_seconds", "elapsed time with graders"),
    optional("turn_seconds", "json", _turn_seconds, "a list, one for each reply"),
    optional("input_tokens", "integer", "entry.usage.input_tokens", "sent to the model"),
    optional("output_tokens", "integer", "entry.usage.output_tokens", "of its replies"),
    optional("cached_tokens", "integer", "entry.usage.cached_tokens", "input read from a cache"),
    optional("reasoning_tokens", "integer", "entry.usage.reasoning_tokens", "output for reasoning"),
    optional("cost_usd", "number", "entry.usage.cost_usd", "missing if a price is unknown"),
    optional("replies", "integer", "entry.usage.asks", "of the model"),
    optional("requests", "integer", "entry.usage.attempts", "to the model, with retries"),
    optional("attempts", "integer", "entry.attempts", "of the trial"),
    optional("all_tokens", "integer", "entry.all_tokens", "of all attempts"),
    optional("all_cost_usd", "number", "entry.all_cost_usd", "of all attempts"),
    optional("all_seconds", "number", "entry.all_seconds", "of all attempts"),
    optional("judge_tokens", "integer", "entry.judging.tokens", "of judges; in no sum above"),
    optional("judge_cost_usd", "number", "entry.judging.cost_usd", "of judges; in no sum above"),
    optional("user_tokens", "integer", "entry.simulating.tokens", "of a simulated user; in no sum above"),
    optional("user_cost_usd", "number", "entry.simulating.cost_usd", "of a simulated user; in no sum above"),
    optional("judge_replies", "integer", "entry.judging.asks", "of judges"),
    optional("tool_hits", "integer", "entry.tool_tape.hits", "tool calls answered by a recording"),
    optional("tool_misses", "integer", "entry.tool_tape.misses", "tool calls without a recording"),
    optional("tool_recorded", "integer", "entry.tool_tape.recorded", "tool calls sent and recorded"),
    optional("chat_hits", "integer", "entry.chat_tape.hits", "replies from a recording"),
    optional("chat_misses", "integer", "entry.chat_tape.misses", "requests without a recording"),
    optional("chat_recorded", "integer", "entry.chat_tape.recorded", "replies recorded"),
    optional("origin", "text", _origin, "the run that it is reused from"),
    column("input_digest", "text", "entry.digests.input", "of the task's input"),
    column("fixture_digest", "text", "entry.digests.fixture", "of the starting workspace"),
    column("prompt_digest", "text", "entry.digests.prompt", "of the prompts"),
    column("settings_digest", "text", "entry.digests.settings", "of the settings"),
    column("tools_digest", "text", "entry.digests.tools", "of the tools"),
    column("code_digest", "text", "entry.digests.code", "of the agent's own source files"),
    column("model_digest", "text", "entry.digests.model", "of the model and its parameters"),
    column("ruler_digest", "text", "entry.digests.ruler", "of graders, their settings and judges"),
    optional("looked_at", "time", "entry.note.looked_at", "when a person last viewed it"),
    column("comment", "text", "entry.note.comment", "a person's; else empty"),
)


def _ruler(source: TrialSource) -> str:
    return str(source.entry.digests.graders.get(source.part.grader, ""))


# The columns of a grade, without those that name its trial.
OWN_GRADE_COLUMNS: tuple[Column, ...] = (
    column("position", "integer", "position", "from 1"),
    column("grader", "text", "part.grader", "its label"),
    optional("score", "number", "part.score", "0 to 1; missing if undecided"),
    optional("value", "number", "part.value", "as measured, also above 1"),
    optional("passed", "flag", "part.passed", "the score reached the threshold"),
    column("threshold", "number", "part.threshold", "the score to reach"),
    column("weight", "number", "part.weight", "its part in the trial's score"),
    column(
        "required", "flag", lambda source: bool(source.part.required), "without its score, the trial errors"
    ),
    column("undecided", "text", "part.undecided", "why it has no score (docs/concepts/trials.md)"),
    column("rationale", "text", "part.rationale", "the reason, cut to 160 characters"),
    column("grader_digest", "text", _ruler, "version:digest of settings and judges"),
)

GRADES = (*TRIAL_KEY, *OWN_GRADE_COLUMNS)


def _error(part: str) -> Callable[[TrialSource], str | None]:
    return lambda source: source.part.error and getattr(source.part.error, part)


CALLS: tuple[Column, ...] = (
    *TRIAL_KEY,
    column("position", "integer", "position", "from 1"),
    optional("turn", "integer", "part.turn", "its reply, from 1"),
    optional("index", "integer", "part.index", "place in that reply, from 0"),
    column("call_id", "text", "part.id", "the model's id of the call"),
    column("tool", "text", "part.tool", "its name"),
    column("args", "json", "part.args", "an object"),
    optional("raw_args", "text", "part.raw_args", "their text, if not a JSON object"),
    optional("result", "json", "part.result", "any JSON value"),
    optional("error_type", "text", _error("type"), "its kind, if the call failed"),
    optional("error", "text", _error("message"), "the message that the agent got"),
    optional("started", "number", "part.started", "seconds since the trial began"),
    optional("ended", "number", "part.ended", "seconds since the trial began"),
    optional("seconds", "number", lambda source: source.part.ended - source.part.started, "its duration"),
    column("called_by", "text", "part.by", "`agent`, or `seed` (the task's history)"),
    column("tape", "text", "part.tape", "`hit`, `miss`, `live` or `none`"),
)

MESSAGES: tuple[Column, ...] = (
    *TRIAL_KEY,
    column("position", "integer", "position", "from 1"),
    column("role", "text", "part.role", "`system`, `user`, `assistant` or `tool`"),
    column("content", "text", "part.content", "in full"),
    optional("turn", "integer", "part.turn", "its reply, from 1; 0 for none"),
    optional("phase", "integer", "part.phase", "the conversation, from 1"),
    optional("seeded", "flag", "part.seeded", "it is from the task's history"),
    column("call_count", "integer", lambda source: len(source.part.calls), "calls in it"),
    column("call_id", "text", "part.call_id", "of the call that a tool message answers"),
)


def _names(part: str) -> Any:
    return lambda run: [item.name for item in getattr(run.header, part)]


RUNS: tuple[Column, ...] = (
    column("run", "text", "name", "the run's name, as in `agenteval runs`"),
    column("folder", "text", lambda run: str(run.folder), "its path"),
    optional("started_at", "time", "header.started_at", "start"),
    optional("ended_at", "time", "header.ended_at", "missing while it runs, or if killed"),
    optional("exit_status", "integer", "header.exit_status", "that of pytest"),
    column("models", "texts", _names("models"), "names in this run"),
    column("judges", "texts", _names("judges"), "names in this run"),
    column("variants", "texts", "header.variants", "names in this run"),
    column("suites", "texts", _names("suites"), "names in this run"),
    column(
        "planned_count", "integer", lambda run: sum(group.trials for group in run.planned), "trials planned"
    ),
    column("trial_count", "integer", lambda run: len(run.entries), "trials that ended"),
    optional("repetitions", "integer", "header.repetitions", "if equal for all tasks"),
    optional("seed", "integer", "header.seed", "of random choices"),
    column("regraded", "texts", "header.regraded", "runs that it graded again"),
    column("command", "texts", "header.command", "the command line"),
    column("package", "text", "header.package", "its version"),
    column("pytest", "text", "header.pytest", "its version"),
)


# The values of one row, in the order of its kind's columns.
Row = tuple[Any, ...]


class RowContext(Protocol):
    """A stored run, as far as rows are made of it."""

    folder: Path
    header: RunHeader
    planned: tuple[PlannedGroup, ...]
    entries: tuple[JournalEntry, ...]

    @property
    def name(self) -> str: ...

    def trial_if_readable(self, entry: JournalEntry) -> Trial | None: ...


class RowKind(FrozenValue, frozen=True):
    """One kind of rows: its columns, and what each row of a run is made of.

    If it reads ``transcripts``, only one is in memory at a time.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    sources: Callable[[RowContext], Iterable[object]]
    transcripts: bool = False

    def rows(self, runs: Iterable[RowContext]) -> Iterator[Row]:
        """Yield the rows of the runs, run by run, in the order of their trials' keys."""
        # Looked up once: in the loop, looking up takes half of the time of a row.
        steps = [(column.value, column.read) for column in self.columns]
        for run in runs:
            for source in self.sources(run):
                yield tuple([None if (value := get(source)) is None else read(value) for get, read in steps])


def row_kind(name: str) -> RowKind:
    """Return the kind of rows with this name; raises UsageMistake for an unknown one."""
    if name not in ROW_KINDS:
        hint = did_you_mean(name, ROW_KINDS)
        expected = f"expected one of {', '.join(ROW_KINDS)}"
        raise UsageMistake(f"rows: {expected}; found {name!r}{f': {hint}' if hint else ''}")
    return ROW_KINDS[name]


def _parts(part: str) -> Callable[[RowContext], Iterator[TrialSource]]:
    """Return a function that yields each item of a trial's transcript, one transcript after the other."""

    def sources(run: RowContext) -> Iterator[TrialSource]:
        for entry in run.entries:
            trial = run.trial_if_readable(entry)
            for position, item in enumerate(getattr(trial.transcript, part) if trial else (), 1):
                yield TrialSource(run.name, entry, item, position)

    return sources


def _trials(run: RowContext) -> Iterator[TrialSource]:
    return (TrialSource(run.name, entry) for entry in run.entries)


def _grades(run: RowContext) -> Iterator[TrialSource]:
    for entry in run.entries:
        for position, grade in enumerate(entry.grades, 1):
            yield TrialSource(run.name, entry, grade, position)


# The kinds of rows, by name.
ROW_KINDS: Mapping[str, RowKind] = {
    kind.name: kind
    for kind in (
        RowKind("runs", "one row for each run", RUNS, lambda run: [run]),
        RowKind("trials", "one row for each trial: its last finished attempt", TRIALS, _trials),
        RowKind("grades", "one row for each grade of a trial", GRADES, _grades),
        RowKind(
            "calls", "one row for each tool call of a trial, with its result", CALLS, _parts("calls"), True
        ),
        RowKind("messages", "one row for each message of a trial", MESSAGES, _parts("messages"), True),
    )
}


if TYPE_CHECKING:
    import pandas
    import pyarrow
    from pyarrow import RecordBatchReader

    PandasFrame: TypeAlias = pandas.DataFrame
    ArrowTable: TypeAlias = pyarrow.Table


def pandas_frame(columns: Sequence[Column], rows: Iterable[Row]) -> PandasFrame:
    """Make a frame with these columns; raises UsageMistake where pandas is not installed."""
    try:
        import pandas
    except ImportError as missing:
        install = "pip install 'pytest-agenteval[pandas]'"
        raise UsageMistake(f"to_pandas needs pandas ({missing}): {install}") from missing
    # Without any row, each column is there and empty. Each has its type, which pandas would otherwise guess:
    # so frames of several runs fit together.
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    series = {
        column.name: pandas.Series(list(values), dtype=_TYPES[column.type].pandas)
        for column, values in zip(columns, cells, strict=True)
    }
    return pandas.DataFrame(series)


MOST_ROWS = 20_000
MOST_CHARACTERS = 8_000_000
"""Of texts in one batch: a run's transcripts are larger than what a batch may hold in memory."""


def arrow_rows(
    kind: RowKind, rows: Iterable[Row], what: str = "to_arrow", extra: str = "parquet"
) -> RecordBatchReader:
    """Give a reader over rows of this kind, which reads them once, batch by batch.

    Raises UsageMistake where pyarrow, which ``what`` needs, is not installed.
    """
    # Types are those of the kind and not of its values: whoever reads several runs meets one schema.
    try:
        import pyarrow
    except ImportError as missing:
        hint = f"pip install 'pytest-agenteval[{extra}]'"
        raise UsageMistake(f"{what} needs pyarrow ({missing}): {hint}") from missing
    fields = [
        pyarrow.field(column.name, _TYPES[column.type].arrow(pyarrow), metadata={"meaning": column.meaning})
        for column in kind.columns
    ]
    schema = pyarrow.schema(fields)
    batches = (
        pyarrow.RecordBatch.from_arrays(
            [
                pyarrow.array(cells, field.type)
                for cells, field in zip(zip(*batch, strict=True), fields, strict=True)
            ],
            schema=schema,
        )
        for batch in _batches(rows)
    )
    return pyarrow.RecordBatchReader.from_batches(schema, batches)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    characters = 0
    for row in rows:
        batch.append(row)
        characters += sum([len(cell) for cell in row if isinstance(cell, str)])
        if len(batch) == MOST_ROWS or characters > MOST_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
