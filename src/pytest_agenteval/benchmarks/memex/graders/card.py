"""Was the card finished, and is it made from the right template?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval import Check, Evidence, Grade
from pytest_agenteval.benchmarks.memex.graders.end_state import (
    State,
    UnreadableState,
    contrast_text,
    disagreement_checks,
    merge_states,
    undecided_where_unreadable,
    upstream_state,
    value_check,
)
from pytest_agenteval.benchmarks.memex.graders.settings import (
    Mode,
    check_flag,
    check_mode,
    check_template_ids,
    texts,
)
from pytest_agenteval.benchmarks.memex.graders.workspace_state import card_path, card_state, title_of

COMPLETE = "a complete card"
LONGEST_TITLE = 30
"""So many letters of an entry may be its title; a longer entry has to be put shorter."""


@dataclass(frozen=True, slots=True)
class CardCompletion:
    """Was a card saved, and is it complete on disk? One fifth for each of five questions.

    They are asked of the end state that the agent tells; of one that tells none, of the card's file. In
    ``default`` mode both have to say yes: a card that is only told is none. Only the truth value true counts
    as yes; a list of missing requirements that is no list is an error. In ``default``
    mode two more answers cost: a title that is the entry over again (an entry of a few words may be its own
    title), and a card of another entry that was touched.
    """

    mode: Mode = "default"

    agent: ClassVar[str] = "card"
    version: ClassVar[str] = "3"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)

    @undecided_where_unreadable("card_completion")
    def grade(self, evidence: Evidence) -> Grade:
        """Ask the five questions of the card's end state."""
        stated, on_disk = card_states(evidence, self.mode)
        # Of another type, it breaks their grader, whose score is none then.
        if self.mode == "upstream" and not isinstance(stated.get("status"), str | None):
            raise UnreadableState("status in the agent's state", "a text", stated["status"])
        checks: tuple[Check, ...] = (
            value_check("the card was saved", "card_save_tool_called", True, stated, on_disk),
            value_check("the card's status is completed", "status", "completed", stated, on_disk),
            value_check("the card has a title", "has_title", True, stated, on_disk),
            value_check("the card has a filled template", "has_ui_configs", True, stated, on_disk),
            _completeness_check(stated, on_disk),
        )
        if self.mode == "default":
            checks = (
                *checks,
                *_copied_title_checks(merge_states(stated, on_disk), evidence),
                *_other_cards_checks(evidence),
            )
        return share_grade("card_completion", checks)


def _copied_title_checks(state: State, evidence: Evidence) -> tuple[Check, ...]:
    """Give a failed check where the title is the entry over again; a good one earns nothing more."""
    content = " ".join(str(evidence.task_input.get("content") or "").split())
    title = title_of(state.get("card_yaml_blob"))
    copied = len(content) > LONGEST_TITLE and content in " ".join(title.split())
    claim = "the title is more than the entry over again"
    return (Check(claim, False, "a title of its own", "the whole entry"),) if copied else ()


def _other_cards_checks(evidence: Evidence) -> tuple[Check, ...]:
    """Give a failed check where another entry's card was touched."""
    own, changes = card_path(evidence), evidence.diff
    touched = [*changes.created, *changes.modified, *changes.deleted]
    others = [path for path in touched if path.startswith("Cards/") and path != own]
    claim = "no other entry's card was touched"
    return (Check(claim, False, "no other card", ", ".join(others)),) if own and others else ()


def _completeness_check(stated: State, on_disk: State | None) -> Check:
    sides = [merge_states(stated, on_disk), *([] if on_disk is None else [on_disk])]
    words = [_what_is_missing(side) for side in sides]
    finding = words[0] if len(set(words)) == 1 else contrast_text(*words)
    return Check("nothing is missing", set(words) == {COMPLETE}, COMPLETE, finding)


def _what_is_missing(side: State) -> str:
    missing = ", ".join(map(str, _missing(side)))
    return missing or (COMPLETE if side.get("is_complete") is True else "an incomplete card")


