"""The metrics that every level has and that never need a judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    Computed,
    Found,
    Metric,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.payloads import valid
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoTrace


def valid_calls(task: KoTask, trace: KoTrace) -> Found:
    """Give the share of the agent's calls that worked; an error in the place of a result is one.

    Failures of the tool that the task breaks are not the agent's: they are left out.
    """
    meant = [call for call in trace.own if valid(call) or call.tool != task.injected_tool]
    if not meant:
        return not_applicable("no call was made that could have worked")
    good = sum(map(valid, meant))
    return Found(share(good, len(meant)), f"{good} of {len(meant)} calls worked")


def valid_calls_upstream(task: KoTask, trace: KoTrace) -> Found:
    """Give the share of calls that are marked as successful and have no error; 0 without calls."""
    good, all_of = sum(call.worked for call in trace.own), len(trace.own)
    details = {"total_calls": all_of, "valid_calls": good}
    return Found(good / all_of if all_of else 0.0, f"{good} of {all_of} calls are valid", details)


def responded(task: KoTask, trace: KoTrace) -> Found:
    """Tell whether the agent said anything in the end."""
    said = bool(trace.answer)
    return Found(float(said), "there is an answer" if said else "there is no answer")


def responded_upstream(task: KoTask, trace: KoTrace) -> Found:
    """Give the technical flag: an empty answer counts as one."""
    told = "is" if trace.success else "is not"
    return Found(float(bool(trace.success)), f"the run {told} marked as successful")


@dataclass(frozen=True)
class KoValidCalls(Computed):
    """EPR_CVR: which share of the agent's calls worked?"""

    name: ClassVar[str] = "ko_valid_calls"
    metric: ClassVar[Metric] = Metric("EPR_CVR", valid_calls, valid_calls_upstream)


@dataclass(frozen=True)
class KoResponseRate(Computed):
    """RRR: was there an answer?"""

    name: ClassVar[str] = "ko_response_rate"
    threshold: ClassVar[float] = 1.0
    metric: ClassVar[Metric] = Metric("RRR", responded, responded_upstream)
