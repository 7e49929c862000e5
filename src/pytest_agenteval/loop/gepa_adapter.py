"""GEPA over our runs: gepa's optimizer tries prompts on the dev split of a suite.

gepa adds up the scores of a few tasks, chooses the best of many candidates, and knows neither buckets nor
held-out tasks: what it finds is a candidate for ``agenteval improve``, and no verdict.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.compare.scoring.power import mean
from pytest_agenteval.loop.contamination import prompt_leaks
from pytest_agenteval.loop.feedback.content import trial_block
from pytest_agenteval.loop.feedback.trial_sections import trial_feedback
from pytest_agenteval.loop.improve.paired_runs import RunFailed, RunOrder, run_one
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.records.transcript import PROMPT_READ
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.trial_view import trial_view
from pytest_agenteval.session.planning.suites import Suites, tasks_of_suite
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.file_names import SUITE_NAMES
from pytest_agenteval.tasks.load import LoadedTask, load_suite
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from gepa import EvaluationBatch  # type: ignore[attr-defined]  # it has no __all__

# How often tasks are run again if all their trials errored, before the evaluation ends.
ATTEMPTS = 3


class CandidateRefused(AgentEvalError):
    """A candidate that is not tried, for it holds pieces of tasks, or whose trials error each time."""


class GEPADocument(Document, frozen=True, kw_only=True):
    """What ``agenteval gepa`` found: scores are means over the ``validation_tasks``, 0 to 1.

    ``changed`` are the prompt files that the best candidate changes; empty where nothing scored better.
    """

    suite: str
    candidates: int
    refused: int
    trials: int
    score_before: float
    score_best: float
    validation_tasks: int
    changed: tuple[str, ...]


class GEPATask(FrozenValue, frozen=True):
    """One task of split dev, as gepa's data: ``file`` is from the folder that pytest works in."""

    id: str
    file: str
    bucket: str


class TaskTrials(FrozenValue, frozen=True):
    """What came of one task with one candidate: trials that have a score, and those that errored."""

    task: GEPATask
    scored: tuple[Trial, ...]
    errored: tuple[Trial, ...] = ()

    @property
    def score(self) -> float:
        """The mean of the scores, 0 to 1."""
        return mean([trial.score for trial in self.scored if trial.score is not None])


