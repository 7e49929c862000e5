"""The hooks of pytest and xdist for options, fixtures, collection and workers.

Every pytest run imports this module, whether it has evals or not. So the module imports only pytest and the
standard library, and does nothing until pytest meets a file that may hold tasks. A hook imports what it needs
when it is called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_agenteval.records.plan import PlannedTask
    from pytest_agenteval.records.trial import Trial
    from pytest_agenteval.session.api.fixture import AgentEval

SUFFIXES = frozenset({".json", ".yaml", ".yml"})
MARKS = (
    "agenteval(repetitions=1, threshold=1.0): a trial of an agent; your own test runs so many times, and "
    "passes if this share of its repetitions passes (pytest-agenteval)",
    "agenteval_audit: a trial of an audit: reference, planted mistake, or nothing done (pytest-agenteval)",
    "capability: a trial of a suite of kind capability: a miss is no failure (pytest-agenteval)",
    "regression: a trial of a suite of kind regression: a miss is a failure (pytest-agenteval)",
    "mixed: a trial of a suite of kind mixed, or of no suite: a miss is a failure (pytest-agenteval)",
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options; each can also be set as AGENTEVAL_NAME or in pyproject.toml."""
    from pytest_agenteval.processes.startup import skip_assert_rewriting

    # First: it applies to everything that is imported from here on.
    skip_assert_rewriting(pluginmanager.rewrite_hook)
    from pytest_agenteval.session.settings import add_options

    add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Add what to do to pytest's errors about an unknown option and about a conftest's own import."""
    from pytest_agenteval.session.settings import nearest_options

    parser.extra_info |= nearest_options(parser, args)
    try:
        return (yield)
    except Exception as failed:
        cause = getattr(failed, "cause", None)
        if isinstance(cause, ModuleNotFoundError):
            from pytest_agenteval.registry.registration import add_import_hint

            add_import_hint(cause, early_config.rootpath)
        raise


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from pytest_agenteval.registry import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks, and begin to register agents, models and graders."""
    from pytest_agenteval.processes.startup import restore_assert_rewriting
    from pytest_agenteval.registry.registration import open_configs, register_plugins
    from pytest_agenteval.session import run_hooks

    if getattr(config.option, "dist", "no") != "no":
        from pytest_agenteval.session.settings_reading import without_workers

        without_workers(config)
    open_configs.append(config)
    config.add_cleanup(lambda: open_configs.remove(config))
    config.add_cleanup(lambda: restore_assert_rewriting(config.pluginmanager.rewrite_hook))
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    config.pluginmanager.register(run_hooks, "agenteval-run")
    register_plugins(config)


def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    """Register what a plugin offers that is loaded later, such as a conftest further down."""
    from pytest_agenteval.registry.registration import check_hook_names, register_late_plugins

    check_hook_names(plugin)
    register_late_plugins(manager)


@pytest.fixture
def task(request: pytest.FixtureRequest) -> PlannedTask:
    """The task of this trial; override it in a conftest to change what the agent is given."""
    from pytest_agenteval.session.trial_items import planned_task_of

    return planned_task_of(request)


@pytest.fixture
def workspace(request: pytest.FixtureRequest) -> Iterator[Path]:
    """This trial's own folder, built from the task's fixture; override it in a conftest to use another."""
    from pytest_agenteval.session.trial_items import workspace_of

    yield from workspace_of(request)


@pytest.fixture
def cassette(task: PlannedTask) -> Path:
    """The cassette from which this trial's tool calls are replayed; a conftest may return another."""
    return Path(f"{task.cassette}.yaml")


@pytest.fixture
def trial(request: pytest.FixtureRequest) -> Trial:
    """The finished, graded trial of this item."""
    from pytest_agenteval.session.trial_items import trial_of

    return trial_of(request)


