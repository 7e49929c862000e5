"""Trials begin ahead of their items: which items come next, and which of their trials may begin."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Container
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.registry.installed import BENCHMARK_PLUGIN
from pytest_agenteval.session.planning.parametrization import AttemptPlanner, PlannedItem, trial_key

if TYPE_CHECKING:
    from pytest_agenteval.engine.jobs import TrialJob
    from pytest_agenteval.session.adaptive_repetitions import ExtraItems


class Prefetcher:
    """Begins trials in the order of their items, while fewer than a window are running or not yet taken.

    ``job_of`` makes the job of an item's trial, or gives None where that is reused. Trials that are ``extra``
    do not begin before they are needed, those in ``apart`` not before their item's turn.
    """

    def __init__(
        self,
        config: pytest.Config,
        concurrency: int,
        attempts: AttemptPlanner,
        job_of: Callable[[PlannedItem, TrialKey], TrialJob | None],
        extra: ExtraItems | None = None,
        apart: Container[TrialKey] = (),
    ) -> None:
        self._apart = apart
        self.readiness = FixtureReadiness(config)
        self._attempts, self._job_of, self._extra = attempts, job_of, extra
        # The window is wide enough that a few slow trials at its head hold up no others.
        self._window = max(64, 4 * concurrency)
        # Somebody who debugs, or watches output with -s, looks at one item at a time.
        debugged = config.getoption("usepdb", False) or config.getoption("trace", False)
        self._one_by_one = bool(debugged) or config.getoption("capture", "") == "no"
        self._jobs: dict[TrialKey, TrialJob] = {}
        self._full = 0
        self._coming: deque[pytest.Item] = deque()
        self._worker = self._find_worker(config) if hasattr(config, "workerinput") else None
        self._next = 0  # without workers: the first item that was not looked at
        self._seen: set[int] = set()  # in a worker: the items that were looked at, by index

    @staticmethod
    def _find_worker(config: pytest.Config) -> Any:
        # An xdist worker receives its items bit by bit. It is recognized by its attributes: xdist executes
        # its module under another name, so its class is not the class that could be imported.
        plugins = config.pluginmanager.get_plugins()
        found = (each for each in plugins if hasattr(each, "torun") and hasattr(each, "nextitem_index"))
        return next(found, None)

    def take(self, key: TrialKey) -> TrialJob | None:
        """Give an item the job that began ahead for it, if one did."""
        return self._jobs.pop(key, None)

    def begin(self, current: pytest.Item, *, waiting: bool = False) -> list[TrialJob]:
        """Give the jobs that may begin now, while pytest is busy with the item ``current``."""
        # A look costs time, under xdist in proportion to the queue. So it is made only when half of the jobs
        # of the last look are taken, or while pytest is ``waiting``.
        if self._one_by_one or (len(self._jobs) > self._full // 2 and not waiting):
            return []
        if current in self._coming:  # pytest has passed what stands before it
            while self._coming[0] is not current:
                self._coming.popleft()
        # Items that are still here were looked at and may not begin yet: a wider fixture has no value so far.
        self._coming.extend(self._upcoming(current.session, self._window - len(self._coming)))
        started: list[TrialJob] = []
        while self._coming and len(self._jobs) < self._window:
            if not self._consider(self._coming[0], current, started):
                break
            self._coming.popleft()
        self._full = len(self._jobs)
        return started

    def _upcoming(self, session: pytest.Session, most: int) -> list[pytest.Item]:
        """Give at most ``most`` items that were not given before, in the order in which they will run."""
        worker = self._worker
        if worker is None:
            coming = session.items[self._next : self._next + most]
            self._next += len(coming)
            return coming
        with worker.torun.lock() as queue:
            # The queue holds markers, too, such as the end.
            indices = [worker.item_index, worker.nextitem_index, *queue]
        fresh = (index for index in indices if isinstance(index, int) and index not in self._seen)
        chosen = list(islice(fresh, most))
        self._seen.update(chosen)
        return [session.items[index] for index in chosen]

    def _consider(self, item: pytest.Item, current: pytest.Item, started: list[TrialJob]) -> bool:
        """Begin the item's trial if that may be; False where it has to be considered again later."""
        if not isinstance(item, PlannedItem):
            return True
        if self._extra is not None and not self._extra.is_needed(item):
            return self._extra.decided
        key = trial_key(item)
        # It has started already, perhaps by its own item: a second start would be paid for twice. Those apart
        # begin in their turn, when nothing else runs.
        if self._attempts.was_planned(key) or key in self._apart:
            return True
        policy = self.readiness.start_policy(item, current)
        job = self._job_of(item, key) if policy == "now" else None
        if job is not None:
            self._jobs[key] = job
            started.append(job)
        return policy != "later"


