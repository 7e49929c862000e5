"""Options that several verbs have, in the same words."""

from __future__ import annotations

import argparse
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
