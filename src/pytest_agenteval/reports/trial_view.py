"""One trial as every report sees it: the conversation, each call with what came of it, the reasons.

A transcript keeps messages, calls and asks apart, in the order in which they happened. Readers want them
together: as steps, each reply with what it took, each call with what came of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, takewhile, zip_longest
from math import inf
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import ValidationError

from pytest_agenteval.records.evidence import Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.explanation import ending_reason, short_reason
from pytest_agenteval.records.plan import Split, own_label
from pytest_agenteval.records.record import Document, FrozenValue, from_builtins
from pytest_agenteval.records.tool_spec import shown_value
from pytest_agenteval.records.transcript import (
    Ask,
    Event,
    Message,
    Role,
    TapeStatus,
    ToolCall,
    ToolError,
    Transcript,
    Usage,
    used_other_models,
)
from pytest_agenteval.records.trial import Digests, Ending, TapeCounts, Trial
from pytest_agenteval.reports.run_view import acting_model
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.notes import Note
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import format_figure, one_line
from pytest_agenteval.text.json_values import jsonable
from pytest_agenteval.tools.tool import ToolResult

ViewT = TypeVar("ViewT", bound=FrozenValue)
Place: TypeAlias = tuple[int, int]
"""A call by the number of the message that asks for it, and its own number there."""


class ConversationCall(FrozenValue, frozen=True):
    """A call as a message requests it.

    ``execution`` is the same call with its result, None where it was never carried out. ``answer`` is the
    message that holds the result in the conversation, None where there is none.
    """

    request: ToolCall
    execution: ToolCall | None = None
    answer: Message | None = None

    @property
    def reply(self) -> str | None:
        """The text of the result in the conversation; None without one, which is not the same as empty."""
        return None if self.answer is None else self.answer.content

    @property
    def content(self) -> str | None:
        """The text that the model was shown of the result, else the result as text; None without any."""
        if self.reply is None and self.execution is not None:
            return result_text(self.execution)
        return self.reply


class ConversationStep(FrozenValue, frozen=True):
    """One message with what belongs to it; without a message, calls that no message requested.

    ``ask`` is set where the message is a model's reply. A message that ``is_context`` was not produced at
    this place: the task holds it, the agent wrote it in a model's name, or it was part of an earlier
    conversation of the trial too, as when an agent starts a new one with messages of the last.
    """

    message: Message | None
    ask: Ask | None = None
    calls: tuple[ConversationCall, ...] = ()
    is_context: bool = False


def conversation_steps(transcript: Transcript) -> tuple[ConversationStep, ...]:
    """Put a transcript's messages, calls and asks together; no message and no call is in two steps."""
    messages = transcript.messages
    replies = reply_asks(transcript)
    reply_messages, answers = _reply_messages(messages)
    executions, unclaimed = _executions(transcript, replies)
    repeated = _repeated(messages)
    steps: list[ConversationStep] = []
    for number, message in enumerate(messages):
        # Calls of an agent's own code stand where their turn ends.
        steps += _steps_of_turns(unclaimed, before=message.turn)
        # A tool's message stands with its call.
        if number in answers:
            continue
        calls = [
            ConversationCall(call, executions.get((number, at)), reply_messages.get((number, at)))
            for at, call in enumerate(call_requests(message))
        ]
        is_foreign = (message.role == "assistant" and bool(replies)) or number in repeated or message.seeded
        is_context = number not in replies and is_foreign
        steps.append(ConversationStep(message, replies.get(number), tuple(calls), is_context))
    return (*steps, *_steps_of_turns(unclaimed))


def result_text(call: ToolCall) -> str:
    """Give the result of a call as the text that a model is shown by default."""
    return ToolResult(call.result, call.error).content


def call_requests(message: Message) -> tuple[ToolCall, ...]:
    """Give the calls that a message requests: only an assistant's message can."""
    return message.calls if message.role == "assistant" else ()


