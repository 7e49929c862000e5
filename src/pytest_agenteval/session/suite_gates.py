"""The gates of suites: what each has to reach, and a stored run judged by them beside its baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from pytest_agenteval.compare.baseline_file import read_baseline, read_baseline_run
from pytest_agenteval.compare.comparison import TOLERANCE, RunComparison, SuiteComparison, compare_runs
from pytest_agenteval.compare.gate import GatedSuite, GateOutcome, Recheck, judge_gates
from pytest_agenteval.compare.pairing import ComparedRun, compared_run
from pytest_agenteval.compare.scoring.power import null_mean, null_pass_hat_k
from pytest_agenteval.records.record import FrozenValue, from_builtins
from pytest_agenteval.reports.group_statistics import group_by_task
from pytest_agenteval.reports.run_view import SuiteView, entries_by_group, suite_label, suite_views
from pytest_agenteval.reports.run_warnings import look_lines
from pytest_agenteval.session.planning.suites import Suites, tasks_of_suite
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_documents import GATES, SuiteGate, read_gates
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.suite_spec import NO_GATE, Gate
from pytest_agenteval.text.errors import (
    AgentEvalError,
    ProblemsFound,
    UsageMistake,
    did_you_mean,
    nearest_names,
)

# The rules of a gate that names a baseline and nothing else.
WITH_BASELINE = {"not_worse": True, "errored": 0.05}


def _gate_of(own: Gate, settings: Settings) -> tuple[Gate, bool]:
    """Give a suite's gate, overridden by this run's options, and whether its rules are assumed."""
    if settings.gate is None:
        return NO_GATE, False
    rules = {**_rules_of(own), **settings.gate}
    if "buckets" in rules:
        rules["buckets"] = {**own.buckets, **settings.gate.get("buckets", {})}
    gate = from_builtins(Gate, rules)
    # A baseline without any rule brings two rules.
    if not gate.has_rules and (settings.baseline or gate.baseline):
        return from_builtins(Gate, {**WITH_BASELINE, **_rules_of(gate)}), True
    return gate, not gate.has_rules


def _rules_of(gate: Gate) -> dict[str, Any]:
    return {key: value for key, value in gate.to_json().items() if value is not None and value != {}}


# The tasks that were met while collecting: by suite and task, the bucket and the split.
CollectedTasks: TypeAlias = Mapping[str, Mapping[str, tuple[str, str]]]


def planned_gates(
    settings: Settings, met: CollectedTasks, covered: Sequence[Path], suites: Suites, root: Path
) -> tuple[SuiteGate, ...]:
    """Give the gates of the suites that were ``met``, where they have to reach anything.

    Suites below the ``covered`` paths were collected as a whole; the files of other suites are read. Raises
    UsageMistake for a baseline that cannot be read, and for a bucket on the command line that no suite has.
    """
    gates: list[SuiteGate] = []
    typed = set((settings.gate or {}).get("buckets", {}))
    known: set[str] = set()
    for name in met:
        file, suite = suites.file_named(name), suites.suite_of_name(name)
        own = suite.gate if suite else NO_GATE
        gate, is_assumed = _gate_of(own, settings)
        if gate == NO_GATE:
            continue
        tasks: Iterable[tuple[str, str]] = met[name].values()
        if file and suite and not any(file.parent.is_relative_to(path) for path in covered):
            try:
                tasks = [(each.bucket, each.task.split) for each in tasks_of_suite(suites, file, suite)]
            except ProblemsFound:
                tasks = []
        counts = Counter(bucket for bucket, split in tasks if settings.split in ("all", split))
        known |= set(counts)
        # A bucket that was typed applies only to suites that have it.
        others = typed - set(counts) - set(own.buckets)
        gate = replace(gate, buckets={key: gate.buckets[key] for key in gate.buckets if key not in others})
        rules = _rules_of(gate)
        if gate.baseline and file is not None:
            path = (file.parent / gate.baseline).resolve()
            if path.is_file() and not settings.baseline:
                try:
                    read_baseline(path)
                except UsageMistake as mistake:
                    raise UsageMistake(f"{short_path(file)}: gate.baseline: {mistake}") from None
            rules["baseline"] = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        gates.append(SuiteGate(name, rules, dict(counts), assumed=is_assumed))
    unknown = next((name for name in sorted(typed) if name not in known), None)
    if unknown is not None and known:
        place = settings.places.get("gate", "--agent-gate")
        hint = did_you_mean(unknown, known) or f"buckets there: {nearest_names(unknown, known)}"
        raise UsageMistake(f"{place}: expected a bucket of the suites; found {unknown!r}; {hint}")
    return tuple(gates)


UNDER, OVER = 0.005, 0.995  # chances beyond which no digit is shown

# A run warns of a floor that it misses with this chance or a higher one although nothing changed.
WORTH_A_LINE = 0.05


class Floor(FrozenValue, frozen=True):
    """A figure of a suite, and the least that its gate requires of it; None where it requires nothing."""

    figure: Literal["score", "pass_hat_k", "bucket"]
    least: float | None = None
    bucket: str = ""

    def name(self, k: int) -> str:
        """Name the figure as the gate's line does."""
        return self.bucket or ("score" if self.figure == "score" else f"pass^{k}")


