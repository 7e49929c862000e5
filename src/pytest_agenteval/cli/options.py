"""Options that several verbs have, in the same words."""

from __future__ import annotations

import argparse
import math
import os
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
