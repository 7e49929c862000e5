"""``agenteval review``: a person labels trials of a run, which judges are compared with later."""

from __future__ import annotations

import argparse
import io
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from itertools import groupby
from os.path import commonpath
from pathlib import Path
from typing import NamedTuple

from pytest_agenteval.calibration.label_file import (
    LabelFile,
    PeopleAgreement,
    PersonLabels,
    agreement_with_others,
)
from pytest_agenteval.calibration.labels import Scale
from pytest_agenteval.cli.console import (
    RUN_HELP,
    STDOUT,
    add_json_option,
    add_results_option,
    find_named_run,
    page_lines,
    print_lines,
    print_unreadable,
    terminal_width,
    write_document,
)
from pytest_agenteval.graders.judge.rubric import Rubric, is_question, question_rubric, read_rubric
from pytest_agenteval.loop.review_pool import (
    ENDING_WORDS,
    FILTERS,
    PlannedTasks,
    ReviewPool,
    ReviewTrial,
    chosen_entries,
    chosen_trials,
    review_pool,
)
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.lazy_names import UnknownName
from pytest_agenteval.reports.trial_screen import Detail, block_lines, conversation_lines, note_lines
from pytest_agenteval.reports.trial_view import trial_view
from pytest_agenteval.store.notes import Note, change_notes, read_notes, write_notes
from pytest_agenteval.store.run_folder import LATEST
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.tasks.documents import read_bytes, short_path
from pytest_agenteval.text.errors import UsageMistake, did_you_mean
from pytest_agenteval.text.formatting import (
    INDENT,
    StyledLine,
    flow,
    format_figure,
    model_label,
    one_line,
    pluralize,
    printable,
    wrapped_lines,
)

SPLITS = {"dev": ("dev",), "held_out": ("held_out",), "all": ("dev", "held_out")}
INTERRUPTED = 130
HIDDEN = "hidden until the trial is scored"


def review_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = RUN_HELP
    add = parser.add_argument
    add("run", nargs="?", default=LATEST, metavar="RUN", help="the run (default: latest)")
    add("--rubric", default="", metavar="R", help="a rubric that graders of the run use, a registered one, or a .jinja file (default: the only one that they use)")  # fmt: skip  # noqa: E501
    for name in FILTERS:
        add(f"--{name}", action="append", default=[], metavar="NAME", help=f"only this {name}, or those that a pattern with * matches; may be repeated")  # fmt: skip  # noqa: E501
    add("--only", default="", metavar="WORDS", help="only trials of these kinds, comma-separated: passed, missed, failed, errored, limited, undecided")  # fmt: skip  # noqa: E501
    add("--split", choices=SPLITS, default="dev", help="tasks of this split (default: dev, which hides held-out tasks)")  # fmt: skip  # noqa: E501
    add("--sample", type=int, metavar="N", help="only N trials, drawn with the seed")
    add("--seed", type=int, default=0, metavar="N", help="the seed of the order (default: 0)")
    add("--scale", type=float, nargs=2, metavar=("LOW", "HIGH"), help="the lowest and highest score (default: the rubric's scale)")  # fmt: skip  # noqa: E501
    add("--labeller", default="", metavar="NAME", help="your name: each labeller gets a file")
    add("--blind", action=argparse.BooleanOptionalAction, default=True, help="hide judges' scores and models until a trial is scored (default)")  # fmt: skip  # noqa: E501
    add("-o", "--output", metavar="FILE", help="the file of labels, .jsonl (default: labels/RUBRIC.jsonl in the suite's folder)")  # fmt: skip  # noqa: E501
    add_json_option(parser)
    add("--no-pager", action="store_true", help="print without a pager")
    add_results_option(parser)


