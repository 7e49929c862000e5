"""Is the entry dealt with? Told from the calls that were made, and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pytest_agenteval import ToolCall
from pytest_agenteval.benchmarks.memex.pkm_agent.specs import EDIT, INSIGHT, MOVE, REMOVE, SKIP, WRITE
from pytest_agenteval.records.record import FrozenValue

_WRITING = frozenset((WRITE, EDIT))
_CHANGING = _WRITING | {MOVE, REMOVE}


class PkmEndState(FrozenValue, frozen=True):
    """What is known of one entry's way into the knowledge base.

    It is complete when it was filed and has its insight, or when it was skipped and no file was touched.
    ``wrote_para`` says that a file was written with the entry's fact id in the call; ``skip_evidence`` is
    what the agent gave as its reason for skipping, None where it did not skip.
    """

    wrote_para: bool = False
    updated_insight: bool = False
    skipped_pkm: bool = False
    successful_pkm_mutation: bool = False
    skip_evidence: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the entry has come to one of its two proper ends."""
        filed = self.wrote_para and self.updated_insight
        return filed or (self.skipped_pkm and not self.successful_pkm_mutation)

    @property
    def missing(self) -> list[str]:
        """The names of what is missing for either end; of a skip after a change, only that."""
        if self.is_complete:
            return []
        if self.skipped_pkm:
            return ["skip_without_successful_pkm_mutation"]
        met = {
            "wrote_para_with_fact_id": self.wrote_para,
            "updated_timeline_card_insight": self.updated_insight,
            "skip_pkm_organization": False,
        }
        return [name for name, is_met in met.items() if not is_met]

    def state(self) -> dict[str, Any]:
        """Give the end state that graders look at, as JSON values."""
        return {
            "is_complete": self.is_complete,
            "wrote_para": self.wrote_para,
            "updated_insight": self.updated_insight,
            "skipped_pkm": self.skipped_pkm,
            "successful_pkm_mutation": self.successful_pkm_mutation,
            "missing_requirements": self.missing,
            "skip_evidence": self.skip_evidence,
        }


def pkm_end_state(fact_id: str, calls: Iterable[ToolCall]) -> PkmEndState:
    """Gather what the calls tell; a call that failed tells nothing, and whose insight it was is not asked."""
    done = [call for call in calls if call.error is None]
    skips = [call for call in done if call.tool == SKIP]
    return PkmEndState(
        wrote_para=any(call.tool in _WRITING and _mentions(call, fact_id) for call in done),
        updated_insight=any(call.tool == INSIGHT for call in done),
        skipped_pkm=bool(skips),
        successful_pkm_mutation=any(call.tool in _CHANGING for call in done),
        skip_evidence=str(skips[-1].args.get("evidence", "")) if skips else None,
    )


def _mentions(call: ToolCall, fact_id: str) -> bool:
    """Whether the fact id stands anywhere in the arguments, as they were sent."""
    # Not the canonical writer, which refuses NaN: what a model sends is looked at as it is.
    sent = call.raw_args or json.dumps(dict(call.args), ensure_ascii=False, default=str)
    return bool(fact_id) and fact_id in sent
