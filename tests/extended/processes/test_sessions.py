"""What holds for a run whose trials are carried out in processes of their own."""

from __future__ import annotations

import pytest

from tests.loopback.model_server import ModelServer
from tests.session.test_extra_repetitions import look_at_own_baselines
from tests.session.test_run_budget import server as server
from tests.session.test_run_budget import spend_half
from tests.suites import import_multiprocessing

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")
import_multiprocessing()


def test_two_processes_share_a_budget(pytester: pytest.Pytester, server: ModelServer) -> None:
    """What both spend ends within one trial's cost of what is allowed."""
    spend_half(pytester, server, "asking", "--agent-executor=processes:2")


def test_trials_are_held_back_until_the_look(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each suite is looked at against its own baseline, and gets more trials where they are needed."""
    look_at_own_baselines(pytester, monkeypatch, "processes:1")