def review(args: argparse.Namespace) -> int:
    """Let a person label the trials; 0 when it is finished or left, 130 after Ctrl-C."""
    if args.sample is not None and args.sample < 1:
        raise UsageMistake(f"--sample {args.sample}: expected a number above 0")
    if args.scale and not args.scale[0] < args.scale[1]:
        raise UsageMistake("--scale: expected two numbers, the lower one first")
    # The name becomes a part of a file's name, which has to be valid on Windows too.
    if {*args.labeller} & {*'/\\:*?"<>|'}:
        raise UsageMistake(f"--labeller {args.labeller}: expected a name that can be part of a file name")
    words = [word for word in args.only.split(",") if word]
    for word in words:
        if word not in ENDING_WORDS:
            hint = did_you_mean(word, ENDING_WORDS)
            raise UsageMistake(f"--only {word}: expected {', '.join(ENDING_WORDS)}. {hint}".strip())
    run = load_run(find_named_run(Path(args.results), args.run))
    if not run.entries:
        raise UsageMistake(f"the run {run.name} has no trial that ended; agenteval runs lists others")
    # Questions must not mix with the document.
    with redirect_stdout(sys.stderr if args.json == STDOUT else sys.stdout):
        status, summary = _hold_review(run, args, words)
    if args.json:
        write_document(args.json, summary)
    return status


def _hold_review(run: Run, args: argparse.Namespace, words: Sequence[str]) -> tuple[int, ReviewSummary]:
    entries = chosen_entries(run, {name: getattr(args, name) for name in FILTERS}, words)
    tasks = PlannedTasks(run, entries)
    rubric = _rubric_option(args.rubric)
    pool = review_pool(run, entries, tasks, rubric, SPLITS[args.split], "errored" in words)
    trials = chosen_trials(pool.trials, words, args.sample, args.seed)
    scale = tuple(args.scale) if args.scale else (pool.rubric.low, pool.rubric.high)
    folders = dict.fromkeys(tasks.suite_folder(trial.entry) for trial in trials)
    # Trials of several suites get one file of labels, in the folder above all of them.
    folder = Path(commonpath(folders)) if folders else tasks.root
    # Beside the suite, where calibrate finds its conftests. Not in the run's folder: runs are removed one
    # day, and labels are work of people.
    name = f"{pool.rubric.name}{f'.{args.labeller}' if args.labeller else ''}.jsonl"
    path = Path(args.output) if args.output else folder / "labels" / name
    labels = LabelFile(path, pool.rubric, scale, args.labeller)
    labelling = Review(pool.rubric, trials, labels, run, args.blind)
    command = calibrate_command(path, pool.rubric, args.rubric, folder, tasks)
    _print_plain(opening_lines(summarize(run.name, pool, labelling, labels, command)))
    status = _ask_labeller(labelling, args) if labelling.left else 0
    summary = summarize(run.name, pool, labelling, labels, command)
    _print_plain(closing_lines(summary))
    print_unreadable(run.name, run)
    return status, summary


def _rubric_option(named: str) -> Rubric | str:
    if not named.endswith(".jinja"):
        return named
    path = Path(named)
    if not path.is_file():
        raise UsageMistake(f"--rubric {named}: expected a file; there is none")
    return read_rubric(read_bytes(path).decode("utf-8", errors="replace"), short_path(path))


def _print_plain(lines: Iterable[str]) -> None:
    """Print lines unwrapped, so that commands and paths can be copied."""
    print_lines(StyledLine(printable(line)) for line in lines)


def _ask_labeller(labelling: Review, args: argparse.Namespace) -> int:
    """Ask for scores until none is left; 130 after Ctrl-C."""
    # Bytes that cannot be decoded must not end the review.
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    paged = not args.no_pager and args.json != STDOUT
    try:
        labelling.run(ReviewTerminal(paged))
    except KeyboardInterrupt:
        print()
        return INTERRUPTED
    return 0


# How many lines of what judges see, and of what they judge, are shown before ``v`` shows the rest.
FOLDED_VALUE, FOLDED_OUTPUT = 10, 40
MOST_NAME, MOST_SAID = 200, 600

KEYS = {
    "u": "unknown",
    "n": "note",
    "s": "skip",
    "b": "back",
    "v": "everything that judges see",
    "o": "the whole conversation",
    "?": "the rubric",
    "q": "quit",
}

