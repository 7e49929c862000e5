"""Was the card finished, and is it made from the right template?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.graders.memex.settings import Mode, check_mode, check_template_ids, texts
from pytest_agenteval.graders.memex.unreadable import Unreadable, undecided_where_unreadable
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade


@dataclass(frozen=True, slots=True)
class CardCompletion:
    """Was a card saved, and is it complete on disk? One fifth for each of five questions.

    Both modes score alike. Only the truth value true counts as yes; a list of missing requirements that is no
    list is an error.
    """

    mode: Mode = "default"

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)

    @undecided_where_unreadable("card_completion")
    def grade(self, evidence: Evidence) -> Grade:
        """Ask the five questions of the agent's end state."""
        state = evidence.state
        if self.mode == "upstream" and not isinstance(state.get("status"), str | None):
            raise Unreadable("status in the agent's state", "a text", state["status"])
        status, complete, missing = state.get("status"), state.get("is_complete") is True, _missing(state)
        checks = (
            _flag("the save tool was called", state.get("card_save_tool_called")),
            Check("the card's status is completed", status == "completed", "completed", str(status)),
            _flag("the card has a title", state.get("has_title")),
            _flag("the card has a filled template", state.get("has_ui_configs")),
            Check(
                "nothing is missing",
                complete and not missing,
                "a complete card",
                ", ".join(map(str, missing)) or ("a complete card" if complete else "an incomplete card"),
            ),
        )
        return scored("card_completion", checks)


@dataclass(frozen=True, slots=True)
class CardTemplateChoice:
    """Is one of the expected templates the card's first, or at least among its others?

    1 where the card's first template is expected, 0.5 where only a later one is, else 0; half credit passes.
    Ids are compared exactly. In ``default`` mode an empty list of expected ids and an unknown id are refused.
    """

    expected_template_ids: Sequence[str]
    mode: Mode = "default"

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 0.5

    def __post_init__(self) -> None:
        check_mode(self.mode)
        expected = texts("expected_template_ids", self.expected_template_ids)
        object.__setattr__(self, "expected_template_ids", expected)
        if self.mode == "default":
            check_template_ids(expected)

    @undecided_where_unreadable("card_template_choice")
    def grade(self, evidence: Evidence) -> Grade:
        """Compare the templates of the card, in their order, with the expected ones."""
        picked = _list(evidence.state, "template_ids")
        score, why = self._judged(picked)
        found = ", ".join(map(str, picked)) or "no template"
        check = Check(
            "the first template is expected", score == 1.0, " or ".join(self.expected_template_ids), found
        )
        return Grade("card_template_choice", score, why, (check,), {"full": score == 1.0})

    def _judged(self, picked: Sequence[Any]) -> tuple[float, str]:
        expected = " or ".join(self.expected_template_ids)
        shown = ", ".join(map(str, picked))
        if not picked:
            return 0.0, f"no template was chosen; expected {expected}"
        if picked[0] in self.expected_template_ids:
            return 1.0, f"{picked[0]} comes first, as expected"
        later = next((id for id in picked[1:] if id in self.expected_template_ids), None)
        if later is not None:
            return 0.5, f"{later} is expected, but not first in: {shown}"
        return 0.0, f"expected {expected}, found {shown}"


def scored(grader: str, checks: tuple[Check, ...]) -> Grade:
    """Give the share of checks that passed, counted as Memex counts it: none asked, none passed."""
    missed = [check for check in checks if not check.passed]
    why = "; ".join(map(str, missed)) or f"all {len(checks)} checks passed"
    score = (len(checks) - len(missed)) / len(checks) if checks else 0.0
    return Grade(grader, score, why if checks else "nothing to check", checks)


def _flag(claim: str, value: Any) -> Check:
    return Check(claim, value is True, "yes", "no" if value in (None, False) else repr(value))


def _missing(state: Mapping[str, Any]) -> Sequence[Any]:
    return _list(state, "missing_requirements")


def _list(state: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Take a list out of the state; one that is not there is empty, anything else is unreadable."""
    value = state.get(key)
    if value is not None and not isinstance(value, list | tuple):
        raise Unreadable(f"{key} in the agent's state", "a list", value)
    return value or ()
