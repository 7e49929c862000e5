"""Paths of the knowledge base, as Memex compares them and as we do."""

from __future__ import annotations

ROOT = "PKM/"


def below_root(path: str) -> str | None:
    """Give a path of the workspace as the knowledge base knows it, None when it lies outside."""
    return path.removeprefix(ROOT) if path.startswith(ROOT) else None


def headed(path: str) -> str:
    """Write a path as Memex does: one leading slash goes, the top folder's first letter is upper case."""
    path = path.removeprefix("/")
    return path[:1].upper() + path[1:] if "/" in path[1:] else path


def cleaned(path: str) -> str:
    """Write a path without slashes at its ends, doubled slashes and single dots."""
    return "/".join(step for step in path.split("/") if step not in ("", "."))


def placed(path: str) -> str:
    """Write a path cleaned, its top folder's first letter in upper case."""
    return headed(cleaned(path))


def lies_in(path: str, bucket: str) -> bool:
    """Whether a placed path belongs to a bucket, whole names compared.

    ``Areas/Health/`` is a folder and all below it. ``Inbox``, without a slash at its end, may also be a file:
    ``Inbox``, ``Inbox.md``.
    """
    folder = headed(f"{cleaned(bucket)}/")
    if path.startswith(folder):
        return True
    return not bucket.endswith("/") and folder in (f"{path}/", f"{_without_ending(path)}/")


def _without_ending(path: str) -> str:
    above, slash, name = path.rpartition("/")
    return above + slash + (name.rpartition(".")[0] or name)