MOST_TITLE = 200


def _key_lines(scale: Scale, width: int) -> Iterator[StyledLine]:
    keys = (f"{key} {what}" for key, what in KEYS.items())
    numbers = f"a number from {scale[0]:g} to {scale[1]:g}"
    yield from (StyledLine(line, "dim") for line in flow((numbers, *keys), width))


def _value_lines(trial: ReviewTrial, rubric: Rubric, title: str, detail: Detail) -> Iterator[StyledLine]:
    yield StyledLine("")
    yield from wrapped_lines(title, detail.width, "bold", "")
    names = [name for name in rubric.shows if name != rubric.output]
    # What is judged comes last, right above the question.
    for name in (*names, rubric.output):
        judged = name == rubric.output
        head = f"{name}: {rubric.shows[name]}{' (this is judged)' if judged else ''}"
        yield from wrapped_lines(one_line(head, MOST_NAME), detail.width, "cyan", "")
        text = trial.values[name]
        most = FOLDED_OUTPUT if judged else FOLDED_VALUE
        yield from block_lines(text, detail, INDENT, most, unfolded_by="v shows it")
        if not text.strip():
            yield StyledLine(f"{INDENT}nothing", "dim")


def _question_lines(rubric: Rubric, dimension: str, width: int) -> Iterator[StyledLine]:
    says = next(each.says for each in rubric.dimensions if each.name == dimension)
    yield from wrapped_lines(f"{dimension}: {one_line(says, 4000)}", width, "", "")


def _rubric_lines(rubric: Rubric, detail: Detail) -> Iterator[StyledLine]:
    title = f"rubric {rubric.name} {rubric.version}, from {rubric.low:g} to {rubric.high:g}"
    yield from wrapped_lines(title, detail.width, "bold", "")
    for dimension in rubric.dimensions:
        yield from wrapped_lines(f"{dimension.name}: {dimension.says}", detail.width)
    yield StyledLine("")
    yield from block_lines(rubric.body, Detail(detail.width, full=True), INDENT)


def verdict_lines(
    trial: Trial | None, shown: ReviewTrial, labels: PersonLabels, scale: Scale, width: int
) -> Iterator[StyledLine]:
    """Show the scores of the run's judges, on the person's scale, and the model's name."""
    key = shown.entry.key
    grades = trial_view(trial).grades if trial else ()
    votes = [vote for grade in grades if grade.grader == shown.grader for vote in grade.votes]
    low, high = scale
    for vote in votes:
        scores = []
        for name, score in vote.scores.items():
            theirs = "unknown" if score is None else f"{low + score * (high - low):.3g}"
            mine = labels.scores.get(name)
            yours = "" if mine is None else f" (you {mine:g})"
            scores.append(f"{one_line(name, MOST_NAME)} {theirs}{yours}")
        why = one_line(vote.rationale or vote.problem, MOST_SAID)
        text = f"judge {one_line(vote.judge, MOST_NAME)}: {', '.join(scores)}{f': {why}' if why else ''}"
        yield from wrapped_lines(text, width, "dim")
    if not votes:
        yield StyledLine(f"{INDENT}no judge scored it", "dim")
    name = one_line(model_label(key.model, key.variant), MOST_NAME)
    yield from wrapped_lines(f"model {name}, {one_line(shown.id, MOST_NAME)}", width, "dim")


class ReviewTerminal:
    """The terminal, or the pipe, that shows questions and takes answers."""

    def __init__(self, paged: bool) -> None:
        self._paged = paged

    @property
    def width(self) -> int:
        """The columns of the terminal, which may have changed since the last question."""
        return terminal_width()

    def show(self, lines: Iterable[StyledLine]) -> None:
        print_lines(lines)

    def page(self, lines: Iterable[StyledLine]) -> None:
        page_lines(lines, paged=self._paged)

    def ask(self, prompt: str) -> str | None:
        """Give the typed answer, without spaces around it; None at the end of the input."""
        print(prompt, end="", flush=True)
        line = sys.stdin.readline()
        # Without a terminal nobody's Enter ends the line of the prompt.
        if not line or not sys.stdin.isatty():
            print()
        return line.strip() if line else None


