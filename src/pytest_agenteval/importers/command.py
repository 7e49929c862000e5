"""What the commands of importers have in common: arguments, the project they write, what was in the way.

They write YAML that people read: any script stands unescaped, keys in our order, nothing said by reference.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

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


WIDTH = 110
PYTEST_INI = "[pytest]\ntestpaths = evals\n"
CONFIGS = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)


def write_yaml(path: Path, content: Mapping[str, Any]) -> Path:
    """Write one file, and the folders above it; give its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml_text(content), encoding="utf-8", newline="\n")
    return path


def yaml_text(content: Mapping[str, Any]) -> str:
    """Write a map as YAML."""
    import yaml

    return yaml.dump(content, Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=WIDTH)


@cache
def _dumper() -> Any:
    """Give PyYAML's safe dumper without anchors, which are hard to read and to edit."""
    import yaml

    base: Any = yaml.SafeDumper
    return type("PlainDumper", (base,), {"ignore_aliases": lambda *_: True})


def make_project(folder: Path) -> None:
    """Write a pytest.ini where the folder has no settings for pytest yet."""
    if not any((folder / name).exists() for name in CONFIGS):
        (folder / "pytest.ini").write_text(PYTEST_INI, encoding="utf-8", newline="\n")
