"""One trial as every report sees it: the conversation, each call with what came of it, the reasons."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pytest_agenteval.json_form import jsonable
from pytest_agenteval.records.grade import Check, Grade
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.transcript import (
    Ask,
    Event,
    Message,
    Role,
    TapeStatus,
    ToolCall,
    ToolError,
    Usage,
)
from pytest_agenteval.records.trial import Digests, Ending, TapeCounts, Trial
from pytest_agenteval.reports.explanations import ending_reason
from pytest_agenteval.reports.file_changes import MOST_FILES, FileChange, file_changes
from pytest_agenteval.reports.formatting import model_label

Replies = dict[tuple[int, str], deque[str]]
"""What tools' messages say, in order, by phase and id of the call."""


class CallView(FrozenValue, frozen=True):
    """A tool call with what came of it; see ``ToolCall``.

    ``reply`` is the text that the model got, where that is not just ``result`` or ``error`` written out.
    """

    tool: str
    args: Mapping[str, Any]
    raw_args: str | None
    result: Any
    error: ToolError | None
    started: float
    ended: float
    by: Literal["agent", "seed"]
    tape: TapeStatus
    turn: int
    index: int
    reply: str = ""


class MessageView(FrozenValue, frozen=True):
    """A message with the calls that it asked for, and what the model took to write it."""

    role: Role
    content: str
    turn: int
    phase: int
    seeded: bool
    reasoning: str = ""
    calls: tuple[CallView, ...] = ()
    usage: Usage | None = None
    seconds: float | None = None


class VoteView(FrozenValue, frozen=True):
    """What one judge found, each dimension from 0 to 1, None where it could not tell, or its ``problem``."""

    judge: str
    scores: Mapping[str, float | None]
    rationale: str
    problem: str


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

    @property
    def judges_disagree(self) -> bool:
        """Whether two judges gave one dimension of one grade different scores."""
        return any(_differ(grade.votes) for grade in self.grades)


def full_name(suite: str, task: str, model: str, variant: str, repetition: int) -> str:
    """Write which trial is meant, uncut: ``travel/cheapest_flight[claude@short-1]``."""
    return f"{suite}/{task}[{model_label(model, variant)}-{repetition}]"


def trial_view(trial: Trial) -> TrialView:
    """Give one trial as reports see it."""
    key, diff = trial.key, trial.outcome.diff
    changed = len(diff.created) + len(diff.modified) + len(diff.deleted)
    return TrialView(
        name=full_name(key.suite, key.task, key.model, key.variant, key.repetition),
        suite=key.suite,
        task=key.task,
        agent=key.agent,
        model=key.model,
        variant=key.variant,
        repetition=key.repetition,
        attempt=trial.attempt,
        bucket=trial.bucket,
        kind=trial.kind,
        file=trial.file,
        tags=trial.tags,
        ending=trial.ending,
        score=trial.score,
        reason=ending_reason(trial),
        limit=trial.limit,
        cause=trial.cause,
        message=trial.message,
        traceback=trial.traceback,
        started_at=trial.started_at,
        seconds=trial.seconds,
        messages=tuple(_conversation(trial)),
        answer=trial.outcome.answer.text,
        state=jsonable(trial.outcome.answer.state),
        grades=tuple(map(_grade, sorted(trial.grades, key=_explains))),
        files=tuple(file_changes(trial.outcome)),
        files_left_out=max(0, changed - MOST_FILES),
        events=trial.transcript.events,
        usage=trial.usage,
        judging=trial.judging,
        tool_tape=trial.tool_tape,
        chat_tape=trial.chat_tape,
        digests=trial.digests,
        output=trial.output,
        log=trial.log,
        workspace=trial.workspace,
    )


def _explains(grade: Grade) -> tuple[int, float, float]:
    order = {False: 0, None: 1, True: 2}[grade.passed]
    return order, (grade.score or 0.0) - grade.threshold if order == 0 else 0.0, -grade.weight


def _grade(grade: Grade) -> GradeView:
    judgement = grade.details.get("judgement")
    votes = judgement.get("votes") if isinstance(judgement, Mapping) else None
    details = dict(grade.details)
    if isinstance(judgement, Mapping):
        details["judgement"] = {name: value for name, value in judgement.items() if name != "votes"}
    return GradeView(
        grader=grade.grader,
        score=grade.score,
        value=grade.value,
        passed=grade.passed,
        threshold=grade.threshold,
        weight=grade.weight,
        required=grade.required,
        undecided=grade.undecided,
        rationale=grade.rationale,
        checks=tuple(sorted(grade.checks, key=lambda check: check.passed)),
        votes=tuple(_votes(votes)),
        details=jsonable(details),
    )


