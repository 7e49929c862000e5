"""What an agent asks by itself in one trial: it meets the tool tape, unless it is let out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.cassettes.http.patches import own_requests
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.tools.toolbox import ToolBox

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.tape import Tape
    from pytest_agenteval.tools.tape import ToolTape


class OwnRequests:
    """The requests of one trial that are neither a tool's nor a chat's; its threads' are among them.

    One that is refused breaks the trial, whatever the agent makes of it.
    """

    def __init__(self, plan: Plan, box: ToolBox, recorder: Recorder) -> None:
        self._plan, self._box, self._recorder = plan, box, recorder
        self._nowhere: ToolTape | None = None

    @contextmanager
    def answering(self, *, closing: bool = True) -> Iterator[None]:
        """Answer what is asked inside; once it is over nothing more goes out, if it is ``closing``.

        Raises CassetteMiss in place of what came of a refusal.
        """
        with own_requests(self._tapes, passing=self._plan.live, closing=closing) as scope:
            try:
                yield
            except (Exception, NotRecorded) as raised:
                if not scope.missed:
                    raise
                raise self._tape.agents_miss(scope.missed[0]) from raised
            finally:
                self._tell(scope)

    def _tell(self, scope: Scope) -> None:
        for request in tuple(scope.missed):
            miss = self._tape.agents_miss(request)
            self._recorder.add_miss(miss)
            self._recorder.broken = self._recorder.broken or miss

    def _tapes(self) -> Sequence[Tape]:
        return self._tape.of_agent

    @property
    def _tape(self) -> ToolTape:
        return self._box.open_tape() or self._without_cassette()

    def _without_cassette(self) -> ToolTape:
        """Give a tape of nothing, for a plan that was made by hand and has no cassette."""
        if self._nowhere is None:
            from pytest_agenteval.cassettes.cassette import Cassette
            from pytest_agenteval.cassettes.tape import Tape
            from pytest_agenteval.tools.tape import ToolTape

            nothing = Cassette(Path(f"{self._plan.task.id}.yaml"), name=f"{self._plan.task.id}: no cassette")
            self._nowhere = ToolTape(Tape(nothing, allow_repeats=True), retry_command="")
        return self._nowhere
