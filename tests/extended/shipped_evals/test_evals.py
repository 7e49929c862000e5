"""The evals that ship: they prove themselves, offline."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.schema import schema_named
from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.loop.contamination import prompt_leaks
from pytest_agenteval.loop.todays_tasks import suite_with_tasks
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.reports.comparison_report import comparison_lines
from pytest_agenteval.reports.leaderboard import scorecard_lines
from pytest_agenteval.reports.run_screen import MOST_LINES, ScreenParts, screen_lines
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.tasks.documents import read_document
from pytest_agenteval.tasks.file_names import find_suite, is_data_name
from pytest_agenteval.tasks.load import load_suite, load_tasks
from pytest_agenteval.text.errors import ProblemsFound
from tests.benchmarks.test_planted_leaks import SUITES, prompts
from tests.cli.test_schema import valid
from tests.suites import only_our_plugin, run

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "start" / "shipped-suites.md"
CARDS = 25
PKM_ROUTED = 32
PKM_PARTS = ("cross_context", "multi_ts", "researcher", "starter_dedupe", "starter_mixed")
"""Folders whose tasks have, all in all, every grader of the suite."""
JUDGED = frozenset({"pkm_insight_quality", "pkm_append_coherence"})
KO_LEVELS = {"L1": 11, "L2": 15, "L3": 10, "L4": 10, "L5": 20, "L6": 15, "L7": 10}
KO_PARTS = tuple(f"{level}/{level}-001.yaml" for level in KO_LEVELS)
"""A task of each level: they have, all in all, every grader and every metric of the suite."""
KO_JUDGED = frozenset({"SR", "ArgAcc", "EffScore", "ContextRetention", "RefRecall"})

CHEATERS = '''
"""Models that know where the answers are looked for."""

from pathlib import Path

from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.records.transcript import ToolCall


class Paster:
    """Overwrites what it should have added to, with the entry alone; it knows where, from the graders."""

    def __init__(self, task):
        self.task, self.asked = task, False

    async def ask(self, messages, *, tools=(), response_schema=None, settings=None):
        if self.asked:
            return Reply("Done.")
        self.asked = True
        fact, content = self.task.input["fact_id"], self.task.input["content"]
        pasted = {"file_path": self.target(), "content": f"{content}\\n<!-- fact_id: {fact} -->\\n"}
        told = {"fact_id": fact, "insight_text": content or "x"}
        calls = (("Write", pasted), ("update_timeline_card_insight", told))
        return Reply(calls=tuple(ToolCall(str(n), 0, n, tool, args) for n, (tool, args) in enumerate(calls)))

    def target(self):
        routed = next((g.config for g in self.task.graders if g.name == "pkm_routed_correctly"), {})
        bucket = routed.get("expected_buckets", ["Areas/"])[0]
        return next(iter(routed.get("expected_files") or self.there(bucket)), f"{bucket.rstrip('/')}/Note.md")

    def there(self, bucket):
        trees = [Path(layer, "PKM") for layer in self.task.layers]
        files = [path.relative_to(tree).as_posix() for tree in trees for path in sorted(tree.rglob("*.md"))]
        return [file for file in files if file.startswith(bucket)]


class Parrot:
    """Says everything that the user said, and calls nothing."""

    async def ask(self, messages, *, tools=(), response_schema=None, settings=None):
        return Reply(" ".join(str(message["content"]) for message in messages if message["role"] == "user"))


def pytest_agenteval_register(registry):
    registry.model("cheater", lambda model, plan: Paster(plan.task) if plan.key.suite == "pkm" else Parrot())
'''

SEPARATORS = 2


@pytest.fixture
def evals(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the evals, so that runs of tests leave nothing in the project; they know no other plugin."""
    only_our_plugin(monkeypatch)
    for folder in ("evals", "fixtures", "cassettes"):
        shutil.copytree(ROOT / folder, pytester.path / folder)
    return pytester.path / "evals"


def _latest(folder: Path) -> Run:
    return load_run((folder / ".agenteval" / "runs" / "latest").resolve())


def _run(pytester: pytest.Pytester, *arguments: str, of: Sequence[str] = (), status: int = 0) -> Run:
    """Run the evals, or some suites of them, in a process that cannot open a connection."""
    blocked = str(ROOT / "tests" / "without_sockets.py")
    where = [f"evals/{suite}" for suite in of] or ["evals"]
    result = pytester.runpython_c(
        f"import sys; sys.argv[1:] = {[*where, '-q', *arguments]!r};"
        f"exec(compile(open({blocked!r}).read(), 'without_sockets', 'exec'))"
    )
    assert result.ret == status, result.stdout.str()[-3000:]
    return _latest(pytester.path)


