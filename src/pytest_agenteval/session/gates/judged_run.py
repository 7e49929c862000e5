"""A stored run beside its baseline, with the gates of its suites: all that judging it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pytest_agenteval.compare.baseline import read_side
from pytest_agenteval.compare.comparison import (
    TOLERANCE,
    Comparison,
    SuiteComparison,
    TaskChange,
    compare_sides,
)
from pytest_agenteval.compare.gate import GatedSuite, GateOutcome, judge_gates
from pytest_agenteval.compare.sides import Side, side_of
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.reports.look_lines import look_lines
from pytest_agenteval.reports.view import RunView, SuiteView, view_of
from pytest_agenteval.session.gates.null_risks import risk_line
from pytest_agenteval.session.gates.recheck import BrokenTask, RecheckedTasks
from pytest_agenteval.store.run_gates import GATES, read_gates
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.gate_spec import Gate
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake


class JudgedRun:
    """A run with what its suites have to reach, and the baselines that they are compared with.

    ``root`` is where suites' own baselines are looked up, ``named`` the run or file that comes before them.
    """

    def __init__(self, run: Run, root: Path, named: Path | None) -> None:
        self.run, self._root, self._named = run, root, named
        self._new = side_of(run)
        self._comparisons: dict[float, Comparison | None] = {}
        gates = read_gates(run.folder)
        try:
            self.gates = {each.suite: from_builtins(Gate, dict(each.gate)) for each in gates}
        except msgspec.ValidationError as odd:  # of a later version, perhaps
            raise UsageMistake(f"{run.folder / GATES}: the run's gates cannot be read ({odd})") from None
        self._planned = {each.suite: each for each in gates}
        self.troubles: dict[str, str] = {}
        self._names: dict[str, str] = {}

    @property
    def has_baseline(self) -> bool:
        """Whether anything was named that the run is compared with."""
        return self._named is not None or any(gate.baseline for gate in self.gates.values())

    @cached_property
    def view(self) -> RunView:
        """The run's figures, as its tables show them."""
        return view_of(self.run)

    @cached_property
    def suites(self) -> list[SuiteView]:
        """The suites, each with one model, that have a gate."""
        return [suite for suite in self.view.suites if suite.suite in self.gates]

    @cached_property
    def old(self) -> Side | None:
        """What the run is compared with: what was named for all suites, else each suite's own file."""
        if not self.has_baseline:
            return None
        try:
            side = read_side(self._named) if self._named else self._of_suites()
        except AgentEvalError as mistake:
            self.troubles |= dict.fromkeys((suite.name for suite in self.run.header.suites), str(mistake))
            return None
        return side and side.on_tasks_of(self._new)

    def _of_suites(self) -> Side | None:
        """Put together what each suite's gate names."""
        sides: list[Side] = []
        for name, gate in self.gates.items():
            path = self._root / (gate.baseline or "")
            if not gate.baseline:
                continue
            if not path.is_file():
                how = f"agenteval baseline set {self.run.folder.name} writes it"
                self.troubles[name] = f"there is no baseline {gate.baseline}; {how}"
                continue
            side = read_side(path)
            self._names[name] = side.name
            own = tuple(entry for entry in side.entries if entry.key.suite == name)
            run_of = {key: run for key, run in side.run_of.items() if key.suite == name}
            sides.append(replace(side, entries=own, run_of=run_of))
        if not sides:
            return None
        return Side(
            ", ".join(dict.fromkeys(side.name for side in sides)),
            tuple(sorted((entry for side in sides for entry in side.entries), key=lambda entry: entry.key)),
            tuple(dict.fromkeys(judge for side in sides for judge in side.judges)),
            looks=tuple(dict.fromkeys(look for side in sides for look in side.looks)),
            run_of={key: run for side in sides for key, run in side.run_of.items()},
        )

    def old_name(self, suite: str) -> str:
        """Give the name of the run that a suite is compared with; empty where it is compared with none."""
        return self._names.get(suite, self.old.name if self._named and self.old else "")

    def comparison(self, tolerance: float) -> Comparison | None:
        """Compare with the baseline; None where there is none."""
        if tolerance not in self._comparisons:
            old = self.old
            compared = None if old is None else compare_sides(old, self._new, tolerance=tolerance)
            self._comparisons[tolerance] = compared
        return self._comparisons[tolerance]

    @property
    def tolerance(self) -> float:
        """The fall that does not matter: that of the gates, where they agree on one."""
        named = {_tolerance(gate) for gate in self.gates.values()} - {TOLERANCE}
        return named.pop() if len(named) == 1 else TOLERANCE

    def suite_comparison(self, suite: SuiteView) -> SuiteComparison | None:
        """Give the part of a comparison that is about a suite with its model and variant."""
        comparison = self.comparison(_tolerance(self.gates[suite.suite]))
        who = (suite.model, suite.variant)
        parts = comparison.suites if comparison else ()
        return next((part for part in parts if (part.name, part.new_who) == (suite.suite, who)), None)

    @cached_property
    def broken(self) -> list[BrokenTask]:
        """The broken tasks that gates want tried again."""
        return [task for suite in self.suites for task in self._broken(suite)]

    def _broken(self, suite: SuiteView) -> Iterator[BrokenTask]:
        times, comparison = self.gates[suite.suite].recheck, self.suite_comparison(suite)
        changes: Sequence[TaskChange] = comparison.tasks if times and comparison else ()
        for change in changes:
            if change.broken:
                yield BrokenTask(
                    suite.suite, change.task, suite.model, suite.variant, change.file, times or 0
                )

    def outcome(self, rechecked: RecheckedTasks) -> GateOutcome:
        """Judge every gate, with what became of the broken tasks."""
        return judge_gates([self._gated(suite, rechecked) for suite in self.suites])

    @cached_property
    def risk_line(self) -> str:
        """Which floors a run like this one often misses where nothing changed; empty where none is known."""
        nothing = RecheckedTasks()
        return risk_line(self.run, self.suites, [self._gated(suite, nothing) for suite in self.suites])

    def _gated(self, suite: SuiteView, rechecked: RecheckedTasks) -> GatedSuite:
        """Put together what the gate of a suite is judged by."""
        total = suite.total
        own = [
            group for group in self.run.planned if (group.suite, group.model, group.variant) == _group(suite)
        ]
        return GatedSuite(
            label=self.view.label(suite),
            gate=self.gates[suite.suite],
            score=total.mean.mean if total.mean else None,
            pass_hat_k=total.pass_hat_k.value if total.pass_hat_k else None,
            k=total.k,
            planned=total.planned,
            lost=sum(total.errored.values()) + total.not_run,
            buckets={row.name: row.mean.mean if row.mean else None for row in suite.rows},
            tried={group.bucket: group.tasks for group in own},
            whole=self._planned[suite.suite].tasks,
            comparison=self.suite_comparison(suite),
            trouble=self._trouble(suite.suite),
            baseline_named=self._names_baseline(suite.suite),
            alone=len(self.suites) == 1,
            assumed=self._planned[suite.suite].assumed,
            rechecks=rechecked.of(*_group(suite)),
            recheck_trouble=rechecked.trouble,
        )

    def _trouble(self, suite: str) -> str:
        if self.old is None and not self.has_baseline:
            return "no baseline is named (--agent-baseline, or baseline: in suite.yaml)"
        return self.troubles.get(suite, "") if self._names_baseline(suite) else "its gate names no baseline"

    def _names_baseline(self, suite: str) -> bool:
        return self._named is not None or bool(self.gates[suite].baseline)

    def trouble_lines(self, *lines: str) -> tuple[str, ...]:
        """Give lines; before them why nothing is compared where no gate says so, and what stopped early."""
        untold = [text for name, text in self.troubles.items() if name not in self.gates]
        troubles = dict.fromkeys(f"baseline: {text}" for text in untold)
        return tuple(filter(None, (*troubles, *look_lines(self.run), *lines)))


def _tolerance(gate: Gate) -> float:
    """Give the fall that a gate lets pass, or the default: ``true`` is no figure."""
    return gate.not_worse if isinstance(gate.not_worse, float) else TOLERANCE


def _group(suite: SuiteView) -> tuple[str, str, str]:
    return suite.suite, suite.model, suite.variant
