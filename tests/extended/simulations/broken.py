"""Whether as many tasks break by chance as the line of broken tasks says."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from pytest_agenteval.compare.scoring.aggregates import expected_broken, is_broken
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.rows import Row
from tests.extended.simulations.score_model import compared, drawn_suite

COMPARISONS, PARTS = 6_000, 6
SHAPES = ((41, 3, 3), (41, 3, 5), (41, 5, 3), (91, 4, 4))


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give by how much expected and broken tasks differ over comparisons of an agent with itself.

    A trial passes with a score of 1. The goal, 20 %, is the project's; broken tasks are counted, so that the
    figure's own error is about one in the root of their number.
    """
    comparisons = max(50, round(COMPARISONS * scale / PARTS))
    for shape in SHAPES:
        parts = in_parallel(broken_by_chance, [(*shape, comparisons, seed + at) for at in range(PARTS)])
        broken = sum(broken for broken, _, _ in parts)
        expected = sum(expected for _, expected, _ in parts)
        with_any = sum(with_any for _, _, with_any in parts) / comparisons / PARTS
        tasks, old, new = shape
        repetitions = str(old) if old == new else f"{old} and {new}"
        note = f"{broken} broken, {expected:.1f} expected; {with_any:.0%} of comparisons name one"
        off = abs(expected / max(broken, 1) - 1)
        yield Row(
            f"{tasks}x{repetitions}, expected / broken - 1", off, "<=", 0.2, max(broken, 1) ** -0.5, note
        )
    twice = in_parallel(broken_by_chance, [(41, 2, 2, comparisons, seed)])
    yield Row("41x2, broken tasks named", twice[0][0], "<=", 0)


def broken_by_chance(tasks: int, old: int, new: int, comparisons: int, seed: int) -> tuple[int, float, int]:
    """Count broken tasks, expected ones, and comparisons with any broken task."""
    random = Random(f"broken {tasks} {old} {new} {seed}")
    broken, expected, with_any = 0, 0.0, 0
    for _ in range(comparisons):
        suite = drawn_suite(tasks, random)
        pairs = [
            ([score == 1 for score in before], [score == 1 for score in after])
            for before, after in compared(suite, suite, old, new, random)
        ]
        here = sum(is_broken(*pair) for pair in pairs)
        broken, expected, with_any = broken + here, expected + expected_broken(pairs), with_any + (here > 0)
    return broken, expected, with_any
