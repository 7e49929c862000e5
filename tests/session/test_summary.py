"""What a run says at its end: what to type next, what was not run, scorecards, where agents acted."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.session.summary import next_steps, resume_arguments
from pytest_agenteval.store.run_folder import RunHeader, new_run, planned_groups, write_planned
from pytest_agenteval.store.run_reader import load_run
from tests.journals import finished, trials
from tests.reports.runs import CAPABILITY, RULES_MODEL, trial
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


def offered(result: pytest.RunResult) -> list[str]:
    """Give the commands of a run's last lines."""
    starts = ("next: ", "or: ", "run: ")
    text = "   ".join(line for line in result.outlines if line.startswith(starts))
    return [part.partition(": ")[2] for part in text.split("   ") if not part.startswith("run: ")]


@pytest.mark.parametrize(("results", "workers"), [("", 1), ("kept", 0)])
def test_the_run_before_of_the_same_suites_is_offered_for_comparison(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], results: str, workers: int
) -> None:
    """Not one of another suite or model, nor the run itself; each command can be typed as it stands."""
    write(pytester.path, {"evals/a/suite.yaml": suite("a"), "evals/a/t.json": task("t")})
    write(pytester.path, {"evals/b/suite.yaml": suite("b"), "evals/b/t.json": task("t")})
    where = [f"--agent-results={results}"] if results else []

    first = run(pytester, "evals/a", *where)
    run(pytester, "evals/a", "--agent-model=nop", *where)
    run(pytester, "evals", *where)
    second = run(pytester, "evals/a", *where, workers=workers)

    (name,) = [Path(line.split()[1]).name for line in first.outlines if line.startswith("run: ")]
    assert [command.split()[1] for command in offered(first)] == ["report"]
    compare, report = offered(second)
    assert compare.startswith(f"agenteval compare {name} latest")
    assert report.startswith("agenteval report latest -v")
    capsys.readouterr()
    for command in (compare, report):
        assert main(shlex.split(command)[1:]) == 0
    assert name in capsys.readouterr().out


VARIANTS = {"old=a.md": "base,old", "old=a.md,new=b.md": "old,new", "old=a.md,new=b.md,third=a.md": ""}