@pytest.fixture
def agenteval(request: pytest.FixtureRequest) -> AgentEval:
    """Runs agents from your tests, in this session's run: ``run``, ``arun``, ``grade``, ``record``."""
    from pytest_agenteval.session.python_tests import agenteval_of

    return agenteval_of(request)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """At the end of the collection, undo what the first task file changed, such as garbage collection."""
    from pytest_agenteval.session.stash import until_collected_key

    with ExitStack() as until_collected:
        session.config.stash[until_collected_key] = until_collected
        try:
            return (yield)
        finally:
            # A later collection would otherwise add changes to a closed stack, and nothing would undo them.
            del session.config.stash[until_collected_key]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect JSON and YAML files that hold tasks; every other file is left alone."""
    if file_path.suffix.lower() not in SUFFIXES:
        return None
    collected = None
    if _worth_a_look(file_path, parent):
        collected = _collect(file_path, parent)
    if collected is None:
        from pytest_agenteval.session.stash import uncollected_key

        parent.config.stash.setdefault(uncollected_key, []).append(file_path)
    return collected


def _collect(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file if it may hold tasks, or says that it is a calibration."""
    from pytest_agenteval.session.run_hooks import find_eval_session

    if find_eval_session(parent.config) is None:
        _import_for_tasks(parent.config)
    from pytest_agenteval.session.eval_session import get_eval_session
    from pytest_agenteval.session.trial_items import TaskFile
    from pytest_agenteval.tasks.documents import holds_calibration

    suites = get_eval_session(parent.config).planner.suites
    if not (suites.may_hold_tasks(path) or parent.session.isinitpath(path)):
        return None
    if holds_calibration(path):
        from pytest_agenteval.session.calibration_items import CalibrationFile

        calibration: CalibrationFile = CalibrationFile.from_parent(parent, path=path)
        return calibration
    return TaskFile.from_parent(parent, path=path)


def _import_for_tasks(config: pytest.Config) -> None:
    # This imports hundreds of modules, none of which becomes garbage. Looking for garbage takes a tenth of a
    # first run, and also a tenth of a run with thousands of items.
    from pytest_agenteval.processes.startup import garbage_collection_paused, garbage_collection_reduced
    from pytest_agenteval.session.stash import until_collected_key

    # The key is missing where something collects without pytest's own hook.
    if until_collected_key in config.stash:
        config.stash[until_collected_key].enter_context(garbage_collection_reduced())
    with garbage_collection_paused():
        import pytest_agenteval.session.trial_items  # noqa: F401


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Collector | None:
    """Collect a suite that a test module holds in a variable."""
    # Nothing has imported the module, so no suite exists; importing it here would slow down every run.
    if "pytest_agenteval.session.api.suite" not in sys.modules:
        return None
    from pytest_agenteval.session.python_tests import collect_suite

    return collect_suite(collector, name, obj)


