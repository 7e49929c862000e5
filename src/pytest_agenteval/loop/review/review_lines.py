"""A review on the terminal: what is judged, what is asked, and what the judges had said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_agenteval.calibration.label_file import PersonLabels
from pytest_agenteval.calibration.label_reader import Scale
from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.loop.review.shown_trials import ShownTrial
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.trial_screen import Detail, block_lines, conversation_lines
from pytest_agenteval.reports.trial_view import VoteView, trial_view
from pytest_agenteval.text.formatting import INDENT, StyledLine, flow, model_label, one_line, wrapped_lines

FOLDED_VALUE, FOLDED_OUTPUT = 10, 40
"""Lines of what judges are shown, and of what is judged, before only ``v`` shows the rest."""
MOST_NAME, MOST_SAID = 200, 600

KEYS = {
    "u": "cannot be told",
    "n": "note",
    "s": "skip",
    "b": "back",
    "v": "all that judges are shown",
    "o": "the whole conversation",
    "?": "the rubric",
    "q": "quit",
}


def key_lines(scale: Scale, width: int) -> Iterator[StyledLine]:
    """Say what can be typed."""
    keys = (f"{key} {what}" for key, what in KEYS.items())
    numbers = f"a number from {scale[0]:g} to {scale[1]:g}"
    yield from (StyledLine(line, "dim") for line in flow((numbers, *keys), width))


def value_lines(trial: ShownTrial, rubric: Rubric, title: str, detail: Detail) -> Iterator[StyledLine]:
    """Show everything that judges are shown, what is judged last."""
    yield StyledLine("")
    yield from wrapped_lines(title, detail.width, "bold", "")
    names = [name for name in rubric.shows if name != rubric.output]
    for name in (*names, rubric.output):
        judged = name == rubric.output
        head = f"{name}: {rubric.shows[name]}{' (this is judged)' if judged else ''}"
        yield from wrapped_lines(one_line(head, MOST_NAME), detail.width, "cyan", "")
        text = trial.values[name]
        most = FOLDED_OUTPUT if judged else FOLDED_VALUE
        yield from map(StyledLine, block_lines(text, detail, INDENT, most, unfolded_by="v shows it"))
        if not text.strip():
            yield StyledLine(f"{INDENT}nothing", "dim")


def question_lines(rubric: Rubric, dimension: str, width: int) -> Iterator[StyledLine]:
    """Say what a dimension asks."""
    says = next(each.says for each in rubric.dimensions if each.name == dimension)
    yield from wrapped_lines(f"{dimension}: {one_line(says, 4000)}", width, "", "")


def rubric_lines(rubric: Rubric, detail: Detail) -> Iterator[StyledLine]:
    """Give the rubric's dimensions and its whole text, as its file has it."""
    title = f"rubric {rubric.name} {rubric.version}, from {rubric.low:g} to {rubric.high:g}"
    yield from wrapped_lines(title, detail.width, "bold", "")
    for dimension in rubric.dimensions:
        yield from wrapped_lines(f"{dimension.name}: {dimension.says}", detail.width)
    yield StyledLine("")
    yield from map(StyledLine, block_lines(rubric.body, Detail(detail.width, full=True), INDENT))


def talk_lines(trial: Trial, rubric: Rubric, detail: Detail) -> Iterator[StyledLine]:
    """Give the whole conversation, without how the trial ended, its grades and its model."""
    yield from conversation_lines(trial_view(trial), Detail(detail.width, full=True))


def verdict_lines(
    trial: Trial | None, shown: ShownTrial, labels: PersonLabels, scale: Scale, width: int
) -> Iterator[StyledLine]:
    """Say what the judges of the run had said, on the person's scale, and which model it was."""
    key = shown.entry.key
    grades = trial_view(trial).grades if trial else ()
    votes = [vote for grade in grades if grade.grader == shown.grader for vote in grade.votes]
    for vote in votes:
        text = f"judge {one_line(vote.judge, MOST_NAME)}: {_vote_text(vote, labels.scores, scale)}"
        yield from wrapped_lines(text, width, "dim")
    if not votes:
        yield StyledLine(f"{INDENT}no judge had scored it", "dim")
    name = one_line(model_label(key.model, key.variant), MOST_NAME)
    yield from wrapped_lines(f"model {name}, {one_line(shown.id, MOST_NAME)}", width, "dim")


def _vote_text(vote: VoteView, mine: Mapping[str, float | None], scale: Scale) -> str:
    low, high = scale
    scores = (
        f"{one_line(name, MOST_NAME)} "
        + ("unknown" if score is None else f"{low + score * (high - low):.3g}")
        + (f" (you {mine[name]:g})" if mine.get(name) is not None else "")
        for name, score in vote.scores.items()
    )
    why = one_line(vote.rationale or vote.problem, MOST_SAID)
    return f"{', '.join(scores)}{f': {why}' if why else ''}"
