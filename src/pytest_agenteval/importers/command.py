"""What the commands of importers have in common: where to write, how graders count, what was in the way."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_agenteval.errors import UsageMistake

MOST_NAMED = 3


def add_common_arguments(parser: argparse.ArgumentParser, target: str) -> None:
    """Declare ``--to``, whose help is ``target``, ``--mode`` and ``--force``."""
    parser.add_argument("--to", required=True, metavar="DIR", help=target)
    parser.add_argument(
        "--mode",
        choices=("default", "upstream"),
        default="default",
        help="how the tasks' graders count: what the benchmark documents, or what its code does",
    )
    parser.add_argument("--force", action="store_true", help="write over what was imported there before")


@contextmanager
def writing() -> Iterator[None]:
    """Say in one sentence what cannot be written, or that not all of it was."""
    try:
        yield
    except KeyboardInterrupt:
        print("agenteval: the import is not whole: --force makes it anew", file=sys.stderr)
        raise
    except OSError as refused:
        raise UsageMistake(f"{refused.filename}: {refused.strerror}") from None


def leftover_lines(others: Sequence[Path]) -> Iterator[str]:
    """Name files in the target that are not of this import, the first few of them."""
    if others:
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        yield f"not of this import, left as they are: {', '.join(map(str, others[:MOST_NAMED]))}{more}"
