"""``--agent-executor=ray`` without a cluster: one is started on this machine, and ends with the run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.engine.test_process_executor import comparable_records
from tests.extended.ray.projects import (
    CONFTEST,
    SUITE,
    carried_out,
    end,
    left_over,
    lines,
    looking,
    project,
    start,
    until,
)
from tests.journals import trials
from tests.loopback.model_server import ModelServer, ReplyPlan

pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")

RAY = "--agent-executor=ray:2"


def tapes(root: Path) -> dict[str, str]:
    """Give all cassettes of a project."""
    return {str(path.relative_to(root)): path.read_text() for path in (root / "cassettes").rglob("*.yaml")}


def test_trials_are_what_they_are_in_this_process(tmp_path: Path) -> None:
    """Scores, workspaces, recordings that come home, states that hold objects, output without secrets.

    A workspace that its agent has removed is told. A trial that ends every actor that carries it out is
    errored after three attempts, and takes no other with it. Ray prints nothing, and nothing of it is left.
    """
    record = "--agent-record=once"
    tasks = [looking("a", "bread"), looking("b", "salt"), looking("c", "object"), looking("e", "remove")]
    same = CONFTEST.replace("HOME_FOLDER", "'/anywhere'")  # the agent's code has a digest
    here = project(tmp_path / "here", *tasks, conftest=same)
    said_here = carried_out(here, record, "-q", "--agent-keep-workspaces")
    there = project(tmp_path / "there", *tasks, looking("d", "die"), conftest=same)
    run = start(there, RAY, record, "-q", "--agent-keep-workspaces")
    said = end(run)

    assert "4 passed" in said_here
    assert "4 passed, 1 error" in said
    assert "1 workspace could not be brought home from actors" in said
    assert "ray" not in said.lower().replace("executor=ray", "").replace(str(tmp_path).lower(), "")
    records = comparable_records(there)
    dead = trials(there)["d"]
    assert {name: records[name] for name in ("a", "b", "c", "e")} == comparable_records(here)
    assert tapes(there) == tapes(here)
    assert len(tapes(there)) == 4
    assert (Path(trials(there)["a"].workspace) / "said.md").read_text() == "Good morning"
    assert Path(trials(there)["a"].workspace).is_relative_to(there)
    assert (dead.cause, dead.attempt) == ("executor", 3)
    assert dead.message == "the actor that carried it out is gone: its process has ended"
    assert [line["attempt"] for line in lines(there, "started") if line["task"] == "d"][1:] == [2, 3]
    until(lambda: not left_over(run.pid), 20)


BROKEN = CONFTEST + "\nif not Path(__file__).is_relative_to(HOME):\n    raise RuntimeError('not here')\n"


def test_a_conftest_that_breaks_on_actors_alone_errors_the_trials(tmp_path: Path) -> None:
    """pytest's own words say what is wrong there, with every trial; nobody waits for ever."""
    root = project(tmp_path, looking("a", "bread"), looking("b", "salt"), conftest=BROKEN)

    said = carried_out(root, RAY)

    assert "2 errors" in said
    assert {line["cause"] for line in lines(root, "finished")} == {"executor"}
    assert "RuntimeError: not here" in said


ONCE = """
if not Path(__file__).is_relative_to(HOME):
    with (HOME / "came-up").open("a") as tries:
        tries.write("x")
        later = tries.tell() > 1
    if later:
        while not any('"started"' in each.read_text() for each in HOME.glob(".agenteval/runs/2*/journal-*")):
            time.sleep(0.05)  # until another actor is at work
        raise RuntimeError("not here")
"""


def test_actors_that_cannot_come_up_are_told_and_tried_no_more(tmp_path: Path) -> None:
    """A machine on which something is missing costs three tries, and not as many as the run has time for."""
    root = project(tmp_path, looking("a", "sleep", seconds=20), conftest=CONFTEST + ONCE)

    said = carried_out(root, RAY, "--agent-concurrency=2")

    assert "1 passed" in said
    tries = len((root / "came-up").read_text())
    assert 1 < tries <= 1 + 3  # fewer where a start takes long
    assert tries < 1 + 3 or "some actors did not start" in said


