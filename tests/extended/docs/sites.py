"""Sites that `.ci/docs` builds: from this project's pages, or from a few of a test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
TRANSLATIONS = {
    "docs/ko/index.md": "# pytest-agenteval\n\n프롬프트를 바꿨습니다. "
    "[옵션](../reference/options.md)을 보세요.\n\n"
    "| 섹션 | 페이지 |\n|---|---|\n| 시작 | [첫 모음](start/first-suite.md) |\n",
    "docs/ko/start/first-suite.md": "# 첫 모음\n\n점수를 비교합니다.\n",
    "docs/ja/index.md": "# pytest-agenteval\n\nプロンプトを変更しました。スコアを比較します。\n",
}
"""Pages in Korean and Japanese for as long as the project has none of that name."""


def build_site(project: Path, out: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a project's `.ci/docs` in the environment of the tests."""
    without = {name: text for name, text in os.environ.items() if not name.startswith("GITHUB_")}
    return subprocess.run(
        ["bash", str(project / ".ci" / "docs"), str(out)],
        env={**without, "PYTHON": sys.executable, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def translated_project(folder: Path) -> Path:
    """Copy what the site is made from, and add pages in each language that has none."""
    for name in ("docs", ".ci", ".github", "src", "evals"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "pyproject.toml"):
        shutil.copy(file, folder)
    for name, text in TRANSLATIONS.items():
        if not (ROOT / "docs" / name.split("/")[1] / "index.md").exists():
            write_page(folder / name, text)
    return folder


def small_project(folder: Path, pages: Mapping[str, str]) -> Path:
    """Make a project of a test's own pages, built as this one is."""
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    for name in ("_static", "_templates", "images"):
        shutil.copytree(ROOT / "docs" / name, folder / "docs" / name)
    shutil.copy(ROOT / "docs" / "conf.py", folder / "docs")
    for name, text in pages.items():
        write_page(folder / name, text)
    return folder


def write_page(path: Path, text: str) -> None:
    """Write a page, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