def reply_asks(transcript: Transcript) -> Mapping[int, Ask]:
    """Give the number of each message that is a model's reply, with its ask.

    Requests that overlapped have replies that all bear the last turn: these are in the order of the asks.
    """
    # From the end: in front of a reply stand the messages of its turn that were sent with the request, which
    # may be an assistant's too.
    candidates = [
        number
        for number, message in enumerate(transcript.messages)
        if message.role == "assistant"
        and not (message.seeded or any(call.by == "seed" for call in message.calls))
    ]
    replies: dict[int, Ask] = {}
    for ask in reversed(transcript.asks):
        at = len(candidates) - 1
        while at >= 0 and transcript.messages[candidates[at]].turn > ask.turn:
            at -= 1
        if at < 0 or transcript.messages[candidates[at]].turn < ask.turn:
            # The last reply of a later turn, if any.
            at = len(candidates) - 1 if at < len(candidates) - 1 else -1
        if at >= 0:
            replies[candidates[at]] = ask
            del candidates[at:]
    return replies


def _reply_messages(messages: Sequence[Message]) -> tuple[Mapping[Place, Message], set[int]]:
    """Give the message that answers each call, and the numbers of these messages."""
    waiting: dict[tuple[int, str], list[Place]] = defaultdict(list)
    replies: dict[Place, Message] = {}
    answers: set[int] = set()
    for number, message in enumerate(messages):
        for at, call in enumerate(call_requests(message)):
            waiting[message.phase, call.id].append((number, at))
        # Some models number the calls of each reply from 1 again, and some give parallel calls one id: an
        # answer belongs to the last message that requested this id, and there to the first call without one.
        if message.role == "tool" and (places := waiting[message.phase, message.call_id]):
            last = places[-1][0]
            place = next(place for place in places if place[0] == last)
            places.remove(place)
            replies[place] = message
            answers.add(number)
    return replies, answers


def _executions(
    transcript: Transcript, replies: Mapping[int, Ask]
) -> tuple[Mapping[Place, ToolCall], list[ToolCall]]:
    """Give the call that was carried out for each request, and the calls that no message requested."""
    remaining = dict(enumerate(transcript.calls))
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, call in remaining.items():
        alike[call.id, call.tool].append(place)
    executions: dict[Place, ToolCall] = {}
    # Replies of models claim their calls first, before messages that were only sent along with a request.
    for number in sorted(range(len(transcript.messages)), key=lambda number: number not in replies):
        message = transcript.messages[number]
        for at, request in enumerate(call_requests(message)):
            if same := alike[request.id, request.tool]:
                place = next((place for place in same if remaining[place].turn == message.turn), same[0])
                same.remove(place)
                executions[number, at] = remaining.pop(place)
    return executions, list(remaining.values())


def _steps_of_turns(unclaimed: list[ToolCall], before: float = inf) -> Iterator[ConversationStep]:
    """Take calls that no message requested out of ``unclaimed``, up to a turn; gives a step for each turn."""
    taken = list(takewhile(lambda call: call.turn < before, unclaimed))
    del unclaimed[: len(taken)]
    for _, calls in groupby(taken, lambda call: call.turn):
        yield ConversationStep(None, calls=tuple(ConversationCall(call, call) for call in calls))


def _repeated(messages: Iterable[Message]) -> set[int]:
    """Give the numbers of messages that an earlier phase has too."""
    first_phases: dict[tuple[str, str, tuple[str, ...], str], int] = {}
    repeated = set()
    for number, message in enumerate(messages):
        identity = message.role, message.content, tuple(call.id for call in message.calls), message.call_id
        if first_phases.setdefault(identity, message.phase) < message.phase:
            repeated.add(number)
    return repeated


CONTEXT = 3
"""Equal lines around a change."""

LARGE = 256 * 1024
"""Characters from which on a file's lines are not compared: that takes seconds, and nobody reads it."""

MOST_FILES = 200

Change = Literal["created", "modified", "deleted"]
Tag = Literal[" ", "~", "-", "+"]
Row = tuple[Tag, str | None, str | None]
"""A line of both sides: equal, changed, only old, only new; None where a side has none."""


class Hunk(FrozenValue, frozen=True):
    """Changed lines with some equal ones around; the starts are line numbers that count from 1."""

    old_start: int
    new_start: int
    rows: tuple[Row, ...]


class FileChange(FrozenValue, frozen=True):
    """One file that came, changed or went; ``note`` says why there are no lines."""

    path: str
    change: Change
    note: str = ""
    hunks: tuple[Hunk, ...] = ()


