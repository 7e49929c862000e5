"""Grading a stored trial again with today's graders: no agent acts, and no judge has to be called."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, Chat, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.recording_chat import JudgeChat
from pytest_agenteval.engine.digests import grader_digests, input_digest
from pytest_agenteval.engine.grading import UNGRADED, GradingResult, has_acted
from pytest_agenteval.engine.trial_resources import TrialJudge, TrialJudges, judge_role
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.graders.grader import JudgeUnavailable
from pytest_agenteval.records.evidence import CRASH, Evidence
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import NO_USAGE, Transcript
from pytest_agenteval.records.trial import NO_ERROR, ErrorDetails, Trial, part_paid
from pytest_agenteval.text.errors import TrialBroken
from pytest_agenteval.text.json_values import json_digest


class InputChanged(TrialBroken):
    """The task asks something else than it did when the trial was carried out."""

    cause = "input_changed"


async def regrade(plan: Plan, context: WorkerContext, stored: Trial) -> Trial:
    """Give the stored trial with today's grades; one that broke before it was graded stays broken."""
    # With judges in the plan these are called; without, what judges replied at the time is read again, where
    # their requests would be the same today.
    # Graded it was where nothing broke, or where a grade is what broke the trial.
    grader_broke = any(grade.undecided == stored.cause for grade in stored.grades)
    if stored.cause not in ("", UNGRADED, CRASH) and not grader_broke:
        unpaid = part_paid(stored.transcript.all_usage, NO_USAGE)
        return replace(stored, key=plan.key, attempt=plan.attempt, file=plan.task.file_in_root, paid=unpaid)
    recorder = Recorder(lambda: stored.seconds, plan.conditions.prices)
    stored_judges = StoredJudges(stored.transcript, recorder)
    try:
        now = input_digest(plan.task, context.digest_cache)
        if stored.digests.input and stored.digests.input != now:
            raise InputChanged(
                f"{plan.task.file}: the input is not what it was in that run: try the task again"
            )
        judged_plan = plan
        if not plan.conditions.judges and stored_judges.models:  # the judges are a part of the ruler
            conditions = replace(plan.conditions, judges=stored_judges.models)
            judged_plan = replace(plan, conditions=conditions)
        digests = grader_digests(judged_plan, context.grading.grader, context.digest_cache)
        evidence = Evidence(plan.task.input, stored.transcript, stored.outcome)
        judges_for = (
            TrialJudges(plan, context, recorder, []).of if plan.conditions.judges else stored_judges.of
        )
        graded = await context.grading.grade(plan.task.graders, evidence, judges_for)
    except TrialBroken as broken:
        stored = replace(stored, paid=part_paid(stored.transcript.all_usage, recorder.paid))
        return _regraded_trial(plan, stored, GradingResult((), ErrorDetails(broken.cause, str(broken))))
    # Events of judges at the time are replaced by those of now.
    events = [event for event in stored.transcript.events if event.kind != "judge_ask"]
    transcript = replace(stored.transcript, events=(*events, *recorder.transcript().events))
    with_ruler = replace(
        stored.digests, ruler=digests.ruler, graders=digests.by_label, grader_code=digests.code
    )
    paid = part_paid(transcript.all_usage, recorder.paid)
    regraded = replace(stored, transcript=transcript, digests=with_ruler, paid=paid)
    return _regraded_trial(plan, regraded, graded)


def _regraded_trial(plan: Plan, stored: Trial, graded: GradingResult) -> Trial:
    error = graded.error or NO_ERROR
    return replace(
        stored,
        key=plan.key,
        attempt=plan.attempt,
        ending=graded.ending(plan.task.kind),
        score=graded.score,
        grades=graded.grades,
        kind=plan.task.kind,
        bucket=plan.task.bucket,
        tags=plan.task.tags,
        file=plan.task.file_in_root,
        label=plan.task.label,
        acted=None if graded.error else has_acted(plan.task, stored.transcript, stored.outcome),
        cause=error.cause,
        message=error.message,
        traceback=error.traceback,
    )


class StoredJudges:
    """Judges that return again what they returned when the trial was graded first."""

    def __init__(self, transcript: Transcript, recorder: Recorder) -> None:
        self._recorder = recorder
        self._replies: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for event in transcript.events:
            if event.kind == "judge_ask" and "reply" in event.details:
                self._replies[event.details["role"]][event.details["prompt"]].append(event.details["reply"])

    @property
    def models(self) -> tuple[Model, ...]:
        """All that were used, in the order in which they were first used."""
        names = dict.fromkeys(role.partition(" for ")[0] for role in self._replies)
        return tuple(Model(name, name) for name in names)

    def of(self, label: str) -> tuple[TrialJudge, ...]:
        """Return those that this grader used."""
        roles = [(model, judge_role(model.name, label)) for model in self.models]
        return tuple(TrialJudge(model, self._chat(role)) for model, role in roles if role in self._replies)

    def _chat(self, role: str) -> Chat:
        replies_by_prompt = {prompt: deque(replies) for prompt, replies in self._replies[role].items()}
        return JudgeChat(_StoredReplies(replies_by_prompt), recorder=self._recorder, role=role)


class _StoredReplies:
    """A chat that replies what was replied to the same messages, in the same order."""

    def __init__(self, replies_by_prompt: Mapping[str, deque[str]]) -> None:
        self._replies_by_prompt = replies_by_prompt

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        replies = self._replies_by_prompt.get(json_digest(list(messages)))
        if not replies:
            raise JudgeUnavailable(
                "judges would be asked something else today: --agent-judge=MODEL asks them"
            )
        return Reply(replies.popleft(), taped=True)
