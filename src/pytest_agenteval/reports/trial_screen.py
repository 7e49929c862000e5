"""One trial on the terminal: how it ended and why, the conversation, what it left."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from pytest_agenteval.records.explanation import check_sides, failed_checks, needs_text
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    cost_figure,
    format_cost,
    format_tokens,
    token_figure,
)
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.reports.conversation import CallView, MessageView
from pytest_agenteval.reports.resource_text import turn_cell, turn_time
from pytest_agenteval.reports.trial_difference import value_text
from pytest_agenteval.reports.trial_view import ROUTINE_EVENTS, FileChange, GradeView, Hunk, TrialView
from pytest_agenteval.store.notes import NO_NOTE, Note
from pytest_agenteval.text.errors import ELAPSED_MORE
from pytest_agenteval.text.formatting import (
    CUT,
    INDENT,
    Style,
    StyledLine,
    cell_width,
    cut,
    ending_word,
    flow,
    format_duration,
    format_figure,
    format_moment,
    one_line,
    pad,
    pluralize,
    printable,
    wrap,
    wrapped_lines,
)

TAB = 4
FOLDED_LINES = 12
FOLDED_CHARACTERS = 2000
MOST_SHORT = 4000
"""Characters of a text that are looked at where only one line of it is shown."""

MOST_KEY, LEAST_VALUE = 40, 8


class Detail(FrozenValue, frozen=True):
    """How much is shown: the most telling parts in ``width`` columns or, where ``full``, everything, uncut.

    Full texts are not wrapped: a terminal does that, and so a copy of a text is the text.
    """

    width: int
    full: bool = False


def block_lines(
    text: str,
    detail: Detail,
    indent: str = "",
    most: int = FOLDED_LINES,
    unfolded_by: str = "--full",
    style: Style = "",
) -> Iterator[StyledLine]:
    """Give a text as indented lines: all, or the first ``most`` with a line about the rest.

    That line names the size of the text and ``unfolded_by``, the way to see all of it.
    """
    # Cut before anything else: wrapping ten megabytes in one word would take hours.
    folded = text if detail.full else text.strip("\n")[:FOLDED_CHARACTERS]
    lines = [printable(line.expandtabs(TAB)) for line in folded.splitlines()]
    if detail.full:
        yield from (StyledLine(f"{indent}{line}".rstrip(), style) for line in lines)
        return
    text = text.strip("\n")
    visible = [piece for line in lines[:most] for piece in wrap(indent + line, detail.width)]
    yield from (StyledLine(piece.rstrip(), style) for piece in visible[: 2 * most])
    if len(text) > FOLDED_CHARACTERS or len(lines) > most or len(visible) > 2 * most:
        all_lines, size = text.count("\n") + 1, f"{len(text):,} characters"
        size = f"{all_lines:,} lines, {size}" if all_lines > 1 else size
        yield StyledLine(f"{indent}{CUT} {size} in all ({unfolded_by})", style)


def more_line(
    number: int, thing: str, indent: str = INDENT * 2, how: str = " (--full)"
) -> Iterator[StyledLine]:
    """Give the line that counts what is not shown; nothing where all is."""
    if number > 0:
        yield StyledLine(f"{indent}and {pluralize(number, f'more {thing}')}{how}", "dim")


def _first_line(text: str, most: int) -> str:
    return cut(one_line(text, max(1, min(most, MOST_SHORT))), most)


def compact_json(value: Any) -> str:
    """Write a JSON value on one line; a text is in quotes, any other object is its ``repr``."""
    return json.dumps(value, ensure_ascii=False, default=repr)


def arguments_text(args: Mapping[str, Any], raw_args: str | None, most: int) -> str:
    """Write arguments on one line: ``path="a.md", limit=3``; long values share what short ones leave."""
    if raw_args is not None:
        return _first_line(raw_args, most)
    values = {}
    for name, value in args.items():
        text = compact_json(value[:MOST_SHORT] if isinstance(value, str) else value)
        values[one_line(name, MOST_KEY)] = one_line(text, MOST_SHORT)
    # Going from the shortest value to the longest, each gets an equal part of the room that is left.
    room = most - sum(cell_width(name) + len("=, ") for name in values)
    widest = dict.fromkeys(values, LEAST_VALUE)
    for remaining, name in zip(
        range(len(values), 0, -1), sorted(values, key=lambda name: len(values[name])), strict=True
    ):
        widest[name] = max(LEAST_VALUE, room // remaining)
        room -= min(widest[name], cell_width(values[name]))
    return cut(", ".join(f"{name}={cut(value, widest[name])}" for name, value in values.items()), most)


ARROW = " -> "
MARKS = {"hit": "replayed", "miss": "not recorded", "live": "live", "none": ""}
"""How a call met its tape."""

LEAST_ARGUMENTS, LEAST_RESULT = 8, 16
MOST_TOOL = 60
MOST_CALLS = 40
"""Calls of one message that are shown where not all is."""


def conversation_lines(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    """Give the conversation; system prompts and seeded messages take a line each, unless all is shown."""
    phase = 1
    for message in view.messages:
        if message.phase != phase:
            phase = message.phase
            yield StyledLine(f"{INDENT}-- conversation {phase}", "dim")
        yield from message_lines(message, detail)


def message_lines(message: MessageView, detail: Detail) -> Iterator[StyledLine]:
    """Give one message: a head with its role, time and tokens, then its text and its calls."""
    given = message.seeded and message.role != "system"
    who = f"{message.role}, given" if given else message.role
    if (message.role == "system" or (message.seeded and not message.calls)) and not detail.full:
        size = pluralize(message.content.count("\n") + 1, "line")
        head = f"{INDENT}{who}, {size}: "
        room = detail.width - cell_width(head)
        yield StyledLine(head + _first_line(message.content, room), "dim")
    else:
        is_model_turn = message.role == "assistant" and not message.seeded
        parts = [f"turn {message.turn}"] if message.turn and is_model_turn else []
        if message.seconds is not None:
            parts.append(format_duration(message.seconds))
        if message.usage and message.usage.tokens:
            parts.append(pluralize(message.usage.tokens, "token"))
        about = f"  {', '.join(parts)}" if parts else ""
        yield from wrapped_lines(f"{who}{about}", detail.width, "cyan")
        if message.reasoning and detail.full:
            yield StyledLine(f"{INDENT * 2}(thinking)", "dim")
            yield from block_lines(message.reasoning, detail, INDENT * 3, style="dim")
        elif message.reasoning:
            head = f"{INDENT * 2}(thinking) "
            yield StyledLine(head + _first_line(message.reasoning, detail.width - cell_width(head)), "dim")
        yield from block_lines(message.content, detail, INDENT * 2)
    if message.role == "assistant" and not (message.content or message.calls or message.reasoning):
        yield StyledLine(f"{INDENT * 2}(empty)", "dim")
    calls = message.calls if detail.full else message.calls[:MOST_CALLS]
    for call in calls:
        yield from call_lines(call, detail)
    yield from more_line(len(message.calls) - len(calls), "call")


def call_lines(call: CallView, detail: Detail) -> Iterator[StyledLine]:
    """Give a call as ``tool(args) -> result`` with its mark at the right edge, or in full on more lines."""
    mark = ", ".join(filter(None, ("given" if call.by == "seed" else "", MARKS[call.tape])))
    if not detail.full:
        room = detail.width - len(INDENT) * 2 - (cell_width(mark) + 2 if mark else 0)
        line = pad(INDENT * 2 + _call_text(call, room), detail.width - cell_width(mark)) + mark
        yield StyledLine(line.rstrip(), _call_style(call))
        return
    took = format_duration(call.ended - call.started) if call.ended else ""
    about = ", ".join(filter(None, (mark, took)))
    head = f"{INDENT * 2}{one_line(call.tool, MOST_TOOL)}" + (f"  {about}" if about else "")
    yield StyledLine(head, _call_style(call) or "bold")
    args = call.raw_args if call.raw_args is not None else dict(call.args)
    yield from block_lines(value_text(args), detail, INDENT * 3)
    text = _no_result(call) if call.result is None else value_text(call.result)
    yield StyledLine(f"{INDENT * 2}->", "dim")
    yield from block_lines(call.failure if call.error else text, detail, INDENT * 3)
    if call.reply:
        yield StyledLine(f"{INDENT * 2}-> as shown to the model", "dim")
        yield from block_lines(call.reply, detail, INDENT * 3)


def _call_text(call: CallView, room: int) -> str:
    """Write a call and its result on one line of at most ``room`` columns."""
    tool = one_line(call.tool, MOST_TOOL)
    result = call.failure
    if call.error is None:
        value = call.result[:MOST_SHORT] if isinstance(call.result, str) else call.result
        result = _no_result(call) if value is None else compact_json(value)
    result = _first_line(result, room)
    # Where both do not fit, arguments get what the result leaves, and at least half.
    room_for_both = room - cell_width(f"{tool}(){ARROW}")
    for_args = max(LEAST_ARGUMENTS, room_for_both - cell_width(result), room_for_both // 2)
    text = f"{tool}({arguments_text(call.args, call.raw_args, for_args)}){ARROW}"
    return cut(text + cut(result, max(LEAST_RESULT, room - cell_width(text))), room)


def _no_result(call: CallView) -> str:
    return "nothing" if call.executed else "not executed"


def _call_style(call: CallView) -> Style:
    return "red" if call.tape == "miss" else "yellow" if call.error else ""


MOST_FILES = 12
MOST_LINES = 24
"""Lines of one file's diff that are shown where not all is."""

