"""What a round changes: feedback goes to the coding agent, and what it leaves is looked at first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.loop.feedback.content import EarlierRound, Feedback, FeedbackOptions
from pytest_agenteval.loop.feedback.feedback import make_feedback
from pytest_agenteval.loop.feedback.markdown import MARKDOWN_FILE, write_feedback
from pytest_agenteval.loop.improve.coding_agent import CodingAgentEnding, run_coding_agent
from pytest_agenteval.loop.improve.edit_check import Edit, check_edit, pathspecs_of, repository_state
from pytest_agenteval.loop.improve.progress import Improvement, Round
from pytest_agenteval.loop.improve.repository import ChangedFile, Repository
from pytest_agenteval.loop.improve.suite_tasks import SuiteTasks, held_out_files
from pytest_agenteval.loop.leaks.leak import Leak
from pytest_agenteval.loop.leaks.search import prompt_leaks
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import format_duration, one_line

MOST_LINE = 300
MOST_LEAKS = 3


class RoundChange:
    """Makes the change of one round: ``old_tree`` is at its base, ``place`` is the round's own folder."""

    def __init__(
        self, repository: Repository, improvement: Improvement, old_tree: Path, place: Path, tasks: SuiteTasks
    ) -> None:
        self._repository, self._of, self._old_tree = repository, improvement, old_tree
        self._place, self._tasks = place, tasks
        self._pathspecs = pathspecs_of(improvement.globs, improvement.folder)

    def make(self, current: Round, run: Run) -> Round:
        """Give the round with its change; with a decision where there is none, or it is refused."""
        tree = self._place / "tree"
        before = set(self._repository.uncommitted())
        edit, ending = self._edit(current, run, tree)
        # Where git's own files were changed, nobody knows what it would run to find out.
        after = [] if edit.refusal else self._repository.uncommitted()
        told = replace(
            current,
            last_line=ending.last_line,
            coding_seconds=ending.seconds,
            meanwhile=tuple(path for path in after if path not in before),
        )
        if reason := _failure(ending, self._of.limits.coding_timeout) or edit.refusal:
            return replace(told, step="decided", decision="refused", reason=reason)
        if not edit.files:
            return replace(told, step="decided", decision="nothing changed")
        commit = self._repository.commit_files(
            current.base, tree, edit.files, f"Round {current.number} of {self._of.name}\n"
        )
        diff = self._repository.diff(current.base, commit)
        return self._searched(replace(told, step="changed", commit=commit, files=edit.files, diff=diff))

    def _edit(self, current: Round, run: Run, tree: Path) -> tuple[Edit, CodingAgentEnding]:
        """Let the coding agent work in a tree without held-out tasks and without history."""
        repository, feedback = self._repository, self._place / "feedback"
        write_feedback(self._feedback(run), feedback)
        hidden = held_out_files(self._tasks.tasks, repository.files(current.base))
        start = repository.without(current.base, hidden)
        before = repository_state(repository, start, tree, repository.add_tree(tree, start))
        beside = self._beside(current)
        ending = run_coding_agent(
            self._of.command,
            folder=tree / self._of.folder,
            feedback=feedback / MARKDOWN_FILE,
            output=self._place / "coding-agent.txt",
            variables={
                "AGENTEVAL_FEEDBACK": str(feedback),
                "AGENTEVAL_ROUND": str(current.number),
                "AGENTEVAL_PROMPTS": "\n".join(self._of.globs),
                # Where its tree is none any more, git must not find the user's checkout further up.
                "GIT_CEILING_DIRECTORIES": str(tree.parent),
            },
            timeout=self._of.limits.coding_timeout,
        )
        edit = check_edit(repository, before, self._pathspecs)
        if not edit.refusal and self._beside(current) != beside:
            edit = Edit((), "files beside its tree were changed: those of the state that it begins from")
        return edit, ending

    def _beside(self, current: Round) -> list[ChangedFile] | None:
        """Give what of the old tree is not as it was checked out; None where there is none any more."""
        if self._old_tree.is_symlink() or not self._old_tree.is_dir():
            return None
        return self._repository.changes(current.base, self._old_tree, self._pathspecs)

    def _feedback(self, run: Run) -> Feedback:
        files = self._repository.files(self._of.kept, self._pathspecs)
        models = [entry.key.model for entry in run.entries if entry.key.suite == self._of.suite]
        options = FeedbackOptions(
            suite=self._of.suite,
            buckets=self._of.focus,
            model=next(iter(models), None),
            variant=self._of.feedback_variant,
            prompts=self._repository.texts(self._of.kept, files),
            root=self._root_of(run),
        )
        return make_feedback(run, options, [_earlier(each) for each in self._of.rounds[:-1]])

    def _root_of(self, run: Run) -> Path:
        """Give the folder of the old tree from which the run's task files are named."""
        place = self._old_tree / self._of.folder
        file = next((entry.file for entry in run.entries if entry.file), "")
        above = (place, *(each for each in place.parents if each.is_relative_to(self._old_tree)))
        return next((each for each in above if (each / file).is_file()), place)

    def _searched(self, current: Round) -> Round:
        """Refuse a change whose added lines give tasks away."""
        suite = (self._old_tree / self._of.suite_file).parent
        every = prompt_leaks(self._texts(current.base), self._texts(current.commit), suite)
        leaks = [leak for leak in every if leak.added]
        if not leaks:
            return current
        told = tuple(map(_leak_text, leaks))
        held_out = any(leak.split == "held_out" for leak in leaks)
        return replace(
            current,
            step="decided",
            decision="refused",
            reason=_leaks_reason(told),
            leaks=told,
            leaks_held_out=held_out,
        )

    def _texts(self, commit: str) -> dict[str, str]:
        return self._repository.texts(commit, self._repository.files(commit, self._pathspecs))


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