def file_changes(outcome: Outcome) -> Iterator[FileChange]:
    """Give the first ``MOST_FILES`` files that differ: created, then modified, then deleted ones."""
    diff = outcome.diff
    changes: dict[Change, Sequence[str]] = {
        "created": diff.created,
        "modified": diff.modified,
        "deleted": diff.deleted,
    }
    pairs = [(path, change) for change, paths in changes.items() for path in paths]
    for path, change in pairs[:MOST_FILES]:
        note, hunks = _hunks(outcome.before, outcome.after, path)
        yield FileChange(path, change, note, hunks)


def _hunks(before: Tree, after: Tree, path: str) -> tuple[str, tuple[Hunk, ...]]:
    sides = [tree.files[path] for tree in (before, after) if path in tree]
    # One side that is no text, or too large, is enough: half a diff would show the other as all new.
    for side in sides:
        if side.text is None:
            return f"{side.why or 'no text'}, {side.size:,} bytes", ()
        if len(side.text) > LARGE:
            return f"too large to compare: {side.size:,} bytes", ()
    old, new = (_lines(tree.files.get(path)) for tree in (before, after))
    hunks = tuple(hunks_of_lines(old, new))
    # Lines are compared without their line breaks, so two files may differ in nothing but these.
    if not hunks:
        return ("empty" if len(sides) == 1 else "only the ends of lines differ"), ()
    return "", hunks


def _lines(file: FileText | None) -> list[str]:
    return (file.text or "").splitlines() if file else []


def hunks_of_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """Give where two texts differ, line by line, with ``CONTEXT`` equal lines around."""
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT):
        rows: list[Row] = []
        for _, old_low, old_high, new_low, new_high in group:
            # Lines of a replaced stretch are paired in order, for views that show both sides side by side.
            for before, after in zip_longest(old[old_low:old_high], new[new_low:new_high]):
                tag: Tag = (
                    " " if before == after else "+" if before is None else "-" if after is None else "~"
                )
                rows.append((tag, before, after))
        yield Hunk(group[0][1] + 1, group[0][3] + 1, tuple(rows))


class CallView(FrozenValue, frozen=True):
    """A tool call with what came of it; see ``ToolCall``.

    ``reply`` is the text that the model got, where that is not just ``result`` or ``error`` written out.
    ``executed`` is False where nothing says that the requested call was carried out.
    """

    tool: str
    args: Mapping[str, Any]
    raw_args: str | None
    result: Any
    error: ToolError | None
    started: float
    ended: float
    by: Literal["agent", "seed", "provider"]
    tape: TapeStatus
    turn: int
    index: int
    reply: str = ""
    executed: bool = True

    @property
    def failure(self) -> str:
        """The error's type and message; empty where the call did not fail."""
        return f"{self.error.type}: {self.error.message}" if self.error else ""


class MessageView(FrozenValue, frozen=True):
    """A message with the calls that it requested, and what the model took to write it."""

    role: Role
    content: str
    turn: int
    phase: int
    seeded: bool
    reasoning: str = ""
    calls: tuple[CallView, ...] = ()
    usage: Usage | None = None
    seconds: float | None = None


class AskView(FrozenValue, frozen=True):
    """When a reply was requested and when it came, in seconds since the trial began; see ``Ask``."""

    turn: int
    started: float
    ended: float
    first_token_s: float | None
    finish: str
    model: str


class VoteView(FrozenValue, frozen=True):
    """What one judge found, each dimension from 0 to 1, None where it could not tell, or its ``problem``."""

    judge: str
    scores: Mapping[str, float | None]
    rationale: str
    problem: str

    def scores_text(self, most: int) -> str:
        """Write the score of each dimension, with at most ``most`` characters of its name."""
        return ", ".join(
            f"{one_line(name, most)} {format_figure(score)}" for name, score in self.scores.items()
        )


class GradeView(FrozenValue, frozen=True):
    """What one grader found, with the votes of its judges apart from its other details."""

    grader: str
    score: float | None
    value: float | None
    passed: bool | None
    threshold: float
    weight: float
    required: bool
    undecided: str
    rationale: str
    checks: tuple[Check, ...]
    votes: tuple[VoteView, ...]
    details: Mapping[str, Any]


