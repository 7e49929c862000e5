"""What a trial did to the knowledge base: files before and after, what is new in them, how paths compare."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval import Evidence, FileText, Tree, TreeDiff
from pytest_agenteval.benchmarks.memex.graders.end_state import UnreadableState

ROOT = "PKM/"


def below_root(path: str) -> str | None:
    """Give a path of the workspace as the knowledge base knows it, None when it lies outside."""
    return path.removeprefix(ROOT) if path.startswith(ROOT) else None


def upstream_path(path: str) -> str:
    """Write a path as Memex does: one leading slash goes, the top folder's first letter is upper case."""
    path = path.removeprefix("/")
    return path[:1].upper() + path[1:] if "/" in path[1:] else path


def clean_path(path: str) -> str:
    """Write a path without slashes at its ends, doubled slashes and single dots."""
    return "/".join(step for step in path.split("/") if step not in ("", "."))


def pkm_path(path: str) -> str:
    """Write a path cleaned, its top folder's first letter in upper case."""
    return upstream_path(clean_path(path))


def lies_in(path: str, bucket: str) -> bool:
    """Whether a placed path belongs to a bucket, whole names compared.

    ``Areas/Health/`` is a folder and all below it. ``Inbox``, without a slash at its end, may also be a file:
    ``Inbox``, ``Inbox.md``.
    """
    folder = upstream_path(f"{clean_path(bucket)}/")
    if path.startswith(folder):
        return True
    return not bucket.endswith("/") and folder in (f"{path}/", f"{_without_ending(path)}/")


def _without_ending(path: str) -> str:
    above, slash, name = path.rpartition("/")
    return above + slash + (name.rpartition(".")[0] or name)


def files_below(tree: Tree) -> dict[str, FileText]:
    """Give the files of the knowledge base, by their paths in it."""
    by_inner_path = ((below_root(path), file) for path, file in tree.files.items())
    return {path: file for path, file in by_inner_path if path is not None}


def changed_below(evidence: Evidence) -> TreeDiff:
    """Give what came, changed and went in the knowledge base, by the paths in it."""
    changes = evidence.diff
    return TreeDiff(_below(changes.created), _below(changes.modified), _below(changes.deleted))


def _below(paths: Sequence[str]) -> tuple[str, ...]:
    inner_paths = map(below_root, paths)
    return tuple(path for path in inner_paths if path is not None)


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
    # Without any space: a text that was wrapped anew, or had its words joined, says what it said.
    return "".join(was) != "".join(now) and bool(Counter(now) - Counter(was))


def end_texts(evidence: Evidence) -> Mapping[str, str]:
    """Give the texts of the knowledge base at the end, as Memex's harness does in the state.

    Where the state has none, they are those of the workspace. Raises Unreadable for what is no map of texts.
    """
    texts = evidence.state.get("file_contents")
    if texts is None:
        return {path: file.text or "" for path, file in files_below(evidence.after).items()}
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        raise UnreadableState("file_contents in the agent's state", "a map of texts", texts)
    return texts


def count_marker(mark: str, text: str | None) -> int:
    """Count how often a mark stands in a text by itself: ``…#ts_1`` does not stand in ``…#ts_12``."""
    start = r"(?<![0-9A-Za-z_])" if _is_word(mark[:1]) else ""
    end = r"(?![0-9A-Za-z_])" if _is_word(mark[-1:]) else ""
    return len(re.findall(start + re.escape(mark) + end, text or ""))


def _is_word(letter: str) -> bool:
    # Letters of other scripts may follow an id at once: Korean and Chinese leave no space there.
    return letter == "_" or (letter.isascii() and letter.isalnum())


def missing_requirements(state: Mapping[str, Any]) -> Sequence[Any]:
    """Take the list of what is missing out of the state; none is empty, anything but a list Unreadable."""
    value = state.get("missing_requirements")
    if value is not None and not isinstance(value, list | tuple):
        raise UnreadableState("missing_requirements in the agent's state", "a list", value)
    return value or ()