class ReviewQuestion(NamedTuple):
    """One dimension of one trial, by the trial's place."""

    trial: int
    dimension: str


class Review:
    """One review: the open questions, the current one, and the answers.

    ``run`` holds the trials and the notes on them: a trial that is scored or skipped has been looked at. A
    ``blind`` review shows judges, model and comment only when a trial's last dimension is answered.
    """

    def __init__(
        self, rubric: Rubric, trials: Sequence[ReviewTrial], labels: LabelFile, run: Run, blind: bool = True
    ) -> None:
        self._rubric, self._file, self._scale = rubric, labels, labels.scale
        self.trials, self._run, self._blind = trials, run, blind
        places = range(len(trials))
        self._questions = [ReviewQuestion(place, name) for place in places for name in rubric.names]
        self.ids = [labels.id_for(trial.id, trial.values) for trial in trials]
        self._visible: ReviewQuestion | None = None
        self.labelled: dict[int, None] = {}
        self.skipped: set[int] = set()
        self._looked_at: set[int] = set()
        self.notes = [trial.entry.note for trial in trials]
        self._join_comments()

    @property
    def left(self) -> int:
        """The number of trials with an open dimension."""
        return sum(not self._is_done(place) for place in range(len(self.trials)))

    def _join_comments(self) -> None:
        """Put comments that were written elsewhere since into the labels.

        Those that only labels have, of an earlier version, go into the run where a trial never had a note.
        """
        known, older = read_notes(self._run.folder), dict[TrialKey, Note]()
        for place, trial in enumerate(self.trials):
            own, key = self.labels_of(place), trial.entry.key
            if own.note and key not in known:
                older[key] = self.notes[place] = Note("", own.note, trial.entry.attempt)
            elif own.scores and own.note != self.notes[place].comment:
                self._write(place, own.scores)
        if older:
            change_notes(self._run.folder, lambda notes: {**older, **notes})

    def run(self, terminal: ReviewTerminal) -> bool:
        """Ask until every question is answered (True), or until the person quits or input ends (False)."""
        terminal.show(_key_lines(self._scale, terminal.width))
        at = self._next(-1)
        while at is not None:
            question = self._questions[at]
            place, dimension = question
            # A trial and its question are shown once, and not again after each key.
            if self._visible is None or self._visible.trial != place:
                trial = self.trials[place]
                terminal.show(_value_lines(trial, self._rubric, self._title(place), Detail(terminal.width)))
                if not self._blind:
                    self._reveal(terminal, place)
            if self._visible != question:
                terminal.show(_question_lines(self._rubric, dimension, terminal.width))
            self._visible = question
            low, high = self._scale
            scores = self.labels_of(place).scores
            before = scores.get(dimension)
            text = "u" if before is None else f"{before:g}"
            now = f" [{text}]" if dimension in scores else ""
            answer = terminal.ask(printable(f"{dimension}, {low:g} to {high:g}{now}: "))
            if answer is None or answer == "q":
                return False
            at = self._take(terminal, at, answer)
        return True

    def _take(self, terminal: ReviewTerminal, at: int, answer: str) -> int | None:
        question = self._questions[at]
        if answer == "s":
            self.skipped.add(question.trial)
            self._look(question.trial)
            # The next trial's first question: a trial is skipped as a whole.
            return self._next((question.trial + 1) * len(self._rubric.names) - 1)
        if answer == "b":
            if at == 0:
                terminal.show([StyledLine("this is the first question", "yellow")])
                return at
            return at - 1
        # Enter leaves the label of an earlier review as it is.
        if answer == "" and question.dimension in self.labels_of(question.trial).scores:
            return self._next(at)
        if answer in ("n", "v", "o", "?"):
            trial, whole = self.trials[question.trial], Detail(terminal.width, full=True)
            if answer == "n":
                self._take_note(terminal, question.trial)
            elif answer == "v":
                terminal.page(_value_lines(trial, self._rubric, self._title(question.trial), whole))
            elif answer == "?":
                terminal.page(_rubric_lines(self._rubric, Detail(terminal.width)))
            else:
                record = self._run.trial_if_readable(trial.entry)
                lost = [StyledLine("the transcript cannot be read", "yellow")]
                # Without its ending, grades and model, which a blind review must not show.
                terminal.page(conversation_lines(trial_view(record), whole) if record else lost)
            return at
        score = _typed_score(answer, self._scale)
        if score is None and answer != "u":
            terminal.show([StyledLine(f"{one_line(answer, 40)!r} is not an answer here", "yellow")])
            terminal.show(_key_lines(self._scale, terminal.width))
            return at
        scores = self.labels_of(question.trial).scores
        self._look(question.trial)
        self._write(question.trial, {**scores, question.dimension: score})
        self.labelled[question.trial] = None
        self.skipped.discard(question.trial)
        if self._blind and self._is_done(question.trial):
            self._reveal(terminal, question.trial)
        return self._next(at)

    def _take_note(self, terminal: ReviewTerminal, place: int) -> None:
        before = self.notes[place].comment
        if before and self._blind and not self._is_done(place):
            # It may say what a judge found.
            before = HIDDEN
        if comment := terminal.ask(f"note [{one_line(before, MOST_NAME)}]: " if before else "note: "):
            self._look(place, comment)
            # A line of the file needs a score.
            if scores := self.labels_of(place).scores:
                self._write(place, scores)

    def _look(self, place: int, comment: str = "") -> None:
        """Mark a trial as looked at, once in a review, and replace its comment by one that is not empty."""
        if comment or place not in self._looked_at:
            self._looked_at.add(place)
            entry = self.trials[place].entry
            attempts = {entry.key: entry.attempt}
            (self.notes[place],) = write_notes(self._run.folder, attempts, comment=comment or None).values()

    def _write(self, place: int, scores: Mapping[str, float | None]) -> None:
        trial = self.trials[place]
        # On disk before the next question: Ctrl-C loses no answer.
        self._file.write(self.ids[place], trial.values, PersonLabels(scores, self.notes[place].comment))

    def _reveal(self, terminal: ReviewTerminal, place: int) -> None:
        trial = self.trials[place]
        labels = self.labels_of(place)
        whole = self._run.trial_if_readable(trial.entry)
        terminal.show(verdict_lines(whole, trial, labels, self._scale, terminal.width))
        terminal.show(note_lines(self.notes[place], trial.entry.attempt, Detail(terminal.width)))

    def _title(self, place: int) -> str:
        """Name a trial by its task; by its model too where that is not hidden."""
        key = self.trials[place].entry.key
        model = "" if self._blind else f" [{model_label(key.model, key.variant)}]"
        number = f"{place + 1} of {len(self.trials)}, {self.left} left"
        return one_line(f"--- {number}: {key.suite}/{key.task}{model}", MOST_TITLE)

    def _next(self, at: int) -> int | None:
        """Give the next open question; trials that were skipped in this review are passed over."""
        for place in range(at + 1, len(self._questions)):
            trial, dimension = self._questions[place]
            if trial not in self.skipped and dimension not in self.labels_of(trial).scores:
                return place
        return None

    def _is_done(self, place: int) -> bool:
        return self.labels_of(place).scores.keys() >= set(self._rubric.names)

    def labels_of(self, place: int) -> PersonLabels:
        return self._file.labels_of(self.ids[place])