class TrialView(FrozenValue, frozen=True):
    """One trial with everything that is known of it; see ``Trial``.

    ``name`` is the same wherever a trial is named. ``grades`` are in the order in which they explain: not
    passed, furthest below first, then undecided, then passed. In ``messages`` a tool's message stands with
    its call. ``files_left_out`` of the changed files are not in ``files``.
    """

    name: str
    suite: str
    task: str
    agent: str
    model: str
    variant: str
    repetition: int
    attempt: int
    bucket: str
    kind: str
    file: str
    tags: tuple[str, ...]
    ending: Ending
    score: float | None
    reason: str
    limit: str
    cause: str
    message: str
    traceback: str
    started_at: str
    seconds: float
    uncharged_seconds: float
    messages: tuple[MessageView, ...]
    answer: str
    state: Mapping[str, Any]
    grades: tuple[GradeView, ...]
    files: tuple[FileChange, ...]
    files_left_out: int
    events: tuple[Event, ...]
    usage: Usage
    judging: Usage
    tool_tape: TapeCounts
    chat_tape: TapeCounts
    digests: Digests
    output: str
    log: str
    workspace: str
    split: Split | None = None
    asks: tuple[AskView, ...] = ()


def judges_disagree(grades: Iterable[Grade]) -> bool:
    """Whether two judges gave one dimension of one grade different scores."""
    for grade in grades:
        scores: dict[str, set[float]] = defaultdict(set)
        for vote in _votes_of(grade):
            for dimension, score in vote.scores.items():
                scores[dimension] |= set() if score is None else {score}
        if any(len(values) > 1 for values in scores.values()):
            return True
    return False


def model_of(trial: Trial) -> str:
    """Name the model that acted: the named one, unless the agent used only others."""
    models = trial.transcript.models
    other = used_other_models(trial.transcript.doubtful_events)
    return own_label("", models) if other else acting_model(trial.key.model, models)


def trial_view(trial: Trial) -> TrialView:
    diff = trial.outcome.diff
    changed = len(diff.created) + len(diff.modified) + len(diff.deleted)
    own = {
        **trial.key._asdict(),
        "name": trial.key.label,
        "model": model_of(trial),
        "reason": ending_reason(trial),
        "messages": tuple(_conversation(trial.transcript)),
        "answer": trial.outcome.answer.text,
        "state": jsonable(trial.outcome.answer.state),
        "grades": tuple(map(_grade, sorted(trial.grades, key=_explaining_order))),
        "files": tuple(file_changes(trial.outcome)),
        "files_left_out": max(0, changed - MOST_FILES),
        "events": trial.transcript.events,
        "asks": tuple(_view(AskView, ask) for ask in trial.transcript.asks),
    }
    return _view(TrialView, trial, **own)


def _view(kind: type[ViewT], source: object, **own: Any) -> ViewT:
    """Make a view whose fields are those of a record, but for its ``own``."""
    same = (name for name in kind.__struct_fields__ if name not in own)
    return kind(**{name: getattr(source, name) for name in same}, **own)


def _explaining_order(grade: Grade) -> tuple[int, float, float]:
    order = {False: 0, None: 1, True: 2}[grade.passed]
    return order, (grade.score or 0.0) - grade.threshold if order == 0 else 0.0, -grade.weight


def _grade(grade: Grade) -> GradeView:
    votes, details = tuple(_votes_of(grade)), dict(grade.details)
    # The votes have a field of their own, and need not stand there twice.
    if votes:
        details["judgement"] = {name: each for name, each in details["judgement"].items() if name != "votes"}
    checks = tuple(sorted(grade.checks, key=lambda check: check.passed))
    return _view(GradeView, grade, checks=checks, votes=votes, details=jsonable(details))


class StoredVote(FrozenValue, frozen=True):
    """A vote as a grade's details hold it; of several candidates that were compared each has scores."""

    scores: Mapping[str, float | None | Mapping[str, float | None]]
    judge: str = ""
    rationale: str = ""
    problem: str = ""


