"""Everything that pytest-agenteval knows of one pytest session, made when the first task file is met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agenteval.processes.startup import freeze_once
from pytest_agenteval.records.plan import Conditions, PlannedTask, TrialKey
from pytest_agenteval.records.transcript import NO_ANSWER, used_other_models
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registration import get_registry
from pytest_agenteval.session.planning.parametrization import (
    Case,
    CaseFactory,
    PlannedItem,
    run_conditions,
    trial_key,
)
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.session.planning.preflight import check_run
from pytest_agenteval.session.pytest_output import hide_in_log_file, hide_on_terminal, learn_secrets
from pytest_agenteval.session.run_info import get_run_info, report_refusal
from pytest_agenteval.session.run_signals import DEAD_WORKERS
from pytest_agenteval.session.runner import TrialRunner
from pytest_agenteval.session.selection import (
    ShardedItems,
    select,
    selection_remarks,
    shard_items,
    split_remarks,
)
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.session.stash import eval_session_key
from pytest_agenteval.store.run_documents import SuiteGate
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.reports.task_lines import TaskFileLines
    from pytest_agenteval.session.adaptive_repetitions import ExtraItems
    from pytest_agenteval.session.planning.audit_cases import AuditCases
    from pytest_agenteval.session.reuse import EarlierTrials, RegradedTrials, ReuseAction
    from pytest_agenteval.tools.mcp_tools import SchemaSource


def get_eval_session(config: pytest.Config) -> EvalSession:
    """Give the session's evals; a usage mistake in the settings ends the session after collection."""
    if eval_session_key not in config.stash:
        try:
            evals = EvalSession(config, read_settings(config))
        except UsageMistake as mistake:
            evals = EvalSession(config, Settings())
            evals.refuse(mistake)
        config.stash[eval_session_key] = evals
        if hasattr(config, "workerinput") and get_run_info(config).mistake:
            # The controller found it before this worker began.
            evals.refuse(UsageMistake(get_run_info(config).mistake))
    session: EvalSession = config.stash[eval_session_key]
    return session


