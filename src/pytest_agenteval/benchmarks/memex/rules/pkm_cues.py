"""What an entry is about, going by its words, and what the journal and its tools show of the knowledge base.

The rules are meant to be plausible and no more. Do not tune them to tasks: what they miss is what makes a
first run worth looking at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

_NUMBERED = re.compile(r"^ *([0-9]+)\t(.*)$")


def files_of(tree: str) -> list[str]:
    """Give the paths of all Markdown files of a tree drawn by indenting, in its order."""
    open_folders: list[tuple[int, str]] = []
    found = []
    for line in tree.splitlines():
        name = line.strip()
        depth = len(line) - len(line.lstrip(" "))
        while open_folders and open_folders[-1][0] >= depth:
            open_folders.pop()
        if name.endswith("/"):
            open_folders.append((depth, name.strip("/")))
        elif name.endswith(".md"):
            found.append("/" + "/".join([*(folder for _, folder in open_folders if folder), name]))
    return found


def paths_in(text: str) -> list[str]:
    """Give the Markdown files that a list of paths names, each on a line of its own."""
    return [line.strip() for line in text.splitlines() if line.strip().endswith(".md")]


def lines_read(text: str) -> list[str]:
    """Give a file's lines out of numbered ones; what is not numbered is not the file's."""
    found = (_NUMBERED.match(line) for line in text.split("\n"))
    return [line[2] for line in found if line is not None]


def unique_end(lines: list[str]) -> str | None:
    """Give the shortest run of whole last lines that stands only once in the file; None: there is none."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    whole = "\n".join(lines)
    for first in range(len(lines) - 1, -1, -1):
        end = "\n".join(lines[first:])
        if whole.find(end) == len(whole) - len(end):  # not count(), which leaves out what overlaps
            return end
    return None


_OPT_OUTS = re.compile(
    "|".join(
        (
            r"\b(?:do not|don['’]?t|no need to|please never) (?:save|store|keep|file|remember|record)\b",
            r"\boff the record\b",
            r"不要(?:保存|记|存)|别(?:保存|记|存)|不用(?:保存|记)",
            r"(?:저장|기록|기억|보관)하지\s?(?:마|말)",
            r"(?:保存|記録|メモ)しないで|(?:覚え|残さ)ないで",
        )
    ),
    re.IGNORECASE,
)
_FOLDERS: tuple[tuple[str, str], ...] = (
    ("Projects", r"\b(?:project|deadline|launch|milestone|draft|prototype|release|plan)"),
    ("Areas", r"\b(?:health|doctor|sleep|habit|every (?:day|morning|night|week)|money|family|team|manager)"),
)
_OTHERWISE = "Resources"
_TOO_COMMON = frozenset(
    (
        *("projects", "areas", "resources", "archives", "inbox", "notes"),
        *("this", "that", "what", "with", "from", "before", "behind", "about", "after", "into", "over"),
    )
)


def opt_out(text: str) -> str | None:
    """Give the sentence that asks not to keep the entry, None where none does."""
    return next((sentence for sentence in _sentences(text) if _OPT_OUTS.search(sentence)), None)


def is_trivial(text: str) -> bool:
    """Whether there is no letter in the entry."""
    return not any(letter.isalpha() for letter in text)


def best_file(text: str, paths: Iterable[str]) -> str | None:
    """Give the file whose path shares most with the entry, its own name counting twice; None: no word."""
    best, most = None, 0
    for path in paths:
        here = _shared(text, path)
        if here > most:
            best, most = path, here
    return best


def telling_words(text: str) -> list[str]:
    """Give the three longest words, which may be found inside files."""
    return sorted(dict.fromkeys(re.findall(r"\w{5,}", text)), key=len, reverse=True)[:3]


def new_file(text: str) -> str:
    """Name a new file by the entry's first words, in the folder that a keyword speaks for."""
    folder = next((folder for folder, cue in _FOLDERS if re.search(cue, text, re.IGNORECASE)), _OTHERWISE)
    words = re.findall(r"\w+", text)[:4]
    return f"/{folder}/{' '.join(words)[:40].strip()}.md"


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?。！？])\s*|\n", text) if part.strip()]


def _shared(text: str, path: str) -> int:
    """Count the words of a path that the entry has, too."""
    *folders, _ = PurePosixPath(path).parts
    return 2 * _hits(text, PurePosixPath(path).stem) + _hits(text, " ".join(folders))


def _hits(text: str, name: str) -> int:
    words = {word for word in re.findall(r"\w+", name.casefold()) if word not in _TOO_COMMON}
    return sum(_stands_in(word, text.casefold()) for word in words)


def _stands_in(word: str, text: str) -> bool:
    """Whether a word of four letters or more, an ending left out, begins one of the text's."""
    if not word.isascii():  # most likely written without spaces, where a word may begin anywhere
        return len(word) > 1 and word in text
    stem = word[:-1] if len(word) > 4 else word
    return len(word) > 3 and re.search(rf"\b{re.escape(stem)}", text) is not None
