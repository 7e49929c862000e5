"""What a run and its parts took: figures that are known are right, and those that are not are not 0."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_agenteval.compare.baseline_file import baseline_text, read_baseline
from pytest_agenteval.compare.resource_figures import (
    part_wall,
    resource_figures,
    run_wall,
    turn_times,
)
from pytest_agenteval.records.plan import Model, Plan, PlannedTask, Variant
from pytest_agenteval.records.transcript import NO_USAGE, UNSEEN_USAGE, Ask, Figure, Transcript, Usage
from pytest_agenteval.records.trial import Origin, Trial
from pytest_agenteval.reports.run_view import suite_views
from pytest_agenteval.reports.sides import sides_of
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import RunHeader, RunModel, RunSession
from pytest_agenteval.store.run_reader import load_run
from tests.journals import latest_run
from tests.loopback.model_server import ModelServer
from tests.reports.runs import RULES_MODEL, key, store_run, trial
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]

REPLY = Usage(10, 2, cost_usd=0.5, asks=1, attempts=1)


def asks(*seconds: float | None) -> Transcript:
    """Give a transcript with a reply for each of these times; None is one that nobody measured."""
    replies = [
        Ask(turn, float(turn), float(turn) + (each or 0), REPLY) for turn, each in enumerate(seconds, 1)
    ]
    return Transcript(asks=tuple(replies), usage=sum((REPLY for _ in replies), NO_USAGE))


def ran(name: str, second: int, took: float | None, **fields: Any) -> Trial:
    """Give a trial that started at this second of an hour and took some time in all."""
    fields = {"seconds": took or 0.0, "wall_seconds": took, **fields}
    return trial(name, 1, 1.0, started_at=at(second), **fields)


def at(second: int) -> str:
    """Give a moment of the hour in which all trials ran."""
    return f"2026-11-29T10:{second // 60:02}:{second % 60:02}.000+00:00"


@given(st.lists(st.floats(0.001, 100).map(lambda value: round(value, 3)), min_size=2, max_size=40))
def test_half_and_95_percent_of_turns_are_quantiles_of_a_named_kind(seconds: list[float]) -> None:
    """They are linear between neighbours, as ``statistics.quantiles(method="inclusive")`` has them."""
    place, usage = TranscriptLocation("", 0, 0), Usage(asks=len(seconds), attempts=len(seconds))
    entry = JournalEntry(key("a"), 1, "passed", 1.0, (), place, usage=usage, turn_seconds=tuple(seconds))
    parts = statistics.quantiles(seconds, n=20, method="inclusive")
    turns = turn_times([entry])
    assert (turns.count, turns.unknown) == (len(seconds), 0)
    assert (turns.p50, turns.p95) == (pytest.approx(parts[9]), pytest.approx(parts[18]))


def test_times_of_turns_are_unknown_where_any_reply_was_not_measured(tmp_path: Path) -> None:
    """A trial without a reply is no gap; one reply without a time, or replies that nobody saw, are."""
    known = [trial("a", 1, 1.0, transcript=asks(1.0, 2.0)), trial("b", 1, 1.0)]
    unmeasured = trial("c", 1, 1.0, transcript=asks(3.0, None))
    unseen = trial("d", 1, 1.0, transcript=Transcript(usage=UNSEEN_USAGE))

    def of(*trials: Trial) -> tuple[int, int, float | None, float | None]:
        turns = turn_times(store_run(tmp_path / str(len(trials)), trials).entries)
        return turns.count, turns.unknown, turns.p50, turns.p95

    assert of(*known) == (2, 0, 1.5, pytest.approx(1.95))
    assert of(*known, unmeasured) == (3, 1, None, None)
    assert of(*known, unmeasured, unseen) == (3, 2, None, None)
    assert of(known[1]) == (0, 0, None, None)


def test_journals_of_before_do_not_know_the_times_of_turns_and_trials(tmp_path: Path) -> None:
    """Replies without a time are unknown, and so is how long a trial ran; no figure is 0 for it."""
    run = store_run(tmp_path, [ran("a", 0, 2.0, transcript=asks(1.0, 1.0))])
    old = [replace(entry, turn_seconds=(), wall_seconds=None) for entry in run.entries]
    assert (turn_times(old).unknown, turn_times(old).p95, part_wall(old).known_part) == (1, None, None)


def test_a_baselines_file_knows_what_trials_took_and_nothing_of_turns(tmp_path: Path) -> None:
    """It has tokens, cost and seconds; replies are not counted in it, which is not the same as none."""
    stored = store_run(tmp_path, [ran("a", 0, 2.0, transcript=asks(1.0))])
    (tmp_path / "b.json").write_text(baseline_text(stored.header, stored.entries), encoding="utf-8")
    figures = resource_figures(read_baseline(tmp_path / "b.json").entries)
    assert (figures.tokens, figures.cost, figures.seconds) == (Figure(12), Figure(0.5), Figure(2.0))
    assert (figures.wall.known_part, figures.turns.unknown, figures.turns.p50) == (None, 1, None)


def test_wall_time_of_a_part_is_the_time_in_which_any_of_its_trials_ran(tmp_path: Path) -> None:
    """Side by side counts once, a pause not at all, and neither do trials of another run."""
    trials = [
        ran("a", 0, 10.0),
        ran("b", 5, 10.0),
        ran("c", 30, 1.5),
        ran("d", 300, 60.0, origin=Origin("earlier", 1)),
    ]
    stored = store_run(tmp_path, trials)
    assert part_wall(stored.entries) == Figure(16.5)
    assert suite_views(stored)[0].total.wall == Figure(16.5)
    # Nothing of it ran here: there is no time, and it is not 0.
    assert part_wall(stored.entries[3:]).known_part is None
    assert part_wall(stored.entries, is_regraded=True).known_part is None
    assert part_wall(stored.entries, interrupted=2) == Figure(16.5, 2)


def test_wall_time_counts_attempts_before_the_last_and_those_that_never_ended(tmp_path: Path) -> None:
    """An attempt in an earlier session of a resumed run ran, too; one that was killed is unknown."""
    stored = store_run(tmp_path, [ran("a", 0, 4.0), ran("a", 900, 2.0, attempt=3)])
    (entry,) = stored.entries
    assert (entry.attempts, entry.unended_attempts) == (3, 1)
    assert part_wall(stored.entries) == Figure(6.0, 1)


RESUMED = RunHeader(at(0), ended_at=at(50))


def test_wall_time_of_a_run_is_that_of_its_pytests(tmp_path: Path) -> None:
    """The time between two sessions is none of it, a session that was killed is unknown, and so is a run
    that has not ended; of shards that ran at once, the time counts once."""
    again = replace(RESUMED.resumed_at(at(600), ("pytest",)), ended_at=at(620))
    killed = replace(replace(RESUMED, ended_at="").resumed_at(at(600), ()), ended_at=at(620))
    third = replace(killed.resumed_at(at(700), ()), ended_at=at(701))
    before = replace(again, sessions=())
    merge = ("agenteval", "merge", "a", "b")
    shards = (RunSession(at(0), at(50)), RunSession(at(20), at(60)))
    merged = RunHeader(at(0), ended_at=at(60), command=merge, sessions=shards)

    assert run_wall(RESUMED) == Figure(50)
    assert run_wall(RunHeader(at(0))).known_part is None
    assert run_wall(again) == Figure(70)
    # Each of its processes writes that the run is resumed.
    assert again.resumed_at(at(600), ("pytest",)) == replace(again, ended_at="")
    assert run_wall(killed) == Figure(20, 1)
    assert run_wall(third) == Figure(21, 1)
    assert run_wall(before) == Figure(20, 1)
    assert run_wall(merged) == Figure(60)
    assert run_wall(replace(merged, sessions=())).known_part is None


def plan_of(model: RunModel) -> Plan:
    """Give the plan of a trial of the task b."""
    planned = PlannedTask("s", "b", "card", "capability", "x", ())
    return Plan(planned, Model(model.name, model.id, model.offline), Variant(), 1, 1)


def test_sums_of_a_run_are_those_of_its_suites(tmp_path: Path) -> None:
    """A trial of an offline model that was cut short took no tokens, that of another an unknown number."""
    models = (RULES_MODEL, RunModel("mine", "openai/mine"))
    paid = ran("a", 0, 2.0, key=key("a", model="mine"), transcript=asks(1.0))
    free = ran("a", 0, 2.0)
    planned = [(key(name, model=model), "x") for name in "ab" for model in ("rules", "mine")]
    stored = store_run(tmp_path, [paid, free], planned, models)
    writer = JournalWriter(stored.folder, "main")
    writer.started([plan_of(model) for model in models])
    writer.close()
    stored = load_run(stored.folder)
    totals = [suite.total.spent for suite in suite_views(stored)]
    whole = resource_figures(stored.entries, stored.header, stored.begun)
    assert whole.tokens == sum((each.tokens for each in totals), Figure()) == Figure(12, 1)
    assert whole.seconds == sum((each.seconds for each in totals), Figure()) == Figure(4.0, 2)
    sides = {side.label: side.resources for side in sides_of([stored]).sides}
    assert (sides["rules"].tokens, sides["mine"].tokens) == (Figure(), Figure(12, 1))


AGENTS = """
from pytest_agenteval import Answer

