"""``--agent-shard=2/4``: each test belongs to one of four parts, a task's trials to the same one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.cli.main import main
from pytest_agenteval.session.options import Shard
from pytest_agenteval.session.selection import shard_items, shard_number
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import UsageMistake
from tests.suites import collected_ids, import_multiprocessing, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")
import_multiprocessing()

PLAIN = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_numbers(number): pass

class TestMore:
    @pytest.mark.parametrize("letter", "ab")
    def test_letters(self, letter): pass

    def test_one(self): pass

def test_by_code(agenteval): pass
"""
RUNS = Path(".agenteval/runs")


def write_tasks(root: Path, count: int) -> None:
    """Write a suite of so many tasks."""
    write(root, {"evals/suite.yaml": suite(), **{f"evals/t{n}.json": task(f"t{n}") for n in range(count)}})


def shards(pytester: pytest.Pytester, total: int, *args: str) -> list[list[str]]:
    """Give the tests of each shard by node id."""
    return [collected_ids(pytester, f"--agent-shard={n}/{total}", *args) for n in range(1, total + 1)]


def places(parts: list[list[str]]) -> dict[str, int]:
    """Give the shard of each test, by its name without parameters; one in two shards is an error."""
    found: dict[str, set[int]] = {}
    for number, ids in enumerate(parts):
        for node_id in ids:
            found.setdefault(node_id.partition("[")[0], set()).add(number)
    assert all(len(numbers) == 1 for numbers in found.values())
    return {name: min(numbers) for name, numbers in found.items()}


def test_each_test_is_in_one_shard_and_a_new_one_moves_none(pytester: pytest.Pytester) -> None:
    """Models, variants and repetitions of a task stay together, as do parameters; ``-k`` chooses before."""
    write_tasks(pytester.path, 12)
    write(pytester.path, {"tests/test_plain.py": PLAIN, "short.txt": "Be short."})
    told = ("--repetitions=2", "--agent-model=scripted,nop")
    whole = collected_ids(pytester, *told)
    parts = shards(pytester, 3, *told)
    before = places(parts)
    assert Counter(whole) == Counter(node_id for part in parts for node_id in part)
    assert all(part == [node_id for node_id in whole if node_id in part] for part in parts)
    assert len(set(before.values())) == 3

    write_tasks(pytester.path, 18)
    after = places(shards(pytester, 3, *told))
    assert len(after) == len(before) + 6
    assert before.items() <= after.items()
    assert sum(map(len, shards(pytester, 3, "-k", "t1 or one", "--repetitions=3"))) == 3 * 9 + 1


NAMES = st.lists(st.text("abc[]/:é", min_size=1), unique=True)


@given(NAMES, NAMES, st.integers(1, 9))
def test_whatever_is_added_moves_nothing(names: list[str], added: list[str], total: int) -> None:
    """Every test is in one part, in its order, and stays there whatever stands between and behind."""

    def part(number: int, ids: list[str]) -> list[str]:
        items: Any = [SimpleNamespace(nodeid=node_id) for node_id in ids]
        own: Any = shard_items(items, Shard(number, total)).own
        return [item.nodeid for item in own]

    mixed = sorted({*names, *added})
    before, after = ([part(number, ids) for number in range(1, total + 1)] for ids in (names, mixed))
    assert Counter(names) == Counter(name for own in before for name in own)
    for old, new in zip(before, after, strict=True):
        assert old == [name for name in names if name in new]
        assert new == sorted(new)


def test_a_shard_is_drawn_alike_on_every_machine_and_in_every_version() -> None:
    """Shards that are started again have to find their tasks where they were; and they are of one size."""
    assert [shard_number(f"greetings\0t{n}", 4) for n in range(8)] == [4, 4, 4, 3, 4, 4, 1, 3]
    counts = Counter(shard_number(f"greetings\0t{n}", 4) for n in range(10_000))
    assert all(2350 < count < 2650 for count in counts.values())


ANOTHERS = r"^--agent-shard=1/2: .*another shard's; found {}; name the"
REFUSED = {
    **dict.fromkeys(
        ("0/4", "5/4", "2", "/4", "2/", "a/b", "-1/4", "1/2/3", "1.0/2"), "expected a part of several"
    ),
    "1/2 --repetitions=2..6": r"^--agent-shard=1/2: expected a fixed number.*found --repetitions=2\.\.6",
    # On one machine the latest run would be another shard's: that is said before anything is paid for.
    **{
        f"1/2 {told}": ANOTHERS.format(told)
        for told in (
            "--agent-baseline=latest",
            "--agent-baseline=rules@latest",
            "--agent-only=missed",
            "--agent-regrade=latest",
        )
    },
}


