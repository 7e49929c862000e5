"""From a stored run to feedback: which trials, what of each, cut to what the budget allows."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_agenteval.loop.feedback.content import DEFAULT_OPTIONS, EarlierRound, Feedback, FeedbackOptions
from pytest_agenteval.store.run_reader import Run


def make_feedback(
    run: Run, options: FeedbackOptions = DEFAULT_OPTIONS, earlier_rounds: Sequence[EarlierRound] = ()
) -> Feedback:
    """Say what the trials of split dev teach whoever changes the prompts."""
    return Feedback(
        run=run.name,
        suites=tuple(suite.name for suite in run.header.suites),
        model=options.model or "",
        variant=options.variant or "",
        budget=options.budget,
        buckets=(),
        in_brief=(),
        passed=(),
        prompts=(),
        prompt_reads="",
        errored=(),
        left_out=(),
        earlier_rounds=tuple(earlier_rounds),
        rules=(),
        guide=options.guide,
        cuts=(),
        template=options.template,
    )
