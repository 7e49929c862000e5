"""A suite's file may hold its tasks: they run, record, are reused and are reported like those of files."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.cli.schema import schema_named
from pytest_agenteval.loop.improve.attempts import held_out_files, read_tree_suite
from pytest_agenteval.tasks.load import LoadedTask, load_suite, load_tasks
from pytest_agenteval.tasks.yaml_reading import read_yaml
from pytest_agenteval.text.errors import ProblemsFound
from tests.journals import latest_run
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import collected_ids, run, write

pytest_plugins = ["pytester"]

SUITE = """name: support
kind: regression
defaults: {model: scripted}
prompts: {}
tasks:
  - id: refund
    input: I want my money back.
    script: [{text: Until 2 December.}]
    reference_solution: {turns: [{text: Until 2 December.}]}
    graders: [{name: answer_contains, config: {text: 2 December}}]
  - input: Where is my order, please?
    metadata: {failure_bucket: orders}
    script: [{text: It arrives on Friday.}]
    graders: [{name: answer_contains, config: {text: Monday}}]
  - {rows: more.csv, id: name, input: asked, script: [{text: "{{ says }}"}],
     graders: [{name: answer_contains, config: {text: Hello}}]}
"""
MORE = "name,asked,says\nhello,Say hello.,Hello!\n"


def own_tasks(folder: Path, tasks: str) -> tuple[LoadedTask, ...]:
    """Read the tasks of a suite's file."""
    file = folder / "suite.yaml"
    file.write_text(f"name: support\ntasks:\n{tasks}", encoding="utf-8")
    return load_tasks(file, load_suite(file), folder)


