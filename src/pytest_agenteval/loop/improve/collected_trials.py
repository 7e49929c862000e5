"""How many trials an order has, counted by pytest before any of them is begun."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from pytest_agenteval.loop.improve.import_places import python_path
from pytest_agenteval.loop.improve.paired_runs import RunFailed, RunOrder, paths_from_folder, rootdir
from pytest_agenteval.session.inner_pytest import NO_REPORTS, QUIET, inner_environment, start_pytest

_COLLECTED = re.compile(r"(?:^|\n)(\d+)(?:/\d+)? tests? collected")


def count_collected(tree: Path, order: RunOrder) -> int:
    """Give how many trials one side of an order has; raises RunFailed where pytest cannot collect them."""
    own = [f"--agent-split={order.split}", f"--repetitions={order.repetitions}", *rootdir(tree, order)]
    paths = paths_from_folder(order)
    only = ("--agent-results=none", "--collect-only")
    collecting = start_pytest(
        [*QUIET, *NO_REPORTS, *only, *own, *order.options, *paths],
        output=subprocess.PIPE,
        folder=tree / order.folder,
        environment={**inner_environment(), "PYTHONPATH": python_path(order.checkout, tree)},
    )
    with collecting:
        text = collecting.communicate()[0].decode("utf-8", "replace")
    counts = _COLLECTED.findall(text)
    if not counts:
        last = (text.strip().splitlines() or ["it printed nothing"])[-1]
        raise RunFailed(f"pytest could not collect the tasks: {last}")
    return int(counts[-1])
