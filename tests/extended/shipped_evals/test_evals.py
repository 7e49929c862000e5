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
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_agenteval.cli.schema import schema_named
from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.loop.contamination import prompt_leaks
from pytest_agenteval.loop.todays_tasks import suite_with_tasks
from pytest_agenteval.reports.comparison_report import comparison_lines
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.tasks.documents import read_document
from pytest_agenteval.tasks.file_names import find_suite, is_data_name
from pytest_agenteval.tasks.load import load_suite, load_tasks
from pytest_agenteval.text.errors import ProblemsFound
from tests.benchmarks.test_planted_leaks import SUITES, prompts
from tests.cli.test_schema import valid
from tests.frozen.__main__ import EXPECTED
from tests.suites import only_our_plugin, run

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
CARDS = 25
PKM_ROUTED = 32
KOREAN = 91

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


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """What two tests look at, run by whichever comes first."""
    return {}


@pytest.fixture
def cheater(runs: dict[str, Run], pytester: pytest.Pytester, evals: Path) -> Run:
    """Everything that the cheaters did, with all suites and splits."""
    if not runs:
        pytester.makeconftest(CHEATERS)
        runs["cheater"] = _run(pytester, "--agent-model=cheater", "--agent-split=all")
    return runs["cheater"]


def test_pages_say_what_offline_models_reach() -> None:
    """Mean score and passes of each suite; ``python -m tests.frozen`` holds them, grade by grade."""
    pages = [
        (ROOT / "docs" / "benchmarks" / f"{name}.md").read_text(encoding="utf-8").splitlines()
        for name in ("memex", "ko-agentbench")
    ]
    for figures in (EXPECTED / "scores" / "figures.txt").read_text(encoding="utf-8").splitlines():
        model = figures.split(" | ")[0]
        rows = [line for page in pages for line in page if line.startswith(f"{model} |")]
        assert figures == rows[0] + "".join(row.removeprefix(model)[2:] for row in rows[1:])


def test_saying_the_question_again_passes_no_korean_task(cheater: Run) -> None:
    """No answer stands in its own question, nor in what the user said before."""
    endings = [entry.ending for entry in cheater.entries if entry.key.suite == "ko"]
    assert Counter(endings) == {"missed": KOREAN}


def test_pasting_the_entry_over_the_target_passes_none(cheater: Run) -> None:
    """Who knows the graders, writes the entry over the right file and repeats it as insight, gets nowhere."""
    entries = [entry for entry in cheater.entries if entry.key.suite == "pkm"]
    assert len(entries) > 2 * PKM_ROUTED
    assert [entry.key.task for entry in entries if entry.ending != "missed"] == []


def test_rules_does_not_look_at_the_answers(pytester: pytest.Pytester, evals: Path) -> None:
    """Without graders' settings, metadata and reference the rules says and does the very same."""
    rules = _run(pytester)
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
