"""Agents and graders that Python code gives as they are, each under the name of where it was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_agenteval.records.record import NOTHING


class GivenAgents:
    """What code gives as agents, by number; ``make`` makes a factory of a name and what acts.

    Several may be written at one place, as functions of functions are: plans carry their number.
    """

    def __init__(self, make: Callable[[str, Any], Callable[..., Any]]) -> None:
        self._make = make
        self._given: list[tuple[Any, Callable[..., Any]]] = []
        self._forms: dict[str, Mapping[str, Any]] = {}

    def take(self, name: str, target: Any, paths: Sequence[str]) -> None:
        """Take what acts; a later one that was written at the same place has the name from then on."""
        number = next((at for at, (given, _) in enumerate(self._given) if given is target), len(self._given))
        if number == len(self._given):
            self._given.append((target, self._make(name, target)))
        self._forms[name] = {"call": name, "paths": list(paths), "given": number}

    def form(self, name: str) -> Mapping[str, Any]:
        """Give the form that stands for what was given under a name last; an empty map for any other name."""
        return self._forms.get(name, NOTHING)

    def factory(self, form: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Give the factory that a form stands for; None for one that was given elsewhere, or by no code."""
        number: int | None = form.get("given")
        return self._given[number][1] if number is not None and number < len(self._given) else None


class GivenGraders:
    """What code gives as graders, by name."""

    def __init__(self) -> None:
        self._given: dict[str, Any] = {}

    def take(self, name: str, grader: Any) -> str:
        """Give the name of a grader: a number stands behind it where another was written at that place."""
        number, numbered = 1, name
        while self._given.setdefault(numbered, grader) is not grader:
            number += 1
            numbered = f"{name}-{number}"
        return numbered
