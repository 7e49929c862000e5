"""An improvement from what a user asks for to its end; each step is written down before the next begins."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from pytest_agenteval.loop.improve.acceptance import decide_round, decide_screen
from pytest_agenteval.loop.improve.attempts import (
    Attempts,
    TreeSuite,
    confirm_on_held_out,
    read_tree_suite,
    summarize_start,
    trial_needs,
    worst_bucket,
)
from pytest_agenteval.loop.improve.coding_agent import (
    RoundChange,
    listed_paths,
    missing_command,
    pathspecs_of,
)
from pytest_agenteval.loop.improve.paired_runs import PairedRuns, RunFailed
from pytest_agenteval.loop.improve.progress import (
    LOG,
    STATE,
    Improvement,
    Limits,
    Outcome,
    Round,
    StepLines,
    TriedPair,
    read_state,
    write_log,
)
from pytest_agenteval.loop.improve.repository import Repository, delete_tree
from pytest_agenteval.processes.process_groups import end_processes_with_variable, is_running
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.reports.comparison_text import NO_BUCKET
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.store.run_folder import find_run
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake, did_you_mean, nearest_names, writing
from pytest_agenteval.text.formatting import format_duration, format_figure, one_line, pluralize

IMPROVEMENTS = Path(".agenteval") / "improve"
BRANCH = "agenteval/improve-"
MOST_NAMES = 5
LATEST = "latest"
IMPROVEMENT_VARIABLE = "AGENTEVAL_IMPROVEMENT"
# Seconds that left-over processes have to end after the request to end.
GRACE_S = 5.0

# Options of pytest that an improvement sets itself, that leave nothing to compare, or with which old and new
# might not run the same tasks.
OWN_OPTIONS = (
    "--repetitions", "--collect-only", "--co", "--agent-split", "--agent-prompt", "--agent-results",
    "--agent-run-name", "--agent-only", "--agent-regrade", "--agent-baseline", "--agent-gate",
    "--agent-report", "--agent-comment", "--agent-max-trials", "--rootdir", "-h", "--help", "--version",
    "--reruns", "--exitfirst", "--maxfail", "--lf", "--last-failed", "--sw", "--stepwise",
)  # fmt: skip

# After this many rounds in a row of which none was accepted, held-out tasks decide.
WITHOUT_KEEP = 2

MOST_LINE = 300


def new_improvement(
    suite_file: Path,
    *,
    command: str,
    globs: tuple[str, ...],
    focus: tuple[str, ...],
    repetitions: int,
    limits: Limits,
    options: tuple[str, ...],
    results: Path,
    run: str,
) -> tuple[Repository, Path, Improvement, list[str]]:
    """Make the folder of an improvement; give it with the repository, and warnings for the user.

    ``run`` is a stored run for the first feedback. Raises UsageMistake where it cannot start; then nothing
    was made.
    """
    # git knows files by their real paths, and a user may stand in a linked folder.
    file = Path(os.path.realpath(suite_file))
    repository = Repository.around(file.parent)
    _check_request(command, options, repository)
    start, top = repository.commit_of("HEAD"), Path(os.path.realpath(repository.root))
    inside = file.relative_to(top).as_posix()
    # Trees are made of commits, and would lack a suite that is not committed.
    if inside not in repository.files(start, [f":(top,literal){inside}"]):
        raise UsageMistake(f"{suite_file}: expected a suite that is committed to git")
    tasks = read_tree_suite(repository.root, inside)
    # From the top to where the user stands; the top itself where that is elsewhere.
    here = Path(os.path.realpath(Path.cwd()))
    folder = here.relative_to(top).as_posix() if here.is_relative_to(top) else "."
    for glob in globs:
        _check_glob(glob, repository, start, folder, {inside, *(task.file for task in tasks.tasks)})
    _check_focus(focus, tasks)
    # Names sort by time; the random end keeps two that start in one second apart.
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
    improvement = Improvement(
        name=name,
        started_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        command=command,
        suite=tasks.name,
        suite_file=inside,
        folder=folder,
        globs=globs,
        focus=focus,
        repetitions=repetitions,
        limits=limits,
        options=options,
        results=str(results),
        branch=f"{BRANCH}{name}",
        start=start,
        kept=start,
    )
    if run:
        improvement = _with_stored_run(improvement, run)
    warnings = []
    if beside := repository.untracked([f":(top,literal){Path(inside).parent.as_posix()}"]):
        files, names = pluralize(len(beside), "file"), listed_paths(beside, MOST_NAMES)
        warnings.append(f"{files} of the suite are not committed and are left out: {names}")
    if not tasks.held_out:
        warnings.append(f"{tasks.name} has no held-out task (split: held_out): nothing can be confirmed")
    return repository, _make_folder(repository.root, name), improvement, warnings


def _check_request(command: str, options: Sequence[str], repository: Repository) -> None:
    # A change that is in no commit would be in no tree, so nobody would try it.
    if changed := repository.uncommitted():
        names = listed_paths(changed, MOST_NAMES)
        rule = "expected no uncommitted changes, as improve works in checkouts of commits"
        raise UsageMistake(f"{rule}; found {names}; commit or stash them")
    for option in options:
        # -x may stand among other short flags, as in -qx.
        if option.partition("=")[0] in OWN_OPTIONS or re.fullmatch("-[lqsv]*x[lqsvx]*", option):
            raise UsageMistake(f"-- {option}: improve sets which tasks pytest runs, and how often")
    if missing := missing_command(command):
        raise UsageMistake(f"--coding-agent: there is no command {missing!r}")


def _check_glob(glob: str, repository: Repository, start: str, folder: str, asking: set[str]) -> None:
    # git fails for a pathspec outside of the repository.
    outside = os.path.isabs(glob) or os.path.normpath(os.path.join(folder, glob)).startswith("..")
    files = [] if outside else repository.files(start, pathspecs_of([glob], folder))
    if not files:
        raise UsageMistake(f"--prompts {glob!r}: expected files that git tracks; it matches none")
    # A coding agent that may change tasks could make them easier.
    if own := sorted(asking.intersection(files)):
        names = listed_paths(own, MOST_NAMES)
        raise UsageMistake(f"--prompts {glob!r}: expected prompts only; it matches {names}")


def _check_focus(focus: Sequence[str], tasks: TreeSuite) -> None:
    buckets = tasks.dev_buckets
    if not buckets:
        raise UsageMistake(f"{tasks.name} has no task of split dev: nothing to improve")
    for name in focus:
        if name not in buckets:
            hint = did_you_mean(name, buckets) or f"buckets: {nearest_names(name, buckets)}"
            raise UsageMistake(f"--focus {name!r}: {tasks.name} has no such bucket of split dev; {hint}")


def _make_folder(root: Path, name: str) -> Path:
    place = root / IMPROVEMENTS / name
    try:
        # Only now, when nothing can be refused any more.
        place.mkdir(parents=True)
        ignore = root / IMPROVEMENTS.parent / ".gitignore"
        # Else git status would list trees and logs.
        if not ignore.exists():
            replace_text(ignore, "*\n")
    except OSError as refused:
        raise UsageMistake(f"{place}: cannot be made ({refused.strerror})") from None
    return place


def find_interrupted(here: Path, name: str) -> tuple[Repository, Path, Improvement]:
    """Find an interrupted improvement: the newest, or the one whose name starts with ``name``.

    Raises UsageMistake where there is none, or it has ended.
    """
    repository = Repository.around(here)
    places = sorted((repository.root / IMPROVEMENTS).glob(f"*/{STATE}"))
    folders = {path.parent.name: path.parent for path in places}
    if name == LATEST:
        # Names start with the time, so the last one is the newest.
        for folder in reversed(folders.values()):
            if not (improvement := read_state(folder)).outcome:
                return repository, folder, improvement
        raise UsageMistake(f"no improvement in {repository.root / IMPROVEMENTS} was interrupted")
    meant = [each for each in folders if each.startswith(name)]
    if len(meant) != 1:
        names = nearest_names(name, folders) or "there is none"
        raise UsageMistake(f"--continue {name!r}: expected the name of one improvement: {names}")
    improvement = read_state(folders[meant[0]])
    if improvement.outcome:
        log = folders[meant[0]] / LOG
        raise UsageMistake(f"{improvement.name} has ended ({improvement.outcome}): {log}")
    return repository, folders[meant[0]], improvement


@contextmanager
def claim_improvement(folder: Path) -> Iterator[None]:
    """Note that this process carries an improvement on; raises UsageMistake where another one does.

    Processes that an earlier, killed one left running are ended first: a coding agent would go on to write
    into the tree, and trials would be paid for twice.
    """
    mark = folder / "process"
    # No file, or half of one: then no process carries the improvement on.
    with suppress(OSError, ValueError):
        other = int(mark.read_text(encoding="utf-8"))
        if other != os.getpid() and is_running(other):
            raise UsageMistake(
                f"{folder.name} is continued by process {other}; if that is another program, delete {mark}"
            )
    with writing(mark):
        mark.write_text(f"{os.getpid()}\n", encoding="utf-8", newline="\n")
    end_processes_with_variable(f"{IMPROVEMENT_VARIABLE}={folder.name}", GRACE_S)
    # All processes that are started from here inherit it, and are found by it after a crash.
    os.environ[IMPROVEMENT_VARIABLE] = folder.name
    try:
        yield
    finally:
        del os.environ[IMPROVEMENT_VARIABLE]
        mark.unlink(missing_ok=True)


def _with_stored_run(improvement: Improvement, named: str) -> Improvement:
    folder = find_run(Path(improvement.results), named)
    run = load_run(folder)
    entries = [entry for entry in run.entries if entry.key.suite == improvement.suite]
    own = [entry for entry in entries if entry.split != "held_out"]
    if not own:
        raise UsageMistake(f"--run {named}: it has no trial of {improvement.suite}, split dev")
    # Of several variants the feedback is about the agent's own prompts, which are what is changed.
    variants = [entry.key.variant for entry in own]
    return replace(
        improvement,
        start_run=replace(summarize_start(run, improvement.suite, 0.0), run=str(folder.absolute())),
        feedback_run=str(folder.absolute()),
        feedback_variant="" if "" in variants else variants[0],
    )


class Improver:
    """One improvement, from its current state to its end; ``folder`` holds all of it but the runs.

    Whenever it is interrupted, another process goes on from what was written last.
    """

    def __init__(
        self, repository: Repository, folder: Path, improvement: Improvement, progress: StepLines
    ) -> None:
        self._repository, self._folder, self._progress = repository, folder, progress
        self.improvement = improvement
        self._began, self._before = time.monotonic(), improvement.seconds
        self._old_tree = folder / "kept"

    def run(self) -> Improvement:
        """Go on until the end; raises KeyboardInterrupt, and AgentEvalError where nothing can be tried.

        A full disk, or a folder that is gone, is such a case. After KeyboardInterrupt the trees stay as
        they are; after other errors they are removed.
        """
        try:
            self._save()
            self._repository.add_tree(self._old_tree, self.improvement.kept)
            tasks = read_tree_suite(self._old_tree, self.improvement.suite_file)
            if self.improvement.start_run is None:
                self._start(tasks)
            elif not self.improvement.rounds and not self.improvement.ended:
                self._progress.begin("start", f"as {Path(self.improvement.start_run.run).name} has it;")
                self._choose_focus(tasks)
                self._progress.end(f"focus: {self._focus_names}")
            while not self.improvement.ended:
                self._next_round(tasks)
            if self.improvement.has_accepted and self.improvement.held_out is None:
                self._progress.begin("held-out", "start against kept ...")
                held_out = confirm_on_held_out(
                    self._attempts, self.improvement, tasks, self._folder / "start", self._old_tree
                )
                self._progress.end(held_out.tried.decision if held_out.tried else "not confirmed")
                self._save(held_out=held_out)
            confirmation = self.improvement.held_out.confirmation if self.improvement.held_out else None
            outcome: Outcome = (
                "kept on dev, not confirmed" if self.improvement.has_accepted else "nothing kept"
            )
            if confirmation is not None and confirmation.confirmed:
                outcome = "confirmed"
            # Before the outcome is written, for nobody continues what has one: trees would be left behind.
            self._remove_trees()
            self._save(outcome=outcome)
        except (AgentEvalError, OSError) as failed:
            self._remove_trees()
            if isinstance(failed, OSError):
                raise UsageMistake(f"{failed.filename or self._folder}: {failed.strerror}") from None
            raise
        return self.improvement

    def _save(self, **changes: Any) -> None:
        # Seconds of all processes that carried the improvement on.
        seconds = self._before + time.monotonic() - self._began
        self.improvement = replace(self.improvement, **changes, trials=self._attempts.trials, seconds=seconds)
        write_log(self.improvement, self._folder)

    @property
    def _attempts(self) -> Attempts:
        return Attempts(self.improvement, self._repository, self._folder)

    def _start(self, tasks: TreeSuite) -> None:
        attempts = self._attempts
        order = attempts.order("start", "dev", self.improvement.repetitions)
        needed = attempts.count(self._old_tree, order)
        if not attempts.has_room(needed):
            most = self.improvement.limits.max_trials
            raise UsageMistake(f"--max-trials {most}: the first run of the dev split has {needed} trials")
        self._progress.begin("start", f"dev split x {self.improvement.repetitions} ...")
        start = attempts.start(self._old_tree)
        self._save(start_run=start, feedback_run=start.run)
        self._choose_focus(tasks)
        score = f"{self.improvement.suite} {format_figure(start.score)}"
        self._progress.end(f"{pluralize(start.spent.trials, 'trial')}, {score}; focus: {self._focus_names}")

    def _choose_focus(self, tasks: TreeSuite) -> None:
        """Choose the worst bucket where the user chose none; where none has a miss the improvement ends."""
        assert self.improvement.start_run is not None
        run, chosen = self._run(self.improvement.start_run.run), self.improvement.focus
        bucket = worst_bucket(run, self.improvement.suite, chosen or tasks.dev_buckets)
        if bucket is None:
            whose = "the focus" if chosen else "split dev"
            self._save(ended=f"every task of {whose} passed: there is nothing to improve")
        elif not chosen:
            self._save(focus=(bucket,))

    @property
    def _focus_names(self) -> str:
        return ", ".join(one_line(name, MOST_LINE) or NO_BUCKET for name in self.improvement.focus) or "none"

    def _run(self, name: str) -> Run:
        # ``name`` is a whole path where the user named a stored run, and joining leaves such a path alone.
        return load_run(Path(self.improvement.results) / name)

    # --- rounds

    def _next_round(self, tasks: TreeSuite) -> None:
        """Take up the interrupted round, or start another, or note why there is none."""
        rounds, limits = self.improvement.rounds, self.improvement.limits
        if not rounds or rounds[-1].step == "decided":
            most = limits.rounds if limits.max_rounds is None else min(limits.rounds, limits.max_rounds)
            kept = rounds[-1] if rounds and rounds[-1].decision == "kept for now" else None
            focus = kept.dev.focus_new if kept and kept.dev else None
            if rounds and rounds[-1].decision == "nothing changed":
                self._save(ended="the coding agent changed nothing more")
            elif focus is not None and focus > 1 - ROUNDING:
                self._save(ended="all trials of the focus passed")
            elif self.improvement.rounds_without_keep >= WITHOUT_KEEP:
                self._save(ended=f"{WITHOUT_KEEP} rounds in a row without an accepted change")
            elif len(rounds) >= most:
                self._save(ended=f"{pluralize(len(rounds), 'round')} done")
            # Without room for the confirmation no round starts.
            elif not self._attempts.has_room(needed := sum(self._needs(tasks).values())):
                room = f"--max-trials {limits.max_trials} has no room"
                self._save(ended=f"{room} for a round and the confirmation, {needed} trials")
            else:
                self._save(rounds=(*rounds, Round(len(rounds) + 1, self.improvement.kept)))
            return
        current = rounds[-1]
        # An interrupted round goes on with its next step; a coding agent that was cut off starts again.
        if current.step == "coding":
            current = self._change(current, tasks)
        if current.step == "changed":
            current = self._screen(current, tasks)
        if current.step == "screened":
            self._try_dev(current, tasks)
        delete_tree(self._tree_of(current))

    def _needs(self, tasks: TreeSuite) -> Mapping[str, int]:
        assert self.improvement.start_run is not None
        return trial_needs(self.improvement, self._run(self.improvement.start_run.run), tasks)

    def _tree_of(self, current: Round) -> Path:
        return self._folder / f"round-{current.number}" / "tree"

    def _put(self, current: Round, **changes: Any) -> Round:
        changed = replace(current, **changes)
        self._save(rounds=(*self.improvement.rounds[:-1], changed))
        return changed

    def _decide(self, current: Round, decision: str, reason: str) -> Round:
        self._progress.end(f"{decision}: {one_line(reason, MOST_LINE)}" if reason else decision)
        return self._put(current, decision=decision, reason=reason, step="decided")

    def _change(self, current: Round, tasks: TreeSuite) -> Round:
        self._progress.begin(f"round {current.number}", "coding agent ...")
        place = self._tree_of(current).parent
        change = RoundChange(self._repository, self.improvement, self._old_tree, place, tasks)
        current = change.make(current, self._run(self.improvement.feedback_run))
        if current.step == "decided":
            return self._decide(current, current.decision, current.reason)
        seconds = format_duration(current.coding_seconds)
        self._progress.end(f"{pluralize(len(current.files), 'file')} changed, {seconds}")
        return self._put(current)

    # --- old against new

    def _screen(self, current: Round, tasks: TreeSuite) -> Round:
        """Try the focus alone, old and new: a change that does not raise its mean costs no whole split."""
        # Where the focus's files hold all tasks of the dev split, a screen would be all of it.
        if self._needs(tasks)["screen"] == 0:
            return self._put(current, step="screened")
        current, outcome = self._try(current, tasks, "screen")
        if outcome is None:
            return current
        self._progress.end(outcome[1].reason)
        return self._put(current, step="screened")

    def _try_dev(self, current: Round, tasks: TreeSuite) -> None:
        """Try the whole dev split, old and new, and accept or discard the change."""
        current, outcome = self._try(current, tasks, "dev")
        if outcome is None:
            return
        paired, tried = outcome
        scores = f"{format_figure(tried.focus_old)} -> {format_figure(tried.focus_new)}"
        message = f"{one_line(f'{self._focus_names} {scores}', 72)}\n\n{tried.sentence}\n"
        # The commit of the coding agent is made again with a message that has the figures.
        accepted = self._repository.commit_again(current.commit, current.base, message)
        self._repository.set_branch(self.improvement.branch, accepted)
        self.improvement = replace(
            self.improvement,
            kept=accepted,
            feedback_run=paired.new.folder.name,
            # Where both sides were one run, only its variant "new" is what was accepted.
            feedback_variant="new" if tried.in_one_run else "",
        )
        self._decide(replace(current, commit=accepted), "kept for now", tried.reason)
        self._repository.add_tree(self._old_tree, accepted)

    def _try(
        self, current: Round, tasks: TreeSuite, part: Literal["screen", "dev"]
    ) -> tuple[Round, tuple[PairedRuns, TriedPair] | None]:
        """Try the old and the new prompts of a round, which is discarded where that cannot be done."""
        self._progress.begin(f"round {current.number}", "screen ..." if part == "screen" else "dev split ...")
        if not self._attempts.has_room(self._needs(tasks)[part]):
            reason = f"it would exceed --max-trials {self.improvement.limits.max_trials}"
            return self._decide(current, "discarded", reason), None
        files = [task.file for task in tasks.focus(self.improvement.focus)] if part == "screen" else ()
        order = self._attempts.order(f"{current.number}-{part}", "dev", self.improvement.repetitions, files)
        commits, trees = (current.base, current.commit), (self._old_tree, self._tree_of(current))
        try:
            paired, tried = self._attempts.pair(tasks, commits, trees, order)
        except RunFailed as failed:
            return self._decide(current, "discarded", one_line(str(failed), MOST_LINE)), None
        decide = decide_screen if part == "screen" else decide_round
        decision, reason = decide(paired.comparison, self.improvement.focus)
        tried = replace(tried, decision=decision, reason=reason)
        current = replace(current, screen=tried) if part == "screen" else replace(current, dev=tried)
        if tried.decision == "discarded":
            return self._decide(current, "discarded", tried.words), None
        return current, (paired, tried)

    def _remove_trees(self) -> None:
        rounds = [self._tree_of(each) for each in self.improvement.rounds[-1:]]
        for tree in (self._old_tree, self._folder / "start", *rounds):
            delete_tree(tree)
