"""What pytest calls where nothing is to be run: the plan is shown in the place of the run."""

from __future__ import annotations

from contextlib import suppress
from os import environ
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agenteval.session.settings import Settings

if TYPE_CHECKING:
    from pytest_agenteval.session.dry_run.plan import SessionPlanned


class DryRunPlugin:
    """Keeps a session from running anything, and shows what would be run.

    ``would_refuse`` is the usage mistake with which the run itself would end.
    """

    def __init__(self, planned: SessionPlanned, would_refuse: str) -> None:
        self._planned, self._would_refuse = planned, would_refuse

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run nothing; what could not be collected is pytest's to tell."""
        broken = session.testsfailed and not session.config.option.continue_on_collection_errors
        return None if broken else True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the plan; in brief without what stands below it."""
        from pytest_agenteval.reports.tables import table_lines
        from pytest_agenteval.session.dry_run.plan import DryRun
        from pytest_agenteval.session.styled_writing import write_line
        from pytest_agenteval.text.formatting import wrapped_lines

        reporter = terminalreporter
        width, brief = reporter._tw.fullwidth, reporter.config.getoption("verbose") < 0
        table = DryRun(self._planned).table(brief=brief)
        if not brief:
            reporter.write_sep("=", "agent evals: dry run")
        for line in table_lines(table, width):
            write_line(reporter, line)
        for text in self._would_refuse.splitlines():
            for line in wrapped_lines(text if text[:1] == " " else f"! {text}", width, "red", indent=""):
                write_line(reporter, line)


def without_workers(config: pytest.Config) -> None:
    """Keep xdist from starting workers where nothing is to be run."""
    if getattr(config.option, "dist", "no") != "no" and is_dry_run(config):
        config.option.dist, config.option.tx, config.option.numprocesses = "no", [], None


def is_dry_run(config: pytest.Config) -> bool:
    """Whether somebody says that nothing is to be run; settings that cannot be obeyed are told later."""
    row = Settings.dry_run
    project = config.rootpath / "pyproject.toml"
    said = row.on_command_line(config) or environ.get(row.variable)
    with suppress(OSError):
        said = said or b"dry_run" in project.read_bytes()
    if not said:
        return False
    from pytest_agenteval.session.settings_reading import read_settings
    from pytest_agenteval.text.errors import UsageMistake

    with suppress(UsageMistake):
        return read_settings(config).dry_run
    return False
