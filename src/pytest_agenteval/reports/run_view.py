"""A stored run as all reports see it: the terminal after a run, and a page a month later."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from pytest_agenteval.compare.resource_figures import ResourceFigures, resource_figures
from pytest_agenteval.compare.scoring.aggregates import Classification, classify
from pytest_agenteval.records.plan import OWN_MODEL, TrialKey, own_label
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    PROMPT_READ,
    UNREAD_PROMPT,
    Transcript,
    Usage,
    used_other_models,
)
from pytest_agenteval.reports.group_statistics import GroupStatistics, group_by_task, group_statistics
from pytest_agenteval.store.journal_entry import JournalEntry, own_models_of
from pytest_agenteval.store.run_folder import RunHeader, RunModel, RunSuite
from pytest_agenteval.store.run_reader import Run, first_unreadable
from pytest_agenteval.text.formatting import (
    MOST_NAME,
    NOT_KNOWN,
    first_few,
    format_figure,
    model_label,
    one_line,
    pluralize,
    printable,
)
from pytest_agenteval.text.json_values import compact_json, json_digest


class ActingDecisions(FrozenValue, frozen=True):
    """How the trials of labelled tasks met their labels; ``errored`` ones are not counted."""

    counts: Classification
    errored: int


def _decisions_of(entries: Iterable[JournalEntry]) -> ActingDecisions | None:
    """Count decisions of labelled trials by what agents did, not by their scores; None without a label."""
    labelled = [entry for entry in entries if entry.label]
    if not labelled:
        return None
    # A trial that errored is no decision: the agent might still have done what it had not done by then.
    averaged = [entry for entry in labelled if entry.averaged]
    counts = classify((entry.label == "positive", entry.acted) for entry in averaged)
    return ActingDecisions(counts, len(labelled) - len(averaged))


def decisions_text(decisions: ActingDecisions) -> str:
    """Write decisions in one line: the figures, what they are over, and what is left out."""
    counts = decisions.counts
    ways = (
        f"{counts.true_positives} acted correctly, {counts.false_positives} wrongly, "
        f"{counts.false_negatives} should have acted, {counts.true_negatives} correctly did not"
    )
    over = f"{decision_figures(decisions)} over {pluralize(counts.decided, 'labelled trial')}"
    unknown, errored = counts.unknown, decisions.errored
    parts = [f"{errored} errored" if errored else "", f"{unknown} not known" if unknown else ""]
    left_out = ", ".join(filter(None, parts))
    return f"acting: {over} ({ways}){f'; left out: {left_out}' if left_out else ''}"


def decision_figures(decisions: ActingDecisions) -> str:
    """Write precision, recall and F1, without the counts."""
    counts = decisions.counts
    shares = {"precision": counts.precision, "recall": counts.recall, "F1": counts.f1}
    return ", ".join(f"{name} {format_figure(share)}" for name, share in shares.items())


def decisions_json(decisions: ActingDecisions) -> dict[str, Any]:
    """Give the figures with all digits, None where there is nothing to divide by, and the counts."""
    shares = ("precision", "recall", "f1", "accuracy")
    counts = ("true_positives", "false_positives", "false_negatives", "true_negatives", "unknown")
    figures = {name: getattr(decisions.counts, name) for name in (*shares, *counts)}
    return {**figures, "errored": decisions.errored}


OFFLINE_NOTES = {
    "rules": "rule-based, no LLM",
    "baseline": "rule-based, no LLM",  # what journals of runs before it was called `rules` say
    "oracle": "follows the reference, no LLM",
    "nop": "does nothing",
    "scripted": "follows a script",
    "spoiler": "follows the reference with a planted mistake",
}
Group = tuple[str, str, str]
"""A suite, a model and a variant."""

_suite_views: WeakKeyDictionary[Run, tuple[SuiteView, ...]] = WeakKeyDictionary()
"""Of runs in memory: the screen, the leaderboard and the page of a run need the same views."""

_ENTRY_KEY, _DOUBTFUL, _SIMULATING = map(attrgetter, ("key", "doubtful_events", "simulating"))


class SuiteView(FrozenValue, frozen=True):
    """One suite with one model and variant: a row for each bucket, and all of them together.

    ``note`` says what an offline model does. ``promoted`` counts the tasks whose trials are of kind
    regression in a suite of another kind. ``decisions`` say whether the agent acted where it should, where
    tasks are labelled. ``own_models`` are those that an agent called by itself where no real one was named,
    or the named one was never called. It ``is_without_requests`` where no request to a model was seen, and
    the agent is not an offline one.
    """

    suite: str
    kind: str
    model: str
    variant: str
    note: str
    rows: tuple[GroupStatistics, ...]
    total: GroupStatistics
    promoted: int = 0
    decisions: ActingDecisions | None = None
    own_models: tuple[str, ...] = ()
    is_without_requests: bool = False

    @property
    def group(self) -> Group:
        return self.suite, self.model, self.variant

    @property
    def kinds(self) -> str:
        """The suite's kind, with the number of promoted tasks: ``capability, 3 tasks regression``."""
        return f"{self.kind}, {pluralize(self.promoted, 'task')} regression" if self.promoted else self.kind

    @property
    def who(self) -> str:
        """The model with its variant: ``claude@short``; of an agent with its own models: ``own: gpt-6``."""
        return model_label(own_label(self.model, self.own_models), self.variant)


