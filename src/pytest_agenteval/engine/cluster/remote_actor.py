"""One actor as seen by the process that sends it work."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_agenteval import __version__
from pytest_agenteval.chat.rate_shares import LocalShares
from pytest_agenteval.engine.cluster.actor import ActorLost, ActorQuestion, ActorSetup, Arrival
from pytest_agenteval.engine.executor import ExecutorBroken, ExecutorReport, TrialLost

if TYPE_CHECKING:
    from pytest_agenteval.engine.cluster.ray_cluster import RayCluster

# Seconds that an actor has to close; one that computes without end is then killed.
CLOSING_S = 2.5


class RemoteActor:
    """Sends requests to one actor, and answers its questions about the limits of models.

    ``gone`` is set when the actor is lost: all that waits for it fails.
    """

    def __init__(self, cluster: RayCluster, handle: Any, shares: LocalShares) -> None:
        self._cluster, self._handle, self._shares = cluster, handle, shares
        self.under_way = 0
        self._processes: set[str] = set()
        self._sent: dict[str, str] = {}
        self._answering: asyncio.Task[None] | None = None
        self.gone = asyncio.Event()

    async def start(self, setup: ActorSetup, project: Any) -> None:
        """Start it; raises ExecutorBroken if it does not come up."""
        try:
            why: str = await self._cluster.call(
                self._handle, "start", pickle.dumps(setup), project, __version__
            )
        except ActorLost as gone:
            why = f"an actor ended while it started: {gone}"
        if why:
            raise ExecutorBroken(why)
        self._answering = asyncio.get_running_loop().create_task(self._answer_questions())

    async def do(self, pickled: bytes, variables: Mapping[str, str]) -> Arrival:
        """Have a request carried out, with these variables; raises TrialLost if the actor is lost."""
        new = dict(variables.items() - self._sent.items())
        self._sent.update(new)
        self.under_way += 1
        try:
            if self.gone.is_set():
                raise ActorLost("it ended before")
            arrival: Arrival = await self._cluster.call(self._handle, "run", pickled, new)
            return arrival
        except ActorLost as gone:
            await self._give_up()
            raise TrialLost(f"the actor that carried it out is gone: {gone}") from None
        finally:
            self.under_way -= 1

    async def close(self) -> tuple[ExecutorReport, dict[str, bytes]] | None:
        """Close and kill it; returns its report and last recordings, or None if it could not close."""
        if self._answering is not None:
            self._answering.cancel()
        if self.gone.is_set():
            return None
        try:
            closing = self._cluster.call(self._handle, "close")
            last: tuple[ExecutorReport, dict[str, bytes]] = pickle.loads(
                await asyncio.wait_for(closing, CLOSING_S)
            )
            return last
        except (TimeoutError, ActorLost):
            return None
        finally:
            self._cluster.kill(self._handle)

    async def _give_up(self) -> None:
        if self.gone.is_set():
            return
        self.gone.set()
        # In case it is still there, and only the connection broke.
        self._cluster.kill(self._handle)
        for process in self._processes:
            self._shares.leave(process)

    async def _answer_questions(self) -> None:
        while not self.gone.is_set():
            try:
                questions: list[ActorQuestion] = await self._cluster.call(self._handle, "questions")
                for question in questions:
                    self._processes.add(question.report.process)
                    answer = pickle.dumps(self._shares.exchange(question.report))
                    await self._cluster.call(self._handle, "answer", question.number, answer)
            except ActorLost:
                await self._give_up()