# First: pytest takes the first answer, and its own hook would run the body of a marked test only once.
@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test as often as its mark says; any other is left alone."""
    from pytest_agenteval.session.stash import MARKED_TEST

    marked = pyfuncitem.__dict__.pop(MARKED_TEST, None)
    if marked is None:
        return None
    try:
        # It calls this hook again, once for each run of the body.
        marked.call()
    finally:
        # A plugin may run the same item again.
        pyfuncitem.__dict__[MARKED_TEST] = marked
    return True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each task its models, variants and repetitions."""
    if hasattr(metafunc.function, "agenteval"):
        from pytest_agenteval.session.trial_items import generate_cases

        generate_cases(metafunc)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """End the session for a mistake in a conftest further down, such as a name claimed twice."""
    from pytest_agenteval.registry.registration import HOOK, registration_mistake
    from pytest_agenteval.session.run_hooks import find_eval_session

    report = yield
    raised = getattr(getattr(report, "call", None), "excinfo", None)
    # Compared by name: importing the class would slow down every run without evals.
    if (
        raised is not None
        and (
            any(kind.__name__ == "UsageMistake" for kind in type(raised.value).__mro__)
            or any(entry.name == HOOK for entry in raised.traceback)
        )
        and (mistake := registration_mistake(raised.value, collector.config))
    ):
        from pytest_agenteval.session.eval_session import get_eval_session
        from pytest_agenteval.text.errors import UsageMistake

        get_eval_session(collector.config).refuse(UsageMistake(mistake))
        report.longrepr = mistake
    if report.longrepr is not None and find_eval_session(collector.config) is not None:
        from pytest_agenteval.session.pytest_output import without_secrets

        report.longrepr = without_secrets(report.longrepr)
    return report


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Deselect trials that the options leave out: by split, sample, ``--agent-only`` and shard.

    This comes last of all: a sample is drawn from what ``-k`` and ``-m`` have left.
    """
    from pytest_agenteval.session.run_hooks import find_eval_session
    from pytest_agenteval.session.stash import all_collected_key

    evals = find_eval_session(config)
    # Before -k leaves out any items: those stay in memory too, as pytest counts them.
    if evals is not None:
        from pytest_agenteval.processes.startup import freeze_once

        freeze_once("collected")
    offered = list(items)
    result = yield
    if evals is None and (config.getoption("agent_shard", None) or os.environ.get("AGENTEVAL_SHARD")):
        from pytest_agenteval.session.eval_session import get_eval_session

        # A shard also runs only its own part of the tests without agents.
        evals = get_eval_session(config)
    if evals is not None:
        if offered and not items:
            from pytest_agenteval.session.selection import no_match_reason

            evals.selection_remarks += no_match_reason(config.option, offered)
        left_out = evals.select(items)
        if left_out:
            config.hook.pytest_deselected(items=left_out)
    config.stash[all_collected_key] = True
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Check that nothing is missing for the selected trials, before the first starts."""
    from pytest_agenteval.session.run_hooks import find_eval_session
    from pytest_agenteval.session.stash import all_collected_key

    if all_collected_key not in session.config.stash:
        # Ctrl-C or an error ended the collection: pytest ends, and there is no plan to check.
        return
    evals = find_eval_session(session.config)
    # Tests that use our fixture or our mark. Trials have the mark too, and are known by their case.
    tests = [
        item
        for item in session.items
        if (item.get_closest_marker("agenteval") and not hasattr(item, "case"))
        or "agenteval" in getattr(item, "fixturenames", ())
    ]
    if evals is None and not tests:
        return
    if evals is None or tests:
        from pytest_agenteval.session.python_tests import session_with_tests

        evals = session_with_tests(session.config, tests)
    if session.config.option.collectonly and session.config.pluginmanager.has_plugin("vscode_pytest"):
        from pytest_agenteval.session.trial_items import without_callspecs

        without_callspecs(session.items)
    evals.finalize_collection(session.items, tests)
    if evals.settings.dry_run and not session.config.option.collectonly:
        from pytest_agenteval.session.dry_run import DryRun

        session.config.pluginmanager.register(DryRun(evals), "agenteval-dry-run")
    elif evals.begins:
        from pytest_agenteval.session.run_begin import begin_run

        begin_run(evals)
    if hasattr(session.config, "workerinput"):
        from pytest_agenteval.session.worker_messages import ReportPacking

        session.config.pluginmanager.register(ReportPacking(), "agenteval-packed-reports")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send a worker what all processes of the run agree on, such as the run's folder."""
    import pickle

    from pytest_agenteval.session.run_info import worker_run_info

    node.workerinput["agenteval"] = pickle.dumps(worker_run_info(node.config))


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give workers deep queues of trials; other tests are scheduled as xdist does it."""
    # Before a conftest's own scheduler, whose queues would be too short for trials to run ahead.
    from pytest_agenteval.session.run_info import worker_run_info
    from pytest_agenteval.session.xdist import scheduler

    return scheduler(config, log, lambda: worker_run_info(config).concurrency)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Raise the usage mistake of a worker, or begin to show the progress of trials."""
    from pytest_agenteval.session.run_info import has_plan, read_refusal

    text = read_refusal(node.config)
    if text:
        raise pytest.UsageError(text)
    if has_plan(node.config):
        from pytest_agenteval.session.panel import begin_progress

        begin_progress(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over a worker's messages; a worker that died has left only its journal."""
    from pytest_agenteval.session.stash import run_info_key

    info = node.config.stash.get(run_info_key, None)
    if error and info is not None:
        from pytest_agenteval.session.run_journal import note_dead_worker

        note_dead_worker(info.folder, node.gateway.id)
    remarks = getattr(node, "workeroutput", {}).get("agenteval")
    if remarks:
        from pytest_agenteval.session.worker_messages import WorkerMessages, add_messages

        add_messages(node.config, WorkerMessages.from_json(remarks))


def _worth_a_look(path: Path, parent: pytest.Collector) -> bool:
    """Whether a file may hold tasks, judged by its name and folder: most do not, and cost no import."""
    from pytest_agenteval.session.run_hooks import find_eval_session

    if find_eval_session(parent.config) is not None or parent.session.isinitpath(path):
        return True
    from pytest_agenteval.tasks.file_names import in_suite, is_calibration_name, is_task_name

    return is_task_name(path) or is_calibration_name(path) or in_suite(path.parent, parent.config.rootpath)
