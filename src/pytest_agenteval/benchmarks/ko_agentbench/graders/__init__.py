"""Graders after the Korean tool-calling benchmark's metrics.

Each has a ``mode``. ``upstream`` counts as the benchmark's code does, faults included, so that figures can be
laid beside its own. ``default`` counts what it documents. Here stands which graders a level has, by names
and labels: all that registering them needs. A module of graders is imported when one is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Members = tuple[tuple[str, str], ...]

COMMON: Members = (
    ("ko_success", "SR"),
    ("ko_valid_calls", "EPR_CVR"),
    ("ko_repeat_share", "pass@k share"),
    ("ko_response_rate", "RRR"),
)
OWN: Mapping[str, Members] = MappingProxyType(
    {
        "L1": (
            ("ko_tool_acc", "ToolAcc"),
            ("ko_arg_acc", "ArgAcc"),
            ("ko_call_em", "CallEM"),
            ("ko_resp_ok", "RespOK"),
        ),
        "L2": (("ko_select_acc", "SelectAcc"),),
        "L3": (
            ("ko_fsm", "FSM"),
            ("ko_psm", "PSM"),
            ("ko_delta_steps", "ΔSteps_norm"),
            ("ko_prov_acc", "ProvAcc"),
        ),
        "L4": (("ko_coverage", "Coverage"), ("ko_source_epr", "SourceEPR")),
        "L5": (("ko_adaptive_routing", "AdaptiveRoutingScore"), ("ko_fallback_sr", "FallbackSR")),
        "L6": (
            ("ko_reuse_rate", "ReuseRate"),
            ("ko_redundant_calls", "RedundantCallRate"),
            ("ko_eff_score", "EffScore"),
        ),
        "L7": (("ko_context_retention", "ContextRetention"), ("ko_ref_recall", "RefRecall")),
    }
)
"""The metrics that a level has beside the common ones."""

LEVELS: tuple[str, ...] = tuple(OWN)

# The names and labels of each group's graders, by the group's name, in the order of reports.
GROUPS: Mapping[str, Members] = MappingProxyType({f"ko_{name}": (*COMMON, *own) for name, own in OWN.items()})

_PLACES: Mapping[str, str] = {
    "ko_success": "common_metrics:KoSuccess",
    "ko_valid_calls": "common_metrics:KoValidCalls",
    "ko_repeat_share": "common_metrics:KoRepeatShare",
    "ko_response_rate": "common_metrics:KoResponseRate",
    "ko_tool_acc": "tool_calls:KoToolAcc",
    "ko_arg_acc": "tool_calls:KoArgAcc",
    "ko_call_em": "tool_calls:KoCallEm",
    "ko_resp_ok": "tool_calls:KoRespOk",
    "ko_select_acc": "tool_calls:KoSelectAcc",
    "ko_fsm": "tool_calls:KoFsm",
    "ko_psm": "tool_calls:KoPsm",
    "ko_delta_steps": "tool_calls:KoDeltaSteps",
    "ko_prov_acc": "provenance:KoProvAcc",
    "ko_coverage": "provenance:KoCoverage",
    "ko_source_epr": "provenance:KoSourceEpr",
    "ko_adaptive_routing": "efficiency:KoAdaptiveRouting",
    "ko_fallback_sr": "efficiency:KoFallbackSr",
    "ko_reuse_rate": "efficiency:KoReuseRate",
    "ko_redundant_calls": "efficiency:KoRedundantCalls",
    "ko_eff_score": "efficiency:KoEffScore",
    "ko_context_retention": "judging:KoContextRetention",
    "ko_ref_recall": "judging:KoRefRecall",
}
# Where each grader is below this package, by its name: registering it needs no import.
GRADERS: Mapping[str, str] = MappingProxyType(
    {name: f"benchmarks.ko_agentbench.graders.{place}" for name, place in _PLACES.items()}
)
