"""Compare what users see with ``expected/``, or write it there: ``python -m tests.frozen [PART ...]``."""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.frozen import live_runs, public_names, stored_runs
from tests.frozen.commands import Scratch, fix_environment

EXPECTED = Path(__file__).parent / "expected"

PARTS: Mapping[str, Callable[[Scratch], Mapping[str, str]]] = {
    "names": public_names.names,
    "registered": public_names.registered,
    "help": stored_runs.help_texts,
    "schemas": stored_runs.schemas,
    "documents": stored_runs.documents,
    "screens": stored_runs.screens,
    "pages": stored_runs.pages,
    "html": stored_runs.html,
    "old_runs": stored_runs.old_runs,
    "endings": live_runs.endings,
    "cassettes": live_runs.cassettes,
    "processes": live_runs.documents_of_processes,
    "scores": live_runs.scores,
}
"""Each part gives texts by file name."""


def differences(part: str, texts: Mapping[str, str], expected: Path) -> Iterator[str]:
    """Give the unified diff of a part, from what is expected to what is there now."""
    folder = expected / part
    before = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*")}
    for name in sorted({*before, *texts}):
        old, new = before.get(name, ""), texts.get(name, "")
        yield from difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"expected/{part}/{name}", f"now/{part}/{name}", lineterm=""
        )


def accept(part: str, texts: Mapping[str, str], expected: Path) -> None:
    """Write a part's texts, and remove files that it no longer has."""
    folder = expected / part
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*"):
        if file.name not in texts:
            file.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def main() -> int:
    """Give 1 where something differs from what is expected, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default: all")
    parser.add_argument("--accept", action="store_true", help="write what is there now as what is expected")
    parser.add_argument(
        "--expected", type=Path, default=EXPECTED, metavar="DIR", help="another folder of them"
    )
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part is named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    fix_environment()
    differing = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        for part in args.parts or PARTS:
            started = time.monotonic()
            try:
                texts = {name: ended(text) for name, text in PARTS[part](Scratch(Path(place, part))).items()}
            except Exception:
                differing.append(part)
                print(f"{part} cannot be made:\n{traceback.format_exc()}")
                continue
            if args.accept:
                accept(part, texts, args.expected)
            elif lines := list(differences(part, texts, args.expected)):
                differing.append(part)
                print("\n".join(lines))
            print(f"{part}: {len(texts)} files, {time.monotonic() - started:.1f} s", file=sys.stderr)
    if differing:
        print(
            f"differs: {', '.join(differing)}. A change that users may see is accepted by hand, with a line "
            f"in CHANGELOG.md: python -m tests.frozen --accept {' '.join(differing)}"
        )
    return 1 if differing else 0


def ended(text: str) -> str:
    """End a text with one line end, and each line without blanks, as editors and git leave them."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


if __name__ == "__main__":
    sys.exit(main())
