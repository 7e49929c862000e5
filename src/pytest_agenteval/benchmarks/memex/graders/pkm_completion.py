"""Did the entry come to its proper end: filed with an insight, or skipped and left alone?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from msgspec.structs import replace

from pytest_agenteval import Check, Evidence, Grade
from pytest_agenteval.benchmarks.memex.graders.card import share_grade
from pytest_agenteval.benchmarks.memex.graders.end_state import (
    State,
    UnreadableState,
    contrast_text,
    merge_states,
    undecided_where_unreadable,
    upstream_state,
)
from pytest_agenteval.benchmarks.memex.graders.pkm_changes import (
    changed_below,
    files_below,
    missing_requirements,
)
from pytest_agenteval.benchmarks.memex.graders.pkm_facts import other_entries_filed
from pytest_agenteval.benchmarks.memex.graders.pkm_preservation import file_survivals
from pytest_agenteval.benchmarks.memex.graders.settings import Mode, check_mode
from pytest_agenteval.benchmarks.memex.graders.workspace_state import (
    files_newly_holding,
    insights_given,
    pkm_state,
)

ExpectedPath = Literal["persist", "skip", "either"]

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class PkmCompletion:
    """Did the entry come to the end that the task expects? The score is the share of its checks.

    ``upstream`` asks five questions of the agent's end state and takes either ending. ``default`` takes the
    ending named by ``expected_path``, else by the task's ``expected_outcome`` (``skipped_pkm``,
    ``wrote_para``), else either, and looks for itself. ``persist``: the entry's id newly stands in a file
    of the knowledge base, an insight with words in it was given for this very entry, it was not skipped, and
    the end state is complete; no other entry of the day was filed or given an insight, and no line that was
    there is gone. ``skip``: it was skipped, no file of the knowledge base was touched, no insight was given,
    and the end state is complete. ``either`` asks the one or the other, by what the agent did: who skipped is
    asked about a skip, who did not about filing. Of an agent that tells no end state the workspace tells it:
    the insight on the entry's card, the id in a file; an entry of which nothing came was skipped. What only
    one of them tells is none.
    """

    expected_path: ExpectedPath | None = None
    expected_outcome: Mapping[str, Any] | None = None
    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    version: ClassVar[str] = "3"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)
        if self.expected_path not in (None, *get_args(ExpectedPath)):
            raise ValueError(f"expected_path must be persist, skip or either, not {self.expected_path!r}")
        if self.mode == "upstream" and self.expected_path not in (None, "either"):
            raise ValueError("expected_path: mode upstream takes either ending; take expected_path out")

    @undecided_where_unreadable("pkm_completion")
    def grade(self, evidence: Evidence) -> Grade:
        """Ask about the expected ending."""
        if self.mode == "upstream":
            state = upstream_state(evidence, pkm_state)
            return share_grade("pkm_completion", _upstream_checks(state, tuple(missing_requirements(state))))
        state = merge_states(evidence.state, pkm_state(evidence))
        path = self._path()
        skips = path == "skip" or (path == "either" and _is_true(state, "skipped_pkm"))
        checks = _skip_checks(evidence, state) if skips else _filing_checks(evidence, state)
        grade = share_grade("pkm_completion", (*checks, _completeness_check(state)))
        return replace(grade, details={"expected_path": path, "ending": _ending(state)})

    def _path(self) -> ExpectedPath:
        """Give the ending that is expected: as the task says, else as its expected outcome does."""
        outcome = self.expected_outcome or {}
        if self.expected_path is not None:
            return self.expected_path
        if outcome.get("skipped_pkm") is True:
            return "skip"
        return "persist" if outcome.get("wrote_para") is True else "either"


def _upstream_checks(state: Mapping[str, Any], missing: tuple[Any, ...]) -> tuple[Check, ...]:
    skipped, changed = state.get("skipped_pkm") is True, state.get("successful_pkm_mutation") is True
    wrote, insight = state.get("wrote_para") is True, state.get("updated_insight") is True
    return (
        _check("the entry is dealt with", state.get("is_complete") is True),
        _check("the entry was filed, or skipped", wrote or skipped),
        _check("an insight was given, or the entry was skipped", insight or skipped),
        _check("nothing was changed where the entry was skipped", not skipped or not changed),
        Check("nothing is missing", not missing, "nothing", ", ".join(map(str, missing)) or "nothing"),
    )


def _filing_checks(evidence: Evidence, state: State) -> tuple[Check, ...]:
    fact, filed, has_insight = _fact_id(evidence), state.get("wrote_para"), state.get("updated_insight")
    files, insights = files_newly_holding(fact, evidence), insights_given(evidence)
    return (
        Check(
            "a file of the knowledge base newly holds the entry's id",
            # An agent that says nothing of it is believed by its files; one that says no is not.
            bool(files) and filed is not False,
            fact,
            _contrast_finding(filed, bool(files), _short_list(files, "no file")),
        ),
        Check(
            "an insight was given for the entry",
            fact in insights and has_insight is not False,
            fact,
            _contrast_finding(has_insight, fact in insights, _short_list(insights, "no insight")),
        ),
        _check("the entry was not skipped", not _is_true(state, "skipped_pkm")),
        *_failed_check("no other entry of the day was dealt with", _other_facts(fact, insights, evidence)),
        *_failed_check("no line that was there is gone", _files_that_lost_words(evidence)),
    )


def _other_facts(fact: str, insights: list[str], evidence: Evidence) -> list[str]:
    return list(dict.fromkeys((*other_entries_filed(evidence), *(id for id in insights if id != fact))))


def _files_that_lost_words(evidence: Evidence) -> list[str]:
    survivals = file_survivals(files_below(evidence.before), files_below(evidence.after))
    return [path for path, survival in survivals.items() if survival.loses_words]


def _failed_check(claim: str, offenders: list[str]) -> tuple[Check, ...]:
    """Give a failed check where something was found that must not be; what was left alone earns nothing."""
    return (Check(claim, False, "none", _short_list(offenders, "none")),) if offenders else ()


def _contrast_finding(stated: Any, on_disk: bool, finding: str) -> str:
    """Write what was found, and what the agent says of it where that is something else."""
    return (
        finding
        if stated is None or stated is on_disk
        else contrast_text("yes" if stated is True else "no", finding)
    )


def _skip_checks(evidence: Evidence, state: State) -> tuple[Check, ...]:
    changes, insights = changed_below(evidence), insights_given(evidence)
    touched = [*changes.created, *changes.modified, *changes.deleted]
    called = "changes that left no trace" if _is_true(state, "successful_pkm_mutation") else "no change"
    insight_ids = insights or (["an insight"] if _is_true(state, "updated_insight") else [])
    return (
        _check("the entry was skipped", _is_true(state, "skipped_pkm")),
        Check(
            "no file of the knowledge base was touched",
            not touched and not _is_true(state, "successful_pkm_mutation"),
            "no change",
            _short_list(touched, called),
        ),
        Check("no insight was given", not insight_ids, "no insight", _short_list(insight_ids, "no insight")),
    )


def _completeness_check(state: State) -> Check:
    complete, missing = state.get("is_complete") is True, missing_requirements(state)
    finding = ", ".join(map(str, missing)) or ("nothing" if complete else "an incomplete end state")
    return Check("nothing is missing", complete and not missing, "nothing", finding)


def _is_true(state: State, key: str) -> bool:
    """Whether the end state says so; only the truth value true counts."""
    return state.get(key) is True


def _ending(state: State) -> str:
    filed = _is_true(state, "wrote_para") or _is_true(state, "successful_pkm_mutation")
    if _is_true(state, "skipped_pkm"):
        return "both" if filed else "skipped"
    return "filed" if filed else "neither"


def _fact_id(evidence: Evidence) -> str:
    fact = evidence.task_input.get("fact_id")
    if not isinstance(fact, str) or not fact:
        raise UnreadableState("fact_id in the task's input", "the entry's id", fact)
    return fact


def _short_list(names: list[str], none: str) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more or none


def _check(claim: str, passed: bool) -> Check:
    return Check(claim, passed, "yes", "yes" if passed else "no")