@pytest.mark.usefixtures("quick")
def test_tasks_of_the_suites_file_are_items(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have ids and buckets, lines for GitHub, ``--lf``, ``-k`` and workers.

    When one of them changes, the trials of the others are reused.
    """
    write(pytester.path, {"evals/support/suite.yaml": SUITE, "evals/support/more.csv": MORE})
    where = "evals/support/suite.yaml::where_is_my_order_please[scripted-1]"
    assert collected_ids(pytester, "evals") == [
        "evals/support/suite.yaml::refund[scripted-1]",
        where,
        "evals/support/suite.yaml::hello[scripted-1]",
    ]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    first = run(pytester, "evals", "--agent-run-name=old")
    first.assert_outcomes(passed=2, failed=1)
    first.stdout.fnmatch_lines(["::error file=evals/support/suite.yaml,line=14,*"])
    monkeypatch.delenv("GITHUB_ACTIONS")
    run(pytester, "evals", "--lf").assert_outcomes(failed=1)
    run(pytester, where, "-k", "orders", workers=1).assert_outcomes(failed=1)

    text = (pytester.path / "evals/support/suite.yaml").read_text("utf-8")
    write(pytester.path, {"evals/support/suite.yaml": text.replace("my order, please", "my order, then")})
    again = run(pytester, "evals", "--agent-reuse=old")
    assert "2 reused, 1 to run" in " ".join(" ".join(again.outlines).split())
    write(pytester.path, {"evals/support/suite.yaml": text.replace("text: Monday", "text: Friday")})
    run(pytester, "evals", "--agent-regrade=old", "--agent-run-name=new").assert_outcomes(passed=3)
    buckets = {entry.key.task: entry.bucket for entry in latest_run(pytester.path, "new").entries}
    assert buckets == {"refund": "support", "where_is_my_order_please": "orders", "hello": "more"}


def test_verbs_read_tasks_of_the_suites_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are validated and audited, their leaks are found, and an id of a file too names both places."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"evals/support/suite.yaml": SUITE, "evals/support/more.csv": MORE})
    assert main(["validate", "evals"]) == 0
    assert "3 tasks, 0 files with problems" in capsys.readouterr().out
    assert main(["audit", "support"]) == 0
    assert "support: 1 task, " in capsys.readouterr().out
    write(tmp_path, {"prompt.md": "Say: Until 2 December."})
    assert main(["leaks", "--suite", "support", "--prompt", "prompt.md"]) == 1
    assert "the reference solution of refund" in capsys.readouterr().out
    twin = "id: refund\ninput: Hi.\ngraders: [{name: judge, config: {rubric: Kind?}}]\n"
    write(tmp_path, {"evals/support/refund.yaml": twin})
    assert main(["validate", "evals"]) == 1
    found = capsys.readouterr().out
    assert "evals/support/suite.yaml:6: tasks[0].id" in found
    assert "'refund', which is also in evals/support/refund.yaml:1" in found


@pytest.mark.usefixtures("quick")
def test_a_task_is_recorded_as_if_it_had_a_file_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a task may move into a file and back: its recording is found, in a path of its own."""
    graders = "graders: [{name: answer_contains, config: {text: Friday}}]"
    head = "name: support\nagent: {call: 'bot:answer'}\n"
    bot = """
        import json, os, urllib.request

        def answer(question: str) -> str:
            body = {"model": "m", "messages": [{"role": "user", "content": question}]}
            url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
    """
    pytester.makepyfile(bot=bot)
    write(
        pytester.path,
        {"evals/support/suite.yaml": f"{head}tasks:\n- {{id: where, input: 'Where is it?', {graders}}}\n"},
    )
    with ModelServer([ReplyPlan(text="On Friday.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_base)
        run(pytester, "evals", "--agent-record-chat=once").assert_outcomes(passed=1)
    assert (pytester.path / "cassettes/support/where.chat/own-1.yaml").is_file()
    task = f"id: where\ninput: Where is it?\n{graders}\n"
    write(pytester.path, {"evals/support/suite.yaml": head, "evals/support/where.yaml": task})
    run(pytester, "evals", "--agent-record-chat=none").assert_outcomes(passed=1)


def test_each_problem_has_its_line_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every task at once; also where the rest of the suite's file is wrong."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProblemsFound) as wrong:
        own_tasks(
            tmp_path,
            """- {input: Hello there, graders: [{name: answer_contains, weight: heavy}]}
- {input: Same, graders: [{name: answer_contains}]}
- input: same!
  graders: [{name: answer_contains}]
- {input: {}, grader: []}
""",
        )
    assert [(each.line, "".join(f"[{step}]" for step in each.path)) for each in wrong.value.problems] == [
        (3, "[tasks][0][graders][0][weight]"),
        (5, "[tasks][2][id]"),
        (7, "[tasks][3][grader]"),
        (7, "[tasks][3][id]"),
    ]
    assert "'same', which the task on line 4 has too" in str(wrong.value)
    write(tmp_path, {"evals/suite.yaml": "name: a\ntask: [{input: Hi, graders: []}]\n"})
    assert main(["validate"]) == 1
    assert "did you mean 'tasks'?" in capsys.readouterr().out
    write(tmp_path, {"evals/suite.yaml": "nam: a\ntasks: [5, {rows: a.csv}, {input: Hi, graders: []}]\n"})
    assert main(["validate"]) == 1
    found = capsys.readouterr().out
    for key in (":1: nam", ":2: tasks[0]", ":2: tasks[1].input", ":2: tasks[2].graders"):
        assert f"evals/suite.yaml{key}\n" in found


def test_ids_are_made_of_the_first_words(tmp_path: Path) -> None:
    """Of a text, of ``content`` and of a conversation's first turn, in any script, and never too long."""
    tasks = own_tasks(
        tmp_path,
        """- {input: "  Where IS it, please? ", graders: [{name: n}]}
- {input: {content: "환불해 주세요!", base_fixture: a}, graders: [{name: n}]}
- {input: {turns: [{role: user, content: Hello}, {role: user, content: Bye}]}, graders: [{name: n}]}
- {input: I have bought a washing machine that does not work at all, graders: [{name: n}]}
- {input: %s, graders: [{name: n}]}
"""
        % ("x" * 99),
    )
    assert [each.task.id for each in tasks] == [
        "where_is_it_please",
        "환불해_주세요",
        "hello",
        "i_have_bought_a_washing_machine_that",
        "x" * 40,
    ]
    assert [each.line for each in tasks] == [3, 4, 5, 6, 7]
    (alone,) = own_tasks(tmp_path, "  input: A task alone\n  graders: [{name: n}]\n")
    assert (alone.task.id, alone.at) == ("a_task_alone", ("tasks",))
    assert tasks[0].task.input_map == {"content": "  Where IS it, please? "}


def test_the_schema_knows_tasks_in_a_suite() -> None:
    """With tables beside them, and without ids; a misspelt key is refused."""
    checked = jsonschema.Draft202012Validator(schema_named("suite"))
    suite = read_yaml(SUITE, "suite.yaml")
    assert not list(checked.iter_errors(suite))
    suite["tasks"][0]["grader"] = []
    assert list(checked.iter_errors(suite))


def test_a_coding_agent_sees_no_held_out_task_of_the_suite(tmp_path: Path) -> None:
    """The suite's file and the recordings of its held-out task are hidden, those of other tasks are not."""
    text = SUITE.replace("    metadata: {failure_bucket: orders}\n", "    split: held_out\n")
    write(tmp_path, {"evals/support/suite.yaml": text, "evals/support/more.csv": MORE})
    own = ["evals/support/suite.yaml", "cassettes/support/where_is_my_order_please.chat/own-1.yaml"]
    tasks = read_tree_suite(tmp_path, "evals/support/suite.yaml").tasks
    assert held_out_files(tasks, [*own, "cassettes/support/refund.chat/own-1.yaml"]) == own
