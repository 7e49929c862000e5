"""Asking a person about trials, dimension by dimension; every answer is kept before the next is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from pytest_agenteval.calibration.label_file import LabelFile, PersonLabels
from pytest_agenteval.calibration.label_reader import Scale
from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.loop.review.review_lines import (
    key_lines,
    question_lines,
    rubric_lines,
    talk_lines,
    value_lines,
    verdict_lines,
)
from pytest_agenteval.loop.review.shown_trials import ShownTrial
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.trial_screen import Detail
from pytest_agenteval.text.formatting import StyledLine, model_label, one_line, printable

MOST_NAME = 200


class Desk(Protocol):
    """Where a person sits: lines are shown there, long ones in a pager, and answers come from there."""

    @property
    def width(self) -> int:
        """The columns that lines are made for."""
        ...

    def show(self, lines: Iterable[StyledLine]) -> None:
        """Show lines."""
        ...

    def page(self, lines: Iterable[StyledLine]) -> None:
        """Show lines in a pager where there is one."""
        ...

    def ask(self, prompt: str) -> str | None:
        """Give what is typed in answer, without spaces around; None where nothing comes any more."""
        ...


class Question(NamedTuple):
    """One dimension of one trial, by the trial's place."""

    trial: int
    dimension: str


class Review:
    """One sitting: which questions are open, where it is, and what was answered.

    ``trial_of`` reads a trial's whole record, None where it is lost. Where it is ``blind``, judges and model
    are shown when a trial's last dimension is answered, and not before.
    """

    def __init__(
        self,
        rubric: Rubric,
        trials: Sequence[ShownTrial],
        labels: LabelFile,
        trial_of: Callable[[ShownTrial], Trial | None],
        blind: bool = True,
    ) -> None:
        self._rubric, self._file, self._scale = rubric, labels, labels.scale
        self.trials, self._trial_of, self._blind = trials, trial_of, blind
        self._questions = [Question(place, name) for place in range(len(trials)) for name in rubric.names]
        self.ids = [labels.id_for(trial.id, trial.values) for trial in trials]
        self._notes: dict[int, str] = {}
        self._visible: Question | None = None
        self.labelled: dict[int, None] = {}
        self.skipped: set[int] = set()

    @property
    def left(self) -> int:
        """How many trials have a dimension without an answer."""
        return sum(not self._is_done(place) for place in range(len(self.trials)))

    def sit(self, desk: Desk) -> bool:
        """Ask until all is answered, True, or until the person quits or has nothing more to say, False."""
        desk.show(key_lines(self._scale, desk.width))
        at = self._next(-1)
        while at is not None:
            self._show_question(desk, at)
            answer = desk.ask(self._prompt(self._questions[at]))
            if answer is None or answer == "q":
                return False
            at = self._take(desk, at, answer)
        return True

    def _take(self, desk: Desk, at: int, answer: str) -> int | None:
        """Do what was typed, and give the place of the next question; None where there is none."""
        question = self._questions[at]
        if answer == "s":
            self.skipped.add(question.trial)
            return self._next(self._last_of(question.trial))
        if answer == "b":
            return self._back(desk, at)
        if answer == "" and question.dimension in self.labels_of(question.trial).scores:
            return self._next(at)
        if answer in ("n", "v", "o", "?"):
            self._aside(desk, question, answer)
            return at
        score = _score(answer, self._scale)
        if score is None and answer != "u":
            desk.show([StyledLine(f"{one_line(answer, 40)!r} is no answer here", "yellow")])
            desk.show(key_lines(self._scale, desk.width))
            return at
        self._keep(question, score)
        if self._blind and self._is_done(question.trial):
            self._reveal(desk, question.trial)
        return self._next(at)

    def _aside(self, desk: Desk, question: Question, key: str) -> None:
        """Do what answers nothing: take a note, or show something."""
        trial, whole = self.trials[question.trial], Detail(desk.width, full=True)
        if key == "n":
            self._take_note(desk, question.trial)
        elif key == "v":
            desk.page(value_lines(trial, self._rubric, self._title(question.trial), whole))
        elif key == "?":
            desk.page(rubric_lines(self._rubric, Detail(desk.width)))
        else:
            record = self._trial_of(trial)
            lost = [StyledLine("the transcript cannot be read", "yellow")]
            desk.page(talk_lines(record, self._rubric, whole) if record else lost)

    def _take_note(self, desk: Desk, place: int) -> None:
        note = desk.ask("note: ")
        if not note:
            return
        labels = self.labels_of(place)
        self._notes[place] = note
        if labels.scores:
            self._write(place, PersonLabels(labels.scores, note))
        else:
            desk.show([StyledLine("it is kept with the first score", "dim")])

    def _keep(self, question: Question, score: float | None) -> None:
        labels = self.labels_of(question.trial)
        note = self._notes.get(question.trial, labels.note)
        self._write(question.trial, PersonLabels({**labels.scores, question.dimension: score}, note))

    def _write(self, place: int, labels: PersonLabels) -> None:
        trial = self.trials[place]
        self._file.write(self.ids[place], trial.values, labels)
        self.labelled[place] = None
        self.skipped.discard(place)

    def _reveal(self, desk: Desk, place: int) -> None:
        """Show what was hidden until the person had scored."""
        trial = self.trials[place]
        labels = self.labels_of(place)
        desk.show(verdict_lines(self._trial_of(trial), trial, labels, self._scale, desk.width))

    def _show_question(self, desk: Desk, at: int) -> None:
        """Show a trial and what is asked of it when they are come to, and not again after each key."""
        place, dimension = self._questions[at]
        if self._visible is None or self._visible.trial != place:
            trial = self.trials[place]
            desk.show(value_lines(trial, self._rubric, self._title(place), Detail(desk.width)))
            if not self._blind:
                self._reveal(desk, place)
        if self._visible != self._questions[at]:
            desk.show(question_lines(self._rubric, dimension, desk.width))
        self._visible = self._questions[at]

    def _title(self, place: int) -> str:
        """Name a trial by its task; by its model too where that is not hidden."""
        key = self.trials[place].entry.key
        model = "" if self._blind else f" [{model_label(key.model, key.variant)}]"
        number = f"{place + 1} of {len(self.trials)}, {self.left} to go"
        return one_line(f"--- {number}: {key.suite}/{key.task}{model}", MOST_NAME)

    def _prompt(self, question: Question) -> str:
        low, high = self._scale
        scores = self.labels_of(question.trial).scores
        before = scores.get(question.dimension)
        text = "u" if before is None else f"{before:g}"
        now = f" [{text}]" if question.dimension in scores else ""
        return printable(f"{question.dimension}, {low:g} to {high:g}{now}: ")

    def _back(self, desk: Desk, at: int) -> int:
        if at == 0:
            desk.show([StyledLine("this is the first question", "yellow")])
            return at
        return at - 1

    def _next(self, at: int) -> int | None:
        """Give the next question that is open; what was skipped is not asked again in this sitting."""
        for place in range(at + 1, len(self._questions)):
            trial, dimension = self._questions[place]
            if trial not in self.skipped and dimension not in self.labels_of(trial).scores:
                return place
        return None

    def _last_of(self, place: int) -> int:
        return (place + 1) * len(self._rubric.names) - 1

    def _is_done(self, place: int) -> bool:
        return self.labels_of(place).scores.keys() >= set(self._rubric.names)

    def labels_of(self, place: int) -> PersonLabels:
        """Give what is on disk of the trial at this place."""
        return self._file.labels_of(self.ids[place])


def _score(answer: str, scale: Scale) -> float | None:
    """Read a number of the scale; a comma is as good as a point."""
    try:
        score = float(answer.replace(",", "."))
    except ValueError:
        return None
    if not scale[0] <= score <= scale[1]:
        return None
    return int(score) if score == int(score) else score