def test_the_two_variants_of_a_run_are_offered_for_comparison(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that were named; one is compared with the agent's own prompts, and of three none are."""
    one = task("t", agent="tool_calling")
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.json": one, "a.md": "a", "b.md": "b"})
    for number, (given, compared) in enumerate(VARIANTS.items()):
        commands = offered(run(pytester, "evals", f"--agent-prompt={given}", f"--agent-results=runs{number}"))
        expected = [f"agenteval compare latest --variants {compared}"] if compared else []
        where = f" --results runs{number}"
        assert commands == [f"{command}{where}" for command in (*expected, "agenteval report latest -v")]
        assert [main(shlex.split(command)[1:]) for command in commands] == [0] * len(commands)
    capsys.readouterr()


def test_a_run_with_a_baseline_is_compared_with_that(pytester: pytest.Pytester) -> None:
    """And not with a run in between: the verdict above is about the baseline."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.json": task("t")})
    first = run(pytester, "evals")
    run(pytester, "evals")
    (name,) = [Path(line.split()[1]).name for line in first.outlines if line.startswith("run: ")]
    assert main(["baseline", "set", name, "--to", "kept.json"]) == 0

    for baseline in (name, "kept.json"):
        commands = offered(run(pytester, "evals", f"--agent-baseline={baseline}"))
        assert commands[0] == f"agenteval compare {baseline} latest"
    # Nobody is sent to a folder that is gone.
    assert offered(run(pytester, "evals", "--agent-results=none")) == []


def stored(root: Path, began: str, tasks: str, judge: str = "strict") -> Path:
    """Write down a run that planned these tasks, and ended."""
    judges = (replace(RULES_MODEL, name=judge),)
    began, ended = f"2026-11-21T09:{began}+00:00", "2026-11-21T10:00:00+00:00"
    header = RunHeader(began, models=(RULES_MODEL,), judges=judges, suites=(CAPABILITY,), ended_at=ended)
    folder = new_run(root, header)
    write_planned(folder, planned_groups((trial(task, 1, 1.0).key, "") for task in tasks))
    return folder


def test_a_run_with_other_tasks_or_judges_is_not_offered(tmp_path: Path) -> None:
    """The newest that planned the same stands there; a run without a plan that can be read is no such run."""
    stored(tmp_path, "10:00", "ab")
    old = stored(tmp_path, "11:00", "ab")
    stored(tmp_path, "20:00", "a")
    stored(tmp_path, "21:00", "ab", judge="lenient")
    (stored(tmp_path, "22:00", "ab") / "planned.json").write_text("[]", encoding="utf-8")
    new = stored(tmp_path, "30:00", "ab")
    stored(tmp_path, "30:00.500", "ab")  # later, in the same second

    assert next(next_steps(new, tmp_path)).startswith(f"agenteval compare {old.name} latest")


BUDGETS = {
    ("--agent-max-cost=$2.5",): "--agent-max-cost=5",
    ("--agent-max-cost", "0.00005"): "--agent-max-cost=0.0001",
    ("--agent-max-tokens=2000000",): "--agent-max-tokens=4000000",
}


def test_a_run_whose_budget_was_spent_goes_on_with_twice_of_it() -> None:
    """With the same nothing would begin; a run that was cut short otherwise keeps the one it has."""
    for given, twice in BUDGETS.items():
        command, rest = ["evals", *given, "-x", "-k", "a=b"], ["-k", "a=b", "--agent-resume"]
        spent = list(resume_arguments(command, "--agent-resume", budget_spent=True))
        assert spent == ["evals", twice, *rest]
        assert list(resume_arguments(command, "--agent-resume")) == ["evals", *given, *rest]


@pytest.mark.parametrize(
    "left_out", [["--maxfail", "1"], ["--maxfail=1"], ["--agent-reuse", "first"], ["-x"]]
)
def test_what_would_end_the_run_again_is_no_part_of_the_command_that_goes_on(left_out: list[str]) -> None:
    """Nor is what was reused already; a value goes with its option, be it the same word or the next."""
    command = list(resume_arguments(["evals", *left_out, "-k", "a"], "--agent-resume"))
    assert command == ["evals", "-k", "a", "--agent-resume"]


HOLDS_BACK = """
from pytest_agenteval.engine.jobs import NotRun
from pytest_agenteval.session import runner

class Odd:
    def decide(self, plan):
        return "begin" if int(plan.task.id[1:]) % 2 else NotRun("odd", "even numbers have no luck today")
    def ended(self, plan, trial):
        pass

def pytest_configure(config):
    config.add_cleanup(lambda before=runner.admissions: setattr(runner, "admissions", before))
    runner.admissions = lambda *_: [Odd()]
"""


def messages(file: Path) -> list[str]:
    """Give the messages of all skipped cases of a JUnit file."""
    return [skipped.get("message") or "" for skipped in ElementTree.parse(file).iter("skipped")]


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_held_back_is_told_with_its_reason_and_is_no_success(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], workers: int
) -> None:
    """Items, summary, journal, JUnit and the report of a month later agree; the exit status is 2."""
    write(pytester.path, {"evals/suite.yaml": suite(), "conftest.py": HOLDS_BACK})
    write(pytester.path, {f"evals/t{n}.json": task(f"t{n}") for n in range(6)})

    result = run(pytester, "evals", "-v", "--junitxml=own.xml", workers=workers)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines_random(
        [
            "*PASSED 1.00*",
            "*NOT RUN*",
            "! 3 trials not run: even numbers have no luck today",
            "*3 passed, 3 not run in*",
        ]
    )
    stored = load_run("latest", pytester.path / ".agenteval" / "runs")
    assert [trial.key.task for trial in stored.not_run] == ["t0", "t2", "t4"]
    assert {(trial.cause, trial.reason) for trial in stored.not_run} == {
        ("odd", "even numbers have no luck today")
    }
    assert (len(stored.entries), stored.begun, stored.odd) == (3, (), ())
    assert main(["report", "latest"]) == 0
    assert "3 of greetings's 6 trials not run: even numbers have no luck today" in capsys.readouterr().out
    assert main(["report", "latest", "--output", "later.xml"]) == 0
    for file in ("own.xml", "later.xml"):
        assert messages(pytester.path / file) == ["NOT RUN: even numbers have no luck today"] * 3


SCORECARD = """
from pytest_agenteval import Metric, MetricGroup, Scorecard, Total, TotalPart


def scorecard(entries):
    scores = [grade.score for entry in entries for grade in entry.grades]
    said = Metric("said", sum(scores) / len(scores), tasks=len(scores))
    group = MetricGroup(Metric("speech", said.value, tasks=said.tasks), (said,))
    total = Total("index", said.value, None, (TotalPart("speech", said.value, 1.0, ("speech",)),))
    return Scorecard((group,), total, group_word="skill")


def pytest_agenteval_register(registry):
    registry.scorecard("own", scorecard, graders=["answer_contains"])
"""


def project(pytester: pytest.Pytester, conftest: str) -> None:
    """Write a suite with a trial that passes and one that does not."""
    write(
        pytester.path,
        {
            "conftest.py": conftest,
            "a/suite.yaml": suite(),
            "a/m.json": task("m"),
            "a/n.json": task("n", says="Hm."),
        },
    )


def test_a_conftests_scorecard_is_one_line_after_the_run(pytester: pytest.Pytester) -> None:
    """The total, in the benchmark's word for it; with -v every metric and the way to the total.

    Where no grade has one of its labels nothing of it is imported.
    """
    project(pytester, SCORECARD)
    run(pytester).stdout.fnmatch_lines(["greetings index 0.50"])
    whole = run(pytester, "-v", workers=1)
    whole.stdout.fnmatch_lines(["skills of * with scripted", "  skill *", "  speech said *0.50*"])
    whole.stdout.fnmatch_lines(["  index 0.50 = 1 x speech 0.50"])

    of_others = SCORECARD.replace("answer_contains", "nobodys")
    project(pytester, of_others.replace("scorecard, graders", "'no.such:x', graders"))
    lines = run(pytester).outlines
    assert not any(line.startswith(("skills of", "the scorecard")) or "no.such" in line for line in lines)


def test_a_scorecard_that_raises_costs_nothing_else(pytester: pytest.Pytester) -> None:
    """The tables and the run's place stand; one line names the scorecard, the exception and its line."""
    project(pytester, SCORECARD.replace("= [grade", "= [grade.nothing or grade"))

    result = run(pytester)

    line = next(line for line in result.outlines if line.startswith("the scorecard 'own'"))
    assert "cannot be made: AttributeError" in line
    assert any(line.startswith("run: ") for line in result.outlines)
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert result.ret == 1


NONSENSE = {
    "no scorecard": ("{'speech': 1.0}", "expected a Scorecard or None; found {'speech': 1.0}"),
    "no groups": ("Scorecard(())", "groups: expected one or more; found none"),
    "a number for a group": ("Scorecard((1,))", "Expected `object`, got `int` - at `$.groups[0]`"),
    "a text for a figure": (
        "Scorecard((MetricGroup(Metric('a', 'high'), ()),))",
        "Expected `float | null`, got `str` - at `$.groups[0].total.value`",
    ),
    "not a number": (
        "Scorecard((MetricGroup(Metric('a', 0.5), (Metric('b', float('nan')),)),))",
        "Expected `float | null`, got `str` - at `$.groups[0].metrics[0].value`",
    ),
    "a group twice": ("Scorecard((group, group))", "groups: 'speech' is there twice"),
    "a number for a total": ("Scorecard((group,), 5)", "Expected `object | null`, got `int` - at `$.total`"),
    "a text for notes": ("Scorecard((group,), notes='abc')", "Expected `array`, got `str` - at `$.notes`"),
}


def test_what_is_no_scorecard_costs_nothing_else(pytester: pytest.Pytester) -> None:
    """Not the run's tables, not its place, not the other scorecards: one line names it and what is wrong."""
    hook = SCORECARD.replace('"own"', '"zown"')
    function = SCORECARD[SCORECARD.index("def scorecard") :].split("def pytest_agenteval_register")[0]
    returned = 'return Scorecard((group,), total, group_word="skill")'
    for number, (made, _) in enumerate(NONSENSE.values()):
        nonsense = function.replace("def scorecard(", f"def nonsense{number}(").replace(
            returned, f"return {made}"
        )
        register = f"    registry.scorecard('bad{number}', nonsense{number}, graders=['m{number}'])\n"
        hook = f"{nonsense}{hook}{register}"
    imports = SCORECARD[: SCORECARD.index("def scorecard")]
    project(pytester, imports + hook)
    for number in range(len(NONSENSE)):
        matches = {"name": "answer_matches", "label": f"m{number}", "config": {"patterns": ["Mina"]}}
        own = {
            f"b{number}/suite.yaml": suite(f"b{number}"),
            f"b{number}/m.json": task("m", graders=[matches]),
        }
        write(pytester.path, own)

    result = run(pytester)

    output = " ".join(result.stdout.str().split())
    for number, (_, mistake) in enumerate(NONSENSE.values()):
        assert f"the scorecard 'bad{number}' cannot be drawn: {mistake}" in output
    assert " greetings index 0.50 " in output
    assert any(line.startswith("run: ") for line in result.outlines)
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


CONFTEST = """


class Clerk:
    def run(self, task_input, ctx):
        done = task_input["done"]
        if done == "broken":
            raise RuntimeError("gone")
        if done:
            (ctx.path / done).parent.mkdir(exist_ok=True)
            (ctx.path / done).write_text("Mina")
        return "Hello, Mina!"


def pytest_agenteval_register(registry):
    registry.agent("clerk", Clerk)
"""

ACTS = 'agent: clerk\nacts: {files: ["notes/**"]}\n'


def labelled(id: str, label: str, done: str, **more: Any) -> dict[str, Any]:
    """Give a task with a label, in which the agent writes this file, or none."""
    given = {"input": {"content": "Say hello to Mina.", "done": done}, "metadata": {"label": label}}
    return {**task(id), **given, **more}


TASKS = {
    "right": labelled("right", "positive", "notes/a.md"),
    "missed": labelled("missed", "positive", "elsewhere/a.md"),
    "wrong": labelled("wrong", "negative", "notes/b.md"),
    "left": labelled("left", "negative", ""),
    "broken": labelled("broken", "negative", "broken"),
    "plain": {**labelled("plain", "", "notes/c.md"), "metadata": {}},
}
EVALS = {
    "conftest.py": CONFTEST,
    "evals/suite.yaml": suite(more=ACTS),
    **{f"evals/{name}.json": each for name, each in TASKS.items()},
}
TEXT = (
    "acting: precision 0.50, recall 0.50, F1 0.50 over 4 labelled trials (1 acted correctly, 1 wrongly, "
    "1 should have acted, 1 correctly did not); left out: 1 errored"
)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_says_whether_agents_acted_where_they_should(pytester: pytest.Pytester, workers: int) -> None:
    """By the files that changed, not by scores: all of these trials passed. Tasks without label count not."""
    write(pytester.path, EVALS)

    result = run(pytester, "evals", "-v", workers=workers)

    result.assert_outcomes(passed=5, errors=1)
    assert TEXT in " ".join(str(result.stdout).split())
    lines = finished(pytester.path)
    assert {name: line.get("acted") for name, line in lines.items()} == {
        "right": True,
        "missed": False,
        "wrong": True,
        "left": False,
        "broken": None,
        "plain": None,
    }
    assert [lines[name].get("label") for name in ("right", "left", "plain")] == ["positive", "negative", None]
    assert trials(pytester.path)["wrong"].label == "negative"


def test_a_report_says_it_again_and_as_json(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """All counts and figures; a suite without labels has no such key."""
    other = {"other/suite.yaml": suite("other"), "other/a.json": task("a", metadata={"label": "hard"})}
    write(pytester.path, {**EVALS, **other})
    run(pytester, "evals", "other")
    capsys.readouterr()

    assert main(["report", "latest"]) == 0
    assert "greetings acting: precision 0.50, recall 0.50, F1 0.50\n" in capsys.readouterr().out
    assert main(["report", "latest", "-v", "--json", "figures.json"]) == 0

    assert TEXT in " ".join(capsys.readouterr().out.split())
    boards = json.loads(Path("figures.json").read_text(encoding="utf-8"))["boards"]
    rows = {board["suite"]: board["rows"][0] for board in boards}
    assert "decisions" not in rows["other"]
    decisions = rows["greetings"]["decisions"]
    assert {name: decisions[name] for name in ("precision", "recall", "f1", "accuracy", "errored")} == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "accuracy": 0.5,
        "errored": 1,
    }


def test_a_misspelt_label_is_a_problem_and_regrading_labels_a_run(pytester: pytest.Pytester) -> None:
    """It would be left out of every figure in silence; what acting is may be said later than the run."""
    write(pytester.path, {**EVALS, "evals/suite.yaml": suite(more="agent: clerk\n")})
    assert "acting" not in str(run(pytester, "evals").stdout)
    write(pytester.path, {"evals/suite.yaml": EVALS["evals/suite.yaml"]})

    regraded = run(pytester, "evals", "-v", "--agent-regrade=latest")

    assert "precision 0.50, recall 0.50, F1 0.50 over 4" in " ".join(str(regraded.stdout).split())
    write(pytester.path, {"evals/wrong.json": labelled("wrong", "negativ", "")})
    run(pytester, "evals").stdout.fnmatch_lines(
        ["evals/wrong.json:*: metadata.label", "*expected: positive or negative", "*found: *'negativ'"]
    )
