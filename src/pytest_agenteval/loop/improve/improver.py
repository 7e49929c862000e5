"""The loop itself: start, rounds, held-out tasks, end; each step is written down before the next begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.loop.improve.decisions import SAME, RoundDecision, decide_round, decide_screen
from pytest_agenteval.loop.improve.held_out import hold_out
from pytest_agenteval.loop.improve.log import write_log
from pytest_agenteval.loop.improve.paired_runs import PairedRuns, RunFailed
from pytest_agenteval.loop.improve.progress import Improvement, Outcome, Round, TriedPair
from pytest_agenteval.loop.improve.repository import Repository
from pytest_agenteval.loop.improve.round_change import RoundChange
from pytest_agenteval.loop.improve.suite_tasks import SuiteTasks, read_suite_tasks
from pytest_agenteval.loop.improve.trying import (
    Judgement,
    TrialNeeds,
    Trying,
    trial_needs,
    worst_bucket,
)
from pytest_agenteval.reports.comparison_text import NO_BUCKET
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake
from pytest_agenteval.text.formatting import format_duration, format_figure, one_line, pluralize

WITHOUT_KEEP = 2
"""Rounds in a row without a keep after which held-out tasks decide."""

MOST_LINE = 300


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
        self._old_tree = folder / "kept"

    def run(self) -> Improvement:
        """Go on until the end; raises KeyboardInterrupt, and AgentEvalError where nothing can be tried.

        A full disk, or a folder that is gone, is such a case. After the first the worktrees stay as they
        are; else they are taken away.
        """
        try:
            self._go_on()
        except (AgentEvalError, OSError) as failed:
            self._remove_trees()
            if isinstance(failed, OSError):
                raise UsageMistake(f"{failed.filename or self._folder}: {failed.strerror}") from None
            raise
        return self._is

    def _go_on(self) -> None:
        self._save()
        self._check_out_old(self._is.kept)
        tasks = read_suite_tasks(self._old_tree, self._is.suite_file)
        if self._is.start_run is None:
            self._start(tasks)
        elif not self._is.rounds and not self._is.ended:
            self._tell.begin("start", f"as {Path(self._is.start_run.run).name} has it;")
            self._choose_focus(tasks)
            self._tell.end(f"focus: {self._focus_names}")
        while not self._is.ended:
            self._next_round(tasks)
        if self._is.has_kept and self._is.held_out is None:
            self._hold_out(tasks)
        self._finish()

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
        return Trying(self._is, self._repository, self._folder)

    def _check_out_old(self, commit: str) -> None:
        self._repository.add_tree(self._old_tree, commit)

    def _start(self, tasks: SuiteTasks) -> None:
        """Try the dev split as it is."""
        trying = self._trying
        order = trying.order("start", "dev", self._is.repetitions)
        needed = trying.count(self._old_tree, order)
        if not trying.has_room(needed):
            most = self._is.limits.max_trials
            raise UsageMistake(f"--max-trials {most}: the first run of the dev split has {needed} trials")
        self._tell.begin("start", f"dev split x {self._is.repetitions} ...")
        start = trying.start(self._old_tree)
        self._save(start_run=start, feedback_run=start.run)
        self._choose_focus(tasks)
        score = f"{self._is.suite} {format_figure(start.score)}"
        self._tell.end(f"{pluralize(start.spent.trials, 'trial')}, {score}; focus: {self._focus_names}")

    def _choose_focus(self, tasks: SuiteTasks) -> None:
        """Choose the worst bucket where nobody has chosen any; where none has a miss, that is the end."""
        assert self._is.start_run is not None
        run, asked = self._run(self._is.start_run.run), self._is.focus
        bucket = worst_bucket(run, self._is.suite, asked or tasks.dev_buckets)
        if bucket is None:
            whose = "the focus" if asked else "split dev"
            self._save(ended=f"every task of {whose} passed: there is nothing to improve")
        elif not asked:
            self._save(focus=(bucket,))

    @property
    def _focus_names(self) -> str:
        return ", ".join(one_line(name, MOST_LINE) or NO_BUCKET for name in self._is.focus) or "none"

    def _run(self, name: str) -> Run:
        return load_run(Path(self._is.results) / name)  # a path, where the user named one

    # --- rounds

    def _next_round(self, tasks: SuiteTasks) -> None:
        """Take up the round that was interrupted, or begin another, or say why there is none."""
        rounds, limits = self._is.rounds, self._is.limits
        if not rounds or rounds[-1].step == "decided":
            most = limits.rounds if limits.max_rounds is None else min(limits.rounds, limits.max_rounds)
            if rounds and rounds[-1].decision == "nothing changed":
                self._save(ended="the coding agent changed nothing more")
            elif rounds and _is_full(rounds[-1]):
                self._save(ended="the focus passed in full")
            elif self._is.rounds_without_keep >= WITHOUT_KEEP:
                self._save(ended=f"{WITHOUT_KEEP} rounds in a row without a keep")
            elif len(rounds) >= most:
                self._save(ended=f"{pluralize(len(rounds), 'round')} done")
            elif not self._trying.has_room(needed := self._needs(tasks).round):
                room = f"--max-trials {limits.max_trials} has no room"
                self._save(ended=f"{room} for a round and the confirmation, {needed} trials")
            else:
                self._save(rounds=(*rounds, Round(len(rounds) + 1, self._is.kept)))
            return
        current = rounds[-1]
        if current.step == "coding":
            current = self._change(current, tasks)
        if current.step == "changed":
            current = self._screen(current, tasks)
        if current.step == "screened":
            self._try_dev(current, tasks)
        self._repository.remove_tree(self._tree_of(current))

    def _needs(self, tasks: SuiteTasks) -> TrialNeeds:
        assert self._is.start_run is not None
        return trial_needs(self._is, self._run(self._is.start_run.run), tasks)

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

    def _change(self, current: Round, tasks: SuiteTasks) -> Round:
        """Let the coding agent make the round's change."""
        self._tell.begin(f"round {current.number}", "coding agent ...")
        place = self._tree_of(current).parent
        change = RoundChange(self._repository, self._is, self._old_tree, place, tasks)
        current = change.make(current, self._run(self._is.feedback_run))
        self._check_out_old(current.base)  # whatever was done to it
        if current.step == "decided":
            return self._decide(current, current.decision, current.reason)
        seconds = format_duration(current.coding_seconds)
        self._tell.end(f"{pluralize(len(current.files), 'file')} changed, {seconds}")
        return self._put(current)

    # --- old against new

    def _screen(self, current: Round, tasks: SuiteTasks) -> Round:
        """Try the focus alone, old and new: what is not better there in the mean costs no whole split."""
        if len(tasks.focus(self._is.focus)) == len(tasks.dev):
            return self._put(current, step="screened")
        self._tell.begin(f"round {current.number}", "screen ...")
        outcome = self._try(current, tasks, "screen", self._judge_screen)
        if isinstance(outcome, str):
            return self._decide(current, "discarded", outcome)
        _, tried = outcome
        if tried.decision == "discarded":
            return self._decide(current, "discarded", tried.words, screen=tried)
        self._tell.end(tried.reason)
        return self._put(current, step="screened", screen=tried)

    def _try_dev(self, current: Round, tasks: SuiteTasks) -> None:
        """Try the whole dev split, old and new, and keep the change or discard it."""
        self._tell.begin(f"round {current.number}", "dev split ...")
        outcome = self._try(current, tasks, "dev", self._judge_round)
        if isinstance(outcome, str):
            self._decide(current, "discarded", outcome)
            return
        paired, tried = outcome
        if tried.decision == "discarded":
            self._decide(current, "discarded", tried.words, dev=tried)
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
        part: Literal["screen", "dev"],
        judge: Callable[[Comparison], Judgement],
    ) -> tuple[PairedRuns, TriedPair] | str:
        """Try a round's old and new; give why it could not be tried, as a text."""
        if not self._trying.has_room(self._needs(tasks).of(part)):
            return f"it would go beyond --max-trials {self._is.limits.max_trials}"
        files = [task.file for task in tasks.focus(self._is.focus)] if part == "screen" else ()
        order = self._trying.order(f"{current.number}-{part}", "dev", self._is.repetitions, files)
        new = self._tree_of(current)
        commits = (current.base, current.commit)
        try:
            return self._trying.pair(tasks, commits, (self._old_tree, new), order, judge)
        except RunFailed as failed:
            return one_line(str(failed), MOST_LINE)

    def _hold_out(self, tasks: SuiteTasks) -> None:
        """Try held-out tasks once, the start against what was kept, and say what they confirm."""
        self._tell.begin("held-out", "start against kept ...")
        held_out = hold_out(self._trying, self._is, tasks, self._folder / "start", self._old_tree)
        self._tell.end(held_out.tried.decision if held_out.tried else "not confirmed")
        self._save(held_out=held_out)

    def _finish(self) -> None:
        """Say what came of it, and take away the worktrees."""
        confirmation = self._is.held_out.confirmation if self._is.held_out else None
        outcome: Outcome = "kept on dev, not confirmed" if self._is.has_kept else "nothing kept"
        if confirmation is not None and confirmation.confirmed:
            outcome = "confirmed"
        self._remove_trees()  # before that is said: what has an outcome is taken up by nobody
        self._save(outcome=outcome)

    def _remove_trees(self) -> None:
        rounds = [self._tree_of(each) for each in self._is.rounds[-1:]]
        for tree in (self._old_tree, self._folder / "start", *rounds):
            self._repository.remove_tree(tree)


def _is_full(last: Round) -> bool:
    """Whether a round was kept that leaves nothing of the focus to raise."""
    focus = last.dev.focus_new if last.dev and last.decision == "kept for now" else None
    return focus is not None and focus > 1 - SAME


def _judgement(decision: RoundDecision) -> Judgement:
    return Judgement(decision.decision, decision.reason)


def _subject(focus: str, tried: TriedPair) -> str:
    return one_line(f"{focus} {format_figure(tried.focus_old)} -> {format_figure(tried.focus_new)}", 72)
