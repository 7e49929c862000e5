"""Runs on a Ray cluster of which an actor, a machine, the controller or Ray's agent is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tests.extended.chaos.kills import RESUME, paid_again, unlike_one_run
from tests.extended.chaos.project import (
    AT_ONCE,
    PATIENCE_S,
    TooSlow,
    bills,
    finished_lines,
    journaled,
    output,
    project,
    provider,
    stacks,
    start,
    until,
)
from tests.extended.chaos.verdicts import Findings

RAYS_AGENT = "DashboardAgent"
"""A process of Ray's own on each machine, which ends without it; pytest ends with the machine it is on."""

KILLS = (
    ("actor", signal.SIGKILL),
    ("machine", signal.SIGKILL),
    ("controller", signal.SIGKILL),
    (RAYS_AGENT, signal.SIGKILL),
    ("actor", signal.SIGTERM),
    ("controller", signal.SIGTERM),
    ("controller", signal.SIGINT),
)
GONE_S = 30.0
"""Seconds until a cluster has ended the actors of a controller that is gone."""


class RayKill(NamedTuple):
    """Who is killed, how, and after how many finished trials."""

    whom: str
    signal: signal.Signals
    after: int

    def __str__(self) -> str:
        return f"ray, {self.signal.name} to the {self.whom} after {self.after} trials"


def has_ray() -> bool:
    """Whether Ray is installed."""
    return find_spec("ray") is not None


def ray_kills(count: int, trials: int, seed: int) -> Iterator[RayKill]:
    """Give so many kills, of every kind in turn; none where there is no Ray."""
    chance = random.Random(seed)
    for number in range(count if has_ray() else 0):
        yield RayKill(*KILLS[number % len(KILLS)], chance.randrange(3, trials * 3 // 4))


def ray_killed(
    root: Path, kill: RayKill, trials: int = 200, patience_s: float = PATIENCE_S, **more: Any
) -> Findings:
    """Carry out a run on a cluster, kill, resume where the controller was, and say what was lost."""
    arguments = ("--agent-executor=ray:2", "-q")
    with provider() as server, _cluster() as (head, *raylets):
        project(root, server, trials, **more)
        run = start(root, *arguments)
        try:
            if not until(lambda: finished_lines(root) >= kill.after, run, patience_s):
                raise TooSlow(f"{finished_lines(root)} of {kill.after} trials: {stacks(run)}")
            kept = journaled(root)
            _kill(kill, run, head, raylets)
            printed = output(run)
        finally:
            run.kill()
        left = [] if _until_gone(raylets) else [f"actors are there {GONE_S:g} s after the run"]
        sudden = kill.whom == RAYS_AGENT
        wrong = [f"no way on is printed: {printed[-600:]}"] if sudden and RESUME not in printed else []
        if sudden or kill.whom == "controller":
            kept = journaled(root)
            printed = output(start(root, *arguments, RESUME))
        paid = bills(server)
    wrong += [f"pytest broke: {printed[-600:]}"] if "INTERNALERROR" in printed else []
    wrong += left + unlike_one_run(root, trials) + paid_again(paid, kept, AT_ONCE)
    return Findings(wrong, {"trials": trials, "requests": paid.total()})


def _kill(kill: RayKill, run: subprocess.Popen[str], head: int, raylets: list[int]) -> None:
    if kill.whom in ("controller", RAYS_AGENT):
        os.kill(run.pid if kill.whom == "controller" else _children(head, RAYS_AGENT)[0], kill.signal)
        return
    raylet = next(raylet for raylet in raylets if _actors(raylet))
    actors = _actors(raylet)
    # A machine dies with all that runs on it; what is left of Ray there ends by itself.
    for pid in [raylet, *actors] if kill.whom == "machine" else actors[:1]:
        os.kill(pid, kill.signal)


def _until_gone(raylets: list[int]) -> bool:
    last = time.monotonic() + GONE_S
    while any(_actors(raylet) for raylet in raylets):
        if time.monotonic() > last:
            return False
        time.sleep(0.05)
    return True


def _actors(raylet: int) -> list[int]:
    return _children(raylet, "TrialActor")


def _children(raylet: int, name: str) -> list[int]:
    """Give the processes of a machine that have the name, by who started them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            is_named = name.encode() in (folder / "cmdline").read_bytes()
            if is_named and _parent(int(folder.name)) == raylet:
                found.append(int(folder.name))
    return found


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[1])


@contextmanager
def _cluster() -> Iterator[list[int]]:
    """Start a cluster with a head, which takes no actor, and three machines; give the raylets of all."""
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    from ray.cluster_utils import Cluster

    options = {"object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **options})
    try:
        nodes = [cluster.add_node(num_cpus=1, object_store_memory=80 * 1024 * 1024) for _ in range(3)]
        os.environ["RAY_ADDRESS"] = cluster.address
        session = Path(cluster.head_node.get_session_dir_path())
        yield [node.all_processes["raylet"][0].process.pid for node in (cluster.head_node, *nodes)]
    finally:
        os.environ.pop("RAY_ADDRESS", None)
        cluster.shutdown()
        shutil.rmtree(session, ignore_errors=True)
