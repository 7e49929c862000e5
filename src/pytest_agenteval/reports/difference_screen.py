"""Two trials beside each other on the terminal: what differs first, word by word.

Words that one side lacks stand in marks, ``[-old-]{+new+}``, so that they are seen without colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Check, expected_beyond_claim
from pytest_agenteval.reports.resource_text import change_texts
from pytest_agenteval.reports.text_difference import Run, compare_texts, fold_runs
from pytest_agenteval.reports.trial_difference import (
    RESULT,
    EventChange,
    FilePair,
    GradeChange,
    PartDifference,
    Step,
    Stretch,
    TrialDifference,
    compare_files,
    compare_steps,
    compare_trials,
    steps_of,
    value_text,
)
from pytest_agenteval.reports.trial_screen import (
    MOST_TOOL,
    MOST_TRIAL_NAME,
    TAB,
    Detail,
    TrialPlace,
    block_lines,
    call_lines,
    ending_style,
    file_lines,
    labelled,
    message_lines,
    more_line,
    section,
    who_facts,
)
from pytest_agenteval.reports.trial_view import FileChange, GradeView, TrialView
from pytest_agenteval.text.formatting import (
    CUT,
    INDENT,
    Span,
    Style,
    StyledLine,
    cut,
    ending_word,
    flow,
    format_figure,
    one_line,
    pad,
    pluralize,
    printable,
    wrap,
    wrap_styled,
    wrapped_lines,
)

SIDE_BY_SIDE = 120
"""Columns from which on two trials stand beside each other."""

BETWEEN = " | "
MOST_CHECKS, MOST_GRADER = 12, 60
MOST_CONVERSATION = 160
"""Lines of the conversation after which no further step is shown."""

MOST_PART, MOST_RUN_LINES, MOST_RUN = 24, 6, 400
"""Lines of one part of a step; and lines and characters of one run of words that a side lacks."""

Side = Literal["both", "old", "new"]
SIDES: tuple[Side, Side] = ("old", "new")


def difference_lines(
    old: TrialView, new: TrialView, places: tuple[TrialPlace, TrialPlace], detail: Detail
) -> Iterator[StyledLine]:
    """Give what differs between two trials: outcome and ingredients, grades, conversation, answer, files."""
    found = compare_trials(old, new)
    names = " -> ".join(dict.fromkeys(one_line(view.name, MOST_TRIAL_NAME) for view in (old, new)))
    endings = " -> ".join(ending_word(view.ending, view.score) for view in (old, new))
    for line in wrap(f"{endings}  {names}", detail.width):
        yield StyledLine(line, ending_style(new))
    for side, view, place in zip(("old", "new"), (old, new), places, strict=True):
        facts = (side, *who_facts(view, place))
        yield from map(StyledLine, flow(facts, detail.width, INDENT))
    took = change_texts(old.resources, new.resources)
    yield from map(StyledLine, flow(took, detail.width, INDENT))
    changed = f"changed: {', '.join(found.made_of)}" if found.made_of else ""
    same = "No difference found in task, prompts, settings, tools or code."
    yield from wrapped_lines(changed or same, detail.width, "bold")
    yield from section("grades", _grade_lines(old, new, found, detail))
    yield from section("conversation", _conversation(old, new, found.stretches, detail))
    if found.has_answer:
        yield from section("answer", _text_lines(old.answer, new.answer, detail))
    if found.has_state:
        before, after = (value_text(dict(view.state)) for view in (old, new))
        yield from section("state", _text_lines(before, after, detail))
    yield from section("workspace", _workspace(old, new, found, detail))
    yield from section("events", _event_lines(found.events, detail))


def _grade_lines(
    old: TrialView, new: TrialView, found: TrialDifference, detail: Detail
) -> Iterator[StyledLine]:
    """Give the grades that changed, with the checks that flipped, and count the others."""
    for change in found.grades:
        before = None if change.old is None else old.grades[change.old]
        after = None if change.new is None else new.grades[change.new]
        words = f"{one_line(change.grader, MOST_GRADER)}  {_grade_text(before)} -> {_grade_text(after)}"
        yield from wrapped_lines(words, detail.width, _grade_style(before, after))
        yield from _flip_lines(change, before, after, detail)
    if found.same_grades:
        yield StyledLine(f"{INDENT}{pluralize(found.same_grades, 'grade')} unchanged", "dim")


def _flip_lines(
    change: GradeChange, old: GradeView | None, new: GradeView | None, detail: Detail
) -> Iterator[StyledLine]:
    found_before = {"old": "", "new": ""}
    for flip in change.flips if detail.full else change.flips[:MOST_CHECKS]:
        before = old.checks[flip.old] if old and flip.old is not None else None
        after = new.checks[flip.new] if new and flip.new is not None else None
        words = " -> ".join(_check_word(check) for check in (before, after))
        yield from block_lines(f"{words}: {flip.claim}", detail, INDENT * 2, most=3)
        for side, failed in (("old", before), ("new", after)):
            if failed and not failed.passed and (failed.expected, failed.found) != ("yes", "no"):
                # Checks of one answer have all found the same: it stands there once.
                found = "" if failed.found == found_before[side] else failed.found
                found_before[side] = failed.found
                for label, text in (("expected", expected_beyond_claim(failed)), (f"{side} found", found)):
                    if text:
                        yield from labelled(label, text, detail, INDENT * 3, most=3)
    yield from more_line(0 if detail.full else len(change.flips) - MOST_CHECKS, "check")


def _check_word(check: Check | None) -> str:
    return "none" if check is None else "ok" if check.passed else "not met"


def _grade_text(grade: GradeView | None) -> str:
    if grade is None:
        return "not graded"
    return "undecided" if grade.score is None else format_figure(grade.score)


def _grade_style(old: GradeView | None, new: GradeView | None) -> Style:
    before, after = (grade.score if grade else None for grade in (old, new))
    if before is None or after is None or before == after:
        return "yellow"
    return "green" if after > before else "red"


def _conversation(
    old: TrialView, new: TrialView, stretches: Sequence[Stretch], detail: Detail
) -> Iterator[StyledLine]:
    """Give the steps that differ; those that are the same are counted."""
    olds, news = steps_of(old), steps_of(new)
    number = visible = left_out = 0
    has_parted = False
    for stretch in stretches:
        steps = [
            (None if at is None else olds[at], None if by is None else news[by]) for at, by in stretch.rows
        ]
        if stretch.is_same:
            if not left_out:
                yield StyledLine(
                    f"{INDENT}{CUT} {_count_text([step for step, _ in steps if step])} the same", "dim"
                )
            number += len(steps)
            continue
        if not has_parted:
            turn = next(
                (step.message.turn for pair in steps for step in pair if step and step.message.turn), 0
            )
            yield _rule(f"first difference: step {number + 1}{f', turn {turn}' if turn else ''}", detail)
            has_parted = True
        for pair in steps:
            number += 1
            if visible > MOST_CONVERSATION and not detail.full:
                left_out += 1
                continue
            for line in _row_lines(*pair, detail):
                visible += 1
                yield line
    yield from more_line(left_out, "differing step", INDENT)


def _rule(words: str, detail: Detail) -> StyledLine:
    head = f"{INDENT}-- {words} "
    return StyledLine(cut(head, detail.width).ljust(detail.width if detail.width < 100 else 100, "-"), "bold")


def _count_text(steps: Sequence[Step]) -> str:
    calls = sum(step.call is not None for step in steps)
    counts = ((len(steps) - calls, "message"), (calls, "call"))
    return ", ".join(pluralize(count, thing) for count, thing in counts if count)


def _row_lines(old: Step | None, new: Step | None, detail: Detail) -> Iterator[StyledLine]:
    """Give two steps of one kind word by word, and others beside each other as they are."""
    if old is not None and new is not None and old.kind == new.kind:
        parts = compare_steps(old, new)
        same = [part.label for part in parts if part.is_same]
        yield from _marked("~ ", [_head_line(old, new, same, detail)])
        for part in parts:
            if not part.is_same:
                yield from _part_lines(part, detail)
        return
    sides = [list(_step_lines(step, _side_detail(detail))) if step else [] for step in (old, new)]
    yield from _beside(sides[0], sides[1], detail)


def _step_lines(step: Step, detail: Detail) -> Iterator[StyledLine]:
    if step.call is not None:
        return call_lines(step.call, detail)
    return message_lines(replace(step.message, calls=()), detail)


def _head_line(old: Step, new: Step, same: Sequence[str], detail: Detail) -> StyledLine:
    if new.call is None:
        turns = list(dict.fromkeys(str(step.message.turn) for step in (old, new) if step.message.turn))
        words = f"{new.message.role}{'  turn ' + ' -> '.join(turns) if turns else ''}"
    else:
        words = one_line(new.call.tool, MOST_TOOL)
        names = [one_line(label, MOST_TOOL) for label in same]
        words += f"  ({', '.join(names)}: the same)" if names else ""
    return StyledLine(cut(f"{INDENT}{words}", max(20, detail.width - len(INDENT))), "cyan")


def _part_lines(part: PartDifference, detail: Detail) -> Iterator[StyledLine]:
    """Give a part of a step, its label before it."""
    label = one_line(part.label, MOST_TOOL)
    label += "" if not label else " " if part.label == RESULT else ": "
    runs = part.difference.runs
    if part.difference.is_coarse:
        yield from _coarse_line(detail)
    yield from _runs_beside(runs, detail, label)


def _text_lines(old: str, new: str, detail: Detail) -> Iterator[StyledLine]:
    found = compare_texts(old, new)
    if found.is_coarse:
        yield from _coarse_line(detail)
    yield from _runs_beside(found.runs, detail)


def _coarse_line(detail: Detail) -> Iterator[StyledLine]:
    yield from wrapped_lines(
        "(parts are too long to be compared word by word)", detail.width, "dim", INDENT * 2
    )


def _runs_beside(runs: Sequence[Run], detail: Detail, label: str = "") -> Iterator[StyledLine]:
    """Give a difference in two columns; in a narrow terminal, and in full, in one with both sides' words."""
    shown = runs if detail.full else fold_runs(runs)
    if _is_wide(detail):
        one = _side_detail(detail)
        left, right = (_folded(_run_lines(shown, side, one, label)) for side in SIDES)
        yield from _columns(left, right, detail)
        return
    lines = _run_lines(shown, "both", detail, label)
    yield from lines if detail.full else _folded(lines)


