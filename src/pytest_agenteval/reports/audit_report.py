"""An audited run: which grader noticed which spoilt reference, as figures, lines and tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.reports.tables import ReportTable, TableColumn, TableNote, table_lines, table_markdown
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_documents import AuditedTask, PlannedSpoiler, RunAudit
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import NOT_KNOWN, StyledLine, one_line, pluralize, wrapped_lines

ORACLE, NOP = "oracle", "nop"
LEAST = 0.9
"""The share of spoilers that code can decide from which on a suite's graders see enough."""


class Sight(FrozenValue, frozen=True):
    """How many spoilers were seen, of so many that were tried and that could be seen without a judge."""

    seen: int
    tried: int

    @property
    def share(self) -> float:
        """The share that was seen, 0 to 1; 1 where none was tried."""
        # A suite without a spoiler that code can decide is not at fault for it.
        return self.seen / self.tried if self.tried else 1.0


class GraderSight(FrozenValue, frozen=True):
    """What one grader saw, in all tasks that it grades, by the name of the spoiler.

    It saw a trial that it gave less than 1, and was tried by each that it could decide.
    """

    grader: str
    spoilers: Mapping[str, Sight]


class WrongTrial(FrozenValue, frozen=True):
    """A trial that ended as it should not, or broke: whose, where the task stands, what was done.

    ``score`` is what it got all the same, None for none; ``noticed`` names graders that took something off
    and have no say; ``reason`` says why a trial broke.
    """

    task: str
    place: str
    player: str
    done: str
    score: float | None
    noticed: tuple[str, ...] = ()
    reason: str = ""


class SuiteAudit(FrozenValue, frozen=True):
    """What an audit shows of a suite.

    ``spoilers`` are those that code can decide, by name; ``unseen`` were seen by no grader, and
    ``for_judges`` stand apart: what they change is looked at by judges alone, and an audit calls none.
    ``below`` are references that did not reach 1.0: their spoilt forms show nothing, and are in no figure.
    ``idle`` are tasks that are passed by doing nothing, ``broken`` trials without a verdict.
    """

    suite: str
    tasks: int
    spoilers: Mapping[str, Sight]
    graders: tuple[GraderSight, ...]
    unseen: tuple[WrongTrial, ...]
    for_judges: tuple[WrongTrial, ...]
    below: tuple[WrongTrial, ...]
    idle: tuple[WrongTrial, ...]
    broken: tuple[WrongTrial, ...]

    @property
    def sight(self) -> Sight:
        sights = self.spoilers.values()
        return Sight(sum(each.seen for each in sights), sum(each.tried for each in sights))

    def is_sound(self, least: float) -> bool:
        """Whether references reach 1.0, doing nothing misses, nothing broke, and enough spoilers are seen."""
        # A broken trial is no miss: a grader that crashes at every answer but the reference has seen nothing.
        return not (self.below or self.idle or self.broken) and self.sight.share >= least - ROUNDING

    @property
    def misses_idle(self) -> int:
        """How many tasks miss where the agent does nothing, without those whose trial broke."""
        broken = sum(trial.player == NOP for trial in self.broken)
        return self.tasks - len(self.idle) - broken


class RubricAudit(FrozenValue, frozen=True):
    """What a rubric makes of replies that quote verdicts planted in what is judged.

    ``moved_by`` names those, of ``tried``, that are mistaken for the judge's own verdict.
    """

    suite: str
    rubric: str
    place: str
    tried: int
    moved_by: tuple[str, ...] = ()


