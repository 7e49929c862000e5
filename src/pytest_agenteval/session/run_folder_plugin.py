"""A plugin for a pytest that a verb starts: at its end it writes the path of its run into a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.session.stash import eval_session_key, run_info_key

OPTION = "--agent-run-folder-to"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="FILE", help="write the path of the run's folder into a file")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    evals = session.config.stash.get(eval_session_key, None)
    if evals is not None and run_info_key in session.config.stash and evals.folder.is_dir():
        Path(session.config.getoption(OPTION)).write_text(str(evals.folder), encoding="utf-8", newline="\n")