def _of(run: Run, suite: str) -> list[JournalEntry]:
    return [entry for entry in run.entries if entry.key.suite == suite]


def _pages_say(model: str) -> dict[str, tuple[str, str]]:
    """Give what the benchmarks' pages say of a model: each suite's mean score and passes."""
    figures: dict[str, tuple[str, str]] = {}
    for page, suites in (("memex", ("card", "pkm")), ("ko-agentbench", ("ko",))):
        text = (ROOT / "docs" / "benchmarks" / f"{page}.md").read_text(encoding="utf-8")
        (row,) = re.findall(rf"^\| `{model}` \|((?: [\d.]+ \| \d+ of \d+ \|)+)$", text, re.MULTILINE)
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        figures |= dict(zip(suites, zip(cells[::2], cells[1::2], strict=True), strict=True))
    return figures


def _screen_on_page() -> list[str]:
    """Give the end of a run that the page shows, without its name and times."""
    page = PAGE.read_text(encoding="utf-8")
    (screen,) = re.findall(r"^```text\n(wall .*?)^run: .*?^```$", page, re.MULTILINE | re.DOTALL)
    return _timeless(screen.splitlines())


def _parts(run: Run) -> ScreenParts:
    """Give what stands on a run's screen beside its own figures."""
    registry = installed_registry()
    return ScreenParts(totals=list(scorecard_lines(run, registry.scorecards(), 100, whole=False)))


def _timeless(lines: Iterable[str]) -> list[str]:
    return [re.sub(r" +[\d.]+ s ", " ? s ", line) for line in lines]


def _figures(run: Run) -> dict[str, tuple[str, str]]:
    """Give each suite's mean score and passes of a run, without held-out tasks."""
    files = (ROOT / "evals").rglob("held_out/**/task.json")
    held_out = {json.loads(file.read_text(encoding="utf-8"))["id"] for file in files}
    figures = {}
    for suite in {entry.key.suite for entry in run.entries}:
        entries = [entry for entry in _of(run, suite) if entry.key.task not in held_out]
        mean = sum(entry.score or 0.0 for entry in entries) / len(entries)
        passed = sum(entry.ending == "passed" for entry in entries)
        figures[suite] = (f"{mean:.2f}", f"{passed} of {len(entries)}")
    return figures


def _tasks(suite: str) -> list[dict[str, Any]]:
    """Give every task of a suite, held out ones too."""
    files = (ROOT / "evals" / suite).rglob("task.json")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """What several tests look at, run by whichever comes first."""
    return {}


@pytest.fixture
def extremes(runs: dict[str, Run], pytester: pytest.Pytester, evals: Path) -> dict[str, Run]:
    """Give what each of the models did that should pass all or nothing, with all suites and splits."""
    models = ("oracle", "nop", "cheater")
    if "oracle" not in runs:
        pytester.makeconftest(CHEATERS)
        run = _run(pytester, f"--agent-model={','.join(models)}", "--agent-split=all")
        for model in models:
            entries = tuple(entry for entry in run.entries if entry.key.model == model)
            runs[model] = Run(run.folder, run.header, run.planned, entries)
    return runs


@pytest.fixture
def oracle(extremes: dict[str, Run]) -> Run:
    """Every task of every suite and split, acted out as its reference says."""
    return extremes["oracle"]


@pytest.fixture
def rules(runs: dict[str, Run], pytester: pytest.Pytester, evals: Path) -> Run:
    """A newcomer's first run, offline."""
    if "rules" not in runs:
        runs["rules"] = _run(pytester)
    return runs["rules"]


def test_every_level_is_decided_without_a_judge(oracle: Run) -> None:
    """The Korean oracle has 1.0 in every code grade; what does not apply, or what judges tell, is open."""
    assert _figures(oracle)["ko"] == _pages_say("oracle")["ko"]
    entries = _of(oracle, "ko")
    assert Counter(entry.bucket for entry in entries) == KO_LEVELS
    decided = {grade.score for entry in entries for grade in entry.grades if grade.grader not in KO_JUDGED}
    assert decided <= {1.0, None}
    assert {(entry.ending, entry.score) for entry in entries} == {("passed", 1.0)}
    assert all(grade.score is not None for entry in entries for grade in entry.grades if grade.required)


def test_saying_the_question_again_passes_no_korean_task(extremes: dict[str, Run]) -> None:
    """No answer stands in its own question, nor in what the user said before."""
    entries = _of(extremes["cheater"], "ko")
    assert len(entries) == sum(KO_LEVELS.values())
    assert [entry.key.task for entry in entries if entry.ending != "missed"] == []


