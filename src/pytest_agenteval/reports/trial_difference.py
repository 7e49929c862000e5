"""The same trial of two runs on the terminal: what differs first, side by side where there is room."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Check
from pytest_agenteval.reports.conversation import CallView, MessageView
from pytest_agenteval.reports.trial_screen import (
    MOST_TRIAL_NAME,
    Detail,
    TrialPlace,
    block_lines,
    call_lines,
    ending_style,
    file_lines,
    hunk_lines,
    labelled,
    message_lines,
    more_line,
    resource_facts,
    section,
    who_facts,
)
from pytest_agenteval.reports.trial_view import (
    FileChange,
    GradeView,
    TrialView,
    hunks_of_lines,
)
from pytest_agenteval.text.formatting import (
    CUT,
    INDENT,
    Style,
    StyledLine,
    cut,
    ending_word,
    flow,
    format_figure,
    one_line,
    pad,
    pluralize,
    wrap,
    wrapped_lines,
)
from pytest_agenteval.text.json_values import json_digest

Lines: TypeAlias = Callable[[Detail], Iterable[StyledLine]]
"""Gives the lines of one side, as much of them as the detail says."""

SIDE_BY_SIDE = 120
"""Columns from which on two trials stand beside each other."""

BETWEEN = " | "
MOST_LINES, MOST_STEPS, MOST_CHECKS, MOST_GRADER = 40, 40, 12, 60

INGREDIENTS = {
    "input": "task input",
    "fixture": "starting workspace",
    "prompt": "prompt",
    "code": "agent code",
    "settings": "agent settings",
    "tools": "tools",
    "model": "model",
    "ruler": "graders",
    "sent": "what models were told",
}
"""What a trial is made of, by the digest that tells it, as authors call it."""


def difference_lines(
    old: TrialView, new: TrialView, places: tuple[TrialPlace, TrialPlace], detail: Detail
) -> Iterator[StyledLine]:
    """Give what differs between two trials: outcome and ingredients, grades, conversation, answer, files."""
    names = " -> ".join(dict.fromkeys(one_line(view.name, MOST_TRIAL_NAME) for view in (old, new)))
    endings = " -> ".join(ending_word(view.ending, view.score) for view in (old, new))
    for line in wrap(f"{endings}  {names}", detail.width):
        yield StyledLine(line, ending_style(new))
    for side, view, place in zip(("old", "new"), (old, new), places, strict=True):
        facts = (side, *who_facts(view, place), *resource_facts(view))
        yield from map(StyledLine, flow(facts, detail.width, INDENT))
    differing = [
        words
        for name, words in INGREDIENTS.items()
        # What was sent is unknown of older runs, and unknown is no difference.
        if getattr(old.digests, name) != getattr(new.digests, name)
        and (name != "sent" or (old.digests.sent and new.digests.sent))
    ]
    what = ", ".join(differing) or "nothing that a trial is made of"
    yield from wrapped_lines(f"differs: {what}", detail.width, "bold")
    yield from section("grades", _grade_lines(old.grades, new.grades, detail))
    yield from section("conversation", _conversation(old.messages, new.messages, detail))
    if old.answer != new.answer:
        before, after = (partial(block_lines, view.answer, indent=INDENT) for view in (old, new))
        yield from section("answer", _pairs([(before, after)], detail))
    yield from section("workspace", _workspace(old.files, new.files, detail))


def _grade_lines(old: Sequence[GradeView], new: Sequence[GradeView], detail: Detail) -> Iterator[StyledLine]:
    """Give the grades that changed, with the checks that flipped, and count the others."""
    olds, news = ({grade.grader: grade for grade in grades} for grades in (old, new))
    same = 0
    for grader in dict.fromkeys((*news, *olds)):
        before, after = olds.get(grader), news.get(grader)
        flipped = list(_flipped(before, after))
        figures = [(grade.score, grade.passed) if grade else None for grade in (before, after)]
        if figures[0] == figures[1] and not flipped:
            same += 1
            continue
        words = f"{one_line(grader, MOST_GRADER)}  {_grade_text(before)} -> {_grade_text(after)}"
        yield from wrapped_lines(words, detail.width, _grade_style(before, after))
        for pair in flipped if detail.full else flipped[:MOST_CHECKS]:
            yield from _check_lines(*pair, detail)
        yield from more_line(0 if detail.full else len(flipped) - MOST_CHECKS, "check")
    if same:
        yield StyledLine(f"{INDENT}{pluralize(same, 'grade')} as before", "dim")


def _flipped(
    old: GradeView | None, new: GradeView | None
) -> Iterator[tuple[str, Check | None, Check | None]]:
    """Give the checks that flipped, and failed ones that the other side does not have, with their claim."""
    olds, news = map(_by_claim, (old, new))
    for claim in dict.fromkeys((*news, *olds)):
        before, after = olds.get(claim), news.get(claim)
        passes = [check.passed for check in (before, after) if check]
        if passes == [False] or len(set(passes)) == 2:
            yield claim[0], before, after


def _by_claim(grade: GradeView | None) -> dict[tuple[str, int], Check]:
    # A grader that asks one question of each file makes several checks with the same claim.
    numbers: Counter[str] = Counter()
    checks: dict[tuple[str, int], Check] = {}
    for check in grade.checks if grade else ():
        checks[check.claim, numbers[check.claim]] = check
        numbers[check.claim] += 1
    return checks


def _check_lines(claim: str, old: Check | None, new: Check | None, detail: Detail) -> Iterator[StyledLine]:
    words = " -> ".join("none" if check is None else "ok" if check.passed else "no" for check in (old, new))
    yield from block_lines(f"{words}: {claim}", detail, INDENT * 2, most=3)
    for label, failed in (("old", old), ("new", new)):
        if failed and not failed.passed:
            for side, text in (("expected", failed.expected), (f"{label} found", failed.found)):
                if text:
                    yield from labelled(side, text, detail, INDENT * 3, most=3)


def _grade_text(grade: GradeView | None) -> str:
    if grade is None:
        return "not graded"
    return "undecided" if grade.score is None else format_figure(grade.score)


def _grade_style(old: GradeView | None, new: GradeView | None) -> Style:
    before, after = (grade.score if grade else None for grade in (old, new))
    if before is None or after is None or before == after:
        return "yellow"
    return "green" if after > before else "red"


class Step(NamedTuple):
    """One message without its calls, or one call, of a conversation; ``mark`` is equal for equal steps."""

    mark: str
    message: MessageView
    call: CallView | None = None

    def lines(self, detail: Detail) -> list[StyledLine]:
        if self.call is not None:
            return list(call_lines(self.call, detail))
        return list(message_lines(replace(self.message, calls=()), detail))


def _steps(messages: Sequence[MessageView]) -> Iterator[Step]:
    for message in messages:
        # A message and its calls are steps of their own. Times and ids are in no mark: they differ always.
        if message.content or not message.calls:
            yield Step(json_digest([message.role, message.content]), message)
        for call in message.calls:
            error = [call.error.type, call.error.message] if call.error else []
            mark = json_digest([call.tool, call.args, call.raw_args, call.result, error])
            yield Step(mark, message, call)


def _conversation(
    old_messages: Sequence[MessageView], new_messages: Sequence[MessageView], detail: Detail
) -> Iterator[StyledLine]:
    """Say how many steps are the same, then show how the conversations go on."""
    old, new = list(_steps(old_messages)), list(_steps(new_messages))
    pairs = enumerate(zip(old, new, strict=False))
    # The screen begins where the conversations part; only what follows is aligned.
    same = next((at for at, (one, other) in pairs if one.mark != other.mark), min(len(old), len(new)))
    if same == len(old) == len(new):
        if same:
            yield StyledLine(f"{INDENT}the same: {pluralize(same, 'step')}", "dim")
        return
    old, new = old[same:], new[same:]
    are = "step is" if same == 1 else f"{same:,} steps are"
    before = f"the first {are} the same; they part" if same else "they part"
    turn = next((steps[0].message.turn for steps in (old, new) if steps and steps[0].message.turn), 0)
    place = f"{before} at step {same + 1}{f' (turn {turn})' if turn else ''}"
    yield from wrapped_lines(place, detail.width, "bold")
    visible = 0
    aligned = SequenceMatcher(None, [step.mark for step in old], [step.mark for step in new])
    for tag, low, high, new_low, new_high in aligned.get_opcodes():
        size = max(high - low, new_high - new_low)
        room = size if detail.full else max(0, MOST_STEPS - visible)
        if tag == "equal":
            shown = (line for step in old[low:high][:room] for line in step.lines(detail))
            yield from (line._replace(style="dim") for line in shown)
        else:
            steps = zip_longest(old[low:high][:room], new[new_low:new_high][:room])
            sides = [(step.lines if step else _nothing for step in pair) for pair in steps]
            yield from _pairs([(before, after) for before, after in sides], detail)
        visible += size
    yield from more_line(0 if detail.full else visible - MOST_STEPS, "step", INDENT)


def _pairs(pairs: Iterable[tuple[Lines, Lines]], detail: Detail) -> Iterator[StyledLine]:
    """Give pairs of sides beside each other; in a narrow terminal all old ones above the new ones.

    Of a pair whose difference folding hides, the lines that differ are given.
    """
    olds: list[StyledLine] = []
    news: list[StyledLine] = []
    for old, new in pairs:
        shown = [list(side(_one_side(detail))) for side in (old, new)]
        looks = [list(map(_look, lines)) for lines in shown]
        is_hidden = not detail.full and looks[0] == looks[1] != []
        if not is_hidden:
            olds += shown[0]
            news += shown[1]
        if is_hidden or _is_wide(detail):
            yield from _beside(olds, news, detail)
            olds, news = [], []
        if is_hidden:
            yield from _hidden(old, new, detail)
    yield from _beside(olds, news, detail)


def _nothing(detail: Detail) -> list[StyledLine]:
    return []


def _workspace(old: Sequence[FileChange], new: Sequence[FileChange], detail: Detail) -> Iterator[StyledLine]:
    """Give the files that the trials changed differently, or that only one of them changed."""
    olds, news = ({file.path: file for file in files} for files in (old, new))
    alike = 0
    for path in sorted({*olds, *news}):
        if olds.get(path) == news.get(path):
            alike += 1
        else:
            before, after = (partial(_file, path, files.get(path)) for files in (olds, news))
            yield from _pairs([(before, after)], detail)
    if alike:
        yield StyledLine(f"{INDENT}{pluralize(alike, 'file')} changed alike", "dim")


def _file(path: str, file: FileChange | None, detail: Detail) -> list[StyledLine]:
    if file is None:
        return [StyledLine(f"{INDENT}{one_line(path, MOST_TRIAL_NAME)}  not changed", "dim")]
    return list(file_lines(file, detail))


def _is_wide(detail: Detail) -> bool:
    """Whether there is room for both sides beside each other; what is shown in full never is."""
    return detail.width >= SIDE_BY_SIDE and not detail.full


def _one_side(detail: Detail) -> Detail:
    # Half of the width where both sides stand beside each other, else the width without a mark before lines.
    columns = (detail.width - len(BETWEEN)) // 2 if _is_wide(detail) else max(20, detail.width - len(INDENT))
    return Detail(columns, detail.full)


def _look(line: StyledLine) -> str:
    """Give a line as it counts for equality of visible parts."""
    # Numbers in a head, or in a line about what is left out, are lengths and times. They may show that two
    # texts differ, but not where.
    of_text = line.style not in ("cyan", "dim") and not line.text.endswith("(--full)")
    return line.text if of_text else re.sub(r"\d[\d,.]*", "", line.text)


def _hidden(old: Lines, new: Lines, detail: Detail) -> Iterator[StyledLine]:
    yield next(iter(old(detail)))._replace(style="dim")
    whole = Detail(detail.width, full=True)
    texts = [[line.text for line in side(whole)] for side in (old, new)]
    lines = [line for hunk in hunks_of_lines(*texts) for line in hunk_lines([hunk])]
    if not lines:
        yield StyledLine(f"{INDENT * 2}they differ in blanks alone", "dim")
    for line in lines[:MOST_LINES]:
        yield StyledLine(cut(f"{INDENT * 2}{line.text}", detail.width), line.style)
    if len(lines) > MOST_LINES:
        more = pluralize(len(lines) - MOST_LINES, "more line")
        yield StyledLine(f"{INDENT * 2}{CUT} {more} (--full)", "dim")


def _beside(old: Iterable[StyledLine], new: Iterable[StyledLine], detail: Detail) -> Iterator[StyledLine]:
    """Put lines of both sides beside each other, or below each other with a mark before each."""
    if not _is_wide(detail):
        yield from (StyledLine(f"- {line.text}", "red") for line in old)
        yield from (StyledLine(f"+ {line.text}", "green") for line in new)
        return
    half = _one_side(detail).width
    for left, right in zip_longest(old, new):
        texts = [cut(line.text, half) if line else "" for line in (left, right)]
        text = f"{pad(texts[0], half)}{BETWEEN}{texts[1]}"
        # A line of the terminal has one style: it is plain where the sides have different ones.
        styles = {line.style for line in (left, right) if line}
        yield StyledLine(text.rstrip(), styles.pop() if len(styles) == 1 else "")
