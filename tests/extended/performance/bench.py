"""Where a case is measured, and the programs that it is made of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.extended.performance.measuring import PYTEST, UNUSED
from tests.extended.performance.peers import BESIDE, Found
from tests.extended.performance.program import Program, Programs, Rounds, carry_out
from tests.extended.performance.rows import Row

ROOT = Path(__file__).parents[3]
SCRIPTED = "--agent-model=scripted"
AGENTEVAL = str(Path(sys.executable).with_name("agenteval"))

QUIET = {
    "CONFIDENT_METRIC_LOGGING_ENABLED": "0",
    "DEEPEVAL_NO_INSPECT_PROMPT": "1",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHONWARNINGS": "ignore",
}
"""Nobody reports to their makers, or looks for something newer."""

KNOWS_VIA = "from pytest_agenteval.chat.models import SETTINGS; print('via' in SETTINGS)"


@dataclass(frozen=True, slots=True)
class Bench:
    """A folder, the peers that are wanted, and where our sources are: else those that are installed."""

    place: Path
    peers: Found | None = None
    source: Path | None = None

    @property
    def environ(self) -> Mapping[str, str]:
        """What our programs have in their environment."""
        return {} if self.source is None else {"PYTHONPATH": str(self.source)}

    def ours(self, folder: Path, *arguments: str, **more: Any) -> Program:
        """Give a run of pytest with the plugin."""
        return Program((*PYTEST, *UNUSED, *arguments), folder, "ours", self.environ, **more)

    def verb(self, folder: Path, *arguments: str, **more: Any) -> Program:
        """Give a run of ``agenteval``."""
        return Program((AGENTEVAL, *arguments), folder, "ours", self.environ, **more)

    def plain(self, folder: Path, *arguments: str, **more: Any) -> Program:
        """Give a run of pytest without the plugin."""
        command = (*PYTEST, *UNUSED, "-p", "no:agenteval", *arguments)
        return Program(command, folder, "floor", self.environ, **more)

    def bare(self, client: str, kind: str, count: int, address: str, **more: Any) -> Program:
        """Give a bare loop."""
        environ = {"CLIENT": client, "WORKLOAD": f"{kind} {count} {address}"}
        return Program((sys.executable, str(BESIDE / "bare_loop.py")), self.place, "floor", environ, **more)

    def beside(
        self, names: tuple[str, ...], kind: str, count: int, address: str = "", **more: Any
    ) -> Iterator[tuple[str, Program | str]]:
        """Give the programs of peers with their names, if peers are wanted."""
        for name in names if self.peers is not None else ():
            found = self.peers[name]
            if not isinstance(found, str):
                found = self._peer(name, found.python, kind, count, address, more)
            yield f"{name} {count}", found

    def _peer(
        self, name: str, python: str, kind: str, count: int, address: str, more: Mapping[str, Any]
    ) -> Program:
        folder = self.place / "peers" / name
        folder.mkdir(parents=True, exist_ok=True)
        file = BESIDE / f"{name.replace('-', '_')}_suite.py"
        environ = {**QUIET, "WORKLOAD": f"{kind} {count} {address}"}
        command: tuple[str, ...] = (python, str(file))
        if name == "pytest-evals":  # in a folder of its own: ours has a conftest further up
            shutil.copy(file, folder / "test_loop.py")
            shutil.copy(BESIDE / "workload.py", folder)
            (folder / "pytest.ini").write_text("[pytest]\n")
            flags = ("--run-eval", "--run-eval-analysis", "--out-path", "results")
            command = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_loop.py", *flags)
        return Program(command, folder, "peer", environ, **more)

    def ways(self) -> Mapping[str, Mapping[str, str] | str]:
        """Give what a model's table says to be asked directly, and through litellm; or why it cannot be."""
        asked = subprocess.run(
            [sys.executable, "-c", KNOWS_VIA],
            env={**os.environ, **self.environ},
            capture_output=True,
            text=True,
            check=True,
        )
        if asked.stdout.strip() == "True":
            return {"direct": {"via": "direct"}, "litellm": {"via": "litellm"}}
        return {"direct": "models have no `via` here", "litellm": {}}


@dataclass(frozen=True, slots=True)
class Case:
    """Programs that are run in turn, round after round, and the rows that are made of what they took."""

    rounds: int
    programs: Callable[[Bench], AbstractContextManager[Programs]]
    rows: Callable[[Rounds], Iterator[Row]]

    def measure(self, bench: Bench, most: int) -> Iterator[Row]:
        """Measure so many rounds at most."""
        with self.programs(bench) as programs:
            rounds = carry_out(programs, min(self.rounds, most))
        yield from self.rows(rounds)