class FloorRisk(NamedTuple):
    """How often a run in which nothing changed misses a floor, and the floor that 1 in 100 of them miss.

    Both are None where too few tasks have two trials, so that nobody knows how much these vary.
    """

    chance: float | None = None
    one_in_100: float | None = None


def floors_of(gate: Gate) -> Iterator[Floor]:
    if gate.score is not None:
        yield Floor("score", gate.score)
    if gate.pass_hat_k is not None:
        yield Floor("pass_hat_k", gate.pass_hat_k)
    for bucket, least in gate.buckets.items():
        yield Floor("bucket", least, bucket)


def floor_risk(floor: Floor, entries: Iterable[JournalEntry], k: int) -> FloorRisk:
    """Work out the risk of a run with ``k`` repetitions, from stored trials of the suite with one model."""
    averaged = [entry for entry in entries if entry.averaged and floor.bucket in ("", entry.bucket)]
    tasks = group_by_task(averaged).values()
    if floor.figure == "pass_hat_k":
        null = null_pass_hat_k([[entry.ending == "passed" for entry in trials] for trials in tasks], k)
    else:
        null = null_mean([[entry.score or 0.0 for entry in trials] for trials in tasks], k)
    if null is None:
        return FloorRisk()
    chance = None if floor.least is None else null.chance_below(floor.least)
    return FloorRisk(chance, null.highest_floor())


def _often_missed(suite: GatedSuite, entries: Sequence[JournalEntry]) -> Iterator[str]:
    tasks = group_by_task(entry for entry in entries if entry.averaged).values()
    varies = any(len({entry.score for entry in trials}) > 1 for trials in tasks)
    for floor in floors_of(suite.gate) if varies and suite.k > 1 else ():
        narrowed = suite.narrowed_in(floor.bucket) if floor.bucket else suite.narrowed
        chance = None if narrowed else floor_risk(floor, entries, suite.k).chance
        if chance is not None and chance >= WORTH_A_LINE:
            name = suite.name_of(f"{floor.name(suite.k)} {floor.least:.2f}")
            about = "" if chance > OVER else "about "
            yield f'"{name}" in {about}{percent_text(chance)} of runs'


def percent_text(chance: float) -> str:
    """Write a chance without unreliable digits: ``24 %``, ``under 1 %``."""
    if chance < UNDER:
        return "under 1 %"
    return "over 99 %" if chance > OVER else f"{100 * chance:.0f} %"


class BrokenTask(FrozenValue, frozen=True):
    """A task whose trials all passed before, and of which none passes now; it runs ``times`` again."""

    suite: str
    task: str
    model: str
    variant: str
    file: str
    times: int


