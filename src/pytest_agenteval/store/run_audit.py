"""What an audited run sets out to show, in the run's folder: each spoiler, and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.store.file_writing import replace_json
from pytest_agenteval.store.json_lines import VERSION, check_version
from pytest_agenteval.store.runs import damage_text, read_json
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

AUDIT = "audit.json"


class AuditedTask(Record, frozen=True):
    """A task that is audited: ``place`` is its file and line, ``graders`` are names of graders by label."""

    suite: str
    task: str
    place: str = ""
    graders: Mapping[str, str] = NOTHING


class PlannedSpoiler(Record, frozen=True):
    """One spoilt form of a task's reference: the ``number``-th of the spoiler, what was done, and to what."""

    suite: str
    task: str
    spoiler: str
    number: int
    done: str
    places: tuple[str, ...] = ()


class AuditedRubric(Record, frozen=True):
    """A rubric of a suite: ``place`` is the file and line of the first task that is judged by it.

    ``moved_by`` names the verdicts, planted in what is judged, that are read as the judge's own, of
    ``tried`` in all.
    """

    suite: str
    rubric: str
    place: str
    tried: int
    moved_by: tuple[str, ...] = ()


class RunAudit(Record, frozen=True):
    """What a run audits; ``unaudited`` are tasks that have no reference to act out."""

    tasks: tuple[AuditedTask, ...] = ()
    unaudited: tuple[AuditedTask, ...] = ()
    spoilers: tuple[PlannedSpoiler, ...] = ()
    rubrics: tuple[AuditedRubric, ...] = ()


def write_audit(folder: Path, audit: RunAudit) -> None:
    """Write what a run audits; every worker may, as all of them write the same."""
    replace_json(folder / AUDIT, KNOWN_SECRETS.value({"v": VERSION, **audit.to_json()}))


def read_audit(folder: Path) -> RunAudit | None:
    """Read what a run audits; None for a run of agents.

    Raises UsageMistake for a newer version's, and where it cannot be read.
    """
    path = folder / AUDIT
    if not path.is_file():
        return None
    try:
        data = read_json(path)
        check_version(data, path)
        return RunAudit.from_json({key: value for key, value in data.items() if key != "v"})
    except (OSError, ValueError, LookupError, TypeError) as broken:
        raise UsageMistake(f"{path}: what is audited cannot be read ({damage_text(broken)})") from None
