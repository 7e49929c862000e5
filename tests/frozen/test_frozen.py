"""``python -m tests.frozen`` itself: it sees a difference, says where, and ends with exit status 1."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.forked_workers import run_python
from tests.frozen.__main__ import EXPECTED
from tests.frozen.commands import ROOT


def test_a_difference_is_shown_and_ends_with_status_1(tmp_path: Path) -> None:
    """The diff names the file, the line that was expected, the one that is there, and how to accept it."""
    shutil.copytree(EXPECTED / "names", tmp_path / "names")
    file = tmp_path / "names" / "public.txt"
    text = file.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("class Trial("))
    file.write_text(text.replace(line, "class Trail()"), encoding="utf-8")

    done = run_python("-m", "tests.frozen", "names", f"--expected={tmp_path}", cwd=ROOT)

    assert done.returncode == 1, done.stderr
    assert {"--- expected/names/public.txt", "-class Trail()", f"+{line}"} <= {*done.stdout.splitlines()}
    assert "python -m tests.frozen --accept names" in done.stdout
    assert file.read_text(encoding="utf-8") != text