class RunView(FrozenValue, frozen=True):
    """Everything a report says of a run; ``misses`` did not pass: worst first, errored trials last.

    ``warnings`` say what makes the figures doubtful; ``doubtful_events`` counts what does so in single
    trials, by kind, over all of them. ``simulating`` is what models took that played users. ``not_run``
    counts the trials that were held back, by reason; ``lost`` names the trials at which processes died, and
    how often. ``resources`` are what the whole run took; None for the file of a baseline.
    """

    name: str
    path: str
    started_at: str
    ended_at: str
    exit_status: int | None
    notes: tuple[str, ...]
    suites: tuple[SuiteView, ...]
    misses: Sequence[JournalEntry]
    unreadable: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    doubtful_events: Mapping[str, int] = NOTHING
    simulating: Usage = NO_USAGE
    not_run: Mapping[str, int] = NOTHING
    lost: tuple[tuple[TrialKey, int], ...] = ()
    resources: ResourceFigures | None = None

    def label(self, suite: SuiteView) -> str:
        """Name a suite of this run, with its model where the run has several."""
        return suite_label(suite, self.suites)

    @property
    def best_first(self) -> RunView:
        """The same run, with the models and prompts of each suite in the order of their scores."""
        order = {name: at for at, name in enumerate(dict.fromkeys(suite.suite for suite in self.suites))}
        suites = sorted(self.suites, key=lambda each: (order[each.suite], -(each.total.score or 0)))
        return replace(self, suites=tuple(suites))


def suite_label(suite: SuiteView, suites: Sequence[SuiteView]) -> str:
    """Name one of these suites, with its model where they have several."""
    name = one_line(suite.suite, MOST_NAME) or NOT_KNOWN
    several = len({other.who for other in suites}) > 1
    return f"{name}[{one_line(suite.who, MOST_NAME)}]" if several else name


def view_of(run: Run) -> RunView:
    """Make the view of a run; transcripts are read only to find prompts without effect."""
    header = run.header
    doubtful_events: Counter[str] = Counter()
    for events in filter(None, map(_DOUBTFUL, run.entries)):
        doubtful_events.update(events)
    return RunView(
        name=run.name,
        path=str(run.folder),
        started_at=header.started_at,
        ended_at=header.ended_at,
        exit_status=header.exit_status,
        notes=tuple(f"{model.name}: {note}" for model in header.models if (note := model_note(model))),
        suites=suite_views(run),
        misses=worst_first(run.entries),
        warnings=(*_part(header), *_self_judged(header), *_prompt_warnings(run), *_unpriced(run)),
        doubtful_events=doubtful_events,
        simulating=sum(filter(NO_USAGE.__ne__, map(_SIMULATING, run.entries)), NO_USAGE),
        not_run=Counter(trial.reason for trial in run.not_run),
        resources=resource_figures(run.entries, header, run.begun, is_whole_run=True),
        lost=tuple(Counter(attempt.key for attempt in run.lost).most_common()),
        # The last one: reading transcripts, as the warnings above do, adds what cannot be read.
        unreadable=tuple(first_unreadable(run.odd)),
    )


def suite_views(run: Run) -> tuple[SuiteView, ...]:
    """Make the views of a run's suites, once for each run in memory; no transcript is read."""
    if run not in _suite_views:
        groups = entries_by_group(run).items()
        _suite_views[run] = tuple(_suite_view(run, group, entries) for group, entries in groups)
    return _suite_views[run]


def _part(header: RunHeader) -> Iterator[str]:
    shards = header.shards
    if shards is not None:
        missing = ", ".join(map(str, shards.missing))
        left = f"without {missing}" if len(shards.numbers) > 1 else "agenteval merge joins them"
        yield f"{shards.title}: suites are incomplete; {left}"


