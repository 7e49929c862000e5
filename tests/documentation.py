"""The pages that users read: README and docs/, in English and in other languages."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
LANGUAGES = ("ko", "ja")
"""Besides English; each has the sections start and benchmarks, README, and the front page."""

ENGLISH_PAGES = tuple(
    page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in LANGUAGES
)
TRANSLATED_PAGES = (
    *(page for language in LANGUAGES for page in sorted((DOCS / language).rglob("*.md"))),
    *sorted(ROOT.glob("README.*.md")),
)
