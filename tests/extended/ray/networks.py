"""Machines that are none: network namespaces of this one, on each of which the project's folder is empty."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PORT = 26379
BRIDGE = "agenteval-br"
HERE = "10.213.7.1"

needs_namespaces = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0 or not shutil.which("ip"),
    reason="needs root and iproute2: machines are network namespaces",
)


def sh(command: str) -> None:
    """Carry out a command of the shell; raises where it fails."""
    subprocess.run(command, shell=True, check=True, capture_output=True, text=True)


class Machines:
    """A head in a network of its own and some machines, on which the project's folder is empty.

    The head takes no actor; whoever starts pytest does so beside it.
    """

    def __init__(self, folder: Path, project: Path, count: int, health_s: float) -> None:
        self._folder, self._project, self._count = folder, project, count
        self._processes: list[subprocess.Popen[bytes]] = []
        self.env = {
            "RAY_ADDRESS": f"{HERE}:{PORT}",
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        # The servers' own patience: in real clusters a silent machine is given up after half a minute.
        self._patience = {
            "RAY_health_check_period_ms": str(int(health_s * 1000)),
            "RAY_health_check_timeout_ms": str(int(health_s * 1000)),
            "RAY_health_check_failure_threshold": "3",
        }

    def start(self) -> None:
        """Start all of it, and wait until every machine has joined."""
        sh(f"ip link add {BRIDGE} type bridge && ip link set {BRIDGE} up")
        sh(f"ip addr add {HERE}/24 dev {BRIDGE}")
        for number in range(1, self._count + 1):
            name, address = self.name(number), f"10.213.7.{number + 1}"
            sh(f"ip netns add {name}")
            sh(f"ip link add {name} type veth peer name eth0 netns {name}")
            sh(f"ip link set {name} master {BRIDGE} up")
            sh(f"ip -n {name} addr add {address}/24 dev eth0")
            sh(f"ip -n {name} link set eth0 up && ip -n {name} link set lo up")
        self._ray(f"--head --port={PORT} --node-ip-address={HERE} --num-cpus=0 --include-dashboard=false", 0)
        for number in range(1, self._count + 1):
            address = f"10.213.7.{number + 1}"
            self._ray(f"--address={HERE}:{PORT} --node-ip-address={address} --num-cpus=1", number)
        self._wait_for_all()

    def _ray(self, options: str, number: int) -> None:
        """Start Ray's servers on a machine; 0 is this one."""
        memory = "--object-store-memory=80000000 --disable-usage-stats --block"
        more = f"{memory} --temp-dir={self._temp(number)}"
        start = f"exec {sys.executable} -m ray.scripts.scripts start {options} {more}"
        if number:
            hide = f"mount -t tmpfs none {self._project}"
            start = f"ip netns exec {self.name(number)} unshare -m sh -c '{hide} && {start}'"
        log = (self._folder / f"ray-{number}.log").open("wb")
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTEST_"))
        }
        self._processes.append(
            subprocess.Popen(
                start,
                shell=True,
                env={**clean, **self.env, **self._patience},
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        )

    def _temp(self, number: int) -> str:
        return f"/tmp/ray-{os.getpid()}-{number}"

    def _wait_for_all(self) -> None:
        look = (
            "import ray, sys\n"
            "ray.init(address=sys.argv[1], log_to_driver=False, logging_level=40)\n"
            "print(sum(node['Alive'] for node in ray.nodes()))\n"
        )
        last = time.monotonic() + 60
        joined = ""
        while joined.strip() != str(self._count + 1):
            assert time.monotonic() < last, f"{joined} machines after a minute: see {self._folder}"
            asked = subprocess.run(
                [sys.executable, "-c", look, f"{HERE}:{PORT}"],
                capture_output=True,
                text=True,
                env={**os.environ, **self.env},
                check=False,
            )
            joined = asked.stdout

    @staticmethod
    def name(number: int) -> str:
        """Name a machine."""
        return f"agenteval-{number}"

    def cut_off(self, number: int) -> None:
        """Take the network from a machine: nothing is refused, and nothing answered."""
        sh(f"ip link set {self.name(number)} down")

    def kill(self, number: int) -> None:
        """End a machine with all that runs on it, without a word."""
        self._end(number)

    def with_actor(self) -> int:
        """Give a machine on which trials are carried out."""
        numbers = range(1, self._count + 1)
        return next(number for number in numbers if any(map(_is_actor, self.pids(number))))

    def pids(self, number: int) -> list[int]:
        """Give what runs on a machine."""
        listed = subprocess.run(
            ["ip", "netns", "pids", self.name(number)], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in listed.stdout.split()]

    def _end(self, number: int) -> None:
        for pid in self.pids(number):
            subprocess.run(["kill", "-9", str(pid)], capture_output=True, check=False)

    def stop(self) -> None:
        """End all of it."""
        for number in range(1, self._count + 1):
            self._end(number)
            subprocess.run(["ip", "netns", "del", self.name(number)], capture_output=True, check=False)
            subprocess.run(["ip", "link", "del", self.name(number)], capture_output=True, check=False)
        for process in self._processes:
            subprocess.run(["pkill", "-9", "-s", str(process.pid)], capture_output=True, check=False)
            process.wait()
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)
        for number in range(self._count + 1):
            shutil.rmtree(self._temp(number), ignore_errors=True)


def _is_actor(pid: int) -> bool:
    with suppress(OSError):
        return b"TrialActor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@contextmanager
def machines(folder: Path, project: Path, count: int, health_s: float = 1.0) -> Iterator[Machines]:
    """Give a cluster of so many machines; all of it is gone afterwards."""
    made = Machines(folder, project, count, health_s)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def environment(made: Machines, **more: str) -> Mapping[str, str]:
    """Give the variables of whoever starts pytest on such a cluster."""
    return {**made.env, **more}
