"""``--agent-dry-run``: the table of what would be run and what it would take, shown in place of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from pytest_agenteval.chat.model_prices import is_priced, price_source
from pytest_agenteval.engine.run_budget import amount_text
from pytest_agenteval.records.plan import OWN_MODEL
from pytest_agenteval.reports.tables import ReportTable, TableColumn, TableNote, table_lines
from pytest_agenteval.session.eval_session import EvalSession
from pytest_agenteval.session.planning.parametrization import PlannedItem
from pytest_agenteval.session.reuse import ReuseAction
from pytest_agenteval.session.run_costs import (
    ALIKE,
    BEFORE,
    OTHERS,
    UNKNOWN,
    ZERO,
    Amounts,
    EarlierCosts,
    Estimator,
    Range,
    acts_for_nothing,
    allowed_amounts,
    free_trials,
)
from pytest_agenteval.session.settings import RESULTS
from pytest_agenteval.text.formatting import (
    MOST_NAME,
    NOT_KNOWN,
    model_label,
    one_line,
    pluralize,
    wrapped_lines,
)

UNKNOWN_AMOUNT = "?"  # stands for an unknown amount, which is never 0


class PlanRow(NamedTuple):
    """What is planned of one suite with one model and variant."""

    name: str
    trials: int
    deferred: int  # run only where the others leave a comparison open
    reused: int
    regraded: int
    amounts: Amounts


def _plan_table(rows: Sequence[PlanRow], notes: Sequence[TableNote]) -> ReportTable:
    """Give the table, with a total where there are several rows.

    The columns of reused and regraded trials are left out where all their numbers are 0.
    """
    lines = [*rows, total_row(rows)] if len(rows) > 1 else list(rows)
    trials = [
        f"{row.trials - row.deferred:,}-{row.trials:,}" if row.deferred else f"{row.trials:,}"
        for row in lines
    ]
    columns = [TableColumn("trials", tuple(trials))]
    if any(row.reused or row.regraded for row in rows):
        to_run = [row.trials - row.reused - row.regraded for row in lines]
        columns += [
            TableColumn("reused", tuple(f"{row.reused:,}" for row in lines), spare=2),
            TableColumn("regraded", tuple(f"{row.regraded:,}" for row in lines), spare=1),
            TableColumn("to run", tuple(f"{number:,}" for number in to_run)),
        ]
    amounts = [row.amounts for row in lines]
    columns += [
        TableColumn("tokens", tuple(_amount_cell(each.tokens, _short, "") for each in amounts)),
        TableColumn("cost", tuple(_amount_cell(each.usd, _money, "$") for each in amounts)),
    ]
    names = tuple(one_line(row.name, MOST_NAME) or NOT_KNOWN for row in lines)
    return ReportTable(
        "what would be run", "suite", names, (tuple(columns),), tuple(notes), names_beside=True
    )


def total_row(rows: Sequence[PlanRow]) -> PlanRow:
    tokens = sum((row.amounts.tokens for row in rows), ZERO)
    usd = sum((row.amounts.usd for row in rows), ZERO)
    trials, deferred, reused, regraded = (
        sum(numbers) for numbers in zip(*(row[1:5] for row in rows), strict=True)
    )
    return PlanRow("total", trials, deferred, reused, regraded, Amounts(tokens, usd, {}))


def _amount_cell(amount: Range, write: Callable[[float], str], sign: str) -> str:
    low, high = write(amount.low), write(amount.high)
    text = sign + (low if low == high else f"{low}-{high}")
    if amount.unknown:
        return UNKNOWN_AMOUNT if amount.high == 0 else f"{text} + {UNKNOWN_AMOUNT}"
    return text


def _short(tokens: float) -> str:
    """Write a number of tokens with few digits: ``840``, ``12k``, ``3.4M``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # From this share of a size on, the smaller unit would round up to 1000, as in 1000k.
        if tokens >= size * 0.9995:
            shown = tokens / size
            return f"{shown:.1f}{letter}" if shown < 9.95 else f"{shown:,.0f}{letter}"
    return f"{tokens:.0f}"


def _money(usd: float) -> str:
    """Write US dollars with few digits, and never as 0 what costs something."""
    if not usd:
        return "0"
    if usd >= 100:
        return f"{usd:,.0f}"
    return f"{usd:.2f}" if usd >= 0.095 else f"{usd:.1g}" if usd < 0.001 else f"{usd:.3f}"


_ACTIONS: Mapping[ReuseAction, str] = {"keep": "reused", "take over": "reused", "regrade": "regraded"}
_SOURCES: Mapping[str, str] = {
    BEFORE: "{} of tasks that ran before with the model",
    OTHERS: "{} of tasks that ran with other models",
    ALIKE: "{} estimated from other tasks of the suite",
    UNKNOWN: "{} without an earlier run to estimate from",
}