def _votes(votes: Any) -> Iterator[VoteView]:
    for vote in votes if isinstance(votes, Sequence) else ():
        get = vote.get
        scores = get("scores")
        yield VoteView(
            judge=str(get("judge", "")),
            scores=scores if isinstance(scores, Mapping) else NOTHING,
            rationale=str(get("rationale", "")),
            problem=str(get("problem", "")),
        )


def _differ(votes: Iterable[VoteView]) -> bool:
    scores: dict[str, set[float]] = defaultdict(set)
    for vote in votes:
        for dimension, score in vote.scores.items():
            if score is not None:
                scores[dimension].add(score)
    return any(len(values) > 1 for values in scores.values())


class _Calls:
    """The calls that were carried out, given out once each to the messages that asked for them."""

    def __init__(self, calls: Iterable[ToolCall]) -> None:
        self._left = list(calls)

    def take(self, call: ToolCall) -> ToolCall:
        """Give the call that was carried out for one that was asked for; that itself, where none was."""
        for at, made in enumerate(self._left):
            if made.id == call.id and made.tool == call.tool and made.by == call.by:
                return self._left.pop(at)
        return call

    def before(self, turn: int) -> list[ToolCall]:
        """Take the calls of earlier turns that no message asked for: an agent's own code made them."""
        earlier = [call for call in self._left if call.turn < turn]
        self._left = [call for call in self._left if call.turn >= turn]
        return earlier


def _conversation(trial: Trial) -> Iterator[MessageView]:
    """Give the messages in order, with the calls that no message asked for where their turn ends."""
    transcript = trial.transcript
    asks = {ask.turn: ask for ask in transcript.asks}
    calls, replies = _Calls(transcript.calls), _replies(transcript.messages)
    ids_of_calls = {call.id for message in transcript.messages for call in message.calls}
    for message in transcript.messages:
        if message.role == "tool" and message.call_id in ids_of_calls:
            continue
        ask = asks.pop(message.turn, None) if message.role == "assistant" and not message.seeded else None
        made = [calls.take(call) for call in message.calls]
        yield from _own_calls(calls.before(message.turn), message.phase)
        yield _message(message, made, replies, ask)
    yield from _own_calls(calls.before(max((call.turn for call in transcript.calls), default=0) + 1), 1)


def _own_calls(calls: Sequence[ToolCall], phase: int) -> Iterator[MessageView]:
    if calls:
        views = tuple(_call(call, "") for call in calls)
        yield MessageView("assistant", "", calls[0].turn, phase, seeded=False, calls=views)


def _message(message: Message, calls: Iterable[ToolCall], replies: Replies, ask: Ask | None) -> MessageView:
    return MessageView(
        role=message.role,
        content=message.content,
        turn=message.turn,
        phase=message.phase,
        seeded=message.seeded,
        reasoning=ask.reasoning if ask else "",
        calls=tuple(_call(call, _next(replies, message.phase, call)) for call in calls),
        usage=ask.usage if ask else None,
        seconds=ask.ended - ask.started if ask else None,
    )


def _replies(messages: Iterable[Message]) -> Replies:
    """Give what tools' messages say, by phase and call; models may use an id again."""
    replies: Replies = defaultdict(deque)
    for message in messages:
        if message.role == "tool":
            replies[message.phase, message.call_id].append(message.content)
    return replies


def _next(replies: Replies, phase: int, call: ToolCall) -> str:
    of_call = replies.get((phase, call.id))
    return of_call.popleft() if of_call else ""


def _call(call: ToolCall, reply: str) -> CallView:
    result = jsonable(call.result)
    if result is None and call.error is None:  # of a given conversation only the messages are there
        result, reply = _parsed(reply), ""
    return CallView(
        tool=call.tool,
        args=jsonable(call.args),
        raw_args=call.raw_args,
        result=result,
        error=call.error,
        started=call.started,
        ended=call.ended,
        by=call.by,
        tape=call.tape,
        turn=call.turn,
        index=call.index,
        reply="" if _says_the_same(reply, result, call.error) else reply,
    )


def _says_the_same(reply: str, result: Any, error: ToolError | None) -> bool:
    if error is not None:
        return error.message in reply
    if isinstance(result, str):
        return reply == result
    return bool(_parsed(reply) == result)


def _parsed(reply: str) -> Any:
    """Give the JSON value that a reply is, else its text; None for an empty one."""
    try:
        return json.loads(reply)
    except (ValueError, RecursionError):
        return reply or None
