"""Workspaces that are to be kept, on their way home from where an agent worked in them."""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path

from pytest_agenteval.processes.tree_removal import remove_tree


def pack_workspace(folder: Path) -> bytes:
    """Give a workspace as an archive, and remove it; nothing for one that cannot be packed."""
    archive = io.BytesIO()
    try:
        with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as packed:
            packed.add(folder, ".")
    except (OSError, RecursionError, ValueError):  # removed, thousands of folders deep, changed meanwhile
        return b""
    finally:
        remove_tree(folder)
    return archive.getvalue()


def unpack_workspace(archive: bytes, parent: Path) -> Path:
    """Write a workspace into a folder of its own, but for links that lead out of it."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="agenteval-", dir=parent))
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
        packed.extractall(folder, filter=_inside)
    return folder


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:  # an agent may have made anything
        return None