def test_ctrl_c_ends_a_run_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    """What ended is written down; the cluster, its actors and what they have started are gone."""
    root = project(
        tmp_path, looking("a", "bread"), *(looking(f"t{n}", "sleep", seconds=60) for n in range(4))
    )
    run = start(root, RAY)
    until(lambda: lines(root, "finished"))

    os.killpg(run.pid, signal.SIGINT)  # as a terminal sends it: to all of the foreground
    said = end(run)

    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "Traceback" not in said
    assert [line["task"] for line in lines(root, "finished")] == ["a"]
    until(lambda: not left_over(run.pid), 20)


HANDLERS = """
import faulthandler, signal, sys
import pytest


def handlers():
    status = open("/proc/self/status").read()
    (native,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    ours = int(native, 16) % 2**31  # those above are the C library's own
    return ours, sys.excepthook, signal.getsignal(signal.SIGTERM), faulthandler.is_enabled()


@pytest.fixture(scope="session", autouse=True)
def unchanged():
    before = handlers()
    yield
    import ray

    print("HANDLERS", handlers() == before, ray.is_initialized())
"""


def test_handlers_are_as_they_were_and_nothing_is_left_on_disk(tmp_path: Path) -> None:
    """Ray replaces who hears of SIGTERM, of crashes and of uncaught exceptions: all of it is put back.

    A cluster of our own writes no token into the user's home, and its logs go with it.
    """
    root = project(tmp_path, looking("a", "bread"))
    (root / "handlers.py").write_text(HANDLERS)

    home = tmp_path / "home"
    run = start(root, RAY, "-p", "handlers", "-s", env={"PYTHONPATH": str(root), "HOME": str(home)})
    said = end(run)

    assert "HANDLERS True True" in said
    assert not home.exists()
    assert not list(Path("/tmp").glob(f"agenteval-ray-{run.pid}-*"))


def test_what_cannot_be_obeyed_is_said_before_anything_runs(tmp_path: Path) -> None:
    """A number that is none, and workers of xdist, each of which would start a cluster of its own."""
    root = project(tmp_path, looking("a", "bread"))

    wrong = carried_out(root, "--agent-executor=ray:none")
    workers = carried_out(root, RAY, "-p", "xdist.plugin", "-n1")

    assert (
        "--agent-executor=ray:none: expected a number of actors, 1 or more; RAY_ADDRESS says which" in wrong
    )
    assert "--agent-executor=ray: leave out -n" in workers
    assert not lines(root, "started")


def test_a_cluster_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    """Ray itself tries for minutes, and prints a line for each."""
    root = project(tmp_path, looking("a", "bread"))
    began = time.monotonic()

    nobody = carried_out(root, RAY, env={"RAY_ADDRESS": "127.0.0.1:1"})
    client = carried_out(root, RAY, env={"RAY_ADDRESS": "ray://127.0.0.1:10001"})

    assert time.monotonic() - began < 60
    assert "executor: the Ray cluster at 127.0.0.1:1 cannot be joined" in nobody
    assert "Captured stderr" not in nobody + client
    assert "RAY_ADDRESS=ray://127.0.0.1:10001: expected HOST:PORT of the cluster's head" in client


def test_actors_share_a_model(tmp_path: Path) -> None:
    """What a model may be asked at once counts for all actors together, and what they ask is paid once."""
    server = ModelServer(lambda request, number: ReplyPlan(text="Good morning, Mina!"), latency_s=0.2)
    with server:
        settings = f'id = "openai/any", api_base = "{server.openai_base}", api_key_env = "SHARED_KEY"'
        root = project(tmp_path, *(looking(f"t{number}", "hello") for number in range(12)))
        models = f"[tool.agenteval.models]\nlocal = {{{settings}, requests_at_once = 3}}\n"
        (root / "pyproject.toml").write_text(models, encoding="utf-8")
        (root / "evals" / "suite.yaml").write_text(SUITE.replace("looking", "tool_calling"), encoding="utf-8")

        said = carried_out(root, RAY, "--agent-model=local", env={"SHARED_KEY": "sk-0123456789"})

        assert "12 passed" in said
        assert len(server.requests) == 12
        assert server.peak_in_flight == 3