# When a trial may begin: now, later once a wider fixture has its value, or only in its item's turn.
When: TypeAlias = Literal["now", "later", "in turn"]

# Our fixtures that a conftest may replace to change what a trial is given.
CHANGEABLE = ("task", "workspace", "cassette")


class FixtureReadiness:
    """Decides by their fixtures which trials may begin ahead; each set of fixtures is looked at once.

    A trial may begin ahead only if every fixture it needs is ours, or has a wider scope and its value
    already: a function-scoped fixture has no value before the item's turn.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._root = config.rootpath
        manager = config.pluginmanager
        plugins: list[Any] = [plugin for plugin, _ in manager.list_plugin_distinfo()]
        plugins += [
            plugin for name, plugin in manager.list_name_plugin() if name.startswith(BENCHMARK_PLUGIN)
        ]
        names = (getattr(plugin, "__name__", type(plugin).__module__) for plugin in plugins)
        self._installed = frozenset({"_pytest", *(name.partition(".")[0] for name in names)})
        self._by_fixtureinfo: dict[int, tuple[Any, list[Any], list[Any]]] = {}
        self.blocking_fixtures: dict[str, int] = {}

    def start_policy(self, item: pytest.Function, current: pytest.Item) -> When:
        """Say when the item's trial may begin, while pytest is busy with the item ``current``."""
        # Counts trials that may never begin ahead, by the fixture that forbids it.
        narrow, wide = self._deciding_fixtures(item)
        if narrow:
            name, code = str(narrow[0].argname), getattr(inspect.unwrap(narrow[0].func), "__code__", None)
            if not is_ours(narrow[0]) and code is not None:
                path = Path(code.co_filename)
                place = path.relative_to(self._root) if path.is_relative_to(self._root) else path
                name = f"{name} ({place}:{code.co_firstlineno})"
            self.blocking_fixtures[name] = self.blocking_fixtures.get(name, 0) + 1
            return "in turn"
        if not all(_has_value(definition, item, current) for definition in wide):
            return "later"
        # If a fixture broke, the item's setup will fail, and the trial would not be needed.
        return "in turn" if any(definition.cached_result[2] is not None for definition in wide) else "now"

    def _deciding_fixtures(self, item: pytest.Function) -> tuple[list[Any], list[Any]]:
        info = item._fixtureinfo
        entry = self._by_fixtureinfo.get(id(info))
        if entry is None:
            by_name = info.name2fixturedefs
            last = [by_name[name][-1] for name in item.fixturenames if by_name.get(name)]
            definitions = [
                definition
                for definition in last
                if (definition.argname in CHANGEABLE if is_ours(definition) else self._is_of_user(definition))
            ]
            # Trials are in no class, so for them class scope ends as function scope does.
            narrow = [definition for definition in definitions if definition.scope in ("function", "class")]
            wide = [definition for definition in definitions if definition.scope not in ("function", "class")]
            # The info is stored too: while it lives nothing else has its id.
            entry = self._by_fixtureinfo[id(info)] = (info, narrow, wide)
        return entry[1], entry[2]

    def _is_of_user(self, definition: Any) -> bool:
        """Whether a fixture is the user's: autouse fixtures of installed plugins do not count."""
        if definition.scope != "function":
            return True
        module: str = getattr(definition.func, "__module__", "")
        return module.partition(".")[0] not in self._installed


def is_ours(definition: Any) -> bool:
    """Whether a fixture is the one that this plugin gives, and no replacement."""
    return bool(getattr(definition.func, "__module__", "").startswith("pytest_agenteval."))


def _has_value(definition: Any, item: pytest.Function, current: pytest.Item) -> bool:
    """Whether a fixture has the value that the item will get, not that of another module."""
    cached = definition.cached_result  # value, parameter, exception
    if cached is None or cached[1] != item.callspec.params.get(definition.argname):
        return False
    if definition.scope == "session" or item.parent is current.parent:
        return True
    if definition.scope != "package" or item.parent is None or current.parent is None:
        return False
    return item.parent.parent is current.parent.parent


def replaces_task(item: pytest.Function) -> bool:
    """Whether a conftest replaces a fixture of ours and may so change the item's task in its turn."""
    definitions = item._fixtureinfo.name2fixturedefs
    last = (definitions[name][-1] for name in CHANGEABLE if definitions.get(name))
    return not all(map(is_ours, last))


def replaced_fixtures(item_parent: pytest.Collector) -> tuple[tuple[str, Any], ...]:
    """Give the fixtures of ours that a conftest above this collector replaces, with their definitions."""
    manager = item_parent.session._fixturemanager
    last = ((name, manager.getfixturedefs(name, item_parent)) for name in CHANGEABLE)
    return tuple(
        (name, definitions[-1]) for name, definitions in last if definitions and not is_ours(definitions[-1])
    )
