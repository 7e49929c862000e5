"""Options that several verbs have, in the same words."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path

ROOT = ".agenteval/runs"
RESULTS = f"the folder that keeps runs (default: {ROOT}, here or above in the repository)"
RUN = "RUN is a run's folder, its name or how that begins, latest, or MODEL@YYYYMMDD."
"""What may stand for a run, below a verb's options."""

OF_MODEL = "this model's trials only"
OF_VARIANT = "this prompt variant's trials only"
AGAIN = "; may be given again"


def add_results_option(parser: argparse.ArgumentParser) -> None:
    """Declare the folder in which runs are looked up."""
    parser.add_argument("--results", default=nearest_root(), metavar="DIR", help=RESULTS)


def find_named_run(results: Path, name: str) -> Path:
    """Give the folder of the run that is meant, and name the others of the day where it has several."""
    from pytest_agenteval.store.runs import find_run

    folder = find_run(results, name)
    tell_others_of_day(results, name)
    return folder


def tell_others_of_day(results: Path, name: str) -> None:
    """Say on the standard error which run MODEL@YYYYMMDD is, where the model has others of that day."""
    from pytest_agenteval.store.runs import MOST_LISTED, runs_of_day

    newest, *others = runs_of_day(results, name) or [""]
    if others:
        more = f" and {len(others) - MOST_LISTED} more" if len(others) > MOST_LISTED else ""
        listed = ", ".join(others[:MOST_LISTED])
        print(f"{name} is {newest}, the newest of that day; also there: {listed}{more}", file=sys.stderr)


def nearest_root() -> str:
    """Give the folder of runs that is nearest above in the repository, else the one at its top.

    pytest keeps runs at its own root, from whichever folder below it is started. Where there is no git,
    it is the one here.
    """
    here = Path.cwd()
    above = (here, *here.parents)
    top = next((place for place in above if (place / ".git").exists()), here)
    inside = above[: above.index(top) + 1]
    holding = next((place for place in inside if (place / ROOT).is_dir()), top)
    return os.path.relpath(holding / ROOT, here)


def count(text: str) -> int:
    """Read a whole number, 1 or more, as the ``type`` of an option."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more; found {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Read a number of seconds above 0, as the ``type`` of an option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0; found {text!r}")
    return value
