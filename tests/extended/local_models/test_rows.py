"""Tokens are chosen as each row's own settings say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from pytest_agenteval.chat.local.generation import GenerationRequest, Prompt, Sampling
from pytest_agenteval.chat.local.transformers_model import BatchRow, TokenChooser

CHANCES = (0.5, 0.3, 0.15, 0.05)
DRAWS = 4000


def _chosen(sampling: list[Sampling], told: int = 0) -> list[int]:
    rows = []
    for seed, own in enumerate(sampling):
        generator = torch.Generator().manual_seed(seed)
        request = GenerationRequest(Prompt((told,), ""), own, 1)
        rows.append(BatchRow(request, own, generator, 1, 2, frozenset(), str))
    ids = torch.tensor([[3, told]] * len(rows))  # the 3 is what stands left of a shorter prompt
    logits = torch.tensor([CHANCES] * len(rows)).log()
    scores: Any = TokenChooser(rows, torch, "cpu")(ids, logits)
    assert ((scores == 0).sum(-1) == 1).all()
    assert (scores.sum(-1) == float("-inf")).all()
    return [int(place) for place in scores.argmax(-1)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, CHANCES),
        ({"temperature": 0.5}, (0.68, 0.25, 0.06, 0.01)),
        ({"top_k": 2}, (0.625, 0.375, 0, 0)),
        ({"top_p": 0.7}, (0.625, 0.375, 0, 0)),
        ({"top_p": 0.01}, (1, 0, 0, 0)),
        ({"top_p": 1.0}, CHANCES),
        ({"min_p": 0.2}, (0.526, 0.316, 0.158, 0)),
        ({"temperature": 0.0}, (1, 0, 0, 0)),
        ({"temperature": 0.0, "repetition_penalty": 4.0}, (0, 1, 0, 0)),
    ],
)
def test_tokens_come_as_often_as_chances_say(settings: dict[str, Any], expected: tuple[float, ...]) -> None:
    """Within what chance allows in so many draws; of what is cut off, never."""
    counts = Counter(_chosen([Sampling(**{"temperature": 1.0, **settings})] * DRAWS))
    assert [counts[place] / DRAWS for place in range(4)] == pytest.approx(expected, abs=0.03)
    assert all(counts[place] == 0 for place, chance in enumerate(expected) if chance == 0)


def test_each_row_keeps_to_its_own() -> None:
    """Greedy, cut and free rows side by side are what they are alone."""
    kinds = [Sampling(temperature=0.0), Sampling(temperature=1.0, top_k=1), Sampling(temperature=1.0)]
    mixed = [kinds[number % 3] for number in range(300)]
    together = _chosen(mixed)
    assert set(together[0::3]) == set(together[1::3]) == {0}
    assert len(set(together[2::3])) == 4
    free = _chosen([kinds[2]] * 300)
    assert together[2::3] == free[2::3]
