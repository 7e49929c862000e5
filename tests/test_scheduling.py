"""What the depth scheduler sends to whom, beside what xdist's own would have sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdist.scheduler import LoadScheduling

from pytest_agenteval.session.run_info import worker_run_info
from pytest_agenteval.session.stash import run_info_key
from pytest_agenteval.session.xdist import DepthScheduling, scheduler

pytest_plugins = ["pytester"]


class Gateway:
    """What a node is reached by."""

    def __init__(self, id: str) -> None:
        self.id = id


class Node:
    """A worker that runs nothing, and remembers what it was sent."""

    def __init__(self, name: str) -> None:
        self.gateway = Gateway(name)
        self.shutting_down = False
        self.sent: list[list[int]] = []
        self.ran: list[int] = []

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Take some tests."""
        assert not self.shutting_down
        self.sent.append(list(indices))

    def shutdown(self) -> None:
        """Take no more."""
        self.shutting_down = True


def others(count: int) -> list[str]:
    """Give node ids of somebody else's tests, some of which look nearly like trials."""
    return [
        f"tests/test_it.py::test[{n}]" if n % 2 else f"tests/api.tavern.yaml::call[fast-{n}]"
        for n in range(count)
    ]


def trials(count: int) -> list[str]:
    """Give node ids of trials."""
    return [f"evals/tasks.yaml::t{n}[scripted-1]" for n in range(count)]


@pytest.fixture
def config(pytester: pytest.Pytester) -> Callable[..., pytest.Config]:
    """Make pytest's config of a run with workers, in which task files were met or not."""

    @cache
    def parsed(*args: str) -> pytest.Config:
        return pytester.parseconfig("-n1", *args)

    @cache
    def make(nodes: int, *args: str, planned: bool) -> pytest.Config:
        made = copy(parsed(*args))
        made.option, made.stash = copy(made.option), pytest.Stash()
        made.option.tx, made.option.numprocesses = ["popen"] * nodes, nodes
        if planned:
            pytester.path.joinpath("planned.json").write_text("{}")
            made.stash[run_info_key] = worker_run_info(made)._replace(folder=pytester.path)
        return made

    return make


def play(sched: Any, collection: list[str], nodes: int, crash_at: int = -1) -> list[Node]:
    """Let workers run what they are sent, one test each in turn; one of them may die on the way."""
    workers = [Node(f"gw{n}") for n in range(nodes)]
    for node in workers:
        sched.add_node(node)
    for node in workers:
        sched.add_node_collection(node, collection)
    sched.schedule()
    alive, done = list(workers), 0
    while any(sched.node2pending[node] for node in alive) or sched.has_pending:
        before = done
        for node in [node for node in alive if sched.node2pending[node]]:
            done += 1
            if done == crash_at:
                alive.remove(node)
                crashed = sched.remove_node(node)
                if crash_at % 2:  # as a plugin may in pytest_handlecrashitem
                    sched.mark_test_pending(crashed)
                alive.append(_replacement(sched, collection, f"gw{len(workers)}"))
                workers.append(alive[-1])
            elif len(sched.node2pending[node]) > 1 or node.shutting_down:
                node.ran.append(sched.node2pending[node][0])
                sched.mark_test_complete(node, node.ran[-1], duration=0.01)
            else:
                done -= 1  # a worker begins a test only when it knows what comes next
        if sched.tests_finished:  # as xdist's session does
            for node in alive:
                node.shutdown()
        assert done > before or sched.tests_finished, "every worker waits for ever"
    assert sched.tests_finished
    return workers


def _replacement(sched: Any, collection: list[str], name: str) -> Node:
    node = Node(name)
    sched.add_node(node)
    sched.add_node_collection(node, collection)
    sched.schedule()
    return node


def run_by(workers: list[Node]) -> list[int]:
    """Give everything that was run to its end."""
    return sorted(index for node in workers for index in node.ran)


