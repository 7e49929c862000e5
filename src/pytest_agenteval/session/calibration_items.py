"""A calibration file as a test: judges judge in its setup, and its call checks that they agree enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.calibration.calibration_file import CalibrationPlan, read_calibration
from pytest_agenteval.session.eval_session import EvalSession, get_eval_session
from pytest_agenteval.session.trial_items import collect_items, declare_marks, marks_of, reported_name
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import Problem, ProblemsFound
from pytest_agenteval.text.formatting import printable

NO_JUDGE = "no judge: add --agent-judge=MODEL"
MARK = "calibration"
_files_by_id: pytest.StashKey[dict[str, Path]] = pytest.StashKey()


class BelowThreshold(Exception):
    """Judges agree less with the labels than the calibration demands."""


class CalibrationFile(pytest.File):
    """A file that holds one calibration."""

    def collect(self) -> Iterable[pytest.Item]:
        """Give the calibration as an item; raises FileProblems with all that is wrong with its files."""
        return collect_items(get_eval_session(self.config), lambda evals: [self._item(evals)])

    def _item(self, evals: EvalSession) -> CalibrationItem:
        plan = read_calibration(self.path, self.config.rootpath, evals.registry)
        files_by_id = self.config.stash.setdefault(_files_by_id, {})
        first = files_by_id.setdefault(plan.id, self.path)
        if first != self.path:
            found = f"{plan.id!r}, which is also in {short_path(first)}"
            problem = Problem(plan.file, plan.line, ("id",), "an id that no other calibration has", found)
            raise ProblemsFound([problem])
        judges = "+".join(judge.name for judge in evals.cases.judges)
        name = f"{plan.id}[{judges}]" if judges else plan.id
        # Given as a whole: --lf and --sw would not recognize the one that pytest 9.2 makes of a name in
        # brackets.
        nodeid = f"{self.nodeid}::{name}"
        item: CalibrationItem = CalibrationItem.from_parent(
            self, name=name, nodeid=nodeid, calibration=plan, evals=evals
        )
        item.extra_keyword_matches.update((plan.rubric.name, *plan.tags))
        self._mark(item)
        return item

    def _mark(self, item: CalibrationItem) -> None:
        names = dict.fromkeys((MARK, *marks_of(item.calibration.tags)))
        declare_marks(self.config, names, "calibrations")
        for name in names:
            item.add_marker(name)


class CalibrationItem(pytest.Item):
    """One calibration as a test."""

    def __init__(self, *, calibration: CalibrationPlan, evals: EvalSession, **more: Any) -> None:
        super().__init__(**more)
        self.calibration, self.evals = calibration, evals
        self.results: dict[str, Any] | None = None

    def reportinfo(self) -> tuple[Path, int, str]:
        """Point to the calibration's own line, where editors and JUnit look."""
        return self.path, self.calibration.line - 1, reported_name(self.name)

    def setup(self) -> None:
        """Have the judges judge every example, and write the results into the run's folder."""
        evals, option = self.evals, self.config.option
        if not evals.cases.judges:
            pytest.skip(NO_JUDGE)
        if option.setuponly or option.setupplan:
            pytest.skip("pytest runs only the setup, and judges are called later")
        self.results = self._calibrate(evals)
        self.user_properties += properties(self.results)

    def runtest(self) -> None:
        if self.results is not None and not self.results["passed"]:
            raise BelowThreshold

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Name the thresholds that were not reached, without a traceback."""
        if isinstance(excinfo.value, BelowThreshold) and self.results is not None:
            return "\n".join(shortfalls(self.results))
        return super().repr_failure(excinfo)

    def _calibrate(self, evals: EvalSession) -> dict[str, Any]:
        from pytest_agenteval.calibration.analysis import analyze_calibration
        from pytest_agenteval.calibration.results import calibration_json, store_calibration
        from pytest_agenteval.reports.calibration_report import calibration_page, format_unreadable

        runner, plan = evals.runner, self.calibration
        result = runner.calibrate(self, plan)
        if result.answers is None:
            error = result.error
            what = f"{error.cause}: {error.message}\n{error.traceback}".rstrip() if error else ""
            pytest.fail(printable(what), pytrace=False)
        results = calibration_json(analyze_calibration(plan, result.answers))
        try:
            store_calibration(evals.folder, results, calibration_page(results))
        except OSError as failed:  # a full disk
            problem = f"the calibration cannot be written to {evals.folder}: {failed.strerror or failed}"
            pytest.fail(problem, pytrace=False)
        # The agreement of a judge none of whose replies could be read is unknown.
        unread = [
            f"unreadable: {format_unreadable(judge)}"
            for judge in results["judges"]
            if (found := judge.get("unread")) and found["count"] == found["asks"]
        ]
        if unread:
            pytest.fail("\n".join(unread), pytrace=False)
        return results


def shortfalls(results: dict[str, Any]) -> Iterator[str]:
    from pytest_agenteval.reports.calibration_report import format_shortfall

    missed = [threshold for threshold in results["thresholds"] if not threshold["reached"]]
    yield f"{results['id']}: {len(missed)} of {len(results['thresholds'])} thresholds not reached"
    yield from (f"  {format_shortfall(threshold)}" for threshold in missed)


def properties(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Give the figures of the judge that counts, as properties for JUnit's file."""
    facts = [
        ("agenteval.calibration", results["id"]),
        ("agenteval.labels", results["labels"]["said"]),
        ("agenteval.judges", ", ".join(judge["name"] for judge in results["judges"])),
    ]
    counts = results["measured"][-1]["judge"]
    figures = [
        (f"agenteval.{result['dimension']}.{metric}", f"{figure['value']:.4f}")
        for result in results["measured"]
        if result["judge"] == counts
        for metric, figure in result["figures"].items()
        if figure["value"] is not None
    ]
    return facts + figures