def _typed_score(answer: str, scale: Scale) -> float | None:
    """Read a number of the scale; None for anything else."""
    try:
        # Many people write a decimal comma.
        score = float(answer.replace(",", "."))
    except ValueError:
        return None
    if not scale[0] <= score <= scale[1]:
        return None
    return int(score) if score == int(score) else score


class LabelledTrial(FrozenValue, frozen=True):
    """A trial with a label: ``id`` is that of its line in the file; None stands for what is unknown."""

    id: str
    suite: str
    task: str
    bucket: str
    scores: Mapping[str, float | None]
    note: str


class ReviewSummary(Document, frozen=True, kw_only=True):
    """What a person labelled in one review, and how much is left.

    ``scores`` lie on ``scale``. ``left`` counts the chosen trials with an open dimension, ``skipped`` those
    of them that the person passed over; ``left_out`` says how many of the run's trials were never chosen, by
    the reason. ``agreement`` compares the whole file with those of other people beside it, ``calibrate`` is
    the command that compares a judge with it.
    """

    run: str
    rubric: str
    file: str
    labeller: str
    scale: Scale
    labelled: tuple[LabelledTrial, ...]
    done: int
    left: int
    skipped: int
    left_out: Mapping[str, int]
    agreement: tuple[PeopleAgreement, ...]
    calibrate: str