class GEPAAdapter:
    """Has gepa's candidates tried by pytest: ``gepa.optimize(adapter=…)`` with what it gives below.

    A candidate maps prompt files, by their paths from ``folder``, to texts. While it is tried these files
    hold its texts, and afterwards what they held before: work in a checkout of your own. ``suite`` is a
    suite's folder, ``prompts`` are the files, ``options`` are for pytest, as ``--agent-model=claude``. Each
    task is tried ``repetitions`` times; trials that errored are tried again, and never count as 0.
    ``trials`` counts what was tried, ``refused`` the candidates that were not, or gave no score: see
    ``CandidateRefused``.
    """

    # gepa looks for it; None leaves new texts to gepa's own proposer.
    propose_new_texts = None

    def __init__(
        self,
        suite: str | Path,
        prompts: Sequence[str],
        *,
        folder: str | Path = ".",
        options: Sequence[str] = (),
        repetitions: int = 1,
        results: str | Path = ".agenteval/runs",
        checkout: Path | None = None,
        seed: int = 0,
    ) -> None:
        self.folder = Path(folder).resolve()
        self.suite = self.folder / suite
        self._results = self.folder / results
        self._options, self._repetitions, self._checkout = (
            tuple(options),
            repetitions,
            checkout or self.folder,
        )
        self._seed = seed
        self._name = f"gepa-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        # Bytes, so that afterwards the files are what they were, line ends included.
        self._before = {path: (self.folder / path).read_bytes() for path in prompts}
        self.seed_candidate = {path: _text(path, content) for path, content in self._before.items()}
        self._loaded = {
            GEPATask(loaded.task.id, loaded.file.relative_to(self.folder).as_posix(), loaded.bucket): loaded
            for loaded in _dev_tasks(self.suite)
        }
        self.trials = self.refused = self.refused_in_a_row = 0

    @property
    def trainset(self) -> list[GEPATask]:
        """All tasks of split dev."""
        return list(self._loaded)

    @property
    def valset(self) -> list[GEPATask]:
        """Half of the dev tasks, drawn by the seed, of each bucket about every second one."""
        drawn = random.Random(self._seed)
        # By bucket, so that every second one of the list is about half of each bucket.
        shuffled = sorted(self._loaded, key=lambda task: (task.bucket, drawn.random()))
        return shuffled[::2]

    def evaluate(
        self, batch: list[GEPATask], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[TaskTrials, str]:
        """Try a candidate on these tasks; raises CandidateRefused where that gives no score for one."""
        from gepa import EvaluationBatch  # type: ignore[attr-defined]  # it has no __all__

        try:
            leaks = [
                leak
                for leak in prompt_leaks(
                    self.seed_candidate, {**self.seed_candidate, **candidate}, self.suite
                )
                if leak.added
            ]
            # A prompt with answers in it would win, and gepa knows no held-out tasks that show it.
            if leaks:
                where = f"{leaks[0].file}:{leaks[0].line}"
                raise CandidateRefused(f"the candidate holds pieces of tasks: {where}: {leaks[0].text!r}")
            with self._candidate_in_files(candidate):
                results = self._tried(batch)
        except (CandidateRefused, RunFailed):
            # gepa goes on after an exception; the verb ends it after several refusals in a row.
            self.refused += 1
            self.refused_in_a_row += 1
            raise
        self.refused_in_a_row = 0
        return EvaluationBatch(
            outputs=[each.scored[0].outcome.answer.text for each in results],
            scores=[each.score for each in results],
            trajectories=results if capture_traces else None,
        )

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: EvaluationBatch[TaskTrials, str],
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Give for each prompt file the trials that read it, the worst of each task, with what went wrong."""
        results: list[TaskTrials] = list(eval_batch.trajectories or ())
        return {
            # Where no read is recorded, all trials may have read it.
            component: [self._record(each) for each in results if _reads(each, component)]
            or [self._record(each) for each in results]
            for component in components_to_update
        }

    def _record(self, result: TaskTrials) -> Mapping[str, Any]:
        """Describe the trials of a task as feedback does, in the shape that gepa's own prompts know."""
        by_score = sorted(result.scored, key=lambda trial: trial.score or 0.0)
        worst, best = trial_view(by_score[0]), trial_view(by_score[-1])
        failed = worst.ending != "passed"
        passing = best if best.ending == "passed" and failed else None
        task = self._loaded[result.task].task
        feedback = trial_feedback(worst, task, failed=failed, passing=passing)
        record = {
            "Inputs": {
                "task": KNOWN_SECRETS.text(
                    str(next((message.content for message in worst.messages if message.role == "user"), ""))
                )
            },
            "Generated Outputs": worst.answer,
            "Feedback": trial_block(feedback) if failed else "passed: what it did must stay as it is",
        }
        return KNOWN_SECRETS.value(record)  # type: ignore[no-any-return]

    def _tried(self, batch: Sequence[GEPATask]) -> list[TaskTrials]:
        results: dict[GEPATask, TaskTrials] = {}
        for _ in range(ATTEMPTS):
            left = [task for task in dict.fromkeys(batch) if task not in results]
            if not left:
                break
            order = RunOrder(
                checkout=self._checkout,
                folder=".",
                paths=tuple(f"{task.file}::{task.id}" for task in left),
                results=self._results,
                name=self._name,
                outputs=self._results.parent,
                split="dev",
                repetitions=self._repetitions,
                options=self._options,
            )
            self._results.mkdir(parents=True, exist_ok=True)
            run = run_one(self.folder, order)
            self.trials += len(run.entries)
            tried = {task: _trials(run, task) for task in left}
            # An errored trial says nothing of a prompt, and must not count as 0.
            results |= {task: trials for task, trials in tried.items() if trials.scored}
        missing = [task.id for task in dict.fromkeys(batch) if task not in results]
        if missing:
            causes = {trial.cause: trial.message for task in tried.values() for trial in task.errored}
            why = "; ".join(f"{cause}: {message}" for cause, message in causes.items())
            raise CandidateRefused(f"{len(missing)} tasks errored {ATTEMPTS} times ({missing[0]}): {why}")
        return [results[task] for task in batch]

    @contextmanager
    def _candidate_in_files(self, candidate: Mapping[str, str]) -> Iterator[None]:
        unknown = candidate.keys() - self.seed_candidate.keys()
        if unknown:
            raise UsageMistake(f"no prompt file of this adapter: {', '.join(sorted(unknown))}")
        try:
            self.write(candidate)
            yield
        finally:
            self.write(self.seed_candidate)

    def write(self, candidate: Mapping[str, str]) -> None:
        """Write a candidate's texts into the prompt files, to stay: with line ends as each file had them."""
        for path, text in candidate.items():
            before = self._before[path]
            content = text.replace("\n", "\r\n" if b"\r\n" in before else "\n").encode()
            (self.folder / path).write_bytes(before if text == self.seed_candidate[path] else content)


def _text(path: str, content: bytes) -> str:
    """Read a prompt file, with line ends of one kind; raises UsageMistake where it is no UTF-8."""
    try:
        return content.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise UsageMistake(f"{path}: expected a prompt in UTF-8; found something else") from None


def _trials(run: Run, task: GEPATask) -> TaskTrials:
    own = [run.trial(entry) for entry in run.entries if entry.key.task == task.id]
    scored = tuple(trial for trial in own if trial.ending != "errored" and trial.score is not None)
    return TaskTrials(task, scored, tuple(trial for trial in own if trial not in scored))


def _reads(result: TaskTrials, component: str) -> bool:
    """Whether some trial recorded a read of the prompt in that file."""
    # Agents read a prompt by its file's name without endings.
    name = Path(component).name.partition(".")[0]
    reads = {
        event.text
        for trial in result.scored
        for event in trial.transcript.events
        if event.kind == PROMPT_READ
    }
    return name in reads


def _dev_tasks(folder: Path) -> Iterable[LoadedTask]:
    file = next((folder / name for name in SUITE_NAMES if (folder / name).is_file()), None)
    if file is None:
        raise UsageMistake(f"{folder}: expected a suite's folder; found no {' or '.join(SUITE_NAMES)}")
    tasks = tasks_of_suite(Suites(folder), file, load_suite(file))
    return [loaded for loaded in tasks if loaded.task.split == "dev"]