class Twice:
    async def run(self, task_input, ctx):
        messages = [{"role": "user", "content": task_input["content"]}]
        for _ in range(2):
            reply = await ctx.chat.ask(messages)
            messages += [reply.message(), {"role": "user", "content": "again"}]
        return Answer(reply.text)

def pytest_agenteval_register(registry):
    registry.agent("twice", Twice)
"""
MODELS = """
[tool.agenteval.models]
mine = {{id = "openai/mine-9", api_base = "{base}"}}
"""


@pytest.mark.usefixtures("quick")
def test_a_run_measures_its_turns_and_whoever_takes_its_trials_over_keeps_them(
    pytester: pytest.Pytester,
) -> None:
    """Reused and graded again, trials have the turns and the time of the run in which they ran; the wall time
    is that of the run that is looked at."""
    files = {"conftest.py": AGENTS, "evals/suite.yaml": suite(more="agent: twice\n")}
    with ModelServer(latency_s=0.02) as server:
        tasks = [task("one", wants="ok"), task("two", wants="ok")]
        models = MODELS.format(base=server.openai_base)
        write(pytester.path, {**files, "pyproject.toml": models, "evals/tasks.yaml": tasks})
        run(pytester, "evals", "--agent-model=mine", "--agent-run-name=first").assert_outcomes(passed=2)
        first = latest_run(pytester.path)
        run(pytester, "evals", "--agent-model=mine", "--agent-reuse=first", "--agent-run-name=reused")
        reused = latest_run(pytester.path)
        run(pytester, "evals", "--agent-regrade=first", "--agent-run-name=regraded")
        regraded = latest_run(pytester.path)

    turns = turn_times(first.entries)
    assert (turns.count, turns.unknown) == (4, 0)
    assert turns.p50 is not None
    assert turns.p95 is not None
    assert 0.02 <= turns.p50 <= turns.p95
    whole = resource_figures(first.entries, first.header, is_whole_run=True)
    part = part_wall(first.entries)
    assert max(entry.wall_seconds or 0 for entry in first.entries) >= 0.04
    assert part.unknown == 0
    assert 0.04 <= part.known <= whole.wall.known
    for again in (reused, regraded):
        assert [(entry.turn_seconds, entry.wall_seconds) for entry in again.entries] == [
            (entry.turn_seconds, entry.wall_seconds) for entry in first.entries
        ]
        (view,) = suite_views(again)
        assert (view.total.turns, view.total.wall.known_part) == (turns, None)
        assert run_wall(again.header).unknown == 0
