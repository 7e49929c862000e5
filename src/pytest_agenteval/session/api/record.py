"""``record``, in a script, a notebook or a test: where its recordings lie, and by whose words it records."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path

from pytest_agenteval.engine.trial_resources import script_way
from pytest_agenteval.session.api.planning import mode_of
from pytest_agenteval.session.api.recording import Recording
from pytest_agenteval.session.api.recording_tapes import RecordingPlace, RecordingWays
from pytest_agenteval.session.api.running import unless
from pytest_agenteval.session.api.script import is_in_pytest, script_command, script_environment

_UNTAPED = " (nothing of it is then taped)"


def record(name: str, *, record: str = "none", record_chat: str = "off") -> Recording:
    """See and tape what code inside asks: ``with record("refund") as seen:``, or ``async with``.

    ``record`` says how HTTP in general meets its cassette ``cassettes/NAME.yaml``, ``record_chat`` how
    requests of models meet theirs, ``cassettes/NAME.chat/``: ``none`` plays, ``once`` records where there is
    no file, ``new_episodes`` adds, ``all`` records anew. With ``off`` replies of models that were recorded
    are played. What is not recorded is refused, unless it may go out. A mode that is not said is that of the
    environment (``AGENTEVAL_RECORD``, ``AGENTEVAL_RECORD_CHAT``, ``AGENTEVAL_LIVE``), in pytest that of its
    options.

    Threads and tasks that are started inside belong to it; what is left of them when it ends is refused. Of
    blocks within each other the innermost sees and tapes. Raises CassetteMiss at its end where something was
    asked that is not recorded, though the code swallowed it.
    """
    environment = script_environment({})
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" (")[0]
    ways = pytest_ways(test) if is_in_pytest() else _script_ways()
    place = RecordingPlace(
        environment.root / "cassettes" / name if isinstance(name, str) else Path(),
        environment.root,
        mode_of("record", unless(record, "none"), environment.record),
        mode_of("record_chat", unless(record_chat, "off"), environment.record_chat),
        environment.live,
        1,
        ways,
        prices=environment.prices,
    )
    return Recording(name, place)


def pytest_ways(node_id: str) -> RecordingWays:
    """Give the commands that record what a test asks."""
    run = f"pytest {shlex.quote(node_id)}"
    return RecordingWays(
        f"{run} --agent-record=new_episodes --agent-record-chat=new_episodes",
        f"--agent-live{_UNTAPED}",
        f"{run} --agent-record-chat=all",
    )


def _script_ways() -> RecordingWays:
    ways = partial(script_way, script_command())
    return RecordingWays(
        ways("--agent-record=new_episodes", "--agent-record-chat=new_episodes"),
        ways("--agent-live=1") + _UNTAPED,
        ways("--agent-record-chat=all"),
    )