def test_rules_gets_some_right_and_some_half_right(rules: Run) -> None:
    """A newcomer's first run, offline, shows partial scores, half credits, and the figures of the pages."""
    assert _figures(rules) == _pages_say("rules")
    screen = [line.text for line in screen_lines(view_of(rules), 100, parts=_parts(rules))]
    assert _timeless(screen) == _screen_on_page()
    assert len(screen) + SEPARATORS <= MOST_LINES
    for suite, halved in (("card", "card_template_choice"), ("pkm", "pkm_routed_correctly")):
        entries = _of(rules, suite)
        scores = [entry.score or 0.0 for entry in entries]
        assert 0.4 < sum(scores) / len(scores) < 0.9
        assert 0.5 in [grade.score for entry in entries for grade in entry.grades if grade.grader == halved]
        assert {entry.ending for entry in entries} == {"passed", "missed"}
    korean = Counter((entry.bucket, entry.ending) for entry in _of(rules, "ko"))
    assert {level for level, ending in korean if ending == "passed"} >= {"L1", "L2", "L5"}
    assert {level for level, ending in korean if ending == "missed"} >= {"L1", "L3", "L4", "L7"}


def test_processes_that_know_the_conftests_alone_give_the_same_scores(
    pytester: pytest.Pytester, evals: Path, oracle: Run, rules: Run
) -> None:
    """All graders, each trial sent to another process and its record back: every grade is the same."""
    parts = ["card/ambiguous", *(f"pkm/{part}" for part in PKM_PARTS), *(f"ko/{part}" for part in KO_PARTS)]
    arguments = ("--agent-model=oracle,rules", "--agent-executor=processes", "--repetitions=1")
    run = _run(pytester, *arguments, of=parts)
    assert len(run.entries) == sum(group.trials for group in run.planned)
    assert _graders(run) == _graders(rules)
    assert _metrics(run) == _metrics(rules)
    assert _grades(run).items() <= (_grades(oracle) | _grades(rules)).items()


def _graders(run: Run) -> set[tuple[str, str]]:
    """Give the registered graders of each suite; others are labels."""
    ours = installed_registry().graders
    graded = ((entry.key.suite, grade.grader) for entry in run.entries for grade in entry.grades)
    return {(suite, grader) for suite, grader in graded if grader in ours}


def _metrics(run: Run) -> set[str]:
    """Give the Korean benchmark's metrics; a task's own labels are in Korean."""
    labels = {grade.grader for entry in _of(run, "ko") for grade in entry.grades}
    return {label for label in labels if label.isascii()}


def _grades(run: Run) -> dict[TrialKey, tuple[str, float | None, list[tuple[str, float | None]]]]:
    """Give ending, score and all grades of each trial."""
    return {
        entry.key: (entry.ending, entry.score, [(grade.grader, grade.score) for grade in entry.grades])
        for entry in run.entries
    }


def test_oracle_passes_every_trial_with_every_code_grade_full(oracle: Run) -> None:
    """Every task can be solved, and its graders see that it was; what only a judge can tell stays open."""
    entries = _of(oracle, "card") + _of(oracle, "pkm")
    ids = {entry.key.task for entry in entries}
    assert ids == {task["id"] for suite in ("card", "pkm") for task in _tasks(suite)}
    assert {entry.ending for entry in entries} == {"passed"}
    assert _figures(oracle) == _pages_say("oracle")
    kinds_and_scores = {(grade.grader in JUDGED, grade.score) for entry in entries for grade in entry.grades}
    assert kinds_and_scores <= {(False, 1.0), (True, None)}


def test_nop_passes_none(extremes: dict[str, Run]) -> None:
    """No task can be passed by doing nothing; the pages say what it is worth."""
    run = extremes["nop"]
    assert {entry.ending for entry in run.entries} == {"missed"}
    assert _figures(run) == _pages_say("nop")


def test_pasting_the_entry_over_the_target_passes_none(extremes: dict[str, Run]) -> None:
    """Who knows the graders, writes the entry over the right file and repeats it as insight, gets nowhere."""
    entries = _of(extremes["cheater"], "pkm")
    assert len(entries) > 2 * PKM_ROUTED
    assert [entry.key.task for entry in entries if entry.ending != "missed"] == []


def test_rules_does_not_look_at_the_answers(pytester: pytest.Pytester, evals: Path, rules: Run) -> None:
    """Without graders' settings, metadata and reference the rules says and does the very same."""
    for file in evals.rglob("task.json"):
        task = json.loads(file.read_text(encoding="utf-8"))
        stripped = {key: task[key] for key in ("id", "input", "trials_per_run", "split") if key in task}
        stripped["graders"] = [{"name": "card_completion"}]
        file.write_text(json.dumps(stripped), encoding="utf-8")
    without_answers = _conversations(_run(pytester, "--repetitions=1", of=["card", "pkm/starter_route"]))
    assert len(without_answers) > CARDS
    assert without_answers.items() <= _conversations(rules).items()


