"""Runs whose end is shown on the screens that are kept below ``screens/``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import NO_USAGE, Ask, Transcript, Usage
from pytest_agenteval.records.trial import TapeCounts, Trial
from pytest_agenteval.store.run_folder import RunModel, RunSuite
from pytest_agenteval.store.run_reader import Run
from tests.reports.runs import RULES_MODEL, store_run, trial


def _buckets(text: str) -> dict[str, int]:
    """Give buckets with their number of tasks: ``opt_out 9, skip_trivial 3``."""
    return {name: int(count) for name, count in map(str.split, text.split(","))}


CARD = _buckets(
    "ambiguous_event_vs_task 1, ambiguous_mood_vs_metric 1, multi_ts_same_day 1, "
    "decline_trivial 2, decline_empty 1, template_event 3, template_link 2, template_metric 2, "
    "template_mood 2, template_person 1, template_place 1, template_progress 1, template_quote 2, "
    "template_rating 1, template_routine 1, template_task 2, template_transaction 1"
)
KO = {"L1": 11, "L2": 15, "L3": 10, "L4": 10, "L5": 20, "L6": 15, "L7": 10}
PKM = _buckets(
    "route_into_english_career_file 1, route_into_chinese_book_file 1, "
    "route_into_chinese_named_file 1, specific_subfile_pressure 1, cross_ref_paper_to_thesis 1, "
    "research_note_split_routing 1, fresh_user_first_fact 2, low_signal_high_noise 2, "
    "multi_ts_isolation 1, route_into_inprogress_chapter 1, route_into_existing_chars_file 1, "
    "route_into_existing_resource 1, opt_out 9, route_into_existing_area_file 1, "
    "route_into_existing_paper 1, route_into_existing_project 2, new_paper_genre 1, "
    "skip_trivial 3, amb_paused_to_archive 1, amb_health_one_off 1, no_redundant_file 2, "
    "mixed_signal 2, route_finished_book 1, route_into_existing_book_file 1, "
    "route_into_existing_subfile 2"
)
"""Buckets of the suites that ship, and how many tasks each has."""

HANGUL = {"짧은_메모는_넘긴다": 2, "책_제목을_그대로_옮긴다": 1, "가족_이야기는_묻고_적는다": 6, "완료": 5}

ENDED = "2026-11-21T09:30:32.400+00:00"
"""Of runs that began 17 seconds before; one that is not ended has no wall time."""

LATTICE = (0.25, 1.0, 0.5, 1.0, 0.75, 0.25, 1.0, 1.0, 0.5, 1.0)
"""Scores in the order in which tasks get them."""


def suite_trials(
    suite: str, buckets: Mapping[str, int], scores: Sequence[float] = LATTICE, **more: Any
) -> Iterator[Trial]:
    """Give the trials of a suite: its tasks get these scores in turn, each in all of its repetitions."""
    model, variant, repetitions = more.pop("model", "rules"), more.pop("variant", ""), more.pop("times", 1)
    usage = more.pop("usage", Usage(900, 100, asks=1))
    tasks = [(bucket, at) for bucket, count in buckets.items() for at in range(count)]
    for number, (bucket, at) in enumerate(tasks):
        for repetition in range(1, repetitions + 1):
            key = TrialKey(suite, f"{bucket}_{at}", "card", model, variant, repetition)
            score, transcript = scores[number % len(scores)], _transcript(usage, number)
            yield trial("", 1, score, bucket, key=key, transcript=transcript, seconds=0.1, **more)


def _transcript(usage: Usage, number: int) -> Transcript:
    """Give the replies of a trial, each of which took 0.4 to 1 second."""
    asks = [
        Ask(turn, turn * 2.0, turn * 2.4 + number % 7 / 10, NO_USAGE) for turn in range(1, usage.asks + 1)
    ]
    return Transcript(asks=tuple(asks), usage=usage)


def suites(*names: str) -> tuple[RunSuite, ...]:
    """Give capability suites of these names."""
    return tuple(RunSuite(name, "capability", "card") for name in names)


def three_suites(root: Path, scores: Sequence[float] = LATTICE) -> Run:
    """Give a run of three suites with the buckets of those that ship: 157 tasks, two suites twice."""
    unjudged = (Grade("words", 1.0, ""), Grade("main", None, "no judge", undecided="no_judge"))
    trials = [
        *suite_trials("card", CARD, scores, times=2),
        *suite_trials("ko", KO, scores, tool_tape=TapeCounts(1, 2, 0)),
        *suite_trials("pkm", PKM, scores, times=2, grades=unjudged),
    ]
    return store_run(root, trials, suites=suites("card", "ko", "pkm"), ended_at=ENDED)


def doubtful(root: Path) -> Run:
    """Give a run in which trials broke for two causes, never ran, met a limit, and lack a judge."""
    unsure = (Grade("words", 1.0, ""), Grade("main", None, "no judge", undecided="no_judge"))
    not_applicable = (Grade("words", 0.5, ""), Grade("size", None, "", undecided="not_applicable"))
    fine = list(suite_trials("card", {"decline": 3, "quote": 6}, times=2, grades=not_applicable))
    broken = [
        trial("", 1, None, "quote", key=fine[-1].key._replace(task=f"broken_{at}"), cause=cause)
        for at, cause in enumerate(("provider", "provider", "fixture"))
    ]
    limited = list(suite_trials("pkm", {"opt_out": 5}, limit="steps", grades=unsure))
    planned = [(each.key, each.bucket) for each in (*fine, *broken, *limited)]
    planned += [(TrialKey("pkm", f"late_{at}", "card", "rules", "", 1), "late") for at in range(4)]
    judged = list(suite_trials("pkm", {"opt_out": 5}, tool_tape=TapeCounts(3, 1, 0), grades=unsure))
    return store_run(root, [*fine, *broken, *judged[:2], *limited[2:]], planned, suites=suites("card", "pkm"))


def several_models(root: Path) -> Run:
    """Give two suites with two real models, one of them with another prompt too, one without a price."""
    paid, unknown = Usage(1000, 200, cost_usd=0.0125, asks=2), Usage(800, 100, cost_usd=None, asks=2)
    trials = [
        each
        for suite, buckets in (("card", CARD), ("ko", KO))
        for model, variant, scores, usage in (
            ("claude", "", LATTICE, paid),
            ("claude", "short", LATTICE[3:], paid),
            ("gpt", "", LATTICE[1:4], unknown),
        )
        for each in suite_trials(suite, buckets, scores, model=model, variant=variant, usage=usage)
    ]
    models = (RunModel("claude", "anthropic/claude"), RunModel("gpt", "openai/gpt"))
    return store_run(root, trials, models=models, suites=suites("card", "ko"), ended_at=ENDED)


def hangul(root: Path) -> Run:
    """Give a suite with Korean names, some of them wider than a narrow terminal."""
    trials = suite_trials("개인_지식_관리", HANGUL)
    return store_run(root, trials, models=(RULES_MODEL,), suites=suites("개인_지식_관리"), ended_at=ENDED)


def all_missed(root: Path) -> Run:
    """Give three suites in which nothing passes: all small buckets are equal."""
    return three_suites(root, (0.0,))


def all_passed(root: Path) -> Run:
    """Give a suite in which every trial passes."""
    return store_run(root, suite_trials("card", CARD, (1.0,), times=2), suites=suites("card"), ended_at=ENDED)


def one_task(root: Path) -> Run:
    """Give one trial of one task, as somebody has who works on it."""
    return store_run(root, suite_trials("card", {"quote": 1}, (0.5,)), suites=suites("card"), ended_at=ENDED)
