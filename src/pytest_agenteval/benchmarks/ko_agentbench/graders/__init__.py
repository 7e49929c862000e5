"""Graders after the Korean tool-calling benchmark's metrics.

Each has a ``mode``. ``upstream`` counts as the benchmark's code does, faults included, so that figures can be
laid beside its own. ``default`` counts what it documents. Here stands which graders a level has, by names
and labels: all that registering them needs. A module of graders is imported when one is first used.
"""

from __future__ import annotations

from collections.abc import Mapping

Metrics = tuple[tuple[str, str, str], ...]
"""Of each grader its name, the label of its grades, and where its class is below this folder."""

COMMON: Metrics = (
    ("ko_success", "SR", "common_metrics:KoSuccess"),
    ("ko_valid_calls", "EPR_CVR", "common_metrics:KoValidCalls"),
    ("ko_repeat_share", "pass@k share", "common_metrics:KoRepeatShare"),
    ("ko_response_rate", "RRR", "common_metrics:KoResponseRate"),
)
OWN: Mapping[str, Metrics] = {
    "L1": (
        ("ko_tool_acc", "ToolAcc", "tool_calls:KoToolAcc"),
        ("ko_arg_acc", "ArgAcc", "tool_calls:KoArgAcc"),
        ("ko_call_em", "CallEM", "tool_calls:KoCallEm"),
        ("ko_resp_ok", "RespOK", "tool_calls:KoRespOk"),
    ),
    "L2": (("ko_select_acc", "SelectAcc", "tool_calls:KoSelectAcc"),),
    "L3": (
        ("ko_fsm", "FSM", "tool_calls:KoFsm"),
        ("ko_psm", "PSM", "tool_calls:KoPsm"),
        ("ko_delta_steps", "ΔSteps_norm", "tool_calls:KoDeltaSteps"),
        ("ko_prov_acc", "ProvAcc", "provenance:KoProvAcc"),
    ),
    "L4": (
        ("ko_coverage", "Coverage", "provenance:KoCoverage"),
        ("ko_source_epr", "SourceEPR", "provenance:KoSourceEpr"),
    ),
    "L5": (
        ("ko_adaptive_routing", "AdaptiveRoutingScore", "efficiency:KoAdaptiveRouting"),
        ("ko_fallback_sr", "FallbackSR", "efficiency:KoFallbackSr"),
    ),
    "L6": (
        ("ko_reuse_rate", "ReuseRate", "efficiency:KoReuseRate"),
        ("ko_redundant_calls", "RedundantCallRate", "efficiency:KoRedundantCalls"),
        ("ko_eff_score", "EffScore", "efficiency:KoEffScore"),
    ),
    "L7": (
        ("ko_context_retention", "ContextRetention", "judging:KoContextRetention"),
        ("ko_ref_recall", "RefRecall", "judging:KoRefRecall"),
    ),
}
"""The metrics that a level has beside the common ones."""

LEVELS: tuple[str, ...] = tuple(OWN)

# The names and labels of each group's graders, by the group's name, in the order of reports.
GROUPS: Mapping[str, tuple[tuple[str, str], ...]] = {
    f"ko_{level}": tuple((name, label) for name, label, _ in (*COMMON, *own)) for level, own in OWN.items()
}

# Where each grader is below this package, by its name: registering it needs no import.
GRADERS: Mapping[str, str] = {
    name: f"benchmarks.ko_agentbench.graders.{place}"
    for metrics in (COMMON, *OWN.values())
    for name, _, place in metrics
}
