"""Did the entry come to its proper end: filed with an insight, or skipped and left alone?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from pytest_agenteval.graders.memex.card import scored
from pytest_agenteval.graders.memex.pkm_changes import (
    changed_below,
    files_below,
    missing_requirements,
    times,
)
from pytest_agenteval.graders.memex.settings import Mode, check_mode
from pytest_agenteval.graders.memex.unreadable import Unreadable, undecided_where_unreadable
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade
from pytest_agenteval.records.outcome import Tree

ExpectedPath = Literal["persist", "skip", "either"]

INSIGHT = "update_timeline_card_insight"
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class PkmCompletion:
    """Did the entry come to the end that the task expects? The score is the share of its checks.

    ``upstream`` asks five questions of the agent's end state and takes either ending. ``default`` takes the
    ending named by ``expected_path`` and looks for itself. ``persist``: the entry's id newly stands in a file
    of the knowledge base, an insight was given for this very entry, it was not skipped, and the end state is
    complete. ``skip``: it was skipped, no file of the knowledge base was touched, no insight was given, and
    the end state is complete. ``either`` asks the one or the other, by what the agent did: who skipped is
    asked about a skip, who did not about filing.
    """

    expected_path: ExpectedPath = "either"
    mode: Mode = "default"

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)
        if self.expected_path not in get_args(ExpectedPath):
            raise ValueError(f"expected_path must be persist, skip or either, not {self.expected_path!r}")
        if self.mode == "upstream" and self.expected_path != "either":
            raise ValueError("expected_path: mode upstream takes either ending; take expected_path out")

    @undecided_where_unreadable("pkm_completion")
    def grade(self, evidence: Evidence) -> Grade:
        """Ask about the expected ending."""
        missing = tuple(missing_requirements(evidence.state))
        if self.mode == "upstream":
            return scored("pkm_completion", _upstream(evidence.state, missing))
        skips = self.expected_path == "skip" or (
            self.expected_path == "either" and _says(evidence, "skipped_pkm")
        )
        checks = _skipped(evidence) if skips else _persisted(evidence)
        grade = scored("pkm_completion", (*checks, _complete(evidence, missing)))
        return replace(grade, details={"expected_path": self.expected_path, "ending": _ending(evidence)})


def _upstream(state: Mapping[str, Any], missing: tuple[Any, ...]) -> tuple[Check, ...]:
    skipped, changed = state.get("skipped_pkm") is True, state.get("successful_pkm_mutation") is True
    wrote, insight = state.get("wrote_para") is True, state.get("updated_insight") is True
    return (
        _check("the entry is dealt with", state.get("is_complete") is True),
        _check("the entry was filed, or skipped", wrote or skipped),
        _check("an insight was given, or the entry was skipped", insight or skipped),
        _check("nothing was changed where the entry was skipped", not skipped or not changed),
        Check("nothing is missing", not missing, "nothing", ", ".join(map(str, missing)) or "nothing"),
    )


def _persisted(evidence: Evidence) -> tuple[Check, ...]:
    fact = _fact_id(evidence)
    files, insights = _newly_with(fact, evidence), _insights(evidence)
    return (
        Check(
            "a file of the knowledge base newly holds the entry's id",
            bool(files),
            fact,
            _some(files, "no file"),
        ),
        Check("an insight was given for the entry", fact in insights, fact, _some(insights, "no insight")),
        _check("the entry was not skipped", not _says(evidence, "skipped_pkm")),
    )


def _skipped(evidence: Evidence) -> tuple[Check, ...]:
    changes, insights = changed_below(evidence), _insights(evidence)
    touched = [*changes.created, *changes.modified, *changes.deleted]
    called = "changes that left no trace" if _says(evidence, "successful_pkm_mutation") else "no change"
    given = insights or (["an insight"] if _says(evidence, "updated_insight") else [])
    return (
        _check("the entry was skipped", _says(evidence, "skipped_pkm")),
        Check(
            "no file of the knowledge base was touched",
            not touched and not _says(evidence, "successful_pkm_mutation"),
            "no change",
            _some(touched, called),
        ),
        Check("no insight was given", not given, "no insight", _some(given, "no insight")),
    )


def _complete(evidence: Evidence, missing: tuple[Any, ...]) -> Check:
    complete = evidence.state.get("is_complete") is True
    found = ", ".join(map(str, missing)) or ("nothing" if complete else "an incomplete end state")
    return Check("nothing is missing", complete and not missing, "nothing", found)


def _says(evidence: Evidence, key: str) -> bool:
    """Whether the agent's end state says so; only the truth value true counts."""
    return evidence.state.get(key) is True


def _ending(evidence: Evidence) -> str:
    filed = _says(evidence, "wrote_para") or _says(evidence, "successful_pkm_mutation")
    if _says(evidence, "skipped_pkm"):
        return "both" if filed else "skipped"
    return "filed" if filed else "neither"


def _fact_id(evidence: Evidence) -> str:
    fact = evidence.task_input.get("fact_id")
    if not isinstance(fact, str) or not fact:
        raise Unreadable("fact_id in the task's input", "the entry's id", fact)
    return fact


def _newly_with(fact: str, evidence: Evidence) -> list[str]:
    """Give the files of the knowledge base that hold the id at the end; none where it only moved."""
    before, after = _holding(fact, evidence.before), _holding(fact, evidence.after)
    return sorted(after) if sum(after.values()) > sum(before.values()) else []


def _holding(fact: str, tree: Tree) -> dict[str, int]:
    found = {path: times(fact, file.text) for path, file in files_below(tree).items()}
    return {path: number for path, number in found.items() if number}


def _insights(evidence: Evidence) -> list[str]:
    """Give the ids of the entries for which an insight was given."""
    done = (call for call in evidence.calls if call.tool == INSIGHT and call.error is None)
    return [str(call.args.get("fact_id")) for call in done]


def _some(found: list[str], none: str) -> str:
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more or none


def _check(claim: str, passed: bool) -> Check:
    return Check(claim, passed, "yes", "yes" if passed else "no")