def _folded(lines: Iterable[StyledLine]) -> list[StyledLine]:
    visible = list(lines)
    rest = len(visible) - MOST_PART
    if rest <= 1:
        return visible
    return [
        *visible[:MOST_PART],
        StyledLine(f"{INDENT * 2}{CUT} {pluralize(rest, 'more line')} (--full)", "dim"),
    ]


def _run_lines(runs: Sequence[Run], side: Side, detail: Detail, label: str) -> Iterator[StyledLine]:
    """Write runs as lines, with marks around the words that the other side lacks."""
    pieces: list[tuple[str, Style]] = [(label, "dim")] if label else []
    last: Run = ("=", "")
    for tag, text in runs:
        # Lines that went stand above those that came in their place.
        if (last[0], tag, side) == ("-", "+", "both") and "\n" in last[1] + text:
            pieces.append(("\n", ""))
        last = tag, text
        if tag == "=":
            pieces.append((text, ""))
        elif tag == "~":
            pieces.append((f"{CUT} {_size_text(text)} the same {CUT}\n", "dim"))
        elif tag == "-" and side != "new":
            pieces += _in_marks(text, "[-", "-]", "red", detail)
        elif tag == "+" and side != "old":
            pieces += _in_marks(text, "{+", "+}", "green", detail)
    written = [(printable(text.replace("\r\n", "\n").expandtabs(TAB)), style) for text, style in pieces]
    width = None if detail.full else detail.width
    # In one column all stands behind the mark that a step's first line has.
    yield from wrap_styled(written, width, INDENT * (3 if side == "both" else 2))


