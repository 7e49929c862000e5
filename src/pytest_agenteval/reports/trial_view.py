"""One trial as every report sees it: the reasons, the conversation, what it changed, what it was made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from msgspec import ValidationError

from pytest_agenteval.compare.resource_figures import ResourceFigures, TurnTimes, trial_turns
from pytest_agenteval.records.evidence import Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.explanation import ending_reason, short_reason
from pytest_agenteval.records.plan import Split, own_label
from pytest_agenteval.records.record import Document, FrozenValue, from_builtins
from pytest_agenteval.records.transcript import (
    PROMPT_READ,
    Event,
    Usage,
    cost_figure,
    sum_figures,
    token_figure,
    used_other_models,
)
from pytest_agenteval.records.trial import Digests, Ending, TapeCounts, Trial
from pytest_agenteval.reports.conversation import MessageView, make_view, message_views
from pytest_agenteval.reports.run_view import acting_model
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.notes import Note
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import format_figure, one_line
from pytest_agenteval.text.json_values import json_digest, jsonable

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


class EventGroup(FrozenValue, frozen=True):
    """The events of one kind; ``mark`` is the same for groups that say the same, whenever it happened.

    A group that ``is_routine`` is in every trial, and is counted rather than shown.
    """

    kind: str
    count: int
    mark: str
    is_routine: bool


class TrialMarks(FrozenValue, frozen=True):
    """What two trials are compared by, beside the steps of their conversations.

    ``made_of`` has what the trial was made of, by the name that authors use, each with its digest; what is
    not known is not there. ``state`` is the digest of the agent's end state.
    """

    made_of: Mapping[str, str]
    state: str
    events: tuple[EventGroup, ...]


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
    marks: TrialMarks = TrialMarks({}, "", ())
    wall_seconds: float | None = None
    turns: TurnTimes = TurnTimes()

    @property
    def resources(self) -> ResourceFigures:
        """What the trial took, as a run's figures are written."""
        # Of a trial whose process died nothing is known.
        seconds = None if self.usage.asks is None and not self.seconds else self.seconds
        return ResourceFigures(
            sum_figures([self.wall_seconds]),
            token_figure(self.usage),
            cost_figure(self.usage),
            sum_figures([seconds]),
            self.turns,
        )


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


INGREDIENTS = {
    "input": "task input",
    "fixture": "starting workspace",
    "prompt": "prompt",
    "code": "agent code",
    "settings": "agent settings",
    "tools": "tools",
    "model": "model",
    "ruler": "graders",
    "sent": "messages sent to models",
}
"""What a trial is made of, by the digest that tells it, as authors call it."""

ROUTINE_EVENTS = ("judge_ask", PROMPT_READ)
"""Events of every trial: the head has what judges took."""


def _marks(trial: Trial, state: Any) -> TrialMarks:
    # One text each: a page compares them by what they are, and maps are never the same there.
    digests = {
        words: str(getattr(trial.digests, name)) for name, words in INGREDIENTS.items() if name != "sent"
    }
    digests[INGREDIENTS["sent"]] = json_digest(dict(trial.digests.sent))
    # Trials of earlier versions do not know what was sent, and unknown is no difference.
    if not trial.digests.sent:
        del digests[INGREDIENTS["sent"]]
    texts: dict[str, list[str]] = {}
    for event in trial.transcript.events:
        texts.setdefault(event.kind, []).append(event.text)
    groups = (
        EventGroup(kind, len(said), json_digest(said), kind in ROUTINE_EVENTS) for kind, said in texts.items()
    )
    return TrialMarks(digests, json_digest(state), tuple(groups))


def trial_view(trial: Trial) -> TrialView:
    state = jsonable(trial.outcome.answer.state)
    diff = trial.outcome.diff
    changed = len(diff.created) + len(diff.modified) + len(diff.deleted)
    own = {
        **trial.key._asdict(),
        "name": trial.key.label,
        "model": model_of(trial),
        "reason": ending_reason(trial),
        "messages": tuple(message_views(trial.transcript)),
        "answer": trial.outcome.answer.text,
        "state": state,
        "grades": tuple(map(_grade, sorted(trial.grades, key=_explaining_order))),
        "files": tuple(file_changes(trial.outcome)),
        "files_left_out": max(0, changed - MOST_FILES),
        "events": trial.transcript.events,
        "asks": tuple(make_view(AskView, ask) for ask in trial.transcript.asks),
        "marks": _marks(trial, state),
        "turns": trial_turns(trial),
    }
    return make_view(TrialView, trial, **own)


def _explaining_order(grade: Grade) -> tuple[int, float, float]:
    order = {False: 0, None: 1, True: 2}[grade.passed]
    return order, (grade.score or 0.0) - grade.threshold if order == 0 else 0.0, -grade.weight


def _grade(grade: Grade) -> GradeView:
    votes, details = tuple(_votes_of(grade)), dict(grade.details)
    # The votes have a field of their own, and need not stand there twice.
    if votes:
        details["judgement"] = {name: each for name, each in details["judgement"].items() if name != "votes"}
    checks = tuple(sorted(grade.checks, key=lambda check: check.passed))
    return make_view(GradeView, grade, checks=checks, votes=votes, details=jsonable(details))


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
