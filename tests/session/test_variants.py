"""Models and variants: how they are named, and what a prompt file changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.suites import collected_ids, journaled, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

# Answers with its system prompt, so that a trial shows which prompt was used.
ECHO = """
from pytest_agenteval.records.evidence import Answer

class Echo:
    templates = {"system": "plain", "tail": "!"}

    async def run(self, task_input, ctx):
        return Answer(ctx.prompts.render("system") + ctx.prompts.render("tail"))

def pytest_agenteval_register(registry):
    registry.agent("echo", Echo)
"""


def echo(wants: str) -> dict[str, Any]:
    """Give a suite with a task that passes where the prompts say what is wanted."""
    return {
        "conftest.py": ECHO,
        "evals/suite.yaml": suite(more="agent: echo\n"),
        "evals/task.json": task("greet", wants=wants),
        "prompts/short.md": "be brief",
        "prompts/long/system.jinja": "be long",
        "prompts/long/tail.md": "?",
        "prompts/long/.swp": "no prompt",
    }


def cases(pytester: pytest.Pytester, *args: str) -> list[str]:
    """Give what stands in brackets."""
    return [name.partition("[")[2].rstrip("]") for name in collected_ids(pytester, *args)]


def test_a_variant_stands_beside_the_agents_own_prompts(pytester: pytest.Pytester) -> None:
    """``--agent-prompt`` may be repeated; each adds trials of its name to those without one."""
    write(pytester.path, echo("plain!"))

    found = cases(pytester, "--agent-prompt=short=prompts/short.md", "--agent-prompt", "long=prompts/long")

    assert found == ["scripted-1", "scripted@short-1", "scripted@long-1"]


@pytest.mark.parametrize(
    ("prompt", "wants", "workers"),
    [("short=prompts/short.md", "be brief!", 0), ("long=prompts/long", "be long?", 2)],
)
def test_a_file_is_the_system_prompt_and_a_folder_holds_several(
    pytester: pytest.Pytester, prompt: str, wants: str, workers: int
) -> None:
    """A file's name up to its first point says which prompt it replaces; the others stay."""
    write(pytester.path, echo(wants))

    result = run(pytester, f"--agent-prompt={prompt}", "-k", prompt.partition("=")[0], workers=workers)

    result.assert_outcomes(passed=1, deselected=0 if workers else 1)
    assert journaled(pytester.path) == [f"greet[scripted@{prompt.partition('=')[0]}-1]"]


@pytest.mark.parametrize(
    ("own", "args", "wants"),
    [
        ({}, (), "of the suite!"),
        ({"prompts": {"system": "task.md"}}, (), "of the task!"),
        (
            {"prompts": {"system": "task.md"}},
            ("--agent-prompt=short=prompts/short.md", "-kshort"),
            "be brief!",
        ),
    ],
)
def test_a_suite_a_task_and_a_variant_may_replace_a_prompt(
    pytester: pytest.Pytester, own: dict[str, Any], args: tuple[str, ...], wants: str
) -> None:
    """The nearer to the trial, the higher the rank; prompts that nobody names stay the agent's own."""
    more = "agent: echo\nprompts: {system: suite.md}\n"
    files = {"evals/suite.md": "of the suite", "evals/task.md": "of the task"}
    task_file = {"evals/suite.yaml": suite(more=more), "evals/task.json": task("greet", wants=wants, **own)}
    write(pytester.path, {**echo(wants), **files, **task_file})

    result = run(pytester, *args)

    assert result.parseoutcomes()["passed"] == 1


SAYING = """
from pytest_agenteval.records.evidence import Answer

class Saying:
    templates = {"system": "plain", "again": "and?"}

    async def run(self, task_input, ctx):
        said = [{"role": "system", "content": ctx.prompts.render("system")}]
        reply = await ctx.chat.ask([*said, {"role": "user", "content": task_input["content"]}])
        return Answer(reply.text)

class Deaf:
    def run(self, task_input, ctx):
        return Answer("Mina")

def pytest_agenteval_register(registry):
    registry.agent("saying", Saying)
    registry.agent("made", lambda: Saying())
    registry.agent("deaf", Deaf)
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_prompt_file_that_nobody_reads_is_a_usage_error(pytester: pytest.Pytester, workers: int) -> None:
    """Before any trial, with the name that is near and all names that the agents have."""
    tasks = {f"evals/{agent}.json": task(agent, agent=agent) for agent in ("saying", "made", "tool_calling")}
    own = {"long/sytem.md": "x", "long/tone.md": "y", "long/system.md": "{% include 'tone' %}"}
    write(pytester.path, {"conftest.py": SAYING, "evals/suite.yaml": suite(), **tasks, **own})

    result = run(pytester, "--agent-prompt=long=long", workers=workers)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --agent-prompt long: nobody reads its prompt 'sytem'; did you mean 'system'?",
            "  prompts of the agent made: again, system",
            "  prompts of the agent saying: again, system",
            "  prompts of the agent tool_calling: system",
        ]
    )
    assert "tone" not in result.stderr.str()
    assert not list(pytester.path.glob(".agenteval/runs/*/journal*"))


def test_an_agent_without_prompts_has_no_variants(pytester: pytest.Pytester) -> None:
    """Its trials would all be alike; the error says how a class names what it asks for."""
    write(pytester.path, {"conftest.py": SAYING, "evals/task.json": task("greet", agent="deaf"), "a.md": "x"})

    result = run(pytester, "--agent-prompt=a=a.md")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --agent-prompt a: nobody reads its prompt 'system'",
            "  the agent deaf has no prompts; *templates*",
        ]
    )


def test_a_prompt_of_task_or_suite_that_nobody_reads_is_a_problem(pytester: pytest.Pytester) -> None:
    """It is told in the file that names it."""
    write(
        pytester.path,
        {
            "conftest.py": SAYING,
            "evals/suite.yaml": suite(more="agent: saying\nprompts: {sytem: a.md}\n"),
            "evals/a.md": "x",
            "evals/one.json": task("one", prompts={"agian": "a.md", "system": "a.md"}),
        },
    )

    result = run(pytester)

    result.stdout.fnmatch_lines_random(
        ["*suite.yaml:5: prompts.sytem", "*did you mean 'system'*", "*one.json:*: prompts.agian"]
    )


def test_a_prompt_file_that_cannot_be_filled_in_is_told_by_line_and_values(pytester: pytest.Pytester) -> None:
    """It is its author's to mend: no traceback of the agent's or of jinja2's is in the way."""
    files = {
        "value/system.md": "be brief\nto {{ nmae }}",
        "part/system.md": '{% include "nowhere" %}',
        "half/system.md": "be {{ brief",
    }
    write(pytester.path, {**echo("plain!"), **files})

    result = run(pytester, *(f"--agent-prompt={name}={name}" for name in ("value", "part", "half")))

    result.assert_outcomes(passed=1, errors=3)
    out = str(result.stdout)
    assert "Traceback" not in out
    begins = "prompt: the prompt file for 'system', line"
    assert f"{begins} 2: 'nmae' is undefined; the agent gives it no values\n" in out
    assert f"{begins} 1: there is no prompt 'nowhere' to include" in out
    assert f"{begins} 1: unexpected end of template" in out
    assert "'end of print statement'; the agent gives" in out