def _in_marks(
    text: str, opening: str, closing: str, style: Style, detail: Detail
) -> Iterator[tuple[str, Style]]:
    """Put marks around words, with newlines at their ends outside: no mark stands on a line of its own."""
    bare = text.strip("\n")
    if not bare:
        yield f"{opening}{text.replace(chr(10), chr(92) + 'n')}{closing}\n", style
        return
    start = text.index(bare)
    yield text[:start], ""
    yield f"{opening}{bare if detail.full else _shortened(bare)}{closing}", style
    yield text[start + len(bare) :], ""


def _shortened(text: str) -> str:
    """Cut a run after some lines and characters, saying how much there is."""
    lines = text[:MOST_RUN].split("\n")
    head = "\n".join(lines[:MOST_RUN_LINES])
    return text if len(head) == len(text) else f"{head}{CUT} ({_size_text(text)} in all: --full)"


def _size_text(text: str) -> str:
    lines = text.count("\n")
    return pluralize(lines, "line") if lines > 1 else f"{len(text):,} characters"


def _workspace(
    old: TrialView, new: TrialView, found: TrialDifference, detail: Detail
) -> Iterator[StyledLine]:
    """Give the files that the trials changed differently, or that only one of them changed."""
    for pair in found.files:
        yield from _file_lines(old, new, pair, detail)
    if found.same_files:
        yield StyledLine(f"{INDENT}{pluralize(found.same_files, 'file')} with the same changes", "dim")


