"""The options of ``python -m tests.extended.performance``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

DESCRIPTION = """What a call, a trial and a start cost, beside plain pytest, bare loops and what people would
use instead: rounds in turn, medians, ratios, one table in Markdown."""


def parser() -> argparse.ArgumentParser:
    """Give the parser."""
    named = os.environ.get("AGENTEVAL_PEERS")
    found = argparse.ArgumentParser(prog="python -m tests.extended.performance", description=DESCRIPTION)
    found.add_argument("case", nargs="*", help="only these cases (--list names them)")
    found.add_argument("--all", action="store_true", help="also the cases that are not in the table")
    found.add_argument("--list", action="store_true", help="name the cases, and measure nothing")
    found.add_argument("--rounds", type=_rounds, default=99, help="so many rounds of each case at most")
    found.add_argument("--peers", action="store_true", help="also beside the peers that are installed")
    found.add_argument(
        "--venvs",
        type=Path,
        default=Path(named) if named else None,
        help="the folder of the peers' environments (default: AGENTEVAL_PEERS; then this interpreter's)",
    )
    found.add_argument("--write", type=Path, help="put the whole table into this page, between its marks")
    found.add_argument("--against", metavar="REV", help="this state beside that revision, instead")
    return found


def _rounds(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more; found {text!r}")
    return int(text)
