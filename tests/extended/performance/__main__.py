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

from tests.extended.performance import against, machine, page, peers
from tests.extended.performance.bench import ROOT, Bench
from tests.extended.performance.cases import ASKED, CASES, COUNTED, QUICK
from tests.extended.performance.measuring import ProgramFailed
from tests.extended.performance.options import parser
from tests.extended.performance.rows import Row


def main() -> None:
    """Do what the arguments say."""
    given = parser().parse_args()
    if given.list:
        named = (f"{name} (only where it is named, or with --all)" for name in ASKED)
        print("\n".join([*CASES, *COUNTED, *named]))
        return
    if unknown := set(given.case) - {*CASES, *COUNTED, *ASKED}:
        raise SystemExit(
            f"no such case: {', '.join(sorted(unknown))}; there are {', '.join([*CASES, *COUNTED, *ASKED])}"
        )
    if given.write and (given.case or given.against):
        raise SystemExit("--write puts the whole table into a page: name no case with it, and no --against")
    with tempfile.TemporaryDirectory() as place:
        try:
            text = _against(given, Path(place)) if given.against else _table(given, Path(place))
        except ProgramFailed as failed:
            raise SystemExit(str(failed)) from None
    print(text)
    if given.write:
        page.write(given.write, text)


def _table(given: argparse.Namespace, place: Path) -> str:
    found = peers.find(given.venvs) if given.peers else None
    told = machine.told(found)
    rows: list[Row] = []
    try:
        rows.extend(_rows(given, Bench(place, found)))
    except (ProgramFailed, SystemExit):
        print(f"{told}\n\n{page.table(rows)}")  # what was measured until then
        raise
    return f"{told}\n\n{page.table(rows)}"


def _rows(given: argparse.Namespace, bench: Bench) -> Iterator[Row]:
    for name in given.case or [*CASES, *COUNTED, *(ASKED if given.all else ())]:
        _begin(name)
        counted = {**COUNTED, **ASKED}
        rows = CASES[name].measure(bench, given.rounds) if name in CASES else counted[name](bench)
        for row in rows:
            print("    " + " | ".join(filter(None, row.cells())), file=sys.stderr, flush=True)
            yield row


def _against(given: argparse.Namespace, place: Path) -> str:
    if apart := set(given.case) - CASES.keys():
        raise SystemExit(f"--against has no case {', '.join(sorted(apart))}; it has {', '.join(CASES)}")
    told = machine.told(None)
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