def _file_lines(old: TrialView, new: TrialView, pair: FilePair, detail: Detail) -> Iterator[StyledLine]:
    before = None if pair.old is None else old.files[pair.old]
    after = None if pair.new is None else new.files[pair.new]
    if before and after:
        found = compare_files(before, after)
        head = StyledLine(f"{INDENT}{_path_text(pair.path)}  changed differently", "bold")
        yield from _marked("~ ", [head._replace(text=cut(head.text, max(20, detail.width - 2)))])
        yield from _runs_beside(found.runs, detail)
        return
    one = _side_detail(detail)
    left, right = (list(_change_lines(pair.path, file, one)) for file in (before, after))
    yield from _beside(left, right, detail)


def _path_text(path: str) -> str:
    return one_line(path, MOST_TRIAL_NAME)


def _change_lines(path: str, file: FileChange | None, detail: Detail) -> Iterator[StyledLine]:
    if file is None:
        return iter([StyledLine(f"{INDENT}{_path_text(path)}  not changed", "dim")])
    return file_lines(file, detail)


def _event_lines(events: Sequence[EventChange], detail: Detail) -> Iterator[StyledLine]:
    """Give events on a line: those whose number or words changed, then the others."""
    changed = [event for event in events if not (event.is_same or event.is_routine)]
    texts = [_event_text(event) for event in (*changed, *(each for each in events if each not in changed))]
    style: Style = "" if changed else "dim"
    yield from (StyledLine(line, style) for line in flow(texts, detail.width, INDENT))


def _event_text(event: EventChange) -> str:
    kind = one_line(event.kind, MOST_TOOL).replace("_", " ")
    if event.old != event.new:
        return f"{kind} {event.old} -> {event.new}"
    return f"{event.new} {kind}{' as before' if event.is_same else ', with other text'}"


def _is_wide(detail: Detail) -> bool:
    """Whether there is room for both sides beside each other; what is shown in full never is."""
    return detail.width >= SIDE_BY_SIDE and not detail.full


def _side_detail(detail: Detail) -> Detail:
    # Half of the width where both sides stand beside each other, else the width without a mark before lines.
    columns = (detail.width - len(BETWEEN)) // 2 if _is_wide(detail) else max(20, detail.width - len(INDENT))
    return Detail(columns, detail.full)


def _marked(mark: str, lines: Iterable[StyledLine], style: Style | None = None) -> Iterator[StyledLine]:
    for line in lines:
        spans = tuple(Span(span.start + len(mark), span.end + len(mark), span.style) for span in line.spans)
        yield StyledLine(f"{mark}{line.text}", line.style if style is None else style, spans)


def _beside(old: Sequence[StyledLine], new: Sequence[StyledLine], detail: Detail) -> Iterator[StyledLine]:
    """Put lines of both sides beside each other, or below each other with a mark before each."""
    if _is_wide(detail):
        yield from _columns(old, new, detail)
    else:
        yield from _marked("- ", old, "red")
        yield from _marked("+ ", new, "green")


def _columns(old: Sequence[StyledLine], new: Sequence[StyledLine], detail: Detail) -> Iterator[StyledLine]:
    half = _side_detail(detail).width
    for left, right in zip_longest(old, new, fillvalue=StyledLine("")):
        texts = [cut(line.text, half) for line in (left, right)]
        begin = f"{pad(texts[0], half)}{BETWEEN}"
        spans = [*_spans(left, 0, len(texts[0])), *_spans(right, len(begin), len(texts[1]))]
        yield StyledLine(f"{begin}{texts[1]}".rstrip(), "", tuple(spans))


def _spans(line: StyledLine, start: int, length: int) -> Iterator[Span]:
    """Give the looks of a line that is a part of another, from a place on, cut to a length."""
    spans = line.spans or ((Span(0, len(line.text), line.style),) if line.style else ())
    for span in spans:
        if span.start < length:
            yield Span(start + span.start, start + min(span.end, length), span.style)
