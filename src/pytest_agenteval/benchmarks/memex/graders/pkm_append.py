"""Does what was added to a file fit the file? Judges tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import ClassVar

from pytest_agenteval.benchmarks.memex.graders.pkm_insight import counted_as_upstream, fact_of, knowledge_base
from pytest_agenteval.benchmarks.memex.graders.settings import Mode, check_mode
from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.judge.evidence_text import (
    MAX_CHARS,
    MAX_CHARS_OF_ONE,
    cut_middle,
    diffs,
    join_within,
)
from pytest_agenteval.graders.judge.grader import WithJudges, grade_from_judgement, no_judge_grade
from pytest_agenteval.graders.judge.panel import ask_judges
from pytest_agenteval.graders.judge.rubric import packaged_rubric
from pytest_agenteval.records.evidence import Evidence, Tree, diff, unified
from pytest_agenteval.records.grade import Grade

NAME = "pkm_append_coherence"
ROOM_FOR_PATH = 300


@dataclass(frozen=True, slots=True)
class PkmAppendCoherence:
    """Do additions to files that were there before take up those files' form, order and voice?

    ``default`` shows judges every such file as it was, and one diff of all that was done to it, by whatever
    tool; where nothing was added to a file that was there before, there is nothing to judge.
    ``upstream`` looks at the first edit that succeeded, as Memex does, at its two texts and no file, and
    reads replies and counts as Memex does; of several judges it takes the mean. Only the choice of the edit,
    reading and arithmetic are Memex's there: the prompt is ours in both modes. A skipped entry was added to
    nothing.
    """

    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 0.6

    def __post_init__(self) -> None:
        check_mode(self.mode)

    @property
    def rubric_digest(self) -> str:
        """A digest of all that judges are told, for the ruler's."""
        return packaged_rubric(NAME).digest()

    def with_judges(self, judges: Sequence[Judge]) -> WithJudges:
        """Give a grader that asks these judges."""
        return WithJudges(self, tuple(judges))

    async def grade(self, evidence: Evidence) -> Grade:
        """Grade without judges."""
        return await self.judged(evidence, ())

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        """Show judges what was added to what."""
        if evidence.state.get("skipped_pkm") is True:
            return Grade(NAME, None, "the entry was skipped: nothing was added")
        added = _first_edit(evidence) if self.mode == "upstream" else _additions(evidence)
        if isinstance(added, str):
            return Grade(NAME, None, added)
        if not judges:
            return no_judge_grade(NAME)
        values = {"fact": fact_of(evidence), **added}
        judgement = await ask_judges(packaged_rubric(NAME), values, judges, mode=self.mode)
        if self.mode == "upstream":
            return counted_as_upstream(NAME, judgement, self.threshold)
        return grade_from_judgement(NAME, judgement, self.threshold)


def _additions(evidence: Evidence) -> dict[str, str] | str:
    """Give every file that was added to, as it was and what was done to it; or say why there is none."""
    before, after = knowledge_base(evidence.before), knowledge_base(evidence.after)
    changed = diff(before, after).modified
    if not changed:
        return "no file that was there before was changed"
    paths = [path for path in changed if _adds(before, after, path)]
    if not paths:
        return "nothing was added to a file that was there before"
    each = max(MAX_CHARS_OF_ONE, MAX_CHARS // len(paths) - ROOM_FOR_PATH)
    texts = [cut_middle(before.text(path) or "", each) for path in paths]
    if len(paths) > 1:
        texts = [f"{path}:\n{text}" for path, text in zip(paths, texts, strict=True)]
    return {"before": join_within(texts), "changes": join_within(diffs(before, after, paths))}


def _adds(before: Tree, after: Tree, path: str) -> bool:
    """Whether lines came to a text; what was blank before has no form that could be met."""
    if not (before.text(path) or "").strip():
        return False
    return any(line.startswith("+") and line[1:].strip() for line in unified(before, after, path)[2:])


def _first_edit(evidence: Evidence) -> dict[str, str] | str:
    """Give both texts of the first edit that succeeded; or say why there is nothing to judge."""
    edit = next((call for call in evidence.calls if call.tool == "Edit" and call.error is None), None)
    if edit is None:
        return "no file was edited"
    old, new = edit.args.get("old_string"), edit.args.get("new_string")
    if not isinstance(new, str) or not new:
        return "the first edit put in no text"
    if not isinstance(old, str) or not old.strip():
        return "the first edit made a new file"
    path = str(edit.args.get("file_path", "")).lstrip("/") or "file"
    lines = unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm="")
    return {"before": old, "changes": "\n".join(lines)}
