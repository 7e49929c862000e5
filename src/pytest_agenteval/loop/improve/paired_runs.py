"""Old and new tried at the same time on one split: two trees in, a comparison out.

Where only prompts differ that the agent reads by name, both sides are tried in one run. Else there are two
runs at once, one in each tree, each of which imports its own code.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.pairing import BASE, compared_run
from pytest_agenteval.records.record import NOTHING, FrozenValue, Record
from pytest_agenteval.session.inner_pytest import (
    BESIDE,
    NO_REPORTS,
    QUIET,
    InnerPytest,
    inner_environment,
    last_line,
    start_pytest,
)
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.tasks.file_names import PYTEST_SETTINGS
from pytest_agenteval.text.errors import AgentEvalError

# The variant with the new prompts, if both sides are run together. The variant with the old ones has no name.
NEW_VARIANT = "new"

# The width of pytest's output. A narrower one cuts off error messages.
OUTPUT_COLUMNS = "300"
# Exit statuses of a pytest that ran everything. Misses and failures are among its results.
COMPLETED = (0, 1)
# A trial that is repeated until it passes says nothing about a prompt, and its repetitions are not in the
# plan.
NO_RERUNS = ("-p", "no:rerunfailures")
# A problem in the file of a suite or task, as ``errors.Problem`` writes it.
_PROBLEM = re.compile(r"^(\S.*)\n  (expected: .*)\n  (found: .*)$", re.MULTILINE)
# Files that make a folder pytest's rootdir.
CONFIGURATION = (*PYTEST_SETTINGS, "setup.py")

_COLLECTED = re.compile(r"(?:^|\n)(\d+)(?:/\d+)? tests? collected")


def python_path(checkout: Path, tree: Path) -> str:
    """Give PYTHONPATH for a pytest that works in ``tree``, a checkout of the repository at ``checkout``.

    Places in the checkout are replaced by the same places in the tree, where the tree has them: sources that
    are installed editable, ``src`` folders, entries of the user's own PYTHONPATH. A virtual environment in
    the checkout is in no tree, and stays where it is.
    """
    own = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    mapped = (_place_in_tree(Path(entry).absolute(), checkout, tree) for entry in (*own, *_imported_from()))
    places = [str(place) for place in mapped if place is not None]
    # Entries elsewhere stay; one in the checkout that the tree lacks would import the old code.
    outside = [entry for entry in own if not Path(entry).absolute().is_relative_to(checkout)]
    return os.pathsep.join(dict.fromkeys([*places, *outside]))


def _imported_from() -> Iterator[str]:
    yield from filter(None, sys.path)
    for finder in sys.meta_path:
        # setuptools installs packages editable by a finder that knows where each of them lies.
        module = sys.modules.get(getattr(finder, "__module__", ""))
        mapping = getattr(module, "MAPPING", None)
        if isinstance(mapping, dict):
            yield from (str(Path(place).parent) for place in mapping.values())


def _place_in_tree(place: Path, checkout: Path, tree: Path) -> Path | None:
    real = Path(os.path.realpath(place))
    # As it is written, and with links followed: a checkout may be reached by either.
    for path, top in ((place, checkout), (real, Path(os.path.realpath(checkout)))):
        if path.is_relative_to(top) and (tree / path.relative_to(top)).is_dir():
            return tree / path.relative_to(top)
    return None


class RunFailed(AgentEvalError):
    """A pytest that could not try everything; the text has pytest's last line."""


class RunOrder(FrozenValue, frozen=True):
    """What is to be tried, and how.

    ``checkout`` is the user's, of which the trees are checkouts; ``folder``, in which pytest works, and the
    ``paths`` that are tried are from a tree's top. Runs lie in ``results``, and their names begin with
    ``name``; what pytest prints goes to a file of that name in ``outputs``. ``options`` are the user's.
    """

    checkout: Path
    folder: str
    paths: tuple[str, ...]
    results: Path
    name: str
    outputs: Path
    split: Literal["dev", "held_out"]
    repetitions: int
    options: tuple[str, ...] = ()


class Spent(Record, frozen=True):
    """What trials took, their judges too: ``tokens`` and ``usd`` add up what is known.

    The tokens of ``untold`` attempts are unknown, or a part of them, and the cost of ``unpriced`` ones.
    """

    trials: int = 0
    tokens: int = 0
    untold: int = 0
    usd: float = 0.0
    unpriced: int = 0

    def __add__(self, other: Spent) -> Spent:
        names = self.__struct_fields__
        return Spent(*(getattr(self, name) + getattr(other, name) for name in names))


class PairedRuns(FrozenValue, frozen=True):
    """Both sides beside each other, the part of a run that each of them is, and what they took."""

    comparison: RunComparison
    old: Run
    new: Run
    spent: Spent

    @property
    def runs(self) -> tuple[str, ...]:
        """The names of the runs: one, or old and new."""
        return tuple(dict.fromkeys((self.old.folder.name, self.new.folder.name)))

    @property
    def identical(self) -> bool:
        """Whether every trial scored on the new side as on the old one."""
        suites = self.comparison.suites
        return bool(suites) and all(task.old == task.new for suite in suites for task in suite.tasks)


def run_one(tree: Path, order: RunOrder) -> Run:
    """Try one tree; raises RunFailed where pytest could not."""
    (run,) = _run_all([(tree, order)])
    return run


