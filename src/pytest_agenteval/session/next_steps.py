"""What to type after a run: a comparison of its variants or with the run before, and what went worst."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import HEADER, LATEST, ROOT, RunHeader, read_header
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import UsageMistake

MOST_LOOKED_AT = 20
"""Runs before this one of which the headers are read."""

SECOND = len("20261121-093015")

MOST_READ = 5
"""Runs with its suites and models that are read whole, to see whether they can be compared."""


def next_steps(
    folder: Path, here: Path, has_misses: bool = False, baseline: Path | None = None
) -> Iterator[str]:
    """Give commands about the run that is kept in ``folder``, to be typed in the folder ``here``.

    It is compared with its ``baseline``; without one its two variants are, or it is with the run before.
    """
    runs = folder.parent.relative_to(here) if folder.is_relative_to(here) else folder.parent
    where = "" if runs == ROOT else f" --results {shlex.quote(str(runs))}"
    if baseline is None and (variants := _two_variants(folder)):
        yield f"agenteval compare {LATEST} --variants {shlex.quote(variants)}{where}"
    elif earlier := _run_before(folder) if baseline is None else _name_of(baseline, folder, here):
        yield f"agenteval compare {shlex.quote(earlier)} {LATEST}{where}"
    yield f"agenteval show {LATEST}:worst{where}" if has_misses else f"agenteval report {LATEST} -v{where}"


BUDGETS = ("--agent-max-cost", "--agent-max-tokens")


def going_on(arguments: Iterable[str], option: str, *, budget_spent: bool = False) -> Iterator[str]:
    """Give the arguments of a run that was cut short, with the option that goes on with it.

    Without what would end it again at the first failure, and without ``--agent-reuse``: what it has taken
    over stands in the run. A budget that was spent is twice what it was: with the same nothing would begin.
    """
    left = deque(_with_twice_the_budget(arguments) if budget_spent else arguments)
    while left:
        argument = left.popleft()
        name, has_value, _ = argument.partition("=")
        if name in ("-x", "--exitfirst"):
            continue
        if name in ("--maxfail", "--agent-reuse", "--agent-resume"):
            if not has_value and left and not left[0].startswith("-"):
                left.popleft()
            continue
        yield argument
    yield option


def _with_twice_the_budget(arguments: Iterable[str]) -> Iterator[str]:
    left = deque(arguments)
    while left:
        name, has_value, value = left.popleft().partition("=")
        if name in BUDGETS and not has_value and left:
            value = left.popleft()
        yield f"{name}={_doubled(value)}" if name in BUDGETS else f"{name}{has_value}{value}"


def _doubled(amount: str) -> str:
    return f"{2 * float(amount.strip().removeprefix('$')):.12g}"


def _name_of(baseline: Path, folder: Path, here: Path) -> str:
    """Give what is typed for a baseline: a run's name among those beside this one, else its path."""
    if baseline.is_dir() and baseline.resolve().parent == folder.resolve().parent:
        return baseline.resolve().name
    return baseline.relative_to(here).as_posix() if baseline.is_relative_to(here) else str(baseline)


def _two_variants(folder: Path) -> str:
    """Give the two variants that somebody named, or ``base`` and the only one, as OLD,NEW; else nothing."""
    from pytest_agenteval.compare.sides import BASE

    header = _header(folder)
    named = [name for name in header.variants if name] if header else []
    if header and len(named) == 1 and "" in header.variants:
        named.insert(0, BASE)
    return ",".join(named) if len(named) == 2 and _is_comparable(folder, folder, named) else ""


def _run_before(folder: Path) -> str:
    """Give the name of the newest run before this one that can be compared with it; empty without one."""
    own = _header(folder)
    if own is None:
        return ""
    like = [
        (header.started_at, other)
        for other in _others(folder)
        if (header := _header(other)) and _likeness(header) == _likeness(own)
    ]
    before = [other for started, other in sorted(like, reverse=True) if started < own.started_at]
    return next((other.name for other in before[:MOST_READ] if _is_comparable(other, folder)), "")


def _others(folder: Path) -> list[Path]:
    """Give the runs beside this one, the last ones by name, which begins with the second they began in."""
    # Which of two runs of one second was first, only their headers say.
    folders = sorted((path.parent for path in folder.parent.glob(f"*/{HEADER}")), reverse=True)
    others = [other for other in folders if other.name not in (folder.name, LATEST)]
    return [other for other in others if other.name[:SECOND] <= folder.name[:SECOND]][:MOST_LOOKED_AT]


def _header(folder: Path) -> RunHeader | None:
    """Give the header of a run that has ended."""
    try:
        header = read_header(folder)
    except UsageMistake:
        return None
    return header if header.ended_at else None


def _likeness(header: RunHeader) -> tuple[frozenset[str], ...]:
    """Give what two runs have in common that are worth comparing."""
    suites, models = (frozenset(part.name for part in parts) for parts in (header.suites, header.models))
    return suites, models, frozenset(header.variants)


def _is_comparable(old: Path, new: Path, variants: Sequence[str] = ()) -> bool:
    """Tell whether `agenteval compare` would refuse nothing, and have scores to compare."""
    from pytest_agenteval.compare.pairing import pair_suites
    from pytest_agenteval.compare.sides import side_of

    try:
        before, after = side_of(load_run(old)), side_of(load_run(new))
        if variants:
            before, after = before.with_variant(variants[0]), after.with_variant(variants[1])
        suites = pair_suites(before, after, "variant" if variants else "")
    except UsageMistake:
        return False
    pairs = [pair for suite in suites for pair in suite.pairs]
    is_scored = any(_has_score(pair.old) and _has_score(pair.new) for pair in pairs)
    return is_scored and not any(suite.obstacles for suite in suites)


def _has_score(entries: Iterable[JournalEntry]) -> bool:
    return any(entry.score is not None for entry in entries)
