"""Trials that begin before their items: how many at once, how often, and what holds them up."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.engine.pool import Pool
from tests.journals import journal, names, run_folder
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

NOTES = """
import json
import threading
import time
from pathlib import Path

import pytest

LOG = Path(__file__).with_name("log.jsonl")
LOCK = threading.Lock()


def note(what, **more):
    with LOCK, LOG.open("a") as log:
        log.write(json.dumps({"what": what, **more}) + "\\n")
"""
NOTING = (
    NOTES
    + """

class Noting:
    '''Says when it begins and ends.'''

    async def run(self, task_input, ctx):
        import asyncio

        note("begin", task=task_input["content"])
        await asyncio.sleep(task_input.get("seconds", 0.25))
        for _ in range(task_input.get("patience", 0)):  # until the last of the others has ended
            if '"end", "task": "h"' in LOG.read_text():
                break
            await asyncio.sleep(0.02)
        note("end", task=task_input["content"])
        return "Mina"


def pytest_agenteval_register(registry):
    registry.agent("noting", Noting)


def pytest_runtest_logstart(nodeid):
    note("item", task=nodeid.partition("::")[2].partition("[")[0])
"""
)
WIDE = """

@pytest.fixture(scope="{scope}", autouse=True)
def server(request):
    note("up", place=request.node.name)
    yield
    note("down", place=request.node.name)
"""


def noting(*ids: str, **more: Any) -> list[dict[str, Any]]:
    """Give tasks whose agents say when they begin and end."""
    return [task(id, agent="noting", input={"content": id, **more}) for id in ids]


def notes(root: Path) -> list[tuple[str, str]]:
    """Give what was noted, in order: what happened, and to which task or place."""
    lines = (json.loads(line) for line in (root / "evals" / "log.jsonl").read_text().splitlines())
    return [(line["what"], line.get("task") or line.get("place")) for line in lines]


def carry_out(
    pytester: pytest.Pytester, conftest: str, files: dict[str, Any], *args: str
) -> pytest.RunResult:
    """Run files of tasks below ``evals``, with a conftest that adds to what is noted."""
    write(
        pytester.path,
        {"pytest.ini": "[pytest]\n", "evals/suite.yaml": "name: demo\ndefaults: {model: scripted}\n"},
    )
    write(pytester.path, {"evals/conftest.py": NOTING + conftest})
    write(pytester.path, {f"evals/{name}": content for name, content in files.items()})
    return run(pytester, "evals", *args)


def most_at_once(seen: list[tuple[str, str]]) -> int:
    """Give how many agents ran side by side."""
    running = most = 0
    for what, _ in seen:
        running += {"begin": 1, "end": -1}.get(what, 0)
        most = max(most, running)
    return most


def test_as_many_run_as_are_allowed_and_no_more(pytester: pytest.Pytester) -> None:
    """Thirty trials at a concurrency of 4: four side by side, never five, each of them begun once."""
    ids = [f"t{n:02}" for n in range(30)]
    carry_out(pytester, "", {"tasks.yaml": noting(*ids, seconds=0.1)}, "--agent-concurrency=4")
    seen = notes(pytester.path)
    assert most_at_once(seen) == 4
    assert sorted(id for what, id in seen if what == "begin") == ids  # threads begin in any order
    assert names(journal(pytester.path, "started")) == [f"{id}-1" for id in ids]


COUNTING = """
import os
import sys
from pathlib import Path

LOOKS = Path(f"looks-{os.environ.get('PYTEST_XDIST_WORKER')}.txt")


def pytest_collection_finish(session):
    plugins = session.config.pluginmanager.get_plugins()
    (queue,) = [plugin.torun for plugin in plugins if hasattr(plugin, "torun")] or [None]
    if queue is None:
        return
    seen, lock = [], queue.lock

    def counted():
        seen.append(1) if sys._getframe(1).f_code.co_filename.endswith("prefetch.py") else None
        return lock()

    queue.lock = counted
    session.config.add_cleanup(lambda: LOOKS.write_text(str(len(seen))))
"""


def test_no_trial_is_begun_twice(pytester: pytest.Pytester) -> None:
    """More trials than fit the window, with items of somebody else between: one line each in the journal.

    Looking at the queue of a worker costs as much as it is long: far less often than there are items.
    """
    files: dict[str, Any] = {
        f"{letter}.yaml": [task(f"{letter}{n:02}") for n in range(60)] for letter in "abc"
    }
    files["test_mine.py"] = (
        "import pytest\n\n@pytest.mark.parametrize('n', range(20))\ndef test_it(n):\n    pass\n"
    )
    write(pytester.path, {"evals/suite.yaml": "name: demo\ndefaults: {model: scripted}\n"})
    write(pytester.path, {"evals/conftest.py": COUNTING})
    write(pytester.path, {f"evals/{name}": content for name, content in files.items()})
    run(pytester, "evals", workers=2).assert_outcomes(passed=200)
    for kind in ("started", "finished"):
        counts = Counter(names(journal(pytester.path, kind)))
        assert len(counts) == 180
        assert set(counts.values()) == {1}
    looks = [int(path.read_text()) for path in pytester.path.glob("looks-*.txt")]
    assert len(looks) == 2
    assert 5 < sum(looks) < 80
    assert len(list(run_folder(pytester.path).glob("journal-*"))) == 2


def test_an_item_that_is_collected_twice_is_run_twice_and_no_more(pytester: pytest.Pytester) -> None:
    """--keep-duplicates makes two items of each trial: the second is a second attempt, none is in vain."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": "name: demo\n"})
    write(pytester.path, {"evals/tasks.yaml": [task("a"), task("b")]})
    run(pytester, "--keep-duplicates", "evals", "evals", "--agent-model=scripted").assert_outcomes(passed=4)
    begun = [(line["task"], line["attempt"]) for line in journal(pytester.path, "started")]
    assert begun == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_a_slow_head_does_not_hold_up_the_others(pytester: pytest.Pytester) -> None:
    """While pytest waits for the first, the second place serves all the others."""
    files = {"a.yaml": noting("head", patience=1500), "b.yaml": noting(*"bcdefgh", seconds=0.01)}
    carry_out(pytester, "", files, "--agent-concurrency=2")
    seen = notes(pytester.path)
    assert seen.index(("end", "h")) < seen.index(("end", "head"))