def run_pair(old: Path, new: Path, order: RunOrder, prompts: Mapping[str, str] = NOTHING) -> PairedRuns:
    """Try two trees at the same time and compare them; raises RunFailed where pytest could not.

    ``prompts`` are the new texts by the names under which the agent reads them, where these are all that
    differs: then both sides are one run in the old tree. Old and new are repeated equally often.
    """
    if prompts:
        folder = order.outputs / f"prompts-{order.name}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for name, text in prompts.items():
                # Line ends as the texts have them: a conversion would be a change of the prompt.
                (folder / f"{name}.md").write_text(text, encoding="utf-8", newline="\n")
            options = (*order.options, f"--agent-prompt={NEW_VARIANT}={folder}")
            run = run_one(old, replace(order, options=options))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        side = compared_run(run)
        compared = compare_runs(side.with_variant(BASE), side.with_variant(NEW_VARIANT), compared="variant")
        return PairedRuns(compared, variant_of(run, ""), variant_of(run, NEW_VARIANT), spent_on(run))
    sides = ((old, "old"), (new, NEW_VARIANT))
    before, after = _run_all([(tree, replace(order, name=f"{order.name}-{side}")) for tree, side in sides])
    comparison = compare_runs(compared_run(before), compared_run(after))
    return PairedRuns(comparison, before, after, spent_on(before) + spent_on(after))


def variant_of(run: Run, variant: str) -> Run:
    """Give the part of a run that was tried with a variant; the empty name is that of the agent's own."""
    return Run(
        run.folder,
        replace(run.header, variants=tuple(name for name in run.header.variants if name == variant)),
        tuple(group for group in run.planned if group.variant == variant),
        tuple(entry for entry in run.entries if entry.key.variant == variant),
        tuple(begun for begun in run.begun if begun.key.variant == variant),
        run.odd,
    )


def spent_on(run: Run) -> Spent:
    """Add up what all trials of a run took, with attempts that were repeated."""
    total = Spent()
    for entry in run.entries:
        usages = (entry.usage, *entry.earlier, entry.judging, entry.simulating)
        prices = [usage.cost_usd for usage in usages]
        total += Spent(
            trials=entry.attempts,
            tokens=sum(usage.known_tokens for usage in usages),
            untold=sum(usage.tokens is None for usage in usages),
            usd=sum(usage.known_cost_usd for usage in usages),
            unpriced=prices.count(None),
        )
    return total


def _run_all(orders: Sequence[tuple[Path, RunOrder]]) -> list[Run]:
    """Start a pytest in each tree, and give their runs when all of them have ended."""
    names = []
    for _, order in orders:
        # A name that no run has: one that was interrupted keeps its own.
        free = (f"{order.name}-{number}" if number > 1 else order.name for number in range(1, 1000))
        names.append(next(each for each in free if not (order.results / each).exists()))
    with ExitStack() as started:
        running: list[InnerPytest] = []
        for (tree, order), name in zip(orders, names, strict=True):
            # Each knows the other's name, for either may be the first to count looks.
            beside = next((each for each in names if each != name), "")
            folder = tree / order.folder
            folder.mkdir(parents=True, exist_ok=True)  # where the user stands may be unknown to git
            order.outputs.mkdir(parents=True, exist_ok=True)
            inner = InnerPytest(
                [*NO_RERUNS, *_arguments(tree, order)],
                folder=folder,
                results=order.results,
                name=name,
                output=order.outputs / f"{name}.txt",
                variables={
                    "PYTHONPATH": python_path(order.checkout, tree),
                    # _pytest_complaint quotes a line of the output, which must not be cut off.
                    "COLUMNS": OUTPUT_COLUMNS,
                    BESIDE: beside,
                },
            )
            # Where one cannot start, or Ctrl-C comes, none goes on alone.
            started.callback(inner.end)
            running.append(inner)
        # Where one fails, the others are ended: nothing can be compared any more.
        return [_finished_run(inner) for inner in running]


def _arguments(tree: Path, order: RunOrder) -> list[str]:
    own = [
        f"--agent-split={order.split}",
        f"--repetitions={order.repetitions}",
        *_rootdir_options(tree, order),
    ]
    # As seen from the folder: names of folders above may mean something to pytest.
    return [*own, *order.options, *(os.path.relpath(path, order.folder) for path in order.paths)]


def _rootdir_options(tree: Path, order: RunOrder) -> Iterator[str]:
    """Give the options that keep pytest's root in the tree, where pytest would look for one further up."""
    places = [tree / path for path in order.paths]
    above = {parent for place in places for parent in (place, *place.parents) if parent.is_relative_to(tree)}
    if not any((place / name).is_file() for place in above for name in CONFIGURATION):
        # The folder that pytest works in: pytest would take a dollar sign in a whole path for a variable.
        yield "--rootdir=."
        # A configuration further up would widen it.
        yield "--confcutdir=."


def _finished_run(inner: InnerPytest) -> Run:
    try:
        status = inner.wait()
    except AgentEvalError as failed:
        raise RunFailed(f"pytest left no run: {_pytest_complaint(inner.output)}") from failed
    if status not in COMPLETED:
        raise RunFailed(f"pytest ended with exit status {status}: {_pytest_complaint(inner.output)}")
    run = load_run(inner.run)
    if run.never_ended:
        raise RunFailed(f"{run.name}: {run.never_ended} ({os.path.relpath(inner.output)})")
    return run


def _pytest_complaint(output: Path) -> str:
    """Say what is wrong, and which file holds all of pytest's output."""
    # For a broken task file pytest's last lines name only the file; what is wrong stands further up.
    problem = _PROBLEM.search(output.read_text(encoding="utf-8", errors="replace"))
    complaint = "; ".join(problem.groups()) if problem else last_line(output)
    return f"{complaint} (all of it: {os.path.relpath(output)})"


def count_collected(tree: Path, order: RunOrder) -> int:
    """Give how many trials one side of an order has; raises RunFailed where pytest cannot collect them."""
    only = ("--agent-results=none", "--collect-only")
    collecting = start_pytest(
        [*QUIET, *NO_REPORTS, *only, *_arguments(tree, order)],
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