class _StoredJudgement(FrozenValue, frozen=True):
    votes: tuple[StoredVote, ...]


def stored_votes(grade: Grade) -> tuple[StoredVote, ...]:
    try:
        return from_builtins(_StoredJudgement, grade.details.get("judgement")).votes
    # Details are an author's own JSON: anybody's grader may have a "judgement" of another shape.
    except ValidationError:
        return ()


def _votes_of(grade: Grade) -> Iterator[VoteView]:
    for vote in stored_votes(grade):
        yield VoteView(vote.judge, dict(_dimensions(vote.scores)), vote.rationale, vote.problem)


def _dimensions(scores: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    for name, score in scores.items():
        if isinstance(score, Mapping):
            yield from ((f"{name}: {dimension}", value) for dimension, value in score.items())
        else:
            yield name, score


def _conversation(transcript: Transcript) -> Iterator[MessageView]:
    """Give the messages in order, with the calls that no message requested where their turn ends."""
    phase = 1
    for step in conversation_steps(transcript):
        if step.message is None:
            calls = tuple(map(_call, step.calls))
            seeded = all(call.by == "seed" for call in calls)
            yield MessageView("assistant", "", calls[0].turn, phase, seeded=seeded, calls=calls)
            continue
        message, ask, phase = step.message, step.ask, step.message.phase
        # Messages of others than assistants, who can ask for none, hold their calls themselves.
        of_message = step.calls or map(ConversationCall, message.calls)
        yield _view(
            MessageView,
            message,
            reasoning=ask.reasoning if ask else "",
            calls=tuple(map(_call, of_message)),
            usage=ask.usage if ask else None,
            seconds=ask.ended - ask.started if ask else None,
        )


def _call(step: ConversationCall) -> CallView:
    call, reply = step.execution or step.request, step.reply or ""
    result = jsonable(call.result)
    # Calls that a task's history holds were not carried out here: only messages tell their results.
    if step.execution is None:
        result, reply = shown_value(reply) if reply else None, ""
    return _view(
        CallView,
        call,
        args=jsonable(call.args),
        result=result,
        reply="" if _repeats_result(reply, call, result) else reply,
        executed=step.execution is not None or step.reply is not None,
    )


def _repeats_result(reply: str, call: ToolCall, result: Any) -> bool:
    """Whether a reply is no more than the result, or the error, written out."""
    if not reply or reply == result_text(call):
        return True
    if error := call.error:
        return reply.strip() in (error.message.strip(), f"{error.type}: {error.message}".strip())
    return not isinstance(result, str) and bool(shown_value(reply) == result)


Side: TypeAlias = tuple[Run, JournalEntry]
"""A trial in the run that holds it."""


class StoredTrial(FrozenValue, frozen=True):
    """A trial in its run; ``transcript`` is the file, the first byte and the length of what is known of it.

    ``note`` is what a person says about it, null without a note. ``trial`` is null where its
    transcript is lost, and what stands beside it is all that the journal knows.
    """

    run: str
    transcript: str
    name: str
    ending: Ending
    score: float | None
    reason: str
    note: Note | None
    trial: TrialView | None


class ShownTrial(StoredTrial, frozen=True):
    """A trial; ``old`` is the same one of the other run that was named, null where none was."""

    old: StoredTrial | None


class TrialsDocument(Document, frozen=True, kw_only=True):
    """The trials that were meant, the worst first where an ending was named."""

    trials: Sequence[ShownTrial]


def trials_document(sides: Sequence[tuple[Side | None, Side]]) -> TrialsDocument:
    """Make the document of trials, each old one beside its new one; None where no old one was named."""
    return TrialsDocument(
        trials=[
            ShownTrial(**_facts(*new), old=StoredTrial(**_facts(*old)) if old else None) for old, new in sides
        ]
    )


def _facts(run: Run, entry: JournalEntry) -> dict[str, Any]:
    trial = run.trial_if_readable(entry)
    return {
        "run": run.folder.name,
        "transcript": str(run.folder / str(entry.location)),
        "name": entry.key.label,
        "ending": entry.ending,
        "score": entry.score,
        "reason": short_reason(entry),
        "note": entry.note or None,
        "trial": trial_view(trial) if trial else None,
    }