def test_a_session_fixture_is_up_before_anything_begins(pytester: pytest.Pytester) -> None:
    """A server that every trial needs is there for those that begin ahead, too, and they do begin ahead."""
    result = carry_out(
        pytester, WIDE.format(scope="session"), {"a.yaml": noting("a", "b"), "b.yaml": noting("c")}
    )
    seen = notes(pytester.path)
    assert seen.index(("item", "a")) < seen.index(("up", "")) < seen.index(("begin", "a"))
    assert seen.index(("begin", "c")) < seen.index(("item", "b"))
    assert "one by one" not in result.stdout.str()


OWN = NOTES.replace('with_name("log.jsonl")', 'parent.with_name("log.jsonl")') + WIDE.format(scope="package")
PARAMETRIZED = WIDE.format(scope="session").replace("autouse=True", 'autouse=True, params=["one", "two"]')
WIDER: dict[str, tuple[str, dict[str, Any]]] = {
    "modules of two folders": (WIDE.format(scope="module"), {"1/a.yaml": "ab", "2/b.yaml": "cd"}),
    "modules of one folder": (WIDE.format(scope="module"), {"a.yaml": "ab", "b.yaml": "cd"}),
    "packages": (
        "",
        {
            "1/a.yaml": "ab",
            "2/b.yaml": "cd",
            **{
                f"{number}/{file}": text
                for number in "12"
                for file, text in (("__init__.py", ""), ("conftest.py", OWN))
            },
        },
    ),
    "values of a parametrized fixture": (
        PARAMETRIZED.replace("request.node.name", "request.param"),
        {"a.yaml": "ab"},
    ),
}


@pytest.mark.parametrize("wider", WIDER)
def test_a_wider_fixture_lets_those_run_ahead_that_have_its_value(
    pytester: pytest.Pytester, wider: str
) -> None:
    """Its trials run side by side, and never while another file's fixture, or another value, is up."""
    conftest, files = WIDER[wider]
    files = {name: noting(*ids) if name.endswith("yaml") else ids for name, ids in files.items()}
    result = carry_out(pytester, conftest, files)
    result.assert_outcomes(passed=4)
    seen = [what for what, _ in notes(pytester.path) if what != "item"]
    assert seen == ["up", "begin", "begin", "end", "end", "down"] * 2
    assert "one by one" not in result.stdout.str()


@pytest.mark.parametrize("workers", [0, 1], ids=["one-process", "one-worker"])
def test_a_function_fixture_of_the_user_means_one_by_one(pytester: pytest.Pytester, workers: int) -> None:
    """Its value does not exist before its item's turn; one line says how many, and names the fixture."""
    fixture = "\n\n@pytest.fixture(autouse=True)\ndef env(monkeypatch):\n    monkeypatch.setenv('A', 'B')\n"
    write(pytester.path, {"evals/suite.yaml": "name: demo\ndefaults: {model: scripted}\n"})
    write(pytester.path, {"evals/conftest.py": NOTING + fixture, "evals/a.yaml": noting("a", "b", "c")})
    result = run(pytester, "evals", workers=workers)
    result.assert_outcomes(passed=3)
    line = NOTING.count("\n") + 3
    result.stdout.fnmatch_lines([f"3 trials ran one by one: fixture env (evals/conftest.py:{line})"])
    if not workers:
        assert most_at_once(notes(pytester.path)) == 1


def test_a_function_fixture_of_an_installed_plugin_holds_up_nobody(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has installed such a plugin would otherwise lose all concurrency for nothing."""
    plugin = "import pytest\n\n@pytest.fixture(autouse=True)\ndef hung_on():\n    yield\n"
    entry = "[pytest11]\nhanger = hanger_on\n"
    write(pytester.path, {"site/hanger_on.py": plugin, "site/hanger-1.0.dist-info/entry_points.txt": entry})
    write(
        pytester.path,
        {"site/hanger-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hanger\nVersion: 1.0\n"},
    )
    monkeypatch.syspath_prepend(str(pytester.path / "site"))
    result = carry_out(pytester, "", {"a.yaml": noting("a", "b", "c")}, "-p", "hanger")
    result.assert_outcomes(passed=3)
    assert most_at_once(notes(pytester.path)) == 3
    assert "one by one" not in result.stdout.str()


@pytest.mark.parametrize(("options", "left"), [((), True), (("-x",), False), (("--stepwise",), False)])
def test_quick_trials_are_left_alone_unless_the_first_failure_ends_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], left: bool
) -> None:
    """While pytest waits others begin, which would be paid for in vain."""
    waits: list[float] = []
    wait = Pool.wait_until_idle

    def noting(self: Pool, seconds: float) -> None:
        waits.append(seconds)
        wait(self, seconds)

    monkeypatch.setattr(Pool, "wait_until_idle", noting)
    tasks = [task(f"t{number}") for number in range(50)]
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": tasks})

    run(pytester, *options, "-p", "cacheprovider", "--agent-concurrency=40").assert_outcomes(passed=50)

    assert bool(waits) == left
    assert all(0 < seconds <= 0.04 for seconds in waits)  # one long wait would be deaf to the world
