"""Options that several verbs have, in the same words."""

from __future__ import annotations

import argparse

ROOT = ".agenteval/runs"
RESULTS = f"the folder that keeps runs (default: {ROOT})"
RUN = "RUN is a run's folder, its name or how that begins, latest, or MODEL@YYYYMMDD."
"""What may stand for a run, below a verb's options."""

OF_MODEL = "this model's trials only"
OF_VARIANT = "this prompt variant's trials only"
AGAIN = "; may be given again"


def add_results_option(parser: argparse.ArgumentParser) -> None:
    """Declare the folder in which runs are looked up."""
    parser.add_argument("--results", default=ROOT, metavar="DIR", help=RESULTS)
