"""Which paths a pattern means: the one reading of globs for tools and graders."""

from __future__ import annotations

from collections.abc import Iterable


def matches(pattern: str, path: str) -> bool:
    """Whether a path, relative and with ``/``, fits a pattern.

    ``*`` and ``?`` stay within one folder, ``**`` goes through any number of them; ``[abc]`` and
    ``{one,two}`` mean what they mean in a shell. Case counts, and names that start with a dot are like any
    other.
    """
    return bool(select(pattern, (path,)))


def select(pattern: str, paths: Iterable[str]) -> list[str]:
    """Give the paths that fit a pattern, in the order in which they came; see ``matches``."""
    from wcmatch import glob

    flags = glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX | glob.CASE
    try:
        found: list[str] = glob.globfilter(list(paths), pattern, flags=flags)
    except glob.PatternLimitException:  # braces within braces, thousands of them: nobody means that
        return []
    return found
