"""How often anything at all is called better or worse where nothing, or nothing on average, has changed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from pytest_agenteval.compare.findings import suite_findings
from tests.simulations.parallel import in_parallel
from tests.simulations.rows import Row, share_row
from tests.simulations.score_model import drawn_suite, moved
from tests.simulations.shapes import EQUAL, UNEQUAL, Shape

NULLS, SEEDS = 2_000, 5


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give the worst of five seeds: any false verdict of a suite and its buckets, and of the suite alone.

    Nulls: the same agent twice (for the family), and a change that moves 3 tasks of 10 by nothing on average
    (for the suite alone: buckets speak of their own tasks, which did move).
    """
    nulls = max(40, round(NULLS * scale))
    for shape in (*EQUAL, *UNEQUAL):
        same = in_parallel(false_verdicts, [(shape, False, nulls, seed + at) for at in range(SEEDS)])
        hetero = in_parallel(false_verdicts, [(shape, True, nulls, seed + at) for at in range(SEEDS)])
        anywhere, suites = [either for _, either in same], [suite for suite, _ in hetero]
        alone = sum(suite for suite, _ in same) / nulls / SEEDS
        note = f"mean {sum(anywhere) / nulls / SEEDS:.4f}, suite alone {alone:.4f}"
        yield share_row(f"any false verdict, {shape}", max(anywhere), nulls, "<=", 0.062, note)
        note = f"mean {sum(suites) / nulls / SEEDS:.4f}"
        yield share_row(
            f"false verdict of the suite, {shape}, tasks move", max(suites), nulls, "<=", 0.035, note
        )


def false_verdicts(shape: Shape, tasks_move: bool, nulls: int, seed: int) -> tuple[int, int]:
    """Count comparisons with a verdict of the suite, and with any verdict."""
    random = Random(f"family {shape} {tasks_move} {seed}")
    suites = anywhere = 0
    for _ in range(nulls):
        before = drawn_suite(shape.tasks, random)
        after = moved(before, random) if tasks_move else before
        findings = suite_findings(shape.compare(before, after, random))
        suites += findings.suite.direction != 0
        anywhere += any(each.direction for each in (findings.suite, *findings.buckets.values()))
    return suites, anywhere