counts = st.integers(0, 40)
nodes_ = st.integers(1, 5)
chunks = st.sampled_from([(), ("--maxschedchunk=1",), ("--maxschedchunk=7",)])
careful = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@careful
@given(counts, nodes_, chunks, st.integers(-1, 20))
def test_without_trials_every_chunk_is_xdists_own(
    config: Callable[..., pytest.Config], count: int, nodes: int, chunk: tuple[str, ...], crash: int
) -> None:
    """The same chunks in the same order to the same workers, whatever the sizes, and after a crash too."""
    collection = others(count)
    ours = play(DepthScheduling(config(nodes, *chunk, planned=False), None, 10), collection, nodes, crash)
    stock = play(LoadScheduling(config(nodes, *chunk, planned=False)), collection, nodes, crash)
    assert [node.sent for node in ours] == [node.sent for node in stock]


@careful
@given(st.integers(1, 40), st.integers(1, 40), nodes_, chunks)
def test_somebody_elses_tests_among_trials_begin_in_xdists_own_chunks(
    config: Callable[..., pytest.Config], count: int, ours: int, nodes: int, chunk: tuple[str, ...]
) -> None:
    """They go first, as if they were alone, as long as there are enough of them to go by chunks."""
    alien = [f"tests/test_it.py::test[{n}]" for n in range(count)]
    mixed = play(DepthScheduling(config(nodes, *chunk, planned=True), None, 10), alien + trials(ours), nodes)
    alone = play(LoadScheduling(config(nodes, *chunk, planned=False)), alien, nodes)
    first = [[chunk for chunk in node.sent if chunk[0] < len(alien)] for node in mixed]
    assert first == [node.sent for node in alone]


@careful
@given(counts, st.integers(1, 100), nodes_, st.integers(1, 30), st.integers(-1, 60))
def test_every_test_is_run_once_whatever_dies(
    config: Callable[..., pytest.Config], theirs: int, ours: int, nodes: int, concurrency: int, crash: int
) -> None:
    """Nothing is lost and nobody waits for ever; what a dead worker had not begun goes to the others."""
    sched = DepthScheduling(config(nodes, planned=True), None, concurrency)
    workers = play(sched, others(theirs) + trials(ours), nodes, crash)
    ran, lost = run_by(workers), int(len(workers) > nodes and crash % 2 == 0)
    assert len(ran) == len(set(ran)) == theirs + ours - lost


def test_trials_sent_to_a_worker_that_has_just_died_go_to_another(
    config: Callable[..., pytest.Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end may be known to the pipe before it is known to xdist: that ends no run."""
    sched = DepthScheduling(config(2, planned=True), None, 10)
    living, dead = Node("gw0"), Node("gw1")
    monkeypatch.setattr(dead, "send_runtest_some", lambda indices: _closed_pipe())
    for node in (living, dead):
        sched.add_node(node)
    for node in (living, dead):
        sched.add_node_collection(node, trials(20))
    sched.schedule()
    first = sched.remove_node(dead)
    third = _replacement(sched, trials(20), "gw2")
    sent = [
        name for node in (living, third) for some in node.sent for name in map(trials(20).__getitem__, some)
    ]
    assert sorted([*sent, first]) == sorted(trials(20))


def _closed_pipe() -> None:
    raise OSError("cannot send (already closed?)")


@pytest.mark.parametrize(("nodes", "ours"), [(2, 200), (8, 150), (4, 9), (4, 5), (3, 2)])
def test_workers_have_enough_to_run_ahead_and_a_fair_share(
    config: Callable[..., pytest.Config], nodes: int, ours: int
) -> None:
    """While much is left, more is queued at each than it can run at once; in the end nobody has it all."""
    sched = DepthScheduling(config(nodes, planned=True), None, 10)
    workers = play(sched, trials(ours), nodes)
    totals = [sum(map(len, node.sent)) for node in workers]
    assert max(totals) - min(totals) <= max(2, ours // nodes // 2)
    if ours < 3 * nodes:
        assert max(totals) - min(totals) <= 1
    if ours // nodes > 20:
        assert all(len(node.sent[0]) > 10 for node in workers)


def test_only_load_is_replaced(config: Callable[..., pytest.Config]) -> None:
    """Whoever asks for another way gets xdist's own."""
    for dist in ("loadscope", "loadfile", "loadgroup", "worksteal", "each"):
        assert scheduler(config(2, f"--dist={dist}", planned=True), None, lambda: 10) is None
    assert isinstance(scheduler(config(2, "--dist=load", planned=True), None, lambda: 10), DepthScheduling)