class Audit(Document, frozen=True):
    """Which graders of which suites saw which spoilt references.

    ``rubrics`` are those by which judges grade, whether one was called or not. ``unaudited`` names tasks, by
    suite, that have no reference solution to act out; ``unfinished`` counts trials that never ended.
    """

    suites: tuple[SuiteAudit, ...]
    unaudited: Mapping[str, tuple[str, ...]]
    unfinished: int = 0
    least: float = LEAST
    rubrics: tuple[RubricAudit, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether every suite is sound, every trial ended, and no rubric can be moved by what is judged."""
        moved = any(rubric.moved_by for rubric in self.rubrics)
        return not (self.unfinished or moved) and all(suite.is_sound(self.least) for suite in self.suites)


def audit_of(run: Run, audited: RunAudit, least: float = LEAST) -> Audit:
    unaudited: dict[str, tuple[str, ...]] = {}
    for task in audited.unaudited:
        unaudited[task.suite] = (*unaudited.get(task.suite, ()), task.task)
    suites = dict.fromkeys(task.suite for task in audited.tasks)
    # Each task is tried by its spoilers, by its whole reference, and by doing nothing. A run without a plan
    # ended before its first trial.
    planned = len(audited.spoilers) + 2 * len(audited.tasks)
    unfinished = sum(group.trials for group in run.planned) - len(run.entries) if run.planned else planned
    return Audit(
        suites=tuple(_Suite(suite, run.entries, audited).audit() for suite in suites),
        unaudited=unaudited,
        unfinished=max(0, unfinished),
        least=least,
        rubrics=tuple(
            RubricAudit(each.suite, each.rubric, each.place, each.tried, each.moved_by)
            for each in audited.rubrics
        ),
    )


class _Suite:
    """One suite's trials, sorted by what they show."""

    def __init__(self, suite: str, entries: Iterable[JournalEntry], audited: RunAudit) -> None:
        self.suite = suite
        self.tasks = {task.task: task for task in audited.tasks if task.suite == suite}
        self.entries = [entry for entry in entries if entry.key.suite == suite]
        self._spoilers = {
            (each.task, f"spoiler:{each.spoiler}", each.number): each
            for each in audited.spoilers
            if each.suite == suite
        }

    def audit(self) -> SuiteAudit:
        below = [entry for entry in self.entries if entry.key.model == ORACLE and not entry.full]
        # Where even the whole reference misses, a miss of its spoilt form shows nothing about the graders.
        nothing = {entry.key.task for entry in below}
        spoilt = [
            entry
            for entry in self.entries
            if self._spoiler(entry) and entry.ending != "errored" and entry.key.task not in nothing
        ]
        unseen = [entry for entry in spoilt if entry.ending == "passed"]
        # An audit asks no judge, so what only a judge could see is in no figure of the graders.
        for_judges = self._left_to_judges(spoilt, unseen)
        decidable = [entry for entry in spoilt if entry not in for_judges]
        tried, seen = Counter[str](), Counter[str]()
        for entry in decidable:
            name = player_of(entry)
            tried[name] += 1
            seen[name] += entry.ending != "passed"
        return SuiteAudit(
            self.suite,
            len(self.tasks),
            {name: Sight(seen[name], count) for name, count in tried.items()},
            self._graders(decidable),
            self._wrong(entry for entry in unseen if entry not in for_judges),
            self._wrong(for_judges),
            self._wrong(below),
            self._wrong(
                entry for entry in self.entries if entry.key.model == NOP and entry.ending == "passed"
            ),
            self._wrong(
                each for each in self.entries if each.ending == "errored" and each.key.model != ORACLE
            ),
        )

    def _left_to_judges(
        self, spoilt: Sequence[JournalEntry], unseen: Sequence[JournalEntry]
    ) -> list[JournalEntry]:
        """Give those of the unseen trials that only a judge could have seen.

        In these the task's judge graded nothing, every other grader gave 1, and no grader noticed any spoiler
        of the places that this one changed.
        """
        # A place in which code noticed one spoiler is one that code looks at: missing another there is its
        # own fault, and not left to a judge.
        seen_places = {
            (entry.key.task, place)
            for entry in spoilt
            if entry.ending != "passed" and (spoiler := self._spoiler(entry))
            for place in spoiler.places
        }
        left = []
        for entry in unseen:
            places = self._spoilers[entry.key.task, entry.key.model, entry.key.repetition].places
            judged = any(grade.undecided == "no_judge" for grade in entry.grades) and entry.full
            if judged and places and not any((entry.key.task, place) in seen_places for place in places):
                left.append(entry)
        return left

    def _spoiler(self, entry: JournalEntry) -> PlannedSpoiler | None:
        return self._spoilers.get((entry.key.task, entry.key.model, entry.key.repetition))

    def _graders(self, decidable: Sequence[JournalEntry]) -> tuple[GraderSight, ...]:
        tried, seen = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for entry in decidable:
            names = self.tasks[entry.key.task].graders if entry.key.task in self.tasks else {}
            # By the grader's name, not its label: a task may use one grader several times, and then any of
            # them is enough.
            saw_spoiler: dict[str, bool] = {}
            for grade in entry.grades:
                if grade.score is not None:
                    name = names.get(grade.grader, grade.grader)
                    saw_spoiler[name] = saw_spoiler.get(name, False) or not grade.full
            for name, saw in saw_spoiler.items():
                tried[name, player_of(entry)] += 1
                seen[name, player_of(entry)] += saw
        of_graders: dict[str, dict[str, Sight]] = defaultdict(dict)
        for (grader, spoiler), count in tried.items():
            of_graders[grader][spoiler] = Sight(seen[grader, spoiler], count)
        return tuple(GraderSight(grader, sights) for grader, sights in sorted(of_graders.items()))

    def _wrong(self, entries: Iterable[JournalEntry]) -> tuple[WrongTrial, ...]:
        wrong = []
        for entry in entries:
            task = self.tasks.get(entry.key.task, AuditedTask(self.suite, entry.key.task))
            spoiler = self._spoiler(entry)
            noticed = [grade.grader for grade in entry.grades if grade.score is not None and not grade.full]
            reason = f"{entry.cause}: {entry.message}" if entry.ending == "errored" else ""
            done, player = spoiler.done if spoiler else "", player_of(entry)
            wrong.append(WrongTrial(task.task, task.place, player, done, entry.score, tuple(noticed), reason))
        return tuple(wrong)


def player_of(entry: JournalEntry) -> str:
    """Name who acted: ``oracle``, ``nop``, or a spoiler."""
    return entry.key.model.removeprefix("spoiler:")


TITLES = {
    "skip_call": "skip",
    "wrong_argument": "argument",
    "number_plus_one": "number",
    "date_off_by_a_day": "day",
    "fact_dropped": "fact",
    "stray_file": "stray",
    "neighbour_overwritten": "neighbour",
    "verbatim_paste": "paste",
    "answer_everything": "all",
}
ALL = "all graders"
NO_SUITE = "tasks without a suite"
NO_SIGHT = "no planted mistake could be checked"
MOST_LINE = 400


def audit_lines(audit: Audit, width: int, *, tells_unseen: bool) -> Iterator[StyledLine]:
    """Give the tables, faults and verdicts of an audit; with ``tells_unseen`` also each unseen spoiler."""
    for suite in audit.suites:
        yield from table_lines(suite_table(suite), width)
        for title, trials in (
            ("the reference does not reach 1.0, so its planted mistakes show nothing", suite.below),
            ("passed by doing nothing", suite.idle),
            ("errored, so not counted", suite.broken),
            ("caught by no grader", suite.unseen if tells_unseen else ()),
        ):
            if trials:
                yield StyledLine(f"  {title}", "bold")
            by_task: dict[str, list[WrongTrial]] = {}
            for trial in trials:
                by_task.setdefault(trial.place, []).append(trial)
            for place, of_task in sorted(by_task.items(), key=lambda task: (-len(task[1]), task[0])):
                yield StyledLine(f"    {one_line(f'{place} {of_task[0].task}', MOST_LINE)}")
                for trial in of_task:
                    got = trial.reason or ("no score" if trial.score is None else f"score {trial.score:.2f}")
                    noticed = f", noticed by {', '.join(trial.noticed)}" if not trial.reason else ""
                    done = f" ({trial.done})" if trial.done else ""
                    player = TITLES.get(trial.player, trial.player)
                    text = f"{player}{done}: {got}{noticed if trial.noticed else ''}"
                    yield from wrapped_lines(one_line(text, MOST_LINE), width, "", indent="      ")
        yield _verdict(suite, audit.least)
        yield StyledLine("")
    for name, tasks in audit.unaudited.items():
        what = f"{name or NO_SUITE}: {pluralize(len(tasks), 'task')} without a reference_solution: "
        line = one_line(f"{what}{', '.join(tasks)}", MOST_LINE)
        yield from wrapped_lines(line, width, "yellow", indent="")
    moved = [rubric for rubric in audit.rubrics if rubric.moved_by]
    for rubric in moved:
        count = f"{len(rubric.moved_by)} of {rubric.tried} planted verdicts are mistaken for the judge's own"
        row = f"{rubric.place}: rubric {rubric.rubric}: {count}: {'; '.join(rubric.moved_by)}"
        yield from wrapped_lines(one_line(row, MOST_LINE), width, "red", indent="  ")
    if audit.rubrics and not moved:
        names = {rubric.rubric for rubric in audit.rubrics}
        tried = sum(rubric.tried for rubric in audit.rubrics)
        none = f"none of {tried} planted verdicts is mistaken for the judge's own"
        row = f"{pluralize(len(names), 'rubric')}: {none}"
        yield from wrapped_lines(row, width, "green", indent="")
    if audit.unfinished:
        yield StyledLine(f"{pluralize(audit.unfinished, 'trial')} never ended", "red")


def audit_markdown(audit: Audit) -> str:
    return "\n\n".join(table_markdown(suite_table(suite)).rstrip("\n") for suite in audit.suites) + "\n"


def suite_table(suite: SuiteAudit) -> ReportTable:
    """Give how many of the spoilers each grader saw, of those that it could decide."""
    # Columns have one order in every suite's table, whichever trials ended first.
    spoilers = [name for name in TITLES if name in suite.spoilers]
    graders = suite.graders
    sights = {
        name: (suite.spoilers[name], *(each.spoilers.get(name) for each in graders)) for name in spoilers
    }
    columns = tuple(TableColumn(TITLES[name], tuple(map(_cell, sights[name]))) for name in spoilers)
    names = (ALL, *(grader.grader for grader in graders))
    count = f"{pluralize(suite.tasks, 'task')}, {suite.sight.tried} planted mistakes"
    title = f"{suite.suite or NO_SUITE}: {count}: caught/planted"
    notes = (TableNote(f"{len(suite.for_judges)} more need a judge"),) if suite.for_judges else ()
    return ReportTable(title, "grader", names, (columns,), notes)


def _cell(sight: Sight | None) -> str:
    return f"{sight.seen}/{sight.tried}" if sight is not None and sight.tried else NOT_KNOWN


def _verdict(suite: SuiteAudit, least: float) -> StyledLine:
    sight, tasks = suite.sight, suite.tasks
    reference = f"references score 1.0 in {tasks - len(suite.below)} of {pluralize(tasks, 'task')}"
    idle = f"doing nothing misses in {suite.misses_idle}"
    seen = f"{sight.seen} of {sight.tried} caught ({sight.share:.1%})" if sight.tried else NO_SIGHT
    text = f"{one_line(suite.suite or NO_SUITE, MOST_LINE)}: {seen}; {reference}, {idle}"
    return StyledLine(text, "green" if suite.is_sound(least) else "red")
