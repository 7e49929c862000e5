"""The loop itself: start, rounds, held-out tasks, end; each step is written down before the next begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.loop.feedback.content import EarlierRound, FeedbackOptions
from pytest_agenteval.loop.feedback.feedback import make_feedback
from pytest_agenteval.loop.feedback.markdown import MARKDOWN_FILE, write_feedback
from pytest_agenteval.loop.improve.coding_agent import CodingAgentEnding, run_coding_agent
from pytest_agenteval.loop.improve.decisions import (
    Confirmation,
    RoundDecision,
    confirm,
    decide_round,
    decide_screen,
    repetitions_to_confirm,
)
from pytest_agenteval.loop.improve.edit_check import check_edit, pathspecs_of, repository_state
from pytest_agenteval.loop.improve.log import write_log
from pytest_agenteval.loop.improve.paired_runs import RunFailed, RunOrder
from pytest_agenteval.loop.improve.progress import HeldOut, Improvement, Outcome, Round, TriedPair
from pytest_agenteval.loop.improve.repository import Repository
from pytest_agenteval.loop.improve.suite_tasks import (
    SuiteTasks,
    held_out_files,
    prompts_to_replace,
    read_suite_tasks,
)
from pytest_agenteval.loop.improve.trying import (
    Judgement,
    Trying,
    looks_so_far,
    trials_in,
    worst_bucket,
)
from pytest_agenteval.loop.leaks.leak import Leak
from pytest_agenteval.loop.leaks.search import prompt_leaks
from pytest_agenteval.reports.comparison.headline import NO_BUCKET
from pytest_agenteval.reports.formatting import format_duration, format_figure, one_line, pluralize
from pytest_agenteval.store.run_reader import Run, load_run

WITHOUT_KEEP = 2
"""Rounds in a row without a keep after which held-out tasks decide."""

MOST_HELD_OUT_REPETITIONS = 8
MOST_LINE = 300
MOST_LEAKS = 3


class Tell(Protocol):
    """Whoever says on a terminal what goes on: a step that begins, and what came of it on the same line."""

    def begin(self, step: str, what: str) -> None:
        """Say what begins."""

    def end(self, what: str) -> None:
        """Say what came of it."""


class Improver:
    """One improvement, from wherever it stands to its end; ``folder`` holds all of it but the runs.

    Whatever interrupts it, what was written last is where another one goes on.
    """

    def __init__(
        self,
        repository: Repository,
        folder: Path,
        improvement: Improvement,
        tell: Tell,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._repository, self._folder, self._tell = repository, folder, tell
        self._is, self._clock = improvement, clock
        self._began, self._before = clock(), improvement.seconds
        self._pathspecs = pathspecs_of(improvement.globs, improvement.folder)
        self._old_tree = folder / "kept"

    def run(self) -> Improvement:
        """Go on until the end; raises KeyboardInterrupt, and UsageMistake where nothing can be tried."""
        self._check_out_old(self._is.kept)
        tasks = read_suite_tasks(self._old_tree, self._is.suite_file)
        if self._is.start_run is None:
            self._start(tasks)
        if not self._is.focus:
            self._save(ended="every dev task passed: there is nothing to improve")
        while not self._is.ended:
            self._next_round(tasks)
        if self._is.has_kept and self._is.held_out is None:
            self._hold_out(tasks)
        self._finish()
        return self._is

    @property
    def improvement(self) -> Improvement:
        """How far it has come."""
        return self._is

    def _save(self, **changes: Any) -> None:
        seconds = self._before + self._clock() - self._began
        self._is = replace(self._is, **changes, trials=self._trying.trials, seconds=seconds)
        write_log(self._is, self._folder)

    @property
    def _trying(self) -> Trying:
        return Trying(self._is, self._repository.root, self._folder)

    def _check_out_old(self, commit: str) -> None:
        self._repository.add_tree(self._old_tree, commit)

    def _start(self, tasks: SuiteTasks) -> None:
        """Try the dev split as it is, and choose the focus where nobody has."""
        trying = self._trying
        order = trying.order("start", "dev", self._is.repetitions)
        needed = trying.count(self._old_tree, order)
        if not trying.has_room(needed):
            most = self._is.limits.max_trials
            raise UsageMistake(f"--max-trials {most}: the first run of the dev split has {needed} trials")
        self._tell.begin("start", f"dev split x {self._is.repetitions} ...")
        start = trying.start(self._old_tree)
        self._save(start_run=start, feedback_run=start.run)
        score = f"{self._is.suite} {format_figure(start.score)}"
        if not self._is.focus:
            bucket = worst_bucket(self._run(start.run), self._is.suite, tasks.dev_buckets)
            self._save(focus=() if bucket is None else (bucket,))
        self._tell.end(f"{pluralize(start.spent.trials, 'trial')}, {score}; focus: {self._focus_names}")

    @property
    def _focus_names(self) -> str:
        return ", ".join(one_line(name, MOST_LINE) or NO_BUCKET for name in self._is.focus) or "none"

    def _run(self, name: str) -> Run:
        place = Path(self._is.results) / name
        return load_run(place if place.is_dir() else Path(name))

    # --- rounds

    def _next_round(self, tasks: SuiteTasks) -> None:
        """Take up the round that was interrupted, or begin another, or say why there is none."""
        rounds, limits = self._is.rounds, self._is.limits
        if not rounds or rounds[-1].step == "decided":
            most = limits.rounds if limits.max_rounds is None else min(limits.rounds, limits.max_rounds)
            if rounds and rounds[-1].decision == "nothing changed":
                self._save(ended="the coding agent changed nothing more")
            elif self._is.rounds_without_keep >= WITHOUT_KEEP:
                self._save(ended=f"{WITHOUT_KEEP} rounds in a row without a keep")
            elif len(rounds) >= most:
                self._save(ended=f"{pluralize(len(rounds), 'round')} done")
            elif not self._has_room_for_round(tasks):
                self._save(ended=f"a further round would go beyond --max-trials {limits.max_trials}")
            else:
                self._save(rounds=(*rounds, Round(len(rounds) + 1, self._is.kept)))
            return
        current = rounds[-1]
        if current.step == "coding":
            current = self._change(current, tasks)
        if current.step == "changed":
            current = self._screen(current, tasks)
        if current.step == "screened":
            self._try_dev(current)
        self._repository.remove_tree(self._tree_of(current))

    def _has_room_for_round(self, tasks: SuiteTasks) -> bool:
        """Whether a whole round, and then the confirmation, stay within the trials that there may be."""
        start = self._is.start_run
        assert start is not None
        dev = 2 * start.trials_once * self._is.repetitions
        return self._trying.has_room(dev + self._focus_trials(tasks) + self._reserve(tasks))

    def _focus_trials(self, tasks: SuiteTasks) -> int:
        if self._is_all_focus(tasks):
            return 0
        start = self._is.start_run
        assert start is not None
        files = {task.file for task in self._focus_tasks(tasks)}
        beside = [task for task in tasks.dev if task.file in files]
        return 2 * self._is.repetitions * trials_in(self._run(start.run), self._is.suite, beside)

    def _reserve(self, tasks: SuiteTasks) -> int:
        """Give how many trials the confirmation needs at least: without it nothing would be known."""
        start = self._is.start_run
        assert start is not None
        models = max(1, round(start.trials_once / max(1, len(tasks.dev))))
        return 2 * len(tasks.held_out) * self._is.repetitions * models

    def _focus_tasks(self, tasks: SuiteTasks) -> list[Any]:
        return [task for task in tasks.dev if task.bucket in self._is.focus]

    def _is_all_focus(self, tasks: SuiteTasks) -> bool:
        return len(self._focus_tasks(tasks)) == len(tasks.dev)

    def _tree_of(self, current: Round) -> Path:
        return self._folder / f"round-{current.number}" / "tree"

    def _put(self, current: Round, **changes: Any) -> Round:
        """Write down what has become of the last round."""
        changed = replace(current, **changes)
        self._save(rounds=(*self._is.rounds[:-1], changed))
        return changed

    def _decide(self, current: Round, decision: str, reason: str, **changes: Any) -> Round:
        self._tell.end(f"{decision}: {one_line(reason, MOST_LINE)}" if reason else decision)
        return self._put(current, decision=decision, reason=reason, step="decided", **changes)

    # --- the change

    def _change(self, current: Round, tasks: SuiteTasks) -> Round:
        """Let the coding agent work in a tree without held-out tasks, and look at what it left."""
        tree, repository = self._tree_of(current), self._repository
        feedback = tree.parent / "feedback"
        self._tell.begin(f"round {current.number}", "coding agent ...")
        write_feedback(self._feedback(tasks), feedback)
        start = repository.without(current.base, held_out_files(tasks.tasks, repository.files(current.base)))
        before = repository_state(repository, start, tree, repository.add_tree(tree, start))
        ending = self._run_coding_agent(current, tree, feedback)
        edit = check_edit(repository, before, self._pathspecs)
        current = replace(current, last_line=ending.last_line, coding_seconds=ending.seconds)
        if reason := _failure(ending, self._is.limits.coding_timeout) or edit.refusal:
            return self._decide(current, "refused", reason)
        if not edit.files:
            return self._decide(current, "nothing changed", "")
        commit = repository.commit_files(current.base, tree, edit.files, f"Round {current.number}\n")
        repository.remove_tree(tree)
        diff = repository.diff(current.base, commit)
        current = replace(current, commit=commit, files=edit.files, diff=diff)
        leaks = [leak for leak in self._leaks(current) if leak.added]
        if leaks:
            told = tuple(map(_leak_text, leaks))
            held_out = any(leak.split == "held_out" for leak in leaks)
            return self._decide(current, "refused", _leaks_reason(told), leaks=told, leaks_held_out=held_out)
        seconds = format_duration(ending.seconds)
        self._tell.end(f"{pluralize(len(edit.files), 'file')} changed, {seconds}")
        return self._put(current, step="changed")

    def _run_coding_agent(self, current: Round, tree: Path, feedback: Path) -> CodingAgentEnding:
        return run_coding_agent(
            self._is.command,
            folder=tree / self._is.folder,
            feedback=feedback / MARKDOWN_FILE,
            output=tree.parent / "coding-agent.txt",
            variables={
                "AGENTEVAL_FEEDBACK": str(feedback),
                "AGENTEVAL_ROUND": str(current.number),
                "AGENTEVAL_PROMPTS": "\n".join(self._is.globs),
            },
            timeout=self._is.limits.coding_timeout,
        )

    def _feedback(self, tasks: SuiteTasks) -> Any:
        run = self._run(self._is.feedback_run)
        files = self._repository.files(self._is.kept, self._pathspecs)
        models = list(dict.fromkeys(entry.key.model for entry in run.entries))
        options = FeedbackOptions(
            suite=self._is.suite,
            buckets=self._is.focus,
            model=models[0] if models else None,
            variant=self._is.feedback_variant,
            prompts=self._repository.texts(self._is.kept, files),
            root=self._root_of(run),
        )
        return make_feedback(run, options, [_earlier(each) for each in self._is.rounds[:-1]])

    def _root_of(self, run: Run) -> Path:
        """Give the folder of the old tree from which the run's task files are named."""
        place = self._old_tree / self._is.folder
        file = next((entry.file for entry in run.entries if entry.file), "")
        above = (place, *(each for each in place.parents if each.is_relative_to(self._old_tree)))
        return next((each for each in above if (each / file).is_file()), place)

    def _leaks(self, current: Round) -> Sequence[Leak]:
        old = self._texts(current.base)
        return prompt_leaks(old, self._texts(current.commit), (self._old_tree / self._is.suite_file).parent)

    def _texts(self, commit: str) -> dict[str, str]:
        return self._repository.texts(commit, self._repository.files(commit, self._pathspecs))

    # --- old against new

    def _screen(self, current: Round, tasks: SuiteTasks) -> Round:
        """Try the focus alone, old and new: what is not better there in the mean costs no whole split."""
        if self._is_all_focus(tasks):
            return self._put(current, step="screened")
        files = [task.file for task in self._focus_tasks(tasks)]
        order = self._trying.order(f"{current.number}-screen", "dev", self._is.repetitions, files)
        self._tell.begin(f"round {current.number}", "screen ...")
        outcome = self._try(current, tasks, order, self._judge_screen)
        if isinstance(outcome, str):
            return self._decide(current, "discarded", outcome)
        _, tried = outcome
        if tried.decision == "discarded":
            return self._decide(current, "discarded", _with_note(tried), screen=tried)
        self._tell.end(tried.reason)
        return self._put(current, step="screened", screen=tried)

    def _try_dev(self, current: Round) -> None:
        """Try the whole dev split, old and new, and keep the change or discard it."""
        tasks = read_suite_tasks(self._old_tree, self._is.suite_file)
        order = self._trying.order(f"{current.number}-dev", "dev", self._is.repetitions)
        self._tell.begin(f"round {current.number}", "dev split ...")
        outcome = self._try(current, tasks, order, self._judge_round)
        if isinstance(outcome, str):
            self._decide(current, "discarded", outcome)
            return
        paired, tried = outcome
        if tried.decision == "discarded":
            self._decide(current, "discarded", _with_note(tried), dev=tried)
            return
        message = f"{_subject(self._focus_names, tried)}\n\n{tried.sentence}\n"
        kept = self._repository.commit_again(current.commit, current.base, message)
        self._repository.set_branch(self._is.branch, kept)
        self._is = replace(
            self._is,
            kept=kept,
            feedback_run=paired.new.folder.name,
            feedback_variant="new" if tried.in_one_run else "",
        )
        self._decide(replace(current, commit=kept), "kept for now", tried.reason, dev=tried)
        self._check_out_old(kept)

    def _judge_screen(self, comparison: Comparison) -> Judgement:
        return _judgement(decide_screen(comparison, self._is.focus))

    def _judge_round(self, comparison: Comparison) -> Judgement:
        return _judgement(decide_round(comparison, self._is.focus))

    def _try(
        self,
        current: Round,
        tasks: SuiteTasks,
        order: RunOrder,
        judge: Callable[[Comparison], Judgement],
    ) -> Any:
        """Try a round's old and new; give why it could not be tried, as a text."""

        def new_tree() -> Path:
            tree = self._tree_of(current)
            self._repository.add_tree(tree, current.commit)
            return tree

        prompts = self._replaceable(tasks, current.base, current.commit)
        try:
            return self._trying.pair(self._old_tree, new_tree, order, prompts, judge)
        except RunFailed as failed:
            return one_line(str(failed), MOST_LINE)

    def _replaceable(self, tasks: SuiteTasks, old: str, new: str) -> Mapping[str, str]:
        """Give the new prompts by name, where these are all that differs between two commits."""
        changed = self._repository.changed_paths(old, new)
        both = set(self._repository.files(old)) & set(self._repository.files(new))
        if not both.issuperset(changed):
            return {}
        return prompts_to_replace(tasks.tasks, changed, self._repository.texts(new, changed))

    # --- held-out tasks

    def _hold_out(self, tasks: SuiteTasks) -> None:
        """Try held-out tasks once, the start against what was kept, and say what they confirm."""
        self._tell.begin("held-out", "start against kept ...")
        if not tasks.held_out:
            self._held_out(HeldOut("the suite has no held-out task"))
            return
        start = self._folder / "start"
        self._repository.add_tree(start, self._is.start)
        order = self._held_out_order(start, tasks)
        if order is None:
            self._held_out(
                HeldOut(f"held-out tasks would go beyond --max-trials {self._is.limits.max_trials}")
            )
            return
        confirmations: list[Confirmation] = []

        def judge(comparison: Comparison) -> Judgement:
            looks = max((suite.held_out_looks for suite in comparison.suites), default=1)
            confirmations.append(confirm(comparison, self._is.focus, max(1, looks)))
            words = "confirmed" if confirmations[0].confirmed else "not confirmed"
            return Judgement(words, confirmations[0].reason)

        prompts = self._replaceable(tasks, self._is.start, self._is.kept)
        try:
            _, tried = self._trying.pair(start, lambda: self._old_tree, order, prompts, judge)
        except RunFailed as failed:
            self._held_out(HeldOut(one_line(str(failed), MOST_LINE)))
            return
        self._held_out(HeldOut(_with_note(tried), confirmations[0], tried))

    def _held_out(self, held_out: HeldOut) -> None:
        words = held_out.tried.decision if held_out.tried else "not confirmed"
        self._tell.end(f"{words}: {held_out.reason}")
        self._save(held_out=held_out)

    def _held_out_order(self, tree: Path, tasks: SuiteTasks) -> RunOrder | None:
        """Order as many repetitions as the focus needs to be confirmed at all, and as there is room for."""
        trying, least = self._trying, self._is.repetitions
        focus = sum(task.bucket in self._is.focus for task in tasks.held_out)
        looks = 1 + looks_so_far(Path(self._is.results), self._is.suite)
        needed = repetitions_to_confirm(focus, looks, least, max(least, MOST_HELD_OUT_REPETITIONS))
        once = 2 * trying.count(tree, trying.order("held-out", "held_out", 1))
        room = trying.room()
        fitting = needed if room is None or not once else min(needed, room // once)
        return trying.order("held-out", "held_out", fitting) if fitting >= 1 else None

    def _finish(self) -> None:
        """Say what came of it, and take away the worktrees."""
        confirmation = self._is.held_out.confirmation if self._is.held_out else None
        outcome: Outcome = "kept on dev, not confirmed" if self._is.has_kept else "nothing kept"
        if confirmation is not None and confirmation.confirmed:
            outcome = "confirmed"
        self._save(outcome=outcome)
        for tree in (self._old_tree, self._folder / "start"):
            self._repository.remove_tree(tree)


def _judgement(decision: RoundDecision) -> Judgement:
    return Judgement(decision.decision, decision.reason)


def _with_note(tried: TriedPair) -> str:
    return f"{tried.reason}; {tried.note}" if tried.note else tried.reason


def _subject(focus: str, tried: TriedPair) -> str:
    return one_line(f"{focus} {format_figure(tried.focus_old)} -> {format_figure(tried.focus_new)}", 72)


def _failure(ending: CodingAgentEnding, timeout: float) -> str:
    """Say why a command that did not end as it should refuses its round; nothing where it did."""
    last = one_line(ending.last_line, MOST_LINE)
    if ending.how == "timeout":
        return f"the coding agent did not end within {format_duration(timeout)} and was ended"
    if ending.how == "too much output":
        return "the coding agent printed without end and was ended"
    if ending.status:
        return f"the coding agent ended with exit status {ending.status}" + (f": {last}" if last else "")
    return ""


def _leak_text(leak: Leak) -> str:
    """Say what leaks, without a word that only a held-out task's author wrote."""
    place = f"{one_line(leak.file, MOST_LINE)}:{leak.line}"
    if leak.split == "held_out":
        return f"{place}: a text of a held-out task"
    kind = leak.kind.replace("_", " ")
    return f"{place}: {kind} of {one_line(leak.task, MOST_LINE)}: {one_line(leak.text, MOST_LINE)}"


def _leaks_reason(leaks: Sequence[str]) -> str:
    more = f", and {len(leaks) - MOST_LEAKS} more" if len(leaks) > MOST_LEAKS else ""
    return f"the prompt gives tasks away: {'; '.join(leaks[:MOST_LEAKS])}{more}"


def _earlier(each: Round) -> EarlierRound:
    """Give a round as the next one is told of it: of held-out tasks nothing, nor of what copies them."""
    sentence = each.dev.sentence if each.dev else each.screen.sentence if each.screen else ""
    return EarlierRound(
        number=each.number,
        summary=one_line(each.last_line, MOST_LINE),
        decision=f"{each.decision}: {each.reason}" if each.reason else each.decision,
        diff="" if each.leaks_held_out else each.diff,
        sentence=sentence,
    )
