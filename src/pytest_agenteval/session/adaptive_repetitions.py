"""``--repetitions=LOW..HIGH``: trials beyond LOW wait, and run only where they can change the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_agenteval.session.planning.parametrization import PlannedItem, trial_key
from pytest_agenteval.session.run_info import RunInfo, get_run_info
from pytest_agenteval.session.run_journal import group_of_item
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.store.run_documents import (
    ExtraRepetitions,
    Group,
    Looks,
    SuiteGate,
    SuiteLook,
    read_looks,
)
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake


def put_extra_last(items: list[pytest.Item], low: int) -> list[PlannedItem]:
    """Move each task's trials beyond the ``low`` first ones behind all other items; return those moved."""
    counts: Counter[object] = Counter()
    extra: list[PlannedItem] = []
    for item in items:
        if isinstance(item, PlannedItem):
            task = trial_key(item)._replace(repetition=0)
            counts[task] += 1
            if counts[task] > low:
                extra.append(item)
    extra_ids = set(map(id, extra))
    items[:] = [*(item for item in items if id(item) not in extra_ids), *extra]
    return extra


def check_baseline(settings: Settings, info: RunInfo, gates: Sequence[SuiteGate], root: Path) -> None:
    """Raise UsageMistake where no baseline is named, or none of those that are named exists."""
    named = [gate.gate["baseline"] for gate in gates if gate.gate.get("baseline")]
    if info.baseline is not None or any((root / path).is_file() for path in named):
        return
    missing = f"; there is no file {named[0]}" if named else ""
    raise UsageMistake(
        f"{settings.places['repetitions']}={settings.repetition_range}: expected a baseline that decides who "
        f"needs more than {settings.repetition_range.low if settings.repetition_range else 1}: "
        f"--agent-baseline=RUN, or baseline: in the gate: of a suite.yaml{missing}"
    )


class ExtraItems:
    """The items that may not be needed, as a plugin of pytest."""

    def __init__(self, config: pytest.Config, items: Sequence[PlannedItem]) -> None:
        self._config, self.items = config, items
        self._ids = frozenset(map(id, items))
        self._last: pytest.Item | None = None
        self._going_on: frozenset[Group] | None = None

    @property
    def decided(self) -> bool:
        """Whether the look at the first repetitions was made."""
        return self._going_on is not None

    def is_needed(self, item: pytest.Item) -> bool:
        """Whether an item is to be run: every one that is not extra, and an extra one if the look says so."""
        if not isinstance(item, PlannedItem) or id(item) not in self._ids:
            return True
        return self._going_on is not None and group_of_item(item) in self._going_on

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Look before the first extra item, and run none that is not needed."""
        if id(item) in self._ids and not self.decided:
            self._going_on = _look_at_first_repetitions(self._config)
            dropped = [extra for extra in self.items if not self.is_needed(extra)]
            item.session.testscollected -= len(dropped)
            if dropped:
                self._config.hook.pytest_deselected(items=dropped)
        if self.is_needed(item):
            self._last = item
            return None
        # The item before left fixtures set up that this one would have shared, but this one does not run.
        teardown = item.session._setupstate.teardown_exact
        call = pytest.CallInfo.from_call(
            lambda: teardown(nextitem), when="teardown", reraise=(pytest.exit.Exception, KeyboardInterrupt)
        )
        if call.excinfo is not None and self._last is not None:
            hook = self._last.ihook
            hook.pytest_runtest_logreport(report=hook.pytest_runtest_makereport(item=self._last, call=call))
        return True

    def dropped_before(self) -> list[PlannedItem] | None:
        """Give the items that an earlier look of this run does not need; None where there was no look."""
        looks = read_looks(get_run_info(self._config).folder)
        if looks is None:
            return None
        going = {each.group for each in looks if each.goes_on}
        return [item for item in self.items if group_of_item(item) not in going]


def _look_at_first_repetitions(config: pytest.Config) -> frozenset[Group]:
    """Compare the first repetitions with the baseline, write down which suites go on, and give those."""
    folder = get_run_info(config).folder
    looks = read_looks(folder)
    # A resumed run may have made the look before. A second look would raise false alarms.
    if looks is None:
        extra = ExtraRepetitions.read(folder)
        assert extra is not None
        looks = _looks(config, load_run(folder), extra)
        Looks(looks).write(folder)
    return frozenset(each.group for each in looks if each.goes_on)


def _looks(config: pytest.Config, run: Run, extra: ExtraRepetitions) -> tuple[SuiteLook, ...]:
    from pytest_agenteval.compare.comparison import compare_runs, interim_look, within_trial_limit
    from pytest_agenteval.compare.pairing import compared_run
    from pytest_agenteval.session.suite_gates import JudgedRun

    rule, judged = run.header.repetition_rule, JudgedRun(run, config.rootpath, get_run_info(config).baseline)
    assert rule is not None
    old = judged.old
    comparison = compare_runs(old, compared_run(run), levels=rule.first_look) if old else None
    parts = {(part.name, *part.new_who): part for part in comparison.suites} if comparison else {}
    groups = {group.group: len(group.node_ids) for group in extra.groups}
    looks = [interim_look(group, parts.get(group), judged.old_name(group[0]), rule) for group in groups]
    planned = sum(group.trials for group in run.planned)
    return within_trial_limit(looks, planned, groups, rule)
