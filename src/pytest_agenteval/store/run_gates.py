"""What the suites of a run have to reach, in the run's folder, for whoever judges the run later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.records.record import Record
from pytest_agenteval.store.file_writing import replace_json
from pytest_agenteval.store.json_lines import VERSION, check_version
from pytest_agenteval.store.runs import damage_text, read_json
from pytest_agenteval.text.errors import UsageMistake

GATES = "gates.json"


class SuiteGate(Record, frozen=True):
    """What a suite has to reach, options considered, as JSON values.

    ``tasks`` is how many tasks each of its buckets has, run or not; empty where nobody can tell. ``assumed``
    says that nobody wrote a gate, and a baseline that was named has brought this one.
    """

    suite: str
    gate: Mapping[str, Any]
    tasks: Mapping[str, int]
    assumed: bool = False


def write_gates(folder: Path, gates: Iterable[SuiteGate]) -> None:
    """Write the gates of a run; every worker may, as all of them write the same."""
    replace_json(folder / GATES, {"v": VERSION, "gates": [gate.to_json() for gate in gates]})


def read_gates(folder: Path) -> tuple[SuiteGate, ...]:
    """Read the gates of a run, which has none as a rule.

    Raises UsageMistake for a newer version's, and where they cannot be read.
    """
    path = folder / GATES
    if not path.is_file():
        return ()
    try:
        data = read_json(path)
        check_version(data, path)
        return tuple(map(SuiteGate.from_json, data["gates"]))
    except (OSError, ValueError, LookupError, TypeError) as broken:
        raise UsageMistake(f"{path}: the run's gates cannot be read ({damage_text(broken)})") from None
