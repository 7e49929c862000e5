"""The files that a task starts with: which of a call's values name one of them, or a new one beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

MOST_READ = 200_000
"""Bytes of a file up to which its text is looked at."""


class StartingTree:
    """The texts that a workspace starts with, by path; of a file that is no text it is empty.

    ``layers`` are folders, the later over the earlier; ``texts`` are written over them.
    """

    def __init__(self, layers: Sequence[str], texts: Mapping[str, str]) -> None:
        self.texts = {**_texts_of(tuple(map(str, layers))), **texts}

    def named_file(self, value: str) -> str | None:
        """Give the file that a value names, from whatever folder its paths start; None for none."""
        path = value.strip("/")
        return next((known for known in self.texts if known == path or known.endswith(f"/{path}")), None)

    def is_file_name(self, value: str) -> bool:
        """Whether a value names a file that is there, or a new one in a folder that is there."""
        path = value.strip("/")
        if not path or re.search(r"[\n*#?]|://", path):
            return False
        return self.named_file(value) is not None or self._is_new_file(path)

    def _is_new_file(self, path: str) -> bool:
        folder, slash, name = path.rpartition("/")
        return bool(slash and "." in name and any(f"/{folder}/" in f"/{known}" for known in self.texts))

    def other_file(self, value: str) -> str | None:
        """Give another file than this value names, as a value that names it; None where there is none.

        In the place of one that is there stands another of its kind, in that of a new one its name in another
        folder.
        """
        path, mark = self.named_file(value), "/" if value.startswith("/") else ""
        if path is None:
            return self._in_other_folder(value.strip("/"), mark)
        root = path.removesuffix(value.strip("/"))
        kind = path.rpartition(".")[2]
        others = (known for known in self.texts if known != path and known.startswith(root))
        other = next((known for known in others if known.rpartition(".")[2] == kind), None)
        return None if other is None else f"{mark}{other.removeprefix(root)}"

    def _in_other_folder(self, path: str, mark: str) -> str | None:
        folder, _, name = path.rpartition("/")
        inside = next(known for known in self.texts if f"/{folder}/" in f"/{known}")
        root = inside[: f"/{inside}".index(f"/{folder}/")]
        below = (known.removeprefix(root) for known in self.texts if known.startswith(root))
        others = sorted({known.rpartition("/")[0] for known in below} - {folder, ""})
        return f"{mark}{others[0]}/{name}" if others else None


@lru_cache(64)
def _texts_of(layers: tuple[str, ...]) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for layer in layers:
        for folder, folders, files in os.walk(layer):
            folders.sort()
            for name in sorted(files):
                path = Path(folder, name)
                texts[path.relative_to(layer).as_posix()] = _text(path)
    return texts


def _text(path: Path) -> str:
    try:
        return path.read_bytes()[:MOST_READ].decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