class DryRun:
    """A plugin that keeps a session from running anything, and shows the table of what it would run."""

    def __init__(self, evals: EvalSession) -> None:
        self._evals, self._settings = evals, evals.settings
        self._extra = frozenset(map(id, evals.extra.items if evals.extra else ()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run nothing; where something could not be collected, pytest's own loop reports it."""
        broken = session.testsfailed and not session.config.option.continue_on_collection_errors
        return None if broken else True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the table; under ``-q`` without the notes below it."""
        from pytest_agenteval.session.pytest_output import write_line

        reporter = terminalreporter
        width, brief = reporter._tw.fullwidth, reporter.config.getoption("verbose") < 0
        table = self.table(brief=brief)
        if not brief:
            reporter.write_sep("=", "agent evals: dry run")
        for line in table_lines(table, width):
            write_line(reporter, line)
        for text in self._evals.would_refuse.splitlines():
            for line in wrapped_lines(text if text[:1] == " " else f"! {text}", width, "red", indent=""):
                write_line(reporter, line)

    def table(self, *, brief: bool) -> ReportTable:
        """Give the plan as a table with its notes; in brief only the notes that warn."""
        earlier = EarlierCosts(self._settings.results or self._evals.config.rootpath / RESULTS)
        estimator = Estimator(earlier, self._evals.registry, self._settings.prices)
        sources: Counter[str] = Counter()
        rows = []
        groups: dict[tuple[str, str, str], list[PlannedItem]] = {}
        for item in self._evals.selected:
            group = item.task.suite, item.case.model.name, item.case.variant.name
            groups.setdefault(group, []).append(item)
        for (suite, model, variant), items in groups.items():
            amounts = self._amounts(items, estimator)
            sources.update(amounts.sources)
            rows.append(self._row(f"{suite}[{model_label(model, variant)}]", items, amounts))
        return _plan_table(rows, [note for note in self._notes(rows, sources) if note.bad or not brief])

    def _amounts(self, items: Sequence[PlannedItem], estimator: Estimator) -> Amounts:
        """Estimate the trials of a suite with one model that cost anything."""
        is_free = free_trials(self._settings)
        paid, judged = [], set()
        for item in items:
            plan = replace(item.case.plan(item.task), conditions=self._evals.conditions)
            action = self._action_of(item)
            if action != "reused" and not is_free(plan):
                paid.append(plan)
                if action == "regraded" or acts_for_nothing(plan):
                    judged.add(id(plan))
        if not paid:
            return Amounts(ZERO, ZERO, {})
        return estimator.amounts(paid, judges_only=lambda plan: id(plan) in judged)

    def _row(self, name: str, items: Sequence[PlannedItem], amounts: Amounts) -> PlanRow:
        deferred = sum(id(item) in self._extra for item in items)
        # Trials that may not run lower only the lower end.
        share = (len(items) - deferred) / len(items)
        tokens, usd = (each._replace(low=each.low * share) for each in (amounts.tokens, amounts.usd))
        actions = Counter(map(self._action_of, items))
        amounts = amounts._replace(tokens=tokens, usd=usd)
        return PlanRow(name, len(items), deferred, actions["reused"], actions["regraded"], amounts)

    def _action_of(self, item: PlannedItem) -> str:
        return _ACTIONS.get(self._evals.reuse_action(item), "run")

    def _notes(self, rows: Sequence[PlanRow], sources: Counter[str]) -> Iterator[TableNote]:
        known = [
            text.format(pluralize(sources[kind], "trial")) for kind, text in _SOURCES.items() if sources[kind]
        ]
        if known:
            yield TableNote(f"tokens and cost: {'; '.join(known)}")
        judges, tests = self._evals.cases.judges, len(self._evals.tests)
        if judges and rows:
            yield TableNote(f"with the judges {', '.join(judge.name for judge in judges)}")
        if any(row.amounts.tokens != ZERO for row in rows):
            prices = self._settings.prices
            dated = [f"{name} as of {price.as_of}" if price.as_of else name for name, price in prices.items()]
            of_user = f"; your own: {', '.join(dated)}" if dated else ""
            yield TableNote(f"prices: {price_source() or 'no table'}{of_user}")
            models = [
                *(item.case.model for item in self._evals.selected if item.case.model.id != OWN_MODEL),
                *judges,
            ]
            unknown = [
                model.name
                for model in models
                if not model.offline and not is_priced(prices, model.name, model.id)
            ]
            if unknown:
                names = ", ".join(dict.fromkeys(unknown))
                yield TableNote(
                    f"the price of {names} is unknown: set [tool.agenteval.prices.NAME] in pyproject.toml",
                    bad=True,
                )
        total = total_row(rows).amounts if rows else Amounts(ZERO, ZERO, {})
        for kind, allowed in allowed_amounts(self._settings).items():
            amount = total.usd if kind == "usd" else total.tokens
            if amount.high > allowed:
                is_less = amount.low > allowed
                share = "less than" if is_less else "perhaps less than"
                yield TableNote(
                    f"the budget of {amount_text(kind, allowed)} is {share} this run may take", bad=is_less
                )
        if self._evals.calibrations:
            yield TableNote(f"{pluralize(len(self._evals.calibrations), 'calibration')} not counted")
        if tests:
            yield TableNote(f"{pluralize(tests, 'test')} that run trials in code not counted")
