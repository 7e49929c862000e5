"""What xdist calls on the controller: workers are told of the run, and tell what they have to say.

Registered where xdist is: these are its hooks.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.stash import run_info_key


def pytest_configure_node(node: Any) -> None:
    """Tell a worker where the run is written down."""
    from pytest_agenteval.session.run_info import worker_run_info

    node.workerinput["agenteval"] = worker_run_info(node.config).to_worker()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep workers supplied with trials; other people's tests are shared out as ever."""
    from pytest_agenteval.session.run_info import worker_run_info
    from pytest_agenteval.xdist import scheduler

    return scheduler(config, log, lambda: worker_run_info(config).concurrency)


def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Say for the workers what they refuse to do."""
    from pytest_agenteval.session.run_info import read_refusal

    text = read_refusal(node.config)
    if text:
        raise pytest.UsageError(text)


def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a worker has to say; one that died left word in its journal only."""
    info = node.config.stash.get(run_info_key, None)
    if error and info is not None:
        from pytest_agenteval.session.run_journal import note_dead_worker

        note_dead_worker(info.folder, node.gateway.id)
    told = getattr(node, "workeroutput", {}).get("agenteval")
    if told:
        from pytest_agenteval.session.remarks import Remarks, add_remarks

        add_remarks(node.config, Remarks.from_json(told))
