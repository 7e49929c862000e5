"""``--agent-dry-run``: the table of the trials that a run would make, shown in place of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from pytest_agenteval.chat.model_prices import is_priced
from pytest_agenteval.engine.run_budget import amount_text
from pytest_agenteval.records.plan import OWN_MODEL, Model, Plan
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.reports.plan_table import PlanRow, plan_table, total_row
from pytest_agenteval.reports.tables import ReportTable, TableNote
from pytest_agenteval.session.cost_estimates import (
    ALIKE,
    BEFORE,
    OTHERS,
    SIZE,
    UNKNOWN,
    ZERO,
    Amounts,
    Estimator,
    Range,
    TaskSizes,
)
from pytest_agenteval.session.planning.parametrization import PlannedItem, run_conditions
from pytest_agenteval.session.reuse import ReuseAction
from pytest_agenteval.session.run_costs import EarlierCosts, acts_for_nothing, allowed_amounts, free_trials
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.text.formatting import model_label, pluralize


class SessionPlanned(NamedTuple):
    """What a session would do: its trials, of which ``extra`` are made only where the others decide nothing.

    ``course`` says what becomes of each. ``calibrations`` and ``tests`` count what is no trial of a task.
    """

    config: pytest.Config
    settings: Settings
    registry: Registry
    folder: Path
    trials: Sequence[PlannedItem]
    extra: Sequence[PlannedItem]
    judges: tuple[Model, ...]
    user: Model | None
    course: Callable[[PlannedItem], ReuseAction]
    calibrations: int
    tests: int


_COURSES: Mapping[ReuseAction, str] = {"keep": "reused", "take over": "reused", "regrade": "regraded"}
_SOURCES: Mapping[str, str] = {
    BEFORE: "{} of tasks that were tried before with the model",
    OTHERS: "{} of tasks that other models were tried with",
    ALIKE: "{} as other tasks of the suite took",
    SIZE: "{} by the size of the task, a guess",
    UNKNOWN: "{} of agents whose prompts nobody knows here",
}


class DryRun:
    """Plans the selected trials of a session."""

    def __init__(self, planned: SessionPlanned) -> None:
        self._planned, settings = planned, planned.settings
        earlier = EarlierCosts(settings.results or planned.config.rootpath / RESULTS)
        self._estimator = Estimator(earlier, TaskSizes(planned.registry), settings.prices)
        self._conditions = run_conditions(settings, planned.judges, planned.user, planned.folder)
        self._is_free = free_trials(settings)
        self._sources: Counter[str] = Counter()

    def table(self, *, brief: bool) -> ReportTable:
        """Give the plan as a table with its notes; in brief with the grave ones alone."""
        rows = [self._row(name, items) for name, items in self._groups()]
        return plan_table(rows, [note for note in self._notes(rows) if note.bad or not brief])

    def _groups(self) -> Iterator[tuple[str, list[PlannedItem]]]:
        groups: dict[tuple[str, str, str], list[PlannedItem]] = {}
        for item in self._planned.trials:
            case = item.case
            groups.setdefault((item.task.suite, case.model.name, case.variant.name), []).append(item)
        for (suite, model, variant), items in groups.items():
            yield f"{suite}[{model_label(model, variant)}]", items

    def _row(self, name: str, items: Sequence[PlannedItem]) -> PlanRow:
        extra = set(map(id, self._planned.extra))
        courses = [self._course(item) for item in items]
        plans = [self._plan(item) for item in items]
        paid = [
            (plan, course)
            for plan, course in zip(plans, courses, strict=True)
            if course != "reused" and not self._is_free(plan)
        ]
        judged = {id(plan) for plan, course in paid if course == "regraded" or acts_for_nothing(plan)}
        amounts = Amounts(ZERO, ZERO, {})
        if paid:
            amounts = self._estimator.amounts(
                [plan for plan, _ in paid], judges_only=lambda plan: id(plan) in judged
            )
        self._sources.update(amounts.sources)
        held_back = sum(id(item) in extra for item in items)
        counts = Counter(courses)
        return PlanRow(
            name,
            len(items),
            held_back,
            counts["reused"],
            counts["regraded"],
            self._widened(amounts.tokens, len(items), held_back),
            self._widened(amounts.usd, len(items), held_back),
            amounts.more_tokens,
            amounts.more_usd,
        )

    @staticmethod
    def _widened(amount: Range | None, trials: int, held_back: int) -> Range | None:
        """Give the amount where some of the trials may not be made."""
        return None if amount is None else Range(amount.low * (trials - held_back) / trials, amount.high)

    def _plan(self, item: PlannedItem) -> Plan:
        return replace(item.case.plan(item.task), conditions=self._conditions)

    def _course(self, item: PlannedItem) -> str:
        """Say what becomes of a trial: ``reused``, ``regraded``, or ``run``."""
        return _COURSES.get(self._planned.course(item), "run")

    def _notes(self, rows: Sequence[PlanRow]) -> Iterator[TableNote]:
        known = [
            text.format(pluralize(self._sources[kind], "trial"))
            for kind, text in _SOURCES.items()
            if self._sources[kind]
        ]
        if known:
            yield TableNote(f"tokens and cost: {'; '.join(known)}")
        if self._planned.judges and rows:
            yield TableNote(f"with the judges {', '.join(judge.name for judge in self._planned.judges)}")
        if any(row.tokens is None or row.tokens != ZERO for row in rows):
            yield from self._notes_on_prices()
        if rows:
            yield from self._notes_on_budget(total_row(rows))
        yield from self._notes_on_others()

    def _notes_on_prices(self) -> Iterator[TableNote]:
        from pytest_agenteval.chat.model_prices import price_source

        own = self._planned.settings.prices
        dated = [f"{name} as of {price.as_of}" if price.as_of else name for name, price in own.items()]
        said = f"; your own: {', '.join(dated)}" if dated else ""
        yield TableNote(f"prices: {price_source() or 'no table'}{said}")
        unknown = [model.name for model in self._real_models() if not is_priced(own, model.name, model.id)]
        if unknown:
            names = ", ".join(dict.fromkeys(unknown))
            yield TableNote(f"no price is known of {names}: [tool.agenteval.prices] says one", bad=True)

    def _real_models(self) -> Iterator[Model]:
        for item in self._planned.trials:
            if not item.case.model.offline and item.case.model.id != OWN_MODEL:
                yield item.case.model
        yield from (judge for judge in self._planned.judges if not judge.offline)

    def _notes_on_budget(self, total: PlanRow) -> Iterator[TableNote]:
        amounts = {"usd": total.usd, "tokens": total.tokens}
        for kind, allowed in allowed_amounts(self._planned.settings).items():
            amount = amounts[kind]
            if amount is not None and amount[1] > allowed:
                is_less = amount[0] > allowed
                share = "less than" if is_less else "perhaps less than"
                yield TableNote(
                    f"the budget of {amount_text(kind, allowed)} is {share} that", bad=amount[0] > allowed
                )

    def _notes_on_others(self) -> Iterator[TableNote]:
        calibrations, tests = self._planned.calibrations, self._planned.tests
        if calibrations:
            yield TableNote(f"{pluralize(calibrations, 'calibration')} not counted")
        if tests:
            yield TableNote(f"{pluralize(tests, 'test')} with trials of code not counted")


class DryRunPlugin:
    """Keeps a session from running anything, and shows what would be run.

    ``would_refuse`` is the usage mistake with which the run itself would end.
    """

    def __init__(self, planned: SessionPlanned, would_refuse: str) -> None:
        self._planned, self._would_refuse = planned, would_refuse

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run nothing; what could not be collected is pytest's to tell."""
        broken = session.testsfailed and not session.config.option.continue_on_collection_errors
        return None if broken else True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the plan; in brief without what stands below it."""
        from pytest_agenteval.reports.tables import table_lines
        from pytest_agenteval.session.styled_writing import write_line
        from pytest_agenteval.text.formatting import wrapped_lines

        reporter = terminalreporter
        width, brief = reporter._tw.fullwidth, reporter.config.getoption("verbose") < 0
        table = DryRun(self._planned).table(brief=brief)
        if not brief:
            reporter.write_sep("=", "agent evals: dry run")
        for line in table_lines(table, width):
            write_line(reporter, line)
        for text in self._would_refuse.splitlines():
            for line in wrapped_lines(text if text[:1] == " " else f"! {text}", width, "red", indent=""):
                write_line(reporter, line)
