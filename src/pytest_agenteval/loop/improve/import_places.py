"""Where Python looks for the code of a worktree: as it does for the checkout's, in the tree's own folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path


def python_path(checkout: Path, tree: Path) -> str:
    """Give PYTHONPATH for a pytest that works in ``tree``, a worktree of what ``checkout`` is checked out of.

    What lies in the checkout is looked for in the tree, if it is there: sources that are installed editable,
    ``src`` folders, entries of the user's own PYTHONPATH. An environment in the checkout is in no tree, and
    stays where it is.
    """
    own = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    mapped = (_in_tree(Path(entry).absolute(), checkout, tree) for entry in (*own, *_imported_from()))
    places = [str(place) for place in mapped if place is not None]
    outside = [entry for entry in own if not Path(entry).absolute().is_relative_to(checkout)]
    return os.pathsep.join(dict.fromkeys([*places, *outside]))


def _imported_from() -> Iterator[str]:
    """Give the places that this process imports from, which the other one is started like."""
    yield from filter(None, sys.path)
    for finder in sys.meta_path:
        # setuptools installs packages editable by a finder that knows where each of them lies.
        module = sys.modules.get(getattr(finder, "__module__", ""))
        mapping = getattr(module, "MAPPING", None)
        if isinstance(mapping, dict):
            yield from (str(Path(place).parent) for place in mapping.values())


def _in_tree(place: Path, checkout: Path, tree: Path) -> Path | None:
    real = Path(os.path.realpath(place))
    for path, top in ((place, checkout), (real, Path(os.path.realpath(checkout)))):
        if path.is_relative_to(top) and (tree / path.relative_to(top)).is_dir():
            return tree / path.relative_to(top)
    return None