def test_what_no_shard_can_be_is_refused(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what may be typed; before anything runs, where no test tries an agent, and by a variable too."""
    for value, says in REFUSED.items():
        with pytest.raises(UsageMistake, match=says):
            read_settings(pytester.parseconfig(*f"--agent-shard={value}".split()))
    write(pytester.path, {"tests/test_plain.py": "def test_one(): pass"})
    result = run(pytester, "--agent-shard=2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[0].startswith("ERROR: --agent-shard: expected a part of several")
    monkeypatch.setenv("AGENTEVAL_SHARD", "2")
    assert run(pytester).errlines[0].startswith("ERROR: AGENTEVAL_SHARD: expected a part of several")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_shard_without_tests_is_no_failure(pytester: pytest.Pytester, workers: int) -> None:
    """It says so, and leaves a run that says what the others have; a selection that has nothing is one."""
    write_tasks(pytester.path, 1)
    number = shard_number("greetings\0t0", 5) % 5 + 1
    result = run(pytester, f"--agent-shard={number}/5", "--agent-run-name=empty", workers=workers)

    assert result.ret == pytest.ExitCode.OK
    assert f"shard {number} of 5 has nothing to do: the other shards have 1 test" in result.outlines
    header = load_run(RUNS / "empty").header
    assert (header.exit_status, header.shards and header.shards.numbers) == (0, (number,))
    assert [(group.suite, group.trials) for group in header.shards.planned if header.shards] == [
        ("greetings", 1)
    ]
    nothing = run(pytester, f"--agent-shard={number}/5", "-k", "no_such", workers=workers)
    assert nothing.ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("workers", [0, 1])
def test_tests_that_try_no_agent_are_shared_out_too(pytester: pytest.Pytester, workers: int) -> None:
    """As whoever splits tests expects: each runs once over all shards, and an empty one is no failure."""
    tests = "".join(f"def test_{n}(): pass\n" for n in range(3))
    write(pytester.path, {"tests/test_plain.py": tests})
    results = [run(pytester, f"--agent-shard={n}/4", workers=workers) for n in range(1, 5)]
    assert [result.ret for result in results] == [0] * 4
    assert any("has nothing to do" in line for result in results for line in result.outlines)
    assert sum(result.parseoutcomes().get("passed", 0) for result in results) == 3
    assert not RUNS.exists()


def test_a_shard_says_that_gates_are_judged_later(pytester: pytest.Pytester) -> None:
    """It neither judges nor compares, and leaves no summary of a part in a job's page."""
    write_tasks(pytester.path, 4)
    write(pytester.path, {"evals/suite.yaml": suite(more="gate: {score: 1.0}\n")})
    for number in (1, 2):
        result = run(pytester, f"--agent-shard={number}/2", f"--agent-run-name=s{number}")
        assert "gate: judged when the shards are merged (agenteval merge)" in result.outlines
        assert f"! shard {number} of 2: suites are incomplete; agenteval merge joins them" in result.outlines
    stored = [json.loads((RUNS / f"s{number}" / "run.json").read_text())["shards"] for number in (1, 2)]
    assert [shard.pop("numbers") for shard in stored] == [[1], [2]]
    assert stored[0] == stored[1]
    compared = run(pytester, "--agent-shard=1/2", "--agent-baseline=s1", "--agent-gate=none")
    assert "baseline: compared when the shards are merged (agenteval merge)" in compared.outlines


def test_a_shard_goes_on_as_the_shard_that_it_was(pytester: pytest.Pytester) -> None:
    """Alone it would try what others have, as another shard what nobody has planned; merged it is whole."""
    write(
        pytester.path, {"evals/suite.yaml": suite(), **{f"evals/t{n}.json": task(f"t{n}") for n in range(20)}}
    )
    write(pytester.path, {"evals/first.json": task("t01", wants="Bob")})
    shard = shard_number("greetings\0t01", 2)
    own, other = f"--agent-shard={shard}/2", f"--agent-shard={3 - shard}/2"
    run(pytester, own, "--agent-run-name=first")
    (journal,) = (RUNS / "first").glob("journal-*")  # as if it had been killed before the first task's trial
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"task":"t01"' not in line))
    assert load_run(RUNS / "first").never_ended
    for told in ("", other, f"--agent-shard={shard}/4"):
        refused = run(pytester, "--agent-resume=first", *filter(None, [told]))
        assert refused.ret == pytest.ExitCode.USAGE_ERROR
        found = told.partition("=")[2] or "none"
        expected = f"ERROR: --agent-resume: expected {own}; found {found}; resume first with *"
        refused.stderr.fnmatch_lines([expected])

    run(pytester, "--agent-resume=first", own, workers=1)
    run(pytester, other, "--agent-run-name=second")
    assert main(["merge", "first", "second", "--into=whole", "-q"]) == 1
    whole = load_run(RUNS / "whole")
    assert (len(whole.entries), whole.header.shards, len(whole.header.resumed)) == (21, None, 1)
    assert run(pytester, "--agent-resume=whole", own).ret == pytest.ExitCode.USAGE_ERROR
    assert run(pytester, "--agent-resume=whole").ret == pytest.ExitCode.TESTS_FAILED
    assert len(load_run(RUNS / "whole").entries) == 21


def test_shards_on_one_machine_are_one_look_at_held_out_tasks(pytester: pytest.Pytester) -> None:
    """Both shards count it as one; the same shard again is the second."""
    write_tasks(pytester.path, 4)
    agent = "def register(registry): registry.agent('echo', lambda task, ctx: 'Mina')\n"
    conftest = agent.replace("register(", "pytest_agenteval_register(", 1)
    held_out = {f"evals/t{n}.json": task(f"t{n}", split="held_out") for n in range(4)}
    own = suite(more="agent: echo\n").replace("defaults: {model: scripted}", "defaults: {model: own}")
    write(pytester.path, {"conftest.py": conftest, **held_out, "evals/suite.yaml": own})
    looks = []
    for shard in ("1/2", "2/2", "1/2"):
        run(pytester, f"--agent-shard={shard}", "--agent-split=held_out", f"--agent-run-name=s{len(looks)}")
        looks.append(load_run(RUNS / f"s{len(looks)}").header.held_out_looks)
    assert looks == [{"greetings": 1}, {"greetings": 1}, {"greetings": 2}]
