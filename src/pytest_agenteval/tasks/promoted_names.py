"""The file beside a suite's in which ``agenteval promote`` and ``demote`` keep the promoted names.

An author may list names in the suite's own file too, under ``regression``: those of both files count.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.tasks.documents import read_document
from pytest_agenteval.tasks.suite_spec import NOTHING_PROMOTED, Regression, Suite
from pytest_agenteval.tasks.validation import read_spec

# The underscore says that it holds no task.
PROMOTED_FILE = "_promoted.yaml"
_HEAD = "# Written by agenteval promote and demote: a miss of these buckets and tasks is a failure.\n"


def promoted_beside(suite_file: Path) -> Regression:
    """Read the promoted names beside a suite's file; raises ProblemsFound for a file with problems."""
    file = suite_file.with_name(PROMOTED_FILE)
    return read_spec(Regression, read_document(file)) if file.is_file() else NOTHING_PROMOTED


def with_promoted(suite: Suite, suite_file: Path) -> Suite:
    """Add the promoted names beside a suite's file to those of the file itself, which come first."""
    beside = promoted_beside(suite_file)
    if beside == NOTHING_PROMOTED:
        return suite
    return replace(suite, regression=joined(suite.regression, beside))


def joined(first: Regression, second: Regression) -> Regression:
    """Give the names of both, each once, in their order."""
    return Regression(
        buckets=tuple(dict.fromkeys((*first.buckets, *second.buckets))),
        tasks=tuple(dict.fromkeys((*first.tasks, *second.tasks))),
    )


def promoted_text(names: Regression) -> str:
    """Give the text of the file that promotes these names; empty where there are none."""
    import yaml

    lists = {key: list(names_of) for key in ("buckets", "tasks") if (names_of := getattr(names, key))}
    # Our reader takes a text in quotes for what it is, and YAML's own words are quoted by this one.
    return _HEAD + yaml.safe_dump(lists, allow_unicode=True, sort_keys=False, width=1_000) if lists else ""
