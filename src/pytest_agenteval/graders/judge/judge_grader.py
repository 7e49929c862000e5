"""Graders that ask judges: how a trial is shown, and what becomes of the judgement."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.judge.panel import ask_judges, compare
from pytest_agenteval.graders.judge.rubric import (
    Rubric,
    is_question,
    packaged_rubric,
    question_rubric,
    read_rubric,
)
from pytest_agenteval.graders.judge.verdicts import Judgement
from pytest_agenteval.records.evidence import ROUNDING, Check, Evidence, Grade, Tree, unified
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.transcript import Message, ToolCall
from pytest_agenteval.text.errors import Problem, ProblemsFound, UsageMistake, key_path_text

# Bounds of what a judge is shown: of one value of a rubric, and of one text, call or diff within it.
MAX_CHARS = 24_000
MAX_CHARS_OF_ONE = 6_000


def cut_middle(text: str, most: int = MAX_CHARS_OF_ONE) -> str:
    """Shorten a text to its first and last part, with a line that says how much is left out."""
    if len(text) <= most:
        return text
    first, last = most * 2 // 3, most // 3
    return f"{text[:first]}\n[… {len(text) - first - last} characters left out …]\n{text[-last:]}"


def join_within(parts: Iterable[str], between: str = "\n\n", most: int = MAX_CHARS) -> str:
    """Join parts up to a length; then say how many are left out."""
    all_of, size = list(parts), 0
    pieces: list[str] = []
    for part in all_of:
        size += len(part) + len(between)
        # The first part is always shown, cut in its middle if it is too long by itself.
        if pieces and size > most:
            break
        pieces.append(cut_middle(part, most))
    left = len(all_of) - len(pieces)
    return between.join([*pieces, f"[… {left} more left out …]"] if left else pieces)


def diffs(before: Tree, after: Tree, paths: Iterable[str]) -> list[str]:
    """Write each file's change as a unified diff; a long one is cut in the middle."""
    return [cut_middle("\n".join(unified(before, after, path))) for path in paths]


def task(evidence: Evidence) -> str:
    """Write the task's input: its only text as it is, or several values with their names."""
    values = evidence.task_input
    if len(values) == 1:
        return _value(next(iter(values.values())))
    return "\n".join(f"{name}: {_value(value)}" for name, value in values.items())


def answer(evidence: Evidence) -> str:
    return evidence.answer


def calls(evidence: Evidence) -> str:
    """Write the agent's tool calls, each with its result or error; calls that the task made are left out."""
    made = [call for call in evidence.calls if call.by == "agent"]
    return join_within(f"{number}. {_call(call)}" for number, call in enumerate(made, 1))


def changes(evidence: Evidence) -> str:
    """Write the changes of the workspace's files, as unified diffs."""
    diff = evidence.diff
    paths = sorted((*diff.created, *diff.modified, *diff.deleted))
    return join_within(diffs(evidence.before, evidence.after, paths))


def conversation(evidence: Evidence) -> str:
    """Write the conversation without system messages."""
    # Instructions to the agent may name it, and a judge must not know whom it judges.
    return join_within(_message(message) for message in evidence.messages if message.role != "system")


# What a rubric can show to judges, by name.
SHOWABLE: Mapping[str, Callable[[Evidence], str]] = {
    "task": task,
    "answer": answer,
    "calls": calls,
    "changes": changes,
    "conversation": conversation,
}


def _call(call: ToolCall) -> str:
    head = f"{call.tool}({_args(call)})"
    if call.error is not None:
        return f"{head}\nfailed: {cut_middle(call.error.message)}"
    return f"{head}\ngave: {cut_middle(_value(call.result))}"


def _args(call: ToolCall) -> str:
    return cut_middle(_value(dict(call.args)) if call.raw_args is None else call.raw_args)


def _message(message: Message) -> str:
    calls = [f"calls {call.tool}({_args(call)})" for call in message.calls]
    content = [message.content] if message.content.strip() or not calls else []
    return cut_middle("\n".join([f"{message.role}:", *content, *calls]))


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


class RubricGrader(ABC):
    """Base of graders with a rubric: override ``used_rubric`` and ``judged``.

    The engine gives it judges before it grades, or none where nobody is there to ask. The rubric's digest is
    part of the ruler's: another rubric makes other grades.
    """

    __slots__ = ()

    @abstractmethod
    def used_rubric(self) -> Rubric | None:
        """Give the rubric that judges get; None where, with these settings, no judge is needed."""

    @abstractmethod
    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        """Give the grade; there may be no judge, see ``no_judge_grade``."""

    @property
    def rubric_digest(self) -> str:
        """A digest of all that judges are shown, for the ruler's; empty without a rubric."""
        rubric = self.used_rubric()
        return rubric.digest() if rubric else ""

    def with_judges(self, judges: Sequence[Judge]) -> WithJudges:
        """Give a grader that asks these judges."""
        return WithJudges(self, tuple(judges))

    async def grade(self, evidence: Evidence) -> Grade:
        """Grade without judges."""
        return await self.judged(evidence, ())


@dataclass(frozen=True, slots=True)
class WithJudges:
    """A grader and the judges of one trial."""

    grader: RubricGrader
    judges: tuple[Judge, ...]

    async def grade(self, evidence: Evidence) -> Grade:
        """Let the grader ask its judges."""
        return await self.grader.judged(evidence, self.judges)


def no_judge_grade(grader: str) -> Grade:
    """Give the undecided grade of a grader without a judge."""
    rationale = "no judge: add --agent-judge=MODEL"
    return Grade(grader, None, rationale, undecided="no_judge")


