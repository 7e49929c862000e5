"""What an agent says of its end state, laid beside what the workspace shows.

Where an agent left something in a shape that cannot be read, the grade is undecided, as in the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from pytest_agenteval import Check, Evidence, Grade
from pytest_agenteval.graders.formatting import cut

State = Mapping[str, Any]
"""What is told or shown of a trial's end, by the keys of docs/end-state.md."""

_Grader = TypeVar("_Grader")


class UnreadableState(TypeError):
    """Raised where a value is of another type than it must be; the message names it and what it is."""

    def __init__(self, what: str, expected: str, value: Any) -> None:
        super().__init__(f"{what} must be {expected}, not {value!r}")


def undecided_where_unreadable(
    name: str,
) -> Callable[[Callable[[_Grader, Evidence], Grade]], Callable[[_Grader, Evidence], Grade]]:
    """Make a grader's ``grade`` say that it could not tell where it meets something unreadable."""

    def decorated(grade: Callable[[_Grader, Evidence], Grade]) -> Callable[[_Grader, Evidence], Grade]:
        @wraps(grade)
        def graded(self: _Grader, evidence: Evidence) -> Grade:
            try:
                return grade(self, evidence)
            except UnreadableState as unreadable:
                return unreadable_grade(name, unreadable)

        return graded

    return decorated


def unreadable_grade(name: str, unreadable: UnreadableState) -> Grade:
    """Give the undecided grade that says what could not be read."""
    return Grade(name, None, str(unreadable), undecided="unreadable")


MOST_SHOWN = 80


def merge_states(stated: State, shown: State | None) -> State:
    """Give the end state: what the agent says, and what the workspace shows wherever it says nothing."""
    return {**(shown or {}), **{key: value for key, value in stated.items() if value is not None}}


def upstream_state(evidence: Evidence, shown: Callable[[Evidence], State | None]) -> State:
    """Give the end state as Memex's harness would: the agent's own; of one that says none, what is shown."""
    stated, seen = evidence.state, None
    if not any(key in stated for key in _KEYS):
        seen = shown(evidence)
    return {**stated, **seen} if seen else stated


def value_check(claim: str, key: str, wanted: Any, stated: State, shown: State | None) -> Check:
    """Ask whether this key has the wanted value; where agent and workspace both tell it, both must have it.

    Only the very value counts: what is merely true is not ``True``.
    """
    told, there = merge_states(stated, shown).get(key), None if shown is None else shown[key]
    passed = all(type(value) is type(wanted) and value == wanted for value in _values(told, there, shown))
    differs = shown is not None and told != there
    found = contrast_text(_value_text(told), _value_text(there)) if differs else _value_text(told)
    return Check(claim, passed, _value_text(wanted), found)


def _values(told: Any, there: Any, shown: State | None) -> tuple[Any, ...]:
    return (told,) if shown is None else (told, there)


def contrast_text(stated: str, shown: str) -> str:
    """Write what an agent says beside what the workspace shows."""
    return f"{stated} in the agent's state, {shown} in the workspace"


def disagreement_checks(stated: State, shown: State | None, key: str) -> tuple[Check, ...]:
    """Give a failed check where an agent says of this key what the workspace does not show; else none."""
    if shown is None or stated.get(key) is None or _same(stated[key], shown[key]):
        return ()
    claim = f"{key} in the agent's state is what the workspace shows"
    return (Check(claim, False, cut(repr(shown[key]), MOST_SHOWN), cut(repr(stated[key]), MOST_SHOWN)),)


def _value_text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else repr(value)


def _same(stated: Any, shown: Any) -> bool:
    if isinstance(stated, str) and isinstance(shown, str):
        return stated.splitlines() == shown.splitlines()
    return bool(_plain(stated) == shown)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


_KEYS = frozenset(
    {
        "is_complete",
        "missing_requirements",
        "card_save_tool_called",
        "persisted_fact_id",
        "status",
        "has_title",
        "has_ui_configs",
        "template_ids",
        "card_yaml_blob",
        "wrote_para",
        "updated_insight",
        "skipped_pkm",
        "successful_pkm_mutation",
        "file_contents",
    }
)
"""What our agents say of their end states: docs/end-state.md."""
