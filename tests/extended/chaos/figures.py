"""Whether all reports of what a scenario leaves behind show the same figures, also of what is torn."""

from __future__ import annotations

import contextlib
import io
import traceback
from pathlib import Path

from tests.reports.equal_figures import check_reports


def unequal_figures(root: Path) -> list[str]:
    """Say for which of the runs that lie somewhere below a folder some report shows other figures."""
    wrong = []
    found = [about.parent for about in sorted(root.glob("**/.agenteval/runs/*/run.json"))]
    for run in (run for run in found if not run.is_symlink()):  # "latest" is one of the others
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # what is torn is told of at each report
                check_reports([run], root)
        except Exception as raised:
            *_, place = traceback.extract_tb(raised.__traceback__)
            what = f"{place.line} ({place.filename}:{place.lineno})"
            wrong.append(f"figures of {run.name} differ: {type(raised).__name__} {raised} at {what}")
    return wrong