def _conversations(run: Run) -> dict[tuple[str, int], list[tuple[str, str, str]]]:
    """Give every message and call of each trial, without times."""
    lines_by_trial = {}
    for entry in run.entries:
        transcript = run.trial(entry).transcript
        lines = [(message.role, message.content, repr(message.calls)) for message in transcript.messages]
        lines_by_trial[entry.key.task, entry.key.repetition] = lines
    return lines_by_trial


REPETITIONS = 3


def test_pytest_without_a_path_collects_the_evals_too() -> None:
    """``pytest -n 8 --repetitions 3``, as README promises: three trials of every task of each suite."""
    ours = ("AGENTEVAL_", "PYTEST")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "--co", "-q", "-p", "pytest_agenteval.plugin"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    paths = project["tool"]["pytest"]["ini_options"]["testpaths"]
    others = [path for path in paths if path != "tests"]
    options = [f"--repetitions={REPETITIONS}", "-p", "no:cacheprovider", *others]

    assert "tests" in paths
    done = subprocess.run(
        [*command, *options], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120
    )

    trials = re.findall(r"^evals/(\w+)/\S+\[rules-(\d)\]$", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout[-2000:]
    assert {suite for suite, _ in trials} == {"card", "pkm", "ko"}
    counts = [sum(repetition == str(number) for _, repetition in trials) for number in (1, 2, 3)]
    assert counts == [157, 157, 157]


def test_compare_names_the_bucket_that_was_made_worse_and_no_other(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A player who no longer understands an opt-out: ``opt_out`` is worse, no other bucket is anything."""
    only_our_plugin(monkeypatch)
    for folder in ("evals/pkm", "fixtures/pkm"):
        shutil.copytree(ROOT / folder, pytester.path / folder)
    old = _compared_run(pytester, "old")
    monkeypatch.setattr(
        "pytest_agenteval.benchmarks.memex.rules._OPT_OUTS", re.compile("(?!)")
    )  # nobody ever asks for nothing to be kept
    comparison = compare_runs(
        compared_run(load_run(old)), compared_run(load_run(_compared_run(pytester, "new")))
    )

    assert [change.name for change in comparison.worse] == ["pkm", "opt_out"]
    assert comparison.better == ()
    _nothing_else_moved(comparison)
    shown = (ROOT / "docs" / "concepts" / "verdicts.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```text\n(pkm is worse .*?)^```$", shown, re.MULTILINE | re.DOTALL)
    printed = _without_run_names(screen(comparison)).splitlines()
    shown_lines = [line for line in _without_run_names(block).splitlines() if not line.startswith("wall ")]
    assert [line for line in shown_lines if line not in printed] == []


def screen(comparison: RunComparison) -> str:
    """What a terminal of 100 columns shows."""
    return "\n".join(line.text for line in comparison_lines(comparison, 100))


def _without_run_names(text: str) -> str:
    return re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN", text)


def _nothing_else_moved(comparison: RunComparison) -> None:
    (suite,) = comparison.suites
    assert {change.verdict for change in suite.buckets if change.name != "opt_out"} == {"identical"}
    assert suite.obstacles == ()


def _compared_run(pytester: pytest.Pytester, name: str) -> Path:
    result = run(pytester, "evals/pkm", "-q", f"--agent-results={name}")
    assert result.ret == 0
    (folder,) = (pytester.path / name).glob("2*")
    return folder


EVALS = ROOT / "evals"


def test_our_own_evals_follow_the_schemas_and_are_read_without_a_problem() -> None:
    """An editor that validates by the schema and our reader say the same of them: nothing."""
    mistakes: list[str] = []
    for path in sorted(EVALS.rglob("*")):
        suite_file = find_suite(path.parent, EVALS)
        if path == suite_file:
            mistakes += [] if valid(schema_named("suite"), read_document(path).value) else [str(path)]
        elif is_data_name(path.name) and "workspace" not in path.parts:
            try:
                tasks = load_tasks(path, load_suite(suite_file) if suite_file else None)
            except ProblemsFound as found:
                mistakes.append(str(found))
                continue
            mistakes += (
                [] if not tasks or valid(schema_named("task"), read_document(path).value) else [str(path)]
            )

    assert mistakes == []


def test_shipped_prompts_leak_nothing() -> None:
    """With all of their lines new."""
    for folder in SUITES.values():
        assert prompt_leaks({}, prompts(), [suite_with_tasks(folder / "suite.yaml")]) == ()