def _self_judged(header: RunHeader) -> Iterator[str]:
    """Name each model that judged its own trials, unless the run was started with --agent-self-judge."""
    # By id and not by alias: two aliases may be the same model.
    judges = {judge.id: judge.name for judge in header.judges}
    for model in header.models:
        if model.id in judges and not header.self_judge:
            yield (
                f"{printable(model.name)} judged its own trials, and models favour themselves: "
                "name another judge, or add --agent-self-judge"
            )


def _unpriced(run: Run) -> Iterator[str]:
    """Say how to set the price of models whose replies were counted, but whose cost is unknown."""
    names: dict[str, None] = {}
    for entry in run.entries:
        if entry.usage.cost_usd is None and entry.usage.tokens:
            own = chose_by_itself(entry.key.model, entry.own_models)
            names.update(dict.fromkeys(entry.own_models if own else (entry.key.model,)))
    if names:
        listed = printable(", ".join(first_few(list(names), MOST_UNPRICED, "{} more")))
        table = printable(f"[tool.agenteval.prices.{compact_json(next(iter(names)))}]")
        yield f"the cost of {listed} is unknown; set a price in pyproject.toml: {table}"


def chose_by_itself(model: str, own_models: Sequence[str]) -> bool:
    """Whether the agent called models of its own choice, and no real one was named."""
    return bool(own_models) and model in (OWN_MODEL, *OFFLINE_NOTES)


def acting_model(model: str, own_models: Sequence[str]) -> str:
    """Name the model that acted: the one in the replies where the agent chose it, else the named one."""
    return own_label(model, own_models) if chose_by_itself(model, own_models) else model


def model_note(model: RunModel) -> str:
    """Say what an offline model does; empty for a real one."""
    return printable(model.note) or (OFFLINE_NOTES.get(model.id, "offline, no LLM") if model.offline else "")


