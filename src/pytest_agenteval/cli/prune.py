"""``agenteval runs --prune``: what may go of stored runs, and with ``--yes`` its removal."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from pytest_agenteval.cli.options import count
from pytest_agenteval.cli.output import print_lines
from pytest_agenteval.processes.held_files import HeldFile
from pytest_agenteval.store.pruning import Pruning, left_behind, plan_pruning, remove_run
from pytest_agenteval.store.runs import read_header_or_name, read_json
from pytest_agenteval.tasks.file_names import holds_baseline
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine, format_moment, pluralize

YOUNG_DAYS, NEWEST = 14, 20
UNITS = ("B", "kB", "MB", "GB", "TB")


def add_prune_options(parser: argparse.ArgumentParser) -> None:
    """Declare what says which runs may go."""
    add = parser.add_argument_group("removing old runs").add_argument
    add("--prune", action="store_true", help="say which runs may go: old, not named, no baseline, not referred to, not going on")  # fmt: skip  # noqa: E501
    add("--yes", action="store_true", help="with --prune: remove them")
    add("--keep-days", type=count, default=YOUNG_DAYS, metavar="N", help=f"keep runs of the last N days (default: {YOUNG_DAYS})")  # fmt: skip  # noqa: E501
    add("--keep-newest", type=count, default=NEWEST, metavar="N", help=f"keep the newest N runs (default: {NEWEST})")  # fmt: skip  # noqa: E501


def prune(args: argparse.Namespace) -> int:
    """Say what may go and why the rest stays; remove it where that was said."""
    if args.json:
        raise UsageMistake("--prune has no document: leave out --json")
    root = Path(args.results)
    plan = plan_pruning(
        root,
        young=timedelta(days=args.keep_days),
        newest=args.keep_newest,
        blessed=set(_blessed(Path.cwd())),
        is_held=_is_held,
    )
    print_lines(map(StyledLine, _lines(plan, root)))
    if not plan.removable:
        return 0
    if not args.yes:
        print("Nothing was removed: add --yes to remove them.")
        return 0
    return _remove(plan, root)


def _remove(plan: Pruning, root: Path) -> int:
    failed = 0
    for folder in plan.removable:
        held = _held_file(folder)
        try:
            if not held.claim(0.0):  # since a moment ago
                print(f"{folder.name}: kept: going on", file=sys.stderr)
                continue
            remove_run(folder)
        except OSError as refused:
            failed += 1
            print(f"{folder.name}: cannot be removed ({refused.strerror})", file=sys.stderr)
        finally:
            held.release()
    print(f"Removed {pluralize(len(plan.removable) - failed, 'run')} from {root}.")
    return 1 if failed else 0


def _held_file(folder: Path) -> HeldFile:
    from pytest_agenteval.session.held_runs import HELD  # brings pytest, which other lists do without

    return HeldFile(folder / HELD)


def _is_held(folder: Path) -> bool:
    """Whether a pytest is at work on a run; nothing is changed by asking."""
    held = _held_file(folder)
    is_free = held.claim(0.0)
    held.release()
    return not is_free


def _blessed(below: Path) -> Iterator[str]:
    """Name the runs that the baselines below a folder were made of."""
    for folder, folders, files in os.walk(below):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        for path in (Path(folder, name) for name in files if name.endswith(".json")):
            if holds_baseline(path):
                try:
                    head = read_json(path)
                except ValueError:  # a merge conflict, perhaps: what it names is not known
                    raise UsageMistake(f"{path}: a baseline that cannot be read; no run is removed") from None
                runs = head.get("runs")
                names = (head.get("run"), *(runs if isinstance(runs, list) else ()))
                yield from (name for name in names if isinstance(name, str))


def _lines(plan: Pruning, root: Path) -> Iterator[str]:
    stored = len(plan.removable) + len(plan.kept)
    if plan.removable:
        yield f"{len(plan.removable)} of {pluralize(stored, 'run')} in {root} may go, {_bytes(plan.size)}:"
        widest = max(len(folder.name) for folder in plan.removable)
        for folder, size in plan.removable.items():
            when = format_moment(read_header_or_name(folder)[0].started_at)
            yield f"  {folder.name:{widest}}  {when}  {_bytes(size):>8}"
    else:
        yield f"none of {pluralize(stored, 'run')} in {root} may go"
    reasons = Counter("referred to" if why.startswith("referred") else why for why in plan.kept.values())
    if reasons:
        yield "kept: " + ", ".join(f"{number} {why}" for why, number in reasons.items())
    for path in left_behind(root):
        yield f"left by a removal that was interrupted, and no run: {path}"


def _bytes(size: float) -> str:
    unit = 0
    while size >= 1000 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if unit == 0 or size >= 10 else f"{size:.1f} {UNITS[unit]}"