class RecheckedTasks(FrozenValue, frozen=True):
    """What became of the tasks that ran again: each with the number that passed, and of how many trials."""

    tasks: tuple[tuple[BrokenTask, int, int], ...] = ()
    trouble: str = ""  # why that is not known
    lines: tuple[str, ...] = ()

    def results_of(self, suite: str, model: str, variant: str) -> tuple[Recheck, ...]:
        return tuple(
            Recheck(task.task, passed, trials)
            for task, passed, trials in self.tasks
            if (task.suite, task.model, task.variant) == (suite, model, variant)
        )


def not_tried_again(broken: Sequence[BrokenTask], when: str) -> RecheckedTasks:
    """Report that the tasks may be broken by chance: no agent acts that could run them again."""
    names = ", ".join(dict.fromkeys(task.task for task in broken))
    return RecheckedTasks(trouble=f"no agent runs {when}, so {names} cannot run again" if broken else "")


def gates_of_run(folder: Path) -> dict[str, Gate]:
    """Read the gate of each suite of a run; raises UsageMistake where they cannot be read."""
    try:
        return {each.suite: from_builtins(Gate, dict(each.gate)) for each in read_gates(folder)}
    except msgspec.ValidationError as wrong:  # of a later version, perhaps
        raise UsageMistake(f"{folder / GATES}: the run's gates cannot be read ({wrong})") from None


