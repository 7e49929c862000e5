"""Is the insight a good one, and does what was added to a file fit the file? Judges tell.

Which judge is called and what it reads comes first, with how Memex reads and counts its replies.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from math import isnan
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from pytest_agenteval import (
    Check,
    Evidence,
    Grade,
    Judge,
    Rubric,
    RubricGrader,
    Tree,
    UnreadableReply,
    Verdict,
    ask_judges,
    cut_middle,
    dimension_check,
    grade_from_judgement,
    join_within,
    judgement_details,
    no_judge_grade,
    read_rubric_file,
)
from pytest_agenteval.benchmarks.memex.graders.end_state import (
    Insight,
    Mode,
    UnreadableState,
    check_mode,
    count_marker,
    files_below,
    insight_calls,
    insight_of,
    unreadable_grade,
)
from pytest_agenteval.benchmarks.memex.graders.pkm_routing import FileAccess
from pytest_agenteval.graders.judge.judge_grader import MAX_CHARS, MAX_CHARS_OF_ONE, diffs
from pytest_agenteval.graders.judge.rubric import RATIONALE
from pytest_agenteval.records.evidence import diff, unified

RUBRICS = Path(__file__).parent.parent / "rubrics"


@dataclass(frozen=True, slots=True)
class PkmJudgedGrader(RubricGrader):
    """A grader of the PKM agent that calls judges, in its own way of reading and counting or in Memex's."""

    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    # The threshold of Memex.
    threshold: ClassVar[float] = 0.6
    name: ClassVar[str]
    # What the name of the rubric has behind it in mode upstream.
    upstream_rubric: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_mode(self.mode)

    def used_rubric(self) -> Rubric:
        name = f"{self.name}{self.upstream_rubric if self.mode == 'upstream' else ''}"
        return read_rubric_file(RUBRICS / f"{name}.jinja")

    @abstractmethod
    def prompt_values(self, evidence: Evidence) -> Mapping[str, str] | Grade:
        """Give what judges are shown, or the grade of a trial that needs no judge."""

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        values = self.prompt_values(evidence)
        if isinstance(values, Grade):
            return values
        if not judges:
            return no_judge_grade(self.name)
        rubric = self.used_rubric()
        if self.mode == "default":
            judgement = await ask_judges(rubric, values, judges)
            return grade_from_judgement(self.name, judgement, self.threshold)
        judgement = await ask_judges(rubric, values, judges, parse=parse_upstream_reply, repair=False)
        details = judgement_details(judgement)
        # As in Memex: no check where no reply could be read, else one for every dimension, known or not.
        if all(vote.problem for vote in judgement.votes):
            return Grade(self.name, None, f"unreadable: {judgement.rationale}", details=details)
        dimensions = judgement.scores.items()
        checks = tuple(dimension_check(name, score, self.threshold) for name, score in dimensions)
        return Grade(self.name, judgement.score, judgement.rationale, checks, details)


def parse_upstream_reply(reply: str, rubric: Rubric) -> Verdict:
    """Read a reply as Memex does; raises UnreadableReply.

    Of a reply with a code fence only what stands in the first one counts; of that, all from the first brace
    to the last. Scores are bent into the scale; what is no number is unknown.
    """
    _, fence, after = reply.partition("```")
    # The rest of the line behind the fence is its language.
    text = after.partition("\n")[2].partition("```")[0] if fence else reply
    start, end = text.find("{"), text.rfind("}")
    try:
        verdict = json.loads(text[start : end + 1], parse_constant=_refuse_constant) if start >= 0 else None
    except (ValueError, RecursionError):
        verdict = None
    if not isinstance(verdict, dict) or not isinstance(verdict.get(RATIONALE), str | None):
        # The first 120 characters, as Memex shows.
        raise UnreadableReply(f"no verdict in: {reply[:120]}")
    scores = {name: _clamped_score(verdict.get(name), rubric) for name in rubric.names}
    return Verdict(scores, verdict.get(RATIONALE) or "")


def _clamped_score(value: Any, rubric: Rubric) -> float | None:
    if isinstance(value, str):
        try:
            # Python takes 1_0 for ten; in Dart, the language of Memex, it is no number.
            value = float(value.strip().replace("_", "x"))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and isnan(value):
        return None
    return rubric.from_scale(min(max(value, rubric.low), rubric.high))


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


INSIGHT_QUALITY = "pkm_insight_quality"