def summarize(run: str, pool: ReviewPool, review: Review, labels: LabelFile, calibrate: str) -> ReviewSummary:
    left, labelled = review.left, []
    for place in sorted(review.labelled):
        entry, given = review.trials[place].entry, review.labels_of(place)
        names = (review.ids[place], entry.key.suite, entry.key.task, entry.bucket)
        labelled.append(LabelledTrial(*names, given.scores, review.notes[place].comment))
    return ReviewSummary(
        run=run,
        rubric=pool.rubric.name,
        file=short_path(labels.path),
        labeller=labels.labeller,
        scale=labels.scale,
        labelled=tuple(labelled),
        done=len(review.trials) - left,
        left=left,
        skipped=len(review.skipped),
        left_out=pool.left_out,
        agreement=tuple(agreement_with_others(labels.path, pool.rubric)),
        calibrate=calibrate,
    )


def opening_lines(summary: ReviewSummary) -> Iterator[str]:
    trials = pluralize(summary.done + summary.left, "trial")
    yield f"{summary.run}, rubric {summary.rubric}: {trials}, {summary.done} labelled, {summary.left} left"
    if summary.left_out:
        reasons = ", ".join(f"{count} {why}" for why, count in summary.left_out.items())
        yield f"left out: {reasons}"
    yield f"labels: {summary.file}"


def closing_lines(summary: ReviewSummary) -> Iterator[str]:
    skipped = f", {summary.skipped} of them skipped" if summary.skipped else ""
    labelled = pluralize(len(summary.labelled), "trial")
    complete = f"{summary.done} of {summary.done + summary.left} complete"
    yield f"{labelled} labelled now; {complete}, {summary.left} left{skipped}"
    if summary.done or summary.labelled:
        for file, dimensions in groupby(summary.agreement, key=lambda each: each.file):
            texts = (
                f"{each.dimension} alpha {format_figure(each.alpha)} on {each.examples}"
                for each in dimensions
            )
            yield f"agreement with {file}: {', '.join(texts)}"
        yield f"next: {summary.calibrate}"


def calibrate_command(
    file: Path, rubric: Rubric, named: str | None, folder: Path, tasks: PlannedTasks
) -> str:
    where = named if named and named.endswith(".jinja") else _rubric_place(rubric, folder, tasks)
    return shlex.join(["agenteval", "calibrate", short_path(file), "--rubric", where, "--judge", "MODEL"])


def _rubric_place(rubric: Rubric, folder: Path, tasks: PlannedTasks) -> str:
    """Give the question that the rubric is, a registered rubric's name, else the file that holds it."""
    question = rubric.dimensions[0].says
    if is_question(question) and question_rubric(question).text == rubric.text:
        return question
    try:
        # Another rubric may be registered under the same name.
        if tasks.registry.rubric(rubric.name).digest() == rubric.digest():
            return rubric.name
    except UnknownName:
        pass
    files = sorted(folder.rglob("*.jinja"))
    same = (path for path in files if rubric.text == path.read_text(encoding="utf-8", errors="replace"))
    return next(map(short_path, same), f"{rubric.name}.jinja")