def test_variants_that_sent_the_same_messages_are_named(pytester: pytest.Pytester) -> None:
    """In the summary: a prompt that was never asked for in these trials has changed nothing."""
    files = {"again/again.md": "more?", "short/system.md": "be brief", "brief/system.md": "be brief"}
    tasks = {"evals/one.json": task("one", agent="saying"), "evals/two.json": task("two", agent="saying")}
    write(pytester.path, {"conftest.py": SAYING, "evals/suite.yaml": suite(), **tasks, **files})
    named = [f"--agent-prompt={name}={name}" for name in ("again", "short", "brief")]

    result = run(pytester, "-q", *named)

    parts = " ".join(" ".join(result.outlines).split()).split("greetings: ")
    remarks = [line for line in parts if "sent the same messages" in line]
    assert [line.partition(" sent")[0] for line in remarks] == [
        "scripted and scripted@again",
        "scripted@short and scripted@brief",
    ]
    assert "in 2 trials: their prompts change nothing" in remarks[0]


def test_paths_of_the_command_line_start_where_the_user_stands(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As everywhere in a shell; those of pyproject.toml start at the project's root."""
    pyproject = "[tool.agenteval]\nprompt = 'short=prompts/short.md'\nresults = 'kept'\n"
    write(pytester.path, echo("be brief!") | {"pyproject.toml": pyproject})
    monkeypatch.chdir(pytester.path / "prompts")
    evals, option = str(pytester.path / "evals"), "--agent-prompt=short=short.md"

    run(pytester, evals, "-k", "short").assert_outcomes(passed=1, deselected=1)
    run(pytester, evals, option, "-k", "short", "--agent-results=mine").assert_outcomes(
        passed=1, deselected=1
    )

    assert list(Path(pytester.path, "kept").glob("2*"))
    assert list(Path(pytester.path, "prompts", "mine").glob("2*"))


def test_models_come_in_comma_lists_and_repeated_options(pytester: pytest.Pytester) -> None:
    """Both may be mixed; the order is kept."""
    write(pytester.path, {"evals/task.json": task("greet")})

    assert cases(pytester, "--agent-model=nop, oracle", "--agent-model", "openai/gpt-x") == [
        "nop-1",
        "oracle-1",
        "openai/gpt-x-1",
    ]


def test_a_litellm_id_can_be_named_on_the_command_line(pytester: pytest.Pytester) -> None:
    """Its slash is no path."""
    write(pytester.path, {"evals/task.json": task("greet")})
    named = "evals/task.json::greet[openai/gpt-x-1]"

    assert collected_ids(pytester, named, "--agent-model=openai/gpt-x,nop") == [named]


def test_aliases_come_from_pyproject(pytester: pytest.Pytester) -> None:
    """A name for a litellm id or an offline model; it may also replace a shipped alias."""
    table = "[tool.agenteval.models]\nquick = 'nop'\nclaude = {id = 'anthropic/c', temperature = 0.5}\n"
    write(pytester.path, {"evals/task.json": task("greet"), "pyproject.toml": table})

    result = run(pytester, "--co", "--agent-model=quick,claude")

    result.stdout.fnmatch_lines(
        ["agenteval: 2 trials of 1 task: quick (does nothing*), claude (anthropic/c, via litellm)"]
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mine = 5", "*mine: expected a litellm id or a table with id, found 5"),
        ("mine = {temperature = 1}", "*mine: the key id is missing*"),
        ("mine = {id = 'openai/x', api_key = 'sk'}", "*mine: a key does not belong in a file*api_key_env"),
        ("mine = {id = 'openai/x', temperature = 'hot'}", "*mine: temperature: expected a number*'hot'"),
    ],
)
def test_an_alias_that_cannot_be_used_is_a_usage_error(
    pytester: pytest.Pytester, line: str, message: str
) -> None:
    """Said where the alias is used, with the key that is wrong."""
    table = f"[tool.agenteval.models]\n{line}\n"
    write(pytester.path, {"evals/task.json": task("greet"), "pyproject.toml": table})

    result = run(pytester, "--agent-model=mine")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