class JudgedRun:
    """A run with what its suites have to reach, and the baselines that they are compared with.

    ``root`` is where suites' own baselines are looked up, ``named`` the run or file that comes before them.
    """

    def __init__(self, run: Run, root: Path, named: Path | None) -> None:
        self.run, self._root, self._named = run, root, named
        self._new = compared_run(run)
        self._comparisons: dict[float, RunComparison | None] = {}
        self.gates = gates_of_run(run.folder)
        self._planned = {each.suite: each for each in read_gates(run.folder)}
        self.troubles: dict[str, str] = {}
        self._names: dict[str, str] = {}

    @property
    def has_baseline(self) -> bool:
        return self._named is not None or any(gate.baseline for gate in self.gates.values())

    @cached_property
    def suites(self) -> list[SuiteView]:
        """The suites, each with one model, that have a gate."""
        return [suite for suite in suite_views(self.run) if suite.suite in self.gates]

    @cached_property
    def old(self) -> ComparedRun | None:
        """What the run is compared with: what was named for all suites, else each suite's own file."""
        if not self.has_baseline:
            return None
        try:
            side = read_baseline_run(self._named) if self._named else self._of_suites()
        except AgentEvalError as mistake:
            self.troubles |= dict.fromkeys((suite.name for suite in self.run.header.suites), str(mistake))
            return None
        return side and side.on_tasks_of(self._new)

    def _of_suites(self) -> ComparedRun | None:
        sides: list[ComparedRun] = []
        for name, gate in self.gates.items():
            path = self._root / (gate.baseline or "")
            if not gate.baseline:
                continue
            if not path.is_file():
                how = f"agenteval baseline set {self.run.folder.name} writes it"
                self.troubles[name] = f"there is no baseline {gate.baseline}; {how}"
                continue
            side = read_baseline_run(path)
            self._names[name] = side.name
            own = tuple(entry for entry in side.entries if entry.key.suite == name)
            run_of = {key: run for key, run in side.run_of.items() if key.suite == name}
            sides.append(replace(side, entries=own, run_of=run_of))
        if not sides:
            return None
        return ComparedRun(
            ", ".join(dict.fromkeys(side.name for side in sides)),
            tuple(sorted((entry for side in sides for entry in side.entries), key=lambda entry: entry.key)),
            tuple(dict.fromkeys(judge for side in sides for judge in side.judges)),
            looks=tuple(dict.fromkeys(look for side in sides for look in side.looks)),
            run_of={key: run for side in sides for key, run in side.run_of.items()},
        )

    def old_name(self, suite: str) -> str:
        """Give the name of the run that a suite is compared with; empty where it is compared with none."""
        return self._names.get(suite, self.old.name if self._named and self.old else "")

    def comparison(self, tolerance: float) -> RunComparison | None:
        """Compare with the baseline; None where there is none."""
        if tolerance not in self._comparisons:
            old = self.old
            compared = None if old is None else compare_runs(old, self._new, tolerance=tolerance)
            self._comparisons[tolerance] = compared
        return self._comparisons[tolerance]

    @property
    def tolerance(self) -> float:
        """The fall of a score that does not matter: that of the gates where they agree, else the default."""
        named = {_tolerance(gate) for gate in self.gates.values()} - {TOLERANCE}
        return named.pop() if len(named) == 1 else TOLERANCE

    def suite_comparison(self, suite: SuiteView) -> SuiteComparison | None:
        comparison = self.comparison(_tolerance(self.gates[suite.suite]))
        who = (suite.model, suite.variant)
        parts = comparison.suites if comparison else ()
        return next((part for part in parts if (part.name, part.new_who) == (suite.suite, who)), None)

    @cached_property
    def broken(self) -> list[BrokenTask]:
        """The broken tasks that a gate's ``recheck`` runs again."""
        broken = []
        for suite in self.suites:
            times, who = self.gates[suite.suite].recheck, (suite.model, suite.variant)
            if times and (comparison := self.suite_comparison(suite)):
                broken += [
                    BrokenTask(suite.suite, change.task, *who, change.file, times)
                    for change in comparison.tasks
                    if change.broken
                ]
        return broken

    def outcome(self, rechecked: RecheckedTasks) -> GateOutcome:
        return judge_gates([self._gated(suite, rechecked) for suite in self.suites])

    @cached_property
    def risk_line(self) -> str:
        """Which floors a run like this one often misses where nothing changed; empty where none is known."""
        # The risk is known from the run's own trials, but not where each task ran once or no task's trials
        # differ.
        entries, missed = entries_by_group(self.run), list[str]()
        for suite in self.suites:
            gated = self._gated(suite, RecheckedTasks())
            missed += _often_missed(gated, entries[suite.suite, suite.model, suite.variant])
        if not missed:
            return ""
        return f"noise: a run in which nothing changed misses {', '.join(missed)} (agenteval gate-check)"

    def _gated(self, suite: SuiteView, rechecked: RecheckedTasks) -> GatedSuite:
        total, group = suite.total, (suite.suite, suite.model, suite.variant)
        own = [each for each in self.run.planned if (each.suite, each.model, each.variant) == group]
        names_baseline = self._named is not None or bool(self.gates[suite.suite].baseline)
        # Reading ``old`` looks for the baseline and fills ``troubles``.
        if self.old is None and not self.has_baseline:
            trouble = "no baseline is named (--agent-baseline, or baseline: in suite.yaml)"
        else:
            trouble = self.troubles.get(suite.suite, "") if names_baseline else "its gate names no baseline"
        return GatedSuite(
            label=suite_label(suite, suite_views(self.run)),
            gate=self.gates[suite.suite],
            score=total.mean.mean if total.mean else None,
            pass_hat_k=total.pass_hat_k.value if total.pass_hat_k else None,
            k=total.k,
            planned=total.planned,
            lost=sum(total.errored.values()) + total.not_run,
            buckets={row.name: row.mean.mean if row.mean else None for row in suite.rows},
            tried={each.bucket: each.tasks for each in own},
            whole=self._planned[suite.suite].tasks,
            comparison=self.suite_comparison(suite),
            trouble=trouble,
            baseline_named=names_baseline,
            alone=len(self.suites) == 1,
            assumed=self._planned[suite.suite].assumed,
            rechecks=rechecked.results_of(*group),
            recheck_trouble=rechecked.trouble,
        )

    def trouble_lines(self, *lines: str) -> tuple[str, ...]:
        """Give ``lines``, after those about what was not compared and which suites stopped early.

        What is not compared is left out where a gate reports it.
        """
        ungated = [text for name, text in self.troubles.items() if name not in self.gates]
        troubles = dict.fromkeys(f"baseline: {text}" for text in ungated)
        return tuple(filter(None, (*troubles, *look_lines(self.run), *lines)))


def _tolerance(gate: Gate) -> float:
    """Give the fall that a gate tolerates; the default where the gate says only ``true``."""
    return gate.not_worse if isinstance(gate.not_worse, float) else TOLERANCE
