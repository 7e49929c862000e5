"""``python -m tests.extended.performance [CASE …] [--peers] [--write PAGE] [--against REV]``: a table.

The table goes to standard output, what each round took to standard error. The exit status is 0 whatever
the figures are.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.extended.performance import against, page, peers
from tests.extended.performance.bench import ROOT, Bench
from tests.extended.performance.cases import CASES, COUNTED, QUICK
from tests.extended.performance.measuring import ProgramFailed
from tests.extended.performance.rows import Row

DESCRIPTION = """What a call, a trial and a start cost, beside plain pytest, bare loops and what people would
use instead: rounds in turn, medians, ratios, one table in Markdown."""


def parser() -> argparse.ArgumentParser:
    """Give the parser."""
    named = os.environ.get("AGENTEVAL_PEERS")
    found = argparse.ArgumentParser(prog="python -m tests.extended.performance", description=DESCRIPTION)
    found.add_argument("case", nargs="*", help="only these cases (--list names them)")
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


def main() -> None:
    """Do what the arguments say."""
    given = parser().parse_args()
    if given.list:
        print("\n".join([*CASES, *COUNTED]))
        return
    if unknown := set(given.case) - {*CASES, *COUNTED}:
        raise SystemExit(
            f"no such case: {', '.join(sorted(unknown))}; there are {', '.join([*CASES, *COUNTED])}"
        )
    if given.write and (given.case or given.against):
        raise SystemExit("--write puts the whole table into a page: name no case with it, and no --against")
    with tempfile.TemporaryDirectory() as place:
        try:
            if given.against:
                print(_against(given, Path(place)))
            else:
                _measure(given, Path(place))
        except ProgramFailed as failed:
            raise SystemExit(str(failed)) from None


def _measure(given: argparse.Namespace, place: Path) -> None:
    """Print the table of the cases, and write that of the page."""
    found = peers.find(given.venvs) if given.peers else None
    told = page.told(found)
    rows: list[Row] = []
    try:
        rows.extend(_rows(given, Bench(place, found)))
    finally:
        print(f"{told}\n\n{page.table(rows)}")  # also what was measured until a program failed
    if given.write:
        page.write(given.write, f"{told}\n\n{page.page_table(rows)}")


def _rows(given: argparse.Namespace, bench: Bench) -> Iterator[Row]:
    for name in given.case or [*CASES, *COUNTED]:
        _begin(name)
        for row in CASES[name].measure(bench, given.rounds) if name in CASES else COUNTED[name](bench):
            print("    " + " | ".join(filter(None, row.cells())), file=sys.stderr, flush=True)
            yield row


def _against(given: argparse.Namespace, place: Path) -> str:
    if apart := set(given.case) - CASES.keys():
        raise SystemExit(f"--against has no case {', '.join(sorted(apart))}; it has {', '.join(CASES)}")
    told = page.told(None)
    before = Bench(place / "before", source=against.earlier(given.against, place / "earlier"))
    now = Bench(place / "now", source=ROOT / "src")
    found = []
    for name in given.case or QUICK:
        _begin(name)
        found += against.changes(CASES[name], before, now, given.rounds)
    for each in filter(lambda each: each.dearer, found):
        _warn(f"{each.program}: {each.over('cpu'):.2f} x the CPU, {each.over('peak'):.2f} x the memory")
    return f"Beside {given.against}. {told}\n\n{against.table(found)}"


def _begin(name: str) -> None:
    print(name, file=sys.stderr, flush=True)


def _warn(text: str) -> None:
    if os.environ.get("GITHUB_ACTIONS"):
        print(f"::warning title=performance::{text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
