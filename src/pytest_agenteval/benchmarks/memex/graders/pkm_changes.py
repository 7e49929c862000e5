"""What a trial did to the knowledge base: files before and after, and what is new in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval.benchmarks.memex.graders.pkm_paths import below_root
from pytest_agenteval.benchmarks.memex.graders.unreadable import Unreadable
from pytest_agenteval.records.evidence import Evidence, FileText, Tree, TreeDiff


def files_below(tree: Tree) -> dict[str, FileText]:
    """Give the files of the knowledge base, by their paths in it."""
    found = ((below_root(path), file) for path, file in tree.files.items())
    return {path: file for path, file in found if path is not None}


def changed_below(evidence: Evidence) -> TreeDiff:
    """Give what came, changed and went in the knowledge base, by the paths in it."""
    changes = evidence.diff
    return TreeDiff(_below(changes.created), _below(changes.modified), _below(changes.deleted))


def _below(paths: Sequence[str]) -> tuple[str, ...]:
    found = map(below_root, paths)
    return tuple(path for path in found if path is not None)


def enriched_below(evidence: Evidence) -> list[str]:
    """Give the files of the knowledge base that came or changed and hold something new, sorted."""
    before, after, changes = (
        files_below(evidence.before),
        files_below(evidence.after),
        changed_below(evidence),
    )
    paths = sorted((*changes.created, *changes.modified))
    return [path for path in paths if holds_something_new(before.get(path), after[path])]


def holds_something_new(before: FileText | None, after: FileText) -> bool:
    """Whether a changed file holds a word that it did not hold as often before.

    White space, an order of words and what was taken out are nothing new; nor is a link. Of a file that is no
    text any change counts.
    """
    if after.why == "link":
        return False
    if after.text is None or (before is not None and before.text is None):
        return after.size > 0
    was, now = (before.text or "" if before else "").split(), after.text.split()
    return "".join(was) != "".join(now) and bool(Counter(now) - Counter(was))


def end_texts(evidence: Evidence) -> Mapping[str, str]:
    """Give the texts of the knowledge base at the end, as Memex's harness does in the state.

    Where the state has none, they are those of the workspace. Raises Unreadable for what is no map of texts.
    """
    given = evidence.state.get("file_contents")
    if given is None:
        return {path: file.text or "" for path, file in files_below(evidence.after).items()}
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise Unreadable("file_contents in the agent's state", "a map of texts", given)
    return given


def times(mark: str, text: str | None) -> int:
    """Count how often a mark stands in a text by itself: ``…#ts_1`` does not stand in ``…#ts_12``."""
    start = r"(?<![0-9A-Za-z_])" if _is_word(mark[:1]) else ""
    end = r"(?![0-9A-Za-z_])" if _is_word(mark[-1:]) else ""
    return len(re.findall(start + re.escape(mark) + end, text or ""))


def _is_word(letter: str) -> bool:
    return letter == "_" or (letter.isascii() and letter.isalnum())


def missing_requirements(state: Mapping[str, Any]) -> Sequence[Any]:
    """Take the list of what is missing out of the state; none is empty, anything but a list Unreadable."""
    value = state.get("missing_requirements")
    if value is not None and not isinstance(value, list | tuple):
        raise Unreadable("missing_requirements in the agent's state", "a list", value)
    return value or ()
