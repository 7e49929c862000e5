"""What a verb of ``agenteval`` writes for programs: one frozen value, from whose class its schema comes."""

from __future__ import annotations

from typing import Literal

from pytest_agenteval.records.record import FrozenValue


class Document(FrozenValue, frozen=True, kw_only=True):
    """What a verb writes with ``--json``: an object whose keys are the fields of its class, all of them.

    ``v`` counts what readers of an earlier document would trip over; what is only added leaves it as it is.
    The first paragraph of a class's docstring is what its schema says of it.
    """

    v: Literal[1] = 1