class EvalSession:
    """The settings, the plans and the trials of one session in one process."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        freeze_once("imported")
        self.config = config
        self.settings = settings
        self.registry = get_registry(config)
        # Secrets come first, before anything is printed or logged that holds one.
        learn_secrets(settings)
        hide_on_terminal(config.pluginmanager.get_plugin("terminalreporter"))
        hide_in_log_file(getattr(config.pluginmanager.get_plugin("logging-plugin"), "log_file_handler", None))
        self.planner = Planner(self.registry, config.rootpath, self._schemas, settings.variants)
        self.cases = CaseFactory(settings, self.registry)
        self.selected: list[PlannedItem] = []
        self.calibrations: list[Any] = []  # items of ``calibration_items``, which imports this module
        self.tests: tuple[pytest.Item, ...] = ()
        self.failed_hooks: dict[str, str] = {}
        self.refusal = self.would_refuse = ""
        self.begins = False  # whether anything is to be run, once all is collected
        self.gates: tuple[SuiteGate, ...] = ()
        self.extra: ExtraItems | None = None
        self.sharded: ShardedItems | None = None
        self.selection_remarks: list[str] = []  # why nothing was selected, or what could not be chosen from
        self.silent_agents: dict[str, None] = {}  # that missed with empty answers, in order
        self.agents_with_other_models: set[str] = set()  # than the one that was named

    def _schemas(self, root: Path) -> SchemaSource:
        """Give where the tools of MCP servers are looked up, and whether the servers may be used for it."""
        from pytest_agenteval.tools.mcp_tools import SchemaSource

        # Typed Any: the type of the setting allows "off", which is never chosen for tools.
        mode: Any = self.settings.record
        return SchemaSource(root, mode, get_run_info(self.config).started)

    @cached_property
    def stored(self) -> RegradedTrials | None:
        """The trials of ``--agent-regrade``; None without that option."""
        folders = get_run_info(self.config).regraded if self.settings.regrade else ()
        if not folders:
            return None
        from pytest_agenteval.session.reuse import RegradedTrials

        return RegradedTrials(folders)

    @cached_property
    def audit(self) -> AuditCases | None:
        """How tasks are audited under ``--agent-audit``; None without that option."""
        if not self.settings.audit:
            return None
        from pytest_agenteval.session.planning.audit_cases import AuditCases

        return AuditCases(self.registry)

    @cached_property
    def earlier(self) -> EarlierTrials | None:
        """The trials of ``--agent-resume`` or ``--agent-reuse``; None without these options."""
        info = get_run_info(self.config)
        folders = (info.folder,) if info.resumed_at else info.reused
        if not folders:
            return None
        from pytest_agenteval.session.reuse import EarlierTrials

        return EarlierTrials(folders, "resume" if info.resumed_at else "reuse")

    @cached_property
    def reuse_summary(self) -> str:
        """One line about what becomes of the selected trials that earlier runs hold; else empty."""
        if self.earlier is None or not self.selected or self.config.getoption("collectonly", False):
            return ""
        # This worker took the place of a dead one: the other workers have reported it already.
        if (self.folder / DEAD_WORKERS).exists():
            return ""
        # Extra repetitions that no run holds are left out: a look at the first ones decides about them.
        perhaps, left_out = 0, set[int]()
        if self.extra is not None:
            dropped = self.extra.dropped_before()
            undecided = self.extra.items if dropped is None else dropped
            earlier = self.earlier
            left_out = {id(item) for item in undecided if not any(earlier.trials_of(trial_key(item)))}
            perhaps = len(left_out) if dropped is None else 0
        items = [item for item in self.selected if id(item) not in left_out]
        return self.runner.reuse_summary(items, perhaps=perhaps)

    def cases_of(self, task: PlannedTask, suite_models: Sequence[str]) -> tuple[Case, ...]:
        """Give the cases in which a task is run or, when stored trials are graded again, was run."""
        if self.audit is not None:
            return self.audit.cases_of(task)
        return self.cases.cases_of(task, suite_models) if self.stored is None else self.stored.cases_of(task)

    @cached_property
    def folder(self) -> Path:
        """The folder of this run, the same in all of its processes."""
        return get_run_info(self.config).folder

    @cached_property
    def conditions(self) -> Conditions:
        """What is the same for every trial of this run."""
        return run_conditions(self.settings, self.cases.judges, self.cases.user, self.folder)

    @cached_property
    def runner(self) -> TrialRunner:
        """The trials of this process; made when the first item needs its trial."""
        earlier = self.earlier or self.stored
        return TrialRunner(self.config, self.conditions, earlier, self.extra, self.in_flight)

    @cached_property
    def task_lines(self) -> TaskFileLines:
        """Where graders stand in task files, for reports that name lines."""
        from pytest_agenteval.reports.task_lines import TaskFileLines

        return TaskFileLines(self.config.rootpath)

    @property
    def has_runner(self) -> bool:
        """Whether any item has needed its trial."""
        # ``cached_property`` stores its value in this dictionary; reading ``runner`` itself would make it.
        return "runner" in self.__dict__

    def note_answer(self, trial: Trial) -> None:
        """Remember an agent that used another model than the named one, or that forgot its ``return``."""
        if used_other_models(trial.transcript.doubtful_events):
            self.agents_with_other_models.add(trial.key.agent)
        if trial.ending not in ("missed", "failed") or trial.outcome.answer.text:
            return
        if any(event.kind == NO_ANSWER for event in trial.transcript.events):
            self.silent_agents[trial.key.agent] = None

    def refuse(self, mistake: UsageMistake) -> None:
        """Remember a usage mistake, which ends the session once everything is collected."""
        # While a file is collected, pytest would blame any exception on that file.
        self.refusal = self.refusal or KNOWN_SECRETS.text(str(mistake))

    def select(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Reduce ``items``, in place, to those that are to be run; return those left out."""
        trials = [item for item in items if isinstance(item, PlannedItem)]
        selected = set(map(id, self._select_trials(trials))) if trials else set()
        if self.refusal:
            del items[:]
            return []
        left_out = [item for item in items if isinstance(item, PlannedItem) and id(item) not in selected]
        items[:] = [item for item in items if not isinstance(item, PlannedItem) or id(item) in selected]
        if self.settings.shard is None:
            return [*left_out]
        self.sharded = shard_items(items, self.settings.shard)
        items[:] = self.sharded.own
        return [*left_out, *self.sharded.others]

    def _interruptions(self, item: pytest.Item) -> tuple[int, bool]:
        # Items are sorted by this: a trial that hung or ended a process comes after all others.
        if self.earlier is None or not isinstance(item, PlannedItem):
            return 0, False
        key = trial_key(item)
        return self.in_flight.get(key, 0), self.earlier.is_interrupted(key)

    @cached_property
    def in_flight(self) -> Mapping[TrialKey, int]:
        """How often a process of a resumed run died during each trial."""
        # Empty in a worker: xdist reports its end, and all workers have to agree about the order of items.
        return self.earlier.in_flight() if self.earlier and not hasattr(self.config, "workerinput") else {}

    @property
    def is_empty_shard(self) -> bool:
        """Whether all items belong to other shards, which is no failure."""
        return self.sharded is not None and bool(self.sharded.others) and not self.sharded.own

    def _select_trials(self, trials: list[PlannedItem]) -> list[PlannedItem]:
        try:
            earlier = get_run_info(self.config).earlier if self.settings.only else None
            selected = select(self.settings, trials, earlier)
            self.selection_remarks += split_remarks(self.settings, trials)
            if earlier is not None:
                self.selection_remarks += selection_remarks(self.settings, trials, selected, earlier)
            return selected
        except UsageMistake as mistake:
            self.refuse(mistake)
            return []

    def finalize_collection(self, items: list[pytest.Item], tests: Sequence[pytest.Item] = ()) -> None:
        """Check that nothing is missing for the selected items, and sort them."""
        # ``tests`` are tests whose own code calls agents. Extra repetitions come after all other trials, and
        # after them come the trials during which a process of an earlier run died.
        between = self.settings.repetition_range
        if between is not None and self.stored is None:
            from pytest_agenteval.session.adaptive_repetitions import ExtraItems, put_extra_last

            self.extra = ExtraItems(self.config, put_extra_last(items, between.low))
        self.selected = [item for item in items if isinstance(item, PlannedItem)]
        self.calibrations = [item for item in items if hasattr(item, "calibration")]
        only_listed = self.config.getoption("collectonly", False)
        if not only_listed and not self.refusal:
            self._check_options()
        if self.refusal:
            self.end_session()
            return
        self.tests = tuple(tests)
        if only_listed:
            return
        is_worker = hasattr(self.config, "workerinput")
        if self.earlier is not None and not is_worker:
            items.sort(key=self._interruptions)
        if self.settings.dry_run:
            return
        coming: list[Any] = [*self.selected, *self.calibrations, *tests]
        # A shard without items is written down too, as the merge needs a run of every shard.
        if self.sharded is not None:
            coming += self.sharded.all_trials[:1]
        # pytest runs nothing where something could not be collected; xdist's workers run the rest.
        goes_on = is_worker or self.config.option.continue_on_collection_errors
        self.begins = bool(coming) and (goes_on or not coming[0].session.testsfailed)

    def reuse_action(self, item: PlannedItem) -> ReuseAction:
        """Say what becomes of an item's trial."""
        if self.stored is not None:
            return "regrade"
        return self.runner.reuse_action(item) if self.earlier is not None else "run"

    def _check_options(self) -> None:
        """Check that the options can be obeyed with the selected trials, before the first starts."""
        try:
            self.gates, self.would_refuse = check_run(
                self.config,
                self.planner,
                self.cases,
                self.earlier,
                self.selected,
                [item.calibration for item in self.calibrations],
            )
        except UsageMistake as mistake:
            self.refuse(mistake)

    def end_session(self) -> None:
        """End the session for a usage mistake; a worker leaves that to its controller, which prints it."""
        self.selected, self.calibrations = [], []
        if not hasattr(self.config, "workerinput"):
            # Otherwise "226 deselected" would stand above the error, as if -k had matched nothing.
            reporter = self.config.pluginmanager.get_plugin("terminalreporter")
            getattr(reporter, "stats", {}).pop("deselected", None)
            raise pytest.UsageError(self.refusal)
        report_refusal(self.config, self.refusal)
