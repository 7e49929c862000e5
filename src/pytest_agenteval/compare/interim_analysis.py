"""The interim analysis of a run: after its first repetitions, which suites get more, and at which levels.

Two looks together may spend what one look may: ``docs/gates.md`` says how often their verdicts are wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import SuiteComparison
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.store.run_documents import Group, Reading, SuiteLook
from pytest_agenteval.store.run_folder import Levels, RepetitionRule


def _reading(suite: Change | None, buckets: Iterable[Change], rule: RepetitionRule) -> Reading:
    """Decide about a suite that was judged at the first look's levels; it is None without any scores."""
    if suite is None:
        return "no counterpart"
    if suite.tasks < rule.fewest_tasks:
        return "few tasks"
    # Only a verdict on tasks like these ends a suite: one on these tasks alone may become such a verdict with
    # more trials. A verdict that errored trials undo is none.
    if suite.verdict in ("better", "worse") and not suite.of_these_tasks:
        return "decided"
    # A bucket may still show something where the whole suite has no hope.
    promising = any(bucket.p <= rule.promising for bucket in buckets)
    return "hopeless" if suite.p > rule.futile and not promising else "open"


def interim_look(
    group: Group, part: SuiteComparison | None, baseline: str, rule: RepetitionRule
) -> SuiteLook:
    """Look at a suite that was compared at the first look's levels; None is one without a counterpart.

    ``baseline`` is the name of the run that it was compared with.
    """
    reading = _reading(part.suite, part.buckets, rule) if part else "no counterpart"
    levels = rule.second_look if reading == "open" else rule.first_look
    return SuiteLook(
        *group,
        reading,
        rule.high if reading in ("open", "few tasks") else rule.low,
        rule.low,
        rule.high,
        # Nothing was tested, so nothing is spent: the plain levels hold at the end.
        Levels() if reading in ("few tasks", "no counterpart") else levels,
        baseline,
        *(part.old_who if part else ("", "")),
    )


def within_trial_limit(
    looks: Sequence[SuiteLook], trials: int, extra: Mapping[Group, int], rule: RepetitionRule
) -> tuple[SuiteLook, ...]:
    """Leave suites at the first look, in their order, if their extra trials are more than a run may have.

    ``trials`` is what the run has without any of them, ``extra`` what each suite would add.
    """
    fitting: list[SuiteLook] = []
    for look in looks:
        more = extra.get(look.group, 0)
        if look.goes_on and rule.most_trials is not None and trials + more > rule.most_trials:
            # What a look has spent stays spent, also without more trials.
            levels = Levels() if look.reading == "few tasks" else rule.first_look
            fitting.append(replace(look, reading="no room", repetitions=look.low, levels=levels))
            continue
        trials += more if look.goes_on else 0
        fitting.append(look)
    return tuple(fitting)