def worst_first(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Give the trials that did not pass: failed, then missed, each by score, then errored."""
    # Keys decide between equal scores, so that every report has one order.
    by_key = sorted([entry for entry in entries if entry.ending != "passed"], key=_ENTRY_KEY)
    return [
        entry
        for ending in ("failed", "missed", "errored")
        for entry in sorted([one for one in by_key if one.ending == ending], key=_score)
    ]


def _score(entry: JournalEntry) -> float:
    return entry.score or 0.0


def looked_at_text(misses: Collection[JournalEntry]) -> str:
    """Say how many of these trials somebody has looked at; empty where nobody has looked at any."""
    count = sum(bool(entry.note.looked_at) for entry in misses)
    return f"{count:,} of {pluralize(len(misses), 'miss')} looked at" if count else ""


def entries_by_group(run: Run) -> dict[Group, list[JournalEntry]]:
    """Give the trials of each suite with each model, planned groups first, in the order of planning."""
    groups: dict[Group, list[JournalEntry]] = {
        (group.suite, group.model, group.variant): [] for group in run.planned
    }
    for entry in run.entries:
        suite, _, _, model, variant, _ = entry.key
        groups.setdefault((suite, model, variant), []).append(entry)
    return groups


def _group(key: TrialKey) -> Group:
    return key.suite, key.model, key.variant


def _suite_view(run: Run, group: Group, entries: Sequence[JournalEntry]) -> SuiteView:
    suite, model, variant = group
    planned = [part for part in run.planned if (part.suite, part.model, part.variant) == group]
    header = next((run_suite for run_suite in run.header.suites if run_suite.name == suite), None)
    run_model = next((run_model for run_model in run.header.models if run_model.name == model), None)
    is_offline = run_model is not None and run_model.offline
    # The task that has fewest repetitions decides k, so that every task can tell.
    counts = [part.repetitions for part in planned] or list(map(len, group_by_task(entries).values()))
    statistics = partial(
        group_statistics,
        k=min(counts, default=1),
        threshold=(header or RunSuite(suite)).threshold,
        is_offline=is_offline,
        is_regraded=bool(run.header.regraded),
    )
    trials: dict[str, list[JournalEntry]] = {part.bucket: [] for part in planned}
    for entry in entries:
        trials.setdefault(entry.bucket, []).append(entry)
    # A trial that never ended is known to belong to the suite, but not to a bucket.
    unended = {attempt.key for attempt in run.begun if _group(attempt.key) == group}
    unended -= {entry.key for entry in entries} if unended else set()
    total = statistics("all", entries, planned, interrupted=len(unended))
    # The figures of an only bucket are those of the suite, and need not be made again.
    rows = tuple(
        statistics(bucket, of_bucket, [part for part in planned if part.bucket == bucket])
        if len(trials) > 1
        else replace(total, name=bucket)
        for bucket, of_bucket in trials.items()
    )
    asking = [entry for entry in entries if entry.own_models]
    only_other_models = bool(asking) and all(used_other_models(entry.doubtful_events) for entry in asking)
    is_own = model == OWN_MODEL or is_offline or only_other_models
    own_models = own_models_of(entries) if is_own else ()
    kind = header.kind if header else entries[0].kind if entries else "mixed"
    return SuiteView(
        suite=suite,
        kind=kind,
        model=model,
        variant=variant,
        note="" if run_model is None or own_models else model_note(run_model),
        rows=rows,
        total=total,
        promoted=len(group_by_task(entry for entry in entries if entry.kind == "regression" != kind)),
        decisions=_decisions_of(entries),
        own_models=own_models,
        is_without_requests=(model == OWN_MODEL or (run_model is not None and not is_offline))
        and total.averaged > 0
        and not any(entry.usage.asks for entry in entries),
    )


MOST_SENT = 60
MOST_UNPRICED = 3
"""Characters of what was sent instead of a prompt."""


def _prompt_warnings(run: Run) -> Iterator[str]:
    """Name prompts that no trial of a suite and its agent has read, then variants that sent the same."""
    # A variant whose prompt nobody read sent the same for that reason: it is named once.
    unread = dict.fromkeys(unread_prompts(run))
    yield from (line for line, _ in unread)
    yield from identical_prompt_warnings(run, {variant for _, variant in unread})


def unread_prompts(run: Run) -> Iterator[tuple[str, str]]:
    """Give a line for each prompt that no trial of a suite, model and variant has read, with its variant."""
    for (suite, _, variant), entries in entries_by_group(run).items():
        ended = [entry for entry in entries if entry.ending != "errored"]
        if not ended or not all(entry.doubtful_events.get(UNREAD_PROMPT) for entry in ended):
            continue
        # The journal counts such events by kind; which prompts they name is only in the transcripts.
        transcripts = [trial.transcript for entry in ended if (trial := run.trial_if_readable(entry))]
        events = [
            {event.text: event.details["of"] for event in transcript.events if event.kind == UNREAD_PROMPT}
            for transcript in transcripts
        ]
        for name, owner in events[0].items() if events else ():
            if all(name in of_trial for of_trial in events):
                what = printable(f"the prompt {name!r} of {owner}, so it has no effect")
                messages = transcripts[0].messages
                system = next((message.content for message in messages if message.role == "system"), "")
                sent = f"; the system message was {one_line(system, MOST_SENT)!r}" if system else ""
                line = f"{printable(suite)}: no trial read {what}{sent}"
                yield line, variant if owner.startswith("--") else ""


def _sent_texts(transcript: Transcript) -> list[list[str]]:
    """Give what an agent sent in its own words: as the system, and as the user.

    Without a system message, also the prompts that it read: an endpoint gets them in a request that the
    transcript does not hold.
    """
    texts = [
        [message.role, message.content]
        for message in transcript.messages
        if message.role in ("system", "user")
    ]
    if any(role == "system" for role, _ in texts):
        return texts
    read = [
        [event.text, event.details.get("digest", "")]
        for event in transcript.events
        if event.kind == PROMPT_READ
    ]
    return [*texts, *read]


def identical_prompt_warnings(run: Run, named: Collection[str] = ()) -> Iterator[str]:
    """Name each pair of variants whose trials sent the same messages.

    Variants that are ``named`` already are left out, but never the unnamed one of the agent's own prompts.
    """
    # With one variant there is nothing to compare, and no transcript is read.
    variants = [variant for variant in run.header.variants if not variant or variant not in named]
    if len(variants) < 2:
        return
    sent: dict[tuple[str, str, str], dict[str, dict[tuple[str, int], str]]] = defaultdict(dict)
    for entry in run.entries:
        trial = run.trial_if_readable(entry)
        texts = _sent_texts(trial.transcript) if trial else []
        if texts:
            key = entry.key
            by_variant = sent[key.suite, key.agent, key.model]
            by_variant.setdefault(key.variant, {})[key.task, key.repetition] = json_digest(texts)
    for (suite, _, model), by_variant in sent.items():
        for first, second in combinations(filter(by_variant.__contains__, variants), 2):
            # A prompt that matters in one task of many is worth having, and a task that one variant alone
            # tried says nothing: all trials that both have must be alike.
            both = by_variant[first].keys() & by_variant[second].keys()
            if both and all(by_variant[first][key] == by_variant[second][key] for key in both):
                names = f"{printable(model_label(model, first))} and {printable(model_label(model, second))}"
                many = f"sent the same messages in {pluralize(len(both), 'trial')}"
                yield f"{printable(suite)}: {names} {many}: the different prompts have no effect"
