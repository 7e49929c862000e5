"""Ctrl-C ends an import without a traceback, and spoils nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_interrupted_commands import COMMAND, alone, interrupted
from tests.forked_workers import run_python
from tests.suites import task, write

pytestmark = pytest.mark.posix
__all__ = ["alone"]

FILES = 1500


def test_an_import_that_ctrl_c_has_ended_is_made_anew(tmp_path: Path) -> None:
    """What it leaves behind says that it is an import, and is replaced as any other."""
    theirs = tmp_path / "theirs"
    for number in range(FILES):
        path = theirs / f"tasks/one/workspace/{number // 50}/{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    write(theirs, {"suite.json": {"name": "pkm"}, "tasks/one/task.json": task("one", agent="pkm")})
    importing = ["import", "memex", "theirs", "--to", "ours"]
    ended = interrupted(tmp_path, importing, lambda: len(list(tmp_path.glob("ours/**/*.md"))) > 20)
    copied = len(list(tmp_path.glob("ours/**/*.md")))
    stderr = "agenteval: the import is incomplete: repeat it with --force\nagenteval: interrupted\n"
    assert ended == (130, stderr)
    assert 20 < copied < FILES
    again = run_python("-c", COMMAND, *importing, "--force", cwd=tmp_path)
    assert again.returncode == 0, again
    assert len(list(tmp_path.glob("ours/**/*.md"))) == FILES