@dataclass(frozen=True, slots=True)
class CardTemplateChoice:
    """Is one of the expected templates the card's first, or at least among its others?

    1 where the card's first template is expected, 0.5 where only a later one is, else 0; half credit passes.
    Ids are compared exactly. In ``default`` mode an empty list of expected ids and an unknown id are refused,
    and templates that an agent tells of but that are not on its card score 0. ``only`` asks for no template
    but expected ones, none of them twice: anything else halves the score, and half credit does not pass.
    """

    expected_template_ids: Sequence[str]
    mode: Mode = "default"
    only: bool = False

    agent: ClassVar[str] = "card"
    version: ClassVar[str] = "3"

    @property
    def threshold(self) -> float:
        """The score wanted where the task says none."""
        return 1.0 if self.only else 0.5

    def __post_init__(self) -> None:
        check_mode(self.mode)
        expected = texts("expected_template_ids", self.expected_template_ids)
        object.__setattr__(self, "expected_template_ids", expected)
        if self.mode == "default":
            check_template_ids(expected)
        check_flag("only", self.only, self.mode)

    @undecided_where_unreadable("card_template_choice")
    def grade(self, evidence: Evidence) -> Grade:
        """Compare the templates of the card, in their order, with the expected ones."""
        stated, on_disk = card_states(evidence, self.mode)
        template_ids = _list(merge_states(stated, on_disk), "template_ids")
        disagreements = disagreement_checks(stated, on_disk, "template_ids")
        score, why = self._score_and_reason(template_ids)
        template_list = ", ".join(map(str, template_ids)) or "no template"
        check = Check(
            "the first template is expected",
            score == 1.0,
            " or ".join(self.expected_template_ids),
            template_list,
        )
        if disagreements:
            score, why = 0.0, str(disagreements[0])
        if self.only:
            alone = Check("no other template is on the card", *self._alone(template_ids))
            disagreements = (*disagreements, alone)
            score, why = (score, why) if alone.passed else (score / 2, f"{why}; {alone}")
        return Grade("card_template_choice", score, why, (check, *disagreements), {"full": score == 1.0})

    def _alone(self, template_ids: Sequence[Any]) -> tuple[bool, str, str]:
        expected = set(self.expected_template_ids)
        alone = len(set(map(str, template_ids))) == len(template_ids) and expected.issuperset(template_ids)
        return (
            alone,
            " or ".join(self.expected_template_ids),
            ", ".join(map(str, template_ids)) or "no template",
        )

    def _score_and_reason(self, template_ids: Sequence[Any]) -> tuple[float, str]:
        expected = " or ".join(self.expected_template_ids)
        template_list = ", ".join(map(str, template_ids))
        if not template_ids:
            return 0.0, f"no template was chosen; expected {expected}"
        if template_ids[0] in self.expected_template_ids:
            return 1.0, f"{template_ids[0]} comes first, as expected"
        later = next((id for id in template_ids[1:] if id in self.expected_template_ids), None)
        if later is not None:
            return 0.5, f"{later} is expected, but not first in: {template_list}"
        return 0.0, f"expected {expected}, found {template_list}"


def card_states(evidence: Evidence, mode: Mode) -> tuple[State, State | None]:
    """Give what the agent tells of the card, and what its file shows; in upstream mode only one of them."""
    if mode == "upstream":
        return upstream_state(evidence, card_state), None
    stated = evidence.state
    if stated.get("card_save_tool_called") is False:  # how a card came to its file is the agent's own affair
        stated = {key: value for key, value in stated.items() if key != "card_save_tool_called"}
    return stated, card_state(evidence)


def share_grade(grader: str, checks: tuple[Check, ...]) -> Grade:
    """Give the share of checks that passed, counted as Memex counts it: none asked, none passed."""
    missed = [check for check in checks if not check.passed]
    why = "; ".join(map(str, missed)) or f"all {len(checks)} checks passed"
    score = (len(checks) - len(missed)) / len(checks) if checks else 0.0
    return Grade(grader, score, why if checks else "nothing to check", checks)


def _missing(state: Mapping[str, Any]) -> Sequence[Any]:
    return _list(state, "missing_requirements")


def _list(state: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Take a list out of the state; one that is not there is empty, anything else is unreadable."""
    value = state.get(key)
    if value is not None and not isinstance(value, list | tuple):
        raise UnreadableState(f"{key} in the agent's state", "a list", value)
    return value or ()