@dataclass(frozen=True, slots=True)
class PkmInsightQuality(PkmJudgedGrader):
    """Is the insight grounded, new, well put and short? The mean of what judges could tell.

    A skipped entry has no insight to judge; one without an insight, or with a blank one, scores 0.
    ``default`` shows judges the entry, the notes that bear on it and what became of them, and requests a
    reply once more where it cannot be read; a dimension without a score is no check.

    ``upstream`` reads replies and counts as Memex does, where a dimension without a score is a check that
    failed. Of several judges it takes the mean. It has three dimensions: Memex's code does not judge
    conciseness, as its description does. Only reading and arithmetic are Memex's there: the prompt is ours in
    both modes.
    """

    name: ClassVar[str] = INSIGHT_QUALITY
    version: ClassVar[str] = "3"
    upstream_rubric: ClassVar[str] = "_upstream"

    def prompt_values(self, evidence: Evidence) -> Mapping[str, str] | Grade:
        """Show judges the last insight that was written: the call's, else the one on the entry's card."""
        if evidence.state.get("skipped_pkm") is True:
            return Grade(INSIGHT_QUALITY, None, "the entry was skipped: there is no insight to judge")
        calls = insight_calls(evidence)
        text = calls[-1].args.get("insight_text") if calls else None
        if self.mode == "upstream" and not isinstance(text, str | None):
            unreadable = UnreadableState("the call's insight_text", "a text", text)
            return unreadable_grade(INSIGHT_QUALITY, unreadable)
        insight = insight_of(evidence)
        if insight is None or not insight.text:
            check = Check("an insight was written", False, "some words", "none")
            checks = () if self.mode == "upstream" else (check,)
            return Grade(INSIGHT_QUALITY, 0.0, "no insight was written, or a blank one", checks)
        return {**_notes_for_judges(evidence, insight), "insight": insight.text}


def _entry_text(evidence: Evidence) -> str:
    content = evidence.task_input.get("content")
    return content.strip() if isinstance(content, str) else ""


def _notes_for_judges(evidence: Evidence, insight: Insight) -> dict[str, str]:
    """Give the entry, the notes that bear on it as they were before, and what was changed in the notes."""
    before, after = Tree(files_below(evidence.before)), Tree(files_below(evidence.after))
    changes = diff(before, after)
    changed = sorted((*changes.created, *changes.modified, *changes.deleted))
    read = FileAccess.of((), evidence.calls, before).read
    markers = [f"fact_id: {id}" for id in insight.related]
    marked = [path for path in before if any(count_marker(marker, before.text(path)) for marker in markers)]
    notes = []
    for id in dict.fromkeys(insight.related):
        day, _, number = id.partition("#")
        heading = re.compile(rf"^## <id:{re.escape(number)}>.*\n((?:(?!## <id:).*\n?)*)", re.MULTILINE)
        match = heading.search(evidence.before.text(f"Facts/{day}") or "")
        if match is not None:
            notes.append(f"entry {id}:\n{cut_middle(match[1].strip())}")
    for path in dict.fromkeys((*marked, *changed, *read)):
        if path in before:
            notes.append(f"{path}:\n{cut_middle(before.text(path) or '')}")
    shown = join_within(diffs(before, after, changed))
    return {"fact": _entry_text(evidence), "notes": join_within(notes), "changes": shown}


APPEND_COHERENCE = "pkm_append_coherence"


@dataclass(frozen=True, slots=True)
class PkmAppendCoherence(PkmJudgedGrader):
    """Do additions to files that were there before take up those files' form, order and voice?

    ``default`` shows judges every such file as it was, and one diff of all that was done to it, by whatever
    tool. Where nothing was added to a file that was there before, there is nothing to judge. A skipped entry
    was added to nothing.

    ``upstream`` looks at the first edit that succeeded, as Memex does, at its two texts and no file, and
    reads replies and counts as Memex does; of several judges it takes the mean. Only the choice of the edit,
    reading and arithmetic are Memex's there: the prompt is ours in both modes.
    """

    name: ClassVar[str] = APPEND_COHERENCE
    version: ClassVar[str] = "2"

    def prompt_values(self, evidence: Evidence) -> Mapping[str, str] | Grade:
        if evidence.state.get("skipped_pkm") is True:
            return Grade(APPEND_COHERENCE, None, "the entry was skipped: nothing was added")
        added = _first_edit(evidence) if self.mode == "upstream" else _additions(evidence)
        if isinstance(added, str):
            return Grade(APPEND_COHERENCE, None, added)
        return {"fact": _entry_text(evidence), **added}


def _additions(evidence: Evidence) -> dict[str, str] | str:
    """Give every file that was added to, as it was and what was done to it; or say why there is none."""
    before, after = Tree(files_below(evidence.before)), Tree(files_below(evidence.after))
    changed = diff(before, after).modified
    if not changed:
        return "no file that was there before was changed"
    paths = []
    for path in changed:
        new_lines = (line[1:] for line in unified(before, after, path)[2:] if line.startswith("+"))
        # A file that was blank before has no form that an addition could take up.
        if (before.text(path) or "").strip() and any(line.strip() for line in new_lines):
            paths.append(path)
    if not paths:
        return "nothing was added to a file that was there before"
    # 300 characters less for each, because the path of a file takes room in the prompt, too.
    room = max(MAX_CHARS_OF_ONE, MAX_CHARS // len(paths) - 300)
    texts = [cut_middle(before.text(path) or "", room) for path in paths]
    if len(paths) > 1:
        texts = [f"{path}:\n{text}" for path, text in zip(paths, texts, strict=True)]
    return {"before": join_within(texts), "changes": join_within(diffs(before, after, paths))}


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