MOST_PATH = 300


def _workspace_lines(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    files = view.files if detail.full else view.files[:MOST_FILES]
    for file in files:
        yield from file_lines(file, detail)
    how = " (--full)" if len(files) < len(view.files) else " that are not compared"
    yield from more_line(len(view.files) - len(files) + view.files_left_out, "file", INDENT, how)


def file_lines(file: FileChange, detail: Detail) -> Iterator[StyledLine]:
    note = f", {printable(file.note)}" if file.note else ""
    # Blanks that come together are part of a path; a tab or a line break in it is written out.
    path = cut(printable(file.path).replace("\t", "\\t").replace("\n", "\\n"), MOST_PATH)
    yield from wrapped_lines(f"{path}  {file.change}{note}", detail.width, "bold")
    lines = list(hunk_lines(file.hunks))
    visible = lines if detail.full else lines[:MOST_LINES]
    for line in visible:
        text = f"{INDENT * 2}{printable(line.text.expandtabs(TAB))}" if line.text.strip() else ""
        yield StyledLine(text if detail.full else cut(text, detail.width), line.style)
    if len(visible) < len(lines):
        remaining = pluralize(len(lines) - len(visible), "more line")
        yield StyledLine(f"{INDENT * 2}… {remaining} (--full)", "dim")


def hunk_lines(hunks: Sequence[Hunk]) -> Iterator[StyledLine]:
    """Give hunks as a unified diff, as ``patch`` takes it."""
    for hunk in hunks:
        old = _range(hunk.old_start, sum(row[1] is not None for row in hunk.rows))
        new = _range(hunk.new_start, sum(row[2] is not None for row in hunk.rows))
        yield StyledLine(f"@@ -{old} +{new} @@", "cyan")
        # A unified diff has all removed lines of a stretch before the added ones, where rows have pairs.
        for is_equal, stretch in groupby(hunk.rows, lambda row: row[0] == " "):
            rows = list(stretch)
            if is_equal:
                yield from (StyledLine(f" {before}") for _, before, _ in rows)
                continue
            yield from (StyledLine(f"-{before}", "red") for _, before, _ in rows if before is not None)
            yield from (StyledLine(f"+{after}", "green") for _, _, after in rows if after is not None)


def _range(start: int, lines: int) -> str:
    """Write a range as unified diffs do: an empty one has the number of the line before it."""
    return f"{start if lines else start - 1},{lines}"


MOST_CHECKS = 12
MOST_GRADER_NAME = 60
MOST_TRACEBACK = 30
SIDE = len("expected  ")


def reason_lines(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    """Give the error and the limit of a trial, its failed and undecided grades, then the others."""
    if view.cause:
        yield StyledLine(f"{INDENT}{one_line(view.cause, MOST_GRADER_NAME)}", "red")
    yield from block_lines(view.message, detail, INDENT * 2)
    # The end of a traceback names the error, so its beginning is left out.
    trace = view.traceback.splitlines()
    visible = trace if detail.full else trace[-MOST_TRACEBACK:]
    if len(visible) < len(trace):
        remaining = pluralize(len(trace) - len(visible), "line")
        yield StyledLine(f"{INDENT * 2}… {remaining} of the traceback above (--full)", "dim")
    yield from (StyledLine(f"{INDENT * 2}{printable(line.expandtabs(4))}", "dim") for line in visible)
    if view.limit:
        yield StyledLine(f"{INDENT}limit reached: {_first_line(view.limit, detail.width - 18)}", "yellow")
    # Grades that could not tell for one reason stand together, in the place of the first of them.
    groups: dict[tuple[str, str], list[GradeView]] = defaultdict(list)
    for grade in () if detail.full else filter(_is_bare, view.grades):
        groups[grade.undecided, grade.rationale].append(grade)
    alike = {id(group[0]): group for group in groups.values()}
    for grade in view.grades:
        if id(grade) in alike:
            grades = alike[id(grade)]
            names = ", ".join(
                f"{one_line(each.grader, MOST_GRADER_NAME)}{_grade_settings(each)}" for each in grades
            )
            yield from wrapped_lines(f"{names}  {_score(grades[0])}", detail.width, "yellow")
            yield from block_lines(grades[0].rationale, detail, INDENT * 2)
        elif not (grade.passed or _is_bare(grade)) or detail.full or grade.votes:
            yield from grade_lines(grade, detail)
    if not detail.full:
        for line in _in_a_line(view):
            yield from (StyledLine(piece, "dim") for piece in wrap(line, detail.width))


def _is_bare(grade: GradeView) -> bool:
    """Whether a grade is undecided and has nothing but the reason for it."""
    return grade.passed is None and not grade.checks and not grade.votes


def _in_a_line(view: TrialView) -> Iterator[str]:
    """Name the passed grades without votes, those that no score can fail apart from the others."""
    # At a threshold of 0 every score passes: to call such a measure passed would say too much.
    unremarkable = [grade for grade in view.grades if grade.passed and not grade.votes]
    measures = [grade for grade in unremarkable if grade.threshold <= 0 and not grade.checks]
    passed = [grade for grade in unremarkable if grade not in measures]
    for label, grades in (("passed", passed), ("measured, any score passes", measures)):
        names = [f"{one_line(grade.grader, MOST_GRADER_NAME)} {_score(grade)}" for grade in grades]
        if names:
            yield f"{INDENT}{label}: {', '.join(names)}"


def grade_lines(grade: GradeView, detail: Detail) -> Iterator[StyledLine]:
    """Give one grade: score, failed checks with what was expected and found, votes with their reasons."""
    failed = failed_checks(grade.checks)
    style: Style = "yellow" if grade.passed is None else "dim" if grade.passed else "red"
    head = f"{INDENT}{one_line(grade.grader, MOST_GRADER_NAME)}  {_score(grade)}"
    head += ("" if grade.score is None else needs_text(grade.threshold)) + _grade_settings(grade)
    if failed:
        head += f"  {len(failed)} of {pluralize(len(grade.checks), 'check')} failed"
    yield from (StyledLine(line, style) for line in wrap(head, detail.width))
    # `Grade.from_checks` writes the failed checks into the rationale: they need not stand there twice.
    if not failed or detail.full:
        yield from block_lines(grade.rationale, detail, INDENT * 2)
    for check in grade.checks if detail.full else failed[:MOST_CHECKS]:
        mark = "ok" if check.passed else "not met"
        yield from block_lines(f"{mark}: {check.claim}", detail, INDENT * 2, most=3)
        for label, text in check_sides(check):
            yield from labelled(label, text, detail, INDENT * 3)
    yield from more_line(0 if detail.full else len(failed) - MOST_CHECKS, "failed check")
    for vote in grade.votes:
        scores = vote.scores_text(MOST_GRADER_NAME) or "none"
        title = f"{INDENT * 2}vote of {one_line(vote.judge, MOST_GRADER_NAME)}: {scores}"
        yield from (StyledLine(line, "bold") for line in wrap(title, detail.width))
        if vote.problem:
            yield from block_lines(vote.problem, detail, INDENT * 3, style="yellow")
        yield from block_lines(vote.rationale, detail, INDENT * 3)


def labelled(label: str, text: str, detail: Detail, indent: str, most: int = 6) -> Iterator[StyledLine]:
    """Give a label with the text behind it; later lines of the text are aligned with its first."""
    hung = indent + " " * SIDE
    first, *others = [*block_lines(text, detail, hung, most=most)] or [StyledLine(hung)]
    yield StyledLine(f"{indent}{label:<{SIDE}}{first.text[len(hung) :]}".rstrip())
    yield from others


def _score(grade: GradeView) -> str:
    if grade.score is None:
        why = one_line(grade.undecided, MOST_GRADER_NAME)
        return f"undecided ({why})" if grade.undecided else "undecided"
    measured = f" (measured {format_figure(grade.value)})" if grade.value != grade.score else ""
    return format_figure(grade.score) + measured


def _grade_settings(grade: GradeView) -> str:
    # Behind a score it stands without brackets.
    is_open = grade.score is None and grade.threshold != 1.0
    parts = [f"needs {format_figure(grade.threshold)}"] if is_open else []
    parts += [f"weight {grade.weight:g}"] if grade.weight != 1.0 else []
    parts += ["required"] if grade.required else []
    return f" ({', '.join(parts)})" if parts else ""


MOST_TRIAL_NAME = 300
MOST_EVENTS = 20


class TrialPlace(FrozenValue, frozen=True):
    """Where a trial stands: its run, its transcript; what the run says of its model, and a person of it."""

    run: str
    transcript: str = ""
    model_note: str = ""
    note: Note = NO_NOTE


def trial_lines(view: TrialView, place: TrialPlace, detail: Detail) -> Iterator[StyledLine]:
    """Give everything that is known of a trial, the reason first; sections without a line are left out."""
    head = f"{ending_word(view.ending, view.score)}  {one_line(view.name, MOST_TRIAL_NAME)}"
    yield from (StyledLine(line, ending_style(view)) for line in wrap(head, detail.width))
    for facts in (who_facts(view, place), resource_facts(view), _trial_facts(view)):
        yield from map(StyledLine, flow(facts, detail.width, INDENT))
    yield from note_lines(place.note, view.attempt, detail)
    yield from section("why", reason_lines(view, detail))
    yield from section("conversation", conversation_lines(view, detail))
    # Most answers are the last message, which stands right above.
    last_text = view.messages[-1].content if view.messages else ""
    answer = "" if last_text.strip() == view.answer.strip() else view.answer
    yield from section("answer", block_lines(answer, detail, INDENT))
    if view.state:
        yield from section("state", block_lines(value_text(view.state), detail, INDENT))
    # Created, then modified, then deleted ones, as the files come.
    counts = [f"{count} {change}" for change, count in Counter(file.change for file in view.files).items()]
    left_out = [f"{view.files_left_out} more"] if view.files_left_out else []
    title = cut(f"workspace: {', '.join([*counts, *left_out])}", detail.width)
    yield from section(title, _workspace_lines(view, detail))
    yield from section("events", _events(view, detail))
    yield from section("printed", block_lines(view.output, detail, INDENT))
    yield from section("logged", block_lines(view.log, detail, INDENT))
    if detail.full:
        yield from section("digests", _digests(view))
    yield from section("where", _where(view, place))


def note_lines(note: Note, attempt: int, detail: Detail) -> Iterator[StyledLine]:
    """Give what a person says about a trial, of which this attempt is shown."""
    if not note:
        return
    earlier = f" of attempt {note.attempt}" if note.attempt != attempt else ""
    when = f"looked at {format_moment(note.looked_at)}" if note.looked_at else f"note{earlier}"
    if not note.comment:
        yield StyledLine(f"{INDENT}{when}", "cyan")
        return
    comment = note.comment.strip()
    if "\n" not in comment and cell_width(comment) <= detail.width:
        yield from wrapped_lines(f"{when}: {comment}", detail.width, "cyan")
    else:
        yield StyledLine(f"{INDENT}{when}:", "cyan")
        yield from block_lines(comment, detail, INDENT * 2, style="cyan")


def section(title: str, lines: Iterator[StyledLine]) -> Iterator[StyledLine]:
    """Give lines below an empty one and a title; nothing where there are no lines."""
    first = next(lines, None)
    if first is not None:
        yield from (StyledLine(""), StyledLine(title, "bold"), first)
        yield from lines


def ending_style(view: TrialView) -> Style:
    return {"passed": "green", "missed": "yellow"}.get(view.ending, "red")  # type: ignore[return-value]


def who_facts(view: TrialView, place: TrialPlace) -> Iterator[str]:
    """Give the model, prompt, run and time of a trial; callers leave out texts that are empty."""
    model = one_line(view.model, MOST_TRIAL_NAME)
    yield f"{model} ({place.model_note})" if place.model_note else model
    yield f"prompt {one_line(view.variant, MOST_TRIAL_NAME)}" if view.variant else ""
    yield f"run {printable(place.run)}"
    yield format_moment(view.started_at)


def resource_facts(view: TrialView) -> Iterator[str]:
    """Give the time, tokens and cost of the agent, and the tokens and cost of its judges."""
    # The limit counts the agent's own time. It is shown only where waiting and retries took notably more.
    charged = max(0.0, view.seconds - view.uncharged_seconds)
    part = f" ({format_duration(charged)} of its limit)" if view.seconds > charged * ELAPSED_MORE else ""
    if view.wall_seconds is not None:
        yield f"wall {format_duration(view.wall_seconds)}"
    yield f"agent {format_duration(view.seconds)}{part}"
    usage = view.usage
    if usage != NO_USAGE:
        yield format_tokens(token_figure(usage))
        yield format_cost(cost_figure(usage))
    turns = view.turns
    if turns.p50 is None and turns.unknown:
        yield "turn times unknown"
    elif turns.p50 is not None and (cell := turn_cell(turns)):
        only = turns.count == 1
        yield f"1 turn of {turn_time(turns.p50)}" if only else f"{turns.count:,} turns p50/p95 {cell}"
    if view.judging.asks:
        judging = view.judging
        yield f"judges: {format_tokens(token_figure(judging))}, {format_cost(cost_figure(judging))}"


def _trial_facts(view: TrialView) -> Iterator[str]:
    yield f"bucket {one_line(view.bucket, MOST_TRIAL_NAME)}" if view.bucket else ""
    yield view.kind
    yield "held out" if view.split == "held_out" else ""
    yield f"attempt {view.attempt}" if view.attempt > 1 else ""
    yield _tape("tools", view.tool_tape)
    yield _tape("chats", view.chat_tape)


def _tape(what: str, counts: TapeCounts) -> str:
    parts = (
        ("replayed", counts.hits),
        ("not recorded", counts.misses),
        ("sent and recorded", counts.recorded),
    )
    words = ", ".join(f"{count:,} {word}" for word, count in parts if count)
    return f"{what}: {words}" if words else ""


def _events(view: TrialView, detail: Detail) -> Iterator[StyledLine]:
    events = [event for event in view.events if detail.full or event.kind not in ROUTINE_EVENTS]
    visible = events if detail.full else events[:MOST_EVENTS]
    for event in visible:
        head = f"{INDENT}{format_duration(event.at):>8}  {one_line(event.kind, 40)}  "
        text = " ".join(event.text.split()) if detail.full else event.text
        line = printable(head + text) if detail.full else head + _first_line(text, detail.width - len(head))
        yield StyledLine(line)
        if detail.full and event.details:
            yield from block_lines(value_text(event.details), detail, INDENT * 6)
    yield from more_line(len(events) - len(visible), "event", INDENT)


def _digests(view: TrialView) -> Iterator[StyledLine]:
    digests = view.digests.to_json()
    graders = digests.pop("graders", {})
    for name, value in (*digests.items(), *(graders or {}).items()):
        if value:
            yield StyledLine(f"{INDENT}{one_line(name, 60)}: {one_line(str(value), 100)}")


def _where(view: TrialView, place: TrialPlace) -> Iterator[StyledLine]:
    # Paths are never cut: they are there to be copied.
    paths = {"task": view.file, "transcript": place.transcript, "workspace": view.workspace}
    for label, path in paths.items():
        if path:
            yield StyledLine(f"{INDENT}{label:<12}{printable(path)}")
