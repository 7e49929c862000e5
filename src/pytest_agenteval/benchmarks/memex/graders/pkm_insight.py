"""Is the insight that the user gets to read a good one? Judges tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.memex.graders.on_disk import Insight, insight_of, last_insight_call
from pytest_agenteval.benchmarks.memex.graders.pkm_changes import files_below, times
from pytest_agenteval.benchmarks.memex.graders.pkm_handling import Handling
from pytest_agenteval.benchmarks.memex.graders.settings import Mode, check_mode
from pytest_agenteval.benchmarks.memex.graders.unreadable import Unreadable, unreadable_grade
from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.judge.aggregation import Judgement
from pytest_agenteval.graders.judge.evidence_text import cut_middle, diffs, join_within
from pytest_agenteval.graders.judge.grader import (
    WithJudges,
    dimension_check,
    grade_from_judgement,
    judgement_details,
    no_judge_grade,
)
from pytest_agenteval.graders.judge.panel import ask_judges
from pytest_agenteval.graders.judge.prompt import Rubric
from pytest_agenteval.graders.judge.rubric import packaged_rubric
from pytest_agenteval.records.evidence import Evidence, Tree, diff
from pytest_agenteval.records.grade import Check, Grade

NAME = "pkm_insight_quality"


@dataclass(frozen=True, slots=True)
class PkmInsightQuality:
    """Is the insight grounded, new, well put and short? The mean of what could be told.

    A skipped entry has no insight to judge; one without an insight, or with a blank one, scores 0.
    ``default`` shows judges the entry, the notes that bear on it and what became of them, and asks once more
    where a reply cannot be read; a dimension that could not be told is no check. ``upstream`` reads replies
    and counts as Memex does, a dimension that could not be told being a check that failed; of several
    judges it takes the mean, and asks of three dimensions: Memex's code does not ask for conciseness, as its
    description does. Only reading and arithmetic are Memex's there: the prompt is ours in both modes.
    """

    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 0.6

    def __post_init__(self) -> None:
        check_mode(self.mode)

    @property
    def rubric_digest(self) -> str:
        """A digest of all that judges are told, for the ruler's."""
        return self._rubric.digest()

    @property
    def _rubric(self) -> Rubric:
        return packaged_rubric(f"{NAME}_upstream" if self.mode == "upstream" else NAME)

    def with_judges(self, judges: Sequence[Judge]) -> WithJudges:
        """Give a grader that asks these judges."""
        return WithJudges(self, tuple(judges))

    async def grade(self, evidence: Evidence) -> Grade:
        """Grade without judges."""
        return await self.judged(evidence, ())

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        """Show judges the last insight that was written: the call's, else the one on the entry's card."""
        if evidence.state.get("skipped_pkm") is True:
            return Grade(NAME, None, "the entry was skipped: there is no insight to judge")
        call = last_insight_call(evidence)
        given = call.args.get("insight_text") if call else None
        if self.mode == "upstream" and not isinstance(given, str | None):
            return unreadable_grade(NAME, Unreadable("the call's insight_text", "a text", given))
        insight = insight_of(evidence)
        if insight is None or not insight.text:
            return self._without_insight()
        if not judges:
            return no_judge_grade(NAME)
        values = {**shown_of_notes(evidence, insight), "insight": insight.text}
        judgement = await ask_judges(self._rubric, values, judges, mode=self.mode)
        if self.mode == "upstream":
            return counted_as_upstream(NAME, judgement, self.threshold)
        return grade_from_judgement(NAME, judgement, self.threshold)

    def _without_insight(self) -> Grade:
        check = Check("an insight was written", False, "some words", "none")
        checks = () if self.mode == "upstream" else (check,)
        return Grade(NAME, 0.0, "no insight was written, or a blank one", checks)


def counted_as_upstream(grader: str, judgement: Judgement, threshold: float) -> Grade:
    """Make a grade as Memex does: no check where no reply could be read, else one for every dimension."""
    if all(vote.problem for vote in judgement.votes):
        return Grade(grader, None, f"unreadable: {judgement.rationale}", details=judgement_details(judgement))
    checks = tuple(dimension_check(name, score, threshold) for name, score in judgement.scores.items())
    return Grade(grader, judgement.score, judgement.rationale, checks, judgement_details(judgement))


def knowledge_base(tree: Tree) -> Tree:
    """Give what is below the knowledge base's folder, by paths from there."""
    return Tree(files_below(tree))


def fact_of(evidence: Evidence) -> str:
    """Give the text of the journal entry."""
    return _text(evidence.task_input.get("content"))


def shown_of_notes(evidence: Evidence, insight: Insight | None) -> dict[str, str]:
    """Give the entry, the notes that bear on it as they were before, and what was changed in the notes."""
    before, after = knowledge_base(evidence.before), knowledge_base(evidence.after)
    found = diff(before, after)
    changed = sorted((*found.created, *found.modified, *found.deleted))
    related = insight.related if insight else ()
    read = Handling.of((), evidence.calls, before).read
    paths = (*_marked(before, related), *changed, *read)
    notes = [
        *_entries(evidence.before, related),
        *(
            f"{path}:\n{cut_middle(before.text(path) or '')}"
            for path in dict.fromkeys(paths)
            if path in before
        ),
    ]
    return {
        "fact": fact_of(evidence),
        "notes": join_within(notes),
        "changes": join_within(diffs(before, after, changed)),
    }


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _marked(before: Tree, ids: Sequence[str]) -> list[str]:
    """Give the files that hold the marker of one of these entries."""
    return [path for path in before if any(times(f"fact_id: {id}", before.text(path)) for id in ids)]


def _entries(before: Tree, ids: Sequence[str]) -> Iterator[str]:
    """Give the texts of journal entries, each with its id."""
    for id in dict.fromkeys(ids):
        day, _, number = id.partition("#")
        heading = re.compile(rf"^## <id:{re.escape(number)}>.*\n((?:(?!## <id:).*\n?)*)", re.MULTILINE)
        found = heading.search(before.text(f"Facts/{day}") or "")
        if found is not None:
            yield f"entry {id}:\n{cut_middle(found[1].strip())}"
