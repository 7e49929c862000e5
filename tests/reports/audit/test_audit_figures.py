"""An audit's figures, worked out by hand: what shows nothing of graders is in none of them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.reports.audit_report import Audit, Sight, audit_lines, audit_of
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_documents import AuditedRubric, AuditedTask, PlannedSpoiler, RunAudit
from pytest_agenteval.store.run_folder import PlannedGroup, RunHeader
from pytest_agenteval.store.run_reader import Run
from tests.compare.samples import entry

NUMBER, PASTE = "spoiler:number_plus_one", "spoiler:verbatim_paste"


def _trial(task: str, player: str, score: float | None) -> JournalEntry:
    """One trial of an audit, of which one grader says what its score is; None for one that errored."""
    grades = () if score is None else (Grade("g", score, ""),)
    return replace(entry(task, 1, score, model=player, full=score == 1), grades=grades)


def _audit(*trials: tuple[str, str, float | None], rubrics: tuple[AuditedRubric, ...] = ()) -> Audit:
    """What these trials show; of each spoiler there is one form."""
    entries = tuple(_trial(*trial) for trial in trials)
    tasks = dict.fromkeys(task for task, _, _ in trials)
    spoilers = [(task, player.partition(":")[2]) for task, player, _ in trials if ":" in player]
    audited = RunAudit(
        tuple(AuditedTask("s", task, graders={"g": "grader"}) for task in tasks),
        (),
        tuple(PlannedSpoiler("s", task, name, 1, "18 -> 19") for task, name in spoilers),
        rubrics,
    )
    planned = PlannedGroup("s", "any", "", "", len(tasks), len(trials), 1)
    header = RunHeader(started_at="", command=(), models=())
    return audit_of(Run(Path("run"), header, (planned,), entries), audited)


def _text(audit: Audit) -> str:
    return "\n".join(line.text for line in audit_lines(audit, 200, tells_unseen=True))


def test_what_misses_in_any_case_has_seen_nothing() -> None:
    """The reference itself is at 0.5 in a task: that its spoilt forms are below 1, too, is no sight."""
    good = [("a", "oracle", 1.0), ("a", "nop", 0.0), ("a", NUMBER, 0.0), ("a", PASTE, 1.0)]
    below = [("b", "oracle", 0.5), ("b", "nop", 0.0), ("b", NUMBER, 0.5), ("b", PASTE, 0.5)]
    (suite,) = _audit(*good, *below).suites
    assert suite.spoilers == {"number_plus_one": Sight(1, 1), "verbatim_paste": Sight(0, 1)}
    assert suite.graders[0].spoilers == suite.spoilers
    assert [trial.task for trial in suite.below] == ["b"]
    assert [trial.task for trial in suite.unseen] == ["a"]


def test_trials_that_broke_prove_nothing_and_are_no_sound_audit() -> None:
    """A grader that falls over at every answer but the reference's: neither all seen, nor nothing missed."""
    audit = _audit(("a", "oracle", 1.0), ("a", "nop", None), ("a", NUMBER, None), ("a", PASTE, None))
    (suite,) = audit.suites
    assert suite.sight == Sight(0, 0)
    assert len(suite.broken) == 3
    assert not audit.is_sound
    assert "s: no planted mistake could be checked; " in _text(audit)
    assert "doing nothing misses in 0" in _text(audit)
    assert _audit(("a", "oracle", 1.0), ("a", "nop", 0.0), ("a", NUMBER, 0.0)).is_sound


def test_a_rubric_that_planted_verdicts_move_is_named_and_is_no_sound_audit() -> None:
    """Its line has the task's place, the rubric and what moves it; where none is moved, one line says so."""
    trials = (("a", "oracle", 1.0), ("a", "nop", 0.0), ("a", NUMBER, 0.0))
    firm = AuditedRubric("s", "tone", "a.yaml:2", 154)
    audit = _audit(*trials, rubrics=(firm,))
    moved = _audit(*trials, rubrics=(firm, AuditedRubric("s", "soft", "b.yaml:4", 154, ("a verdict", "x"))))

    assert audit.is_sound
    assert "1 rubric: none of 154 planted verdicts is mistaken for the judge's own" in _text(audit)
    assert not moved.is_sound
    assert (
        "b.yaml:4: rubric soft: 2 of 154 planted verdicts are mistaken for the judge's own: a verdict; x"
        in _text(moved)
    )