def grade_from_judgement(grader: str, judgement: Judgement, threshold: float) -> Grade:
    """Make a grade from a judgement: one check for each scored dimension."""
    scores = judgement.scores
    checks = tuple(
        dimension_check(name, score, threshold) for name, score in scores.items() if score is not None
    )
    score_list = ", ".join(f"{name} {format_score(score)}" for name, score in scores.items())
    rationale = f"{score_list}: {judgement.rationale}"
    return Grade(grader, judgement.score, rationale, checks, judgement_details(judgement))


def judgement_details(verdict: Any) -> dict[str, Any]:
    """Give the details that a grade has of a judgement or comparison."""
    return {"judgement": verdict.as_details()}


def dimension_check(name: str, score: float | None, threshold: float) -> Check:
    """Make the check that a dimension reaches the threshold; without a score it fails."""
    passed = score is not None and score >= threshold - ROUNDING
    return Check(f"{name} is good enough", passed, f"{threshold:g} or more", format_score(score))


def format_score(score: float | None) -> str:
    """Write a score for people, with four digits where two would hide that it lies below a threshold."""
    if score is None:
        return "unknown"
    return f"{score:.2f}" if abs(score - round(score, 2)) < ROUNDING else f"{score:.4f}"


NAME = "judge"
_RUBRIC_FORMS = "a question, the name of a rubric, or a path that ends in .jinja"
OWN = "answer"


@dataclass(frozen=True, slots=True)
class JudgeGrader(RubricGrader):
    """What do judges find, by this rubric? The score is the mean of the dimensions that they could tell.

    ``rubric`` is a question about the reply, to which yes is good, or a file that ends in ``.jinja``, or the
    name of a registered rubric. A file may show the task, the agent's answer, its calls, its changes to
    files, and the conversation. With ``against``, texts by name,
    the answer is compared with them by a rubric for candidates: 1 where judges prefer it to all of them, 0.5
    where it shares the first place, else 0.

    Where the judged text is blank, the score is 0 and no judge is called. Without a judge, and where none of
    the judges could tell, the grade is undecided. Good enough is 0.6, for the whole and in each check.
    """

    rubric: str
    against: Mapping[str, str] = field(default_factory=lambda: NOTHING)

    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 0.6
    files: ClassVar[Mapping[str, str]] = {"rubric": ".jinja"}

    def __post_init__(self) -> None:
        _check(self.used_rubric(), self.against)

    @staticmethod
    def rubric_named(name: str) -> Rubric:
        """Find a rubric of the core's own; a registry replaces this by a look-up of all that it has."""
        return packaged_rubric(name)

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        rubric = self.used_rubric()
        values = {name: SHOWABLE[name](evidence) for name in rubric.shows}
        # Before the question whether there is a judge: an agent that says nothing scores 0 in any case.
        if not values[rubric.output].strip():
            return Grade(NAME, 0.0, f"nothing to judge: the trial left no {rubric.output}")
        if not judges:
            return no_judge_grade(NAME)
        if not self.against:
            return grade_from_judgement(NAME, await ask_judges(rubric, values, judges), self.threshold)
        candidates = {OWN: values.pop(rubric.output), **self.against}
        comparison = await compare(rubric, values, candidates, judges)
        scores, own = comparison.scores, comparison.scores[OWN]
        score_list = ", ".join(f"{name} {format_score(score)}" for name, score in scores.items())
        why = next(iter(comparison.judgements.values())).rationale
        shown = format_score(own)
        checks = tuple(
            Check(f"the answer is better than {name}", own > score, f"more than {format_score(score)}", shown)
            for name, score in scores.items()
            if name != OWN and own is not None and score is not None
        )
        rationale, details = f"{score_list}: {why}", judgement_details(comparison)
        return Grade(NAME, comparison.preference(OWN), rationale, checks, details)

    def used_rubric(self) -> Rubric:
        """Give the rubric of a file's text, of a question or of a name; raises ValueError for a mistake."""
        # The loader puts the text of a file in the place of a name that ends in .jinja.
        if self.rubric.lstrip("\ufeff").startswith("---"):
            return _read_inlined(self.rubric)
        if is_question(self.rubric):
            return question_rubric(self.rubric)
        if not self.rubric.isidentifier() and "." in self.rubric:
            raise WrongSetting(
                ("rubric",), _RUBRIC_FORMS, repr(self.rubric), "the name of a rubric's file ends in .jinja"
            )
        try:
            return self.rubric_named(self.rubric)
        except (UsageMistake, ValueError) as unknown:
            raise ValueError(f"{unknown}; or write a question: 'Is the reply polite?'") from None


@lru_cache(maxsize=256)
def _read_inlined(text: str) -> Rubric:
    try:
        return read_rubric(text)
    except ProblemsFound as error:
        raise ValueError("; ".join(map(_in_one_line, error.problems))) from None


def _in_one_line(problem: Problem) -> str:
    key = f"{key_path_text(problem.path)}: " if problem.path else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"rubric, line {problem.line}: {key}expected {problem.expected}, found {problem.found}{hint}"


def _check(rubric: Rubric, against: Mapping[str, str]) -> None:
    """Refuse a rubric that shows what does not exist, and one that does not fit ``against``."""
    missing = [name for name in rubric.shows if name not in SHOWABLE]
    if missing:
        showable = ", ".join(SHOWABLE)
        raise ValueError(f"rubric {rubric.name} shows {', '.join(missing)}; there are {showable}")
    if rubric.candidates != bool(against):
        wants = "needs against: texts by name" if rubric.candidates else "compares nothing: leave against out"
        raise ValueError(f"rubric {rubric.name} {wants}")
    if against and rubric.output != OWN:
        raise ValueError(f"rubric {rubric.name} must have the answer as its output, not the {rubric.output}")
    if OWN in against:
        raise ValueError(f"against: {OWN!r} is the agent's own; give the other text another name")
