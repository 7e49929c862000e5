"""What an agent says of its end state, laid beside what the workspace shows.

Where an agent left something in a shape that cannot be read, the grade is undecided, as in the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from pytest_agenteval import Check, Evidence, Grade
from pytest_agenteval.graders.grader_settings import cut

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
    """Make a grader's ``grade`` say that it could not tell where it meets something unreadable.

    In ``default`` mode it is given texts in one Unicode form; Memex compares them as they are.
    """

    def decorated(grade: Callable[[_Grader, Evidence], Grade]) -> Callable[[_Grader, Evidence], Grade]:
        @wraps(grade)
        def graded(self: _Grader, evidence: Evidence) -> Grade:
            try:
                is_default = getattr(self, "mode", "default") == "default"
                return grade(self, evidence.in_normal_form() if is_default else evidence)
            except UnreadableState as unreadable:
                return unreadable_grade(name, unreadable)

        return graded

    return decorated


def unreadable_grade(name: str, unreadable: UnreadableState) -> Grade:
    """Give the undecided grade that says what could not be read."""
    return Grade(name, None, str(unreadable), undecided="unreadable")


MOST_SHOWN = 80


def merge_states(stated: State, on_disk: State | None) -> State:
    """Give the end state: what the agent says, and what the workspace shows wherever it says nothing."""
    return {**(on_disk or {}), **{key: value for key, value in stated.items() if value is not None}}


def upstream_state(evidence: Evidence, state_on_disk: Callable[[Evidence], State | None]) -> State:
    """Give the end state as Memex's harness would: the agent's own; of one that says none, what is shown."""
    stated, on_disk = evidence.state, None
    if not any(key in stated for key in _KEYS):
        on_disk = state_on_disk(evidence)
    return {**stated, **on_disk} if on_disk else stated


def value_check(claim: str, key: str, expected: Any, stated: State, on_disk: State | None) -> Check:
    """Ask whether this key has the wanted value; where agent and workspace both tell it, both must have it.

    Only the very value counts: what is merely true is not ``True``.
    """
    end_value, value_on_disk = (
        merge_states(stated, on_disk).get(key),
        None if on_disk is None else on_disk[key],
    )
    passed = all(
        type(value) is type(expected) and value == expected
        for value in _values(end_value, value_on_disk, on_disk)
    )
    differs = on_disk is not None and end_value != value_on_disk
    finding = (
        contrast_text(_value_text(end_value), _value_text(value_on_disk))
        if differs
        else _value_text(end_value)
    )
    return Check(claim, passed, _value_text(expected), finding)


def _values(end_value: Any, value_on_disk: Any, on_disk: State | None) -> tuple[Any, ...]:
    return (end_value,) if on_disk is None else (end_value, value_on_disk)


def contrast_text(stated: str, on_disk: str) -> str:
    """Write what an agent says beside what the workspace shows."""
    return f"{stated} in the agent's state, {on_disk} in the workspace"


def disagreement_checks(stated: State, on_disk: State | None, key: str) -> tuple[Check, ...]:
    """Give a failed check where an agent says of this key what the workspace does not show; else none."""
    if on_disk is None or stated.get(key) is None or _same(stated[key], on_disk[key]):
        return ()
    claim = f"{key} in the agent's state is what the workspace shows"
    return (Check(claim, False, cut(repr(on_disk[key]), MOST_SHOWN), cut(repr(stated[key]), MOST_SHOWN)),)


def _value_text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else repr(value)


def _same(stated: Any, on_disk: Any) -> bool:
    if isinstance(stated, str) and isinstance(on_disk, str):
        return stated.splitlines() == on_disk.splitlines()
    return bool(_plain(stated) == on_disk)


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
