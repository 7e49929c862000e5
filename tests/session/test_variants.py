"""Models and variants: how they are named, and what a prompt file changes."""

from __future__ import annotations

import re
from fnmatch import fnmatch
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


def test_a_suite_a_task_and_a_variant_may_replace_a_prompt(pytester: pytest.Pytester) -> None:
    """``--agent-prompt`` may be repeated: a file is the prompt ``system``, a folder holds several by name.

    A file's name up to its first point says which prompt it replaces. The nearer to the trial, the higher the
    rank; prompts that nobody names stay the agent's own, and a variant stands beside them.
    """
    more = "agent: echo\nprompts: {system: suite.md}\n"
    files = {
        "evals/suite.md": "of the suite",
        "evals/task.md": "of the task",
        "evals/suite.yaml": suite(more=more),
    }
    own = {"prompts": {"system": "task.md"}}
    tasks = [
        task("a", wants="of the suite!"),
        task("b", wants="of the task!", **own),
        task("c", wants="be brief!", **own),
        task("d", wants="be long?"),
    ]
    write(pytester.path, {**echo("nothing"), **files, "evals/tasks.yaml": tasks})
    args = ("--agent-prompt=short=prompts/short.md", "--agent-prompt", "long=prompts/long", "-v")

    result = run(pytester, "evals/tasks.yaml", *args, workers=1)

    passed = re.findall(r"PASSED 1.00 \S+::(\S+)", str(result.stdout))
    assert sorted(passed) == ["a[scripted-1]", "b[scripted-1]", "c[scripted@short-1]", "d[scripted@long-1]"]
    cases = ("scripted-1", "scripted@long-1", "scripted@short-1")
    assert journaled(pytester.path) == [f"{name}[{case}]" for name in "abcd" for case in cases]


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


@pytest.mark.parametrize("workers", [0, 1])
def test_a_prompt_file_that_nobody_reads_is_a_usage_error(pytester: pytest.Pytester, workers: int) -> None:
    """Before any trial, with the name that is near and all names that the agents have.

    An agent without prompts has no variants: the error says how a class names what it asks for.
    """
    tasks = {f"evals/{agent}.json": task(agent, agent=agent) for agent in ("saying", "made", "tool_calling")}
    own = {"long/sytem.md": "x", "long/tone.md": "y", "long/system.md": "{% include 'tone' %}"}
    write(pytester.path, {"conftest.py": SAYING, "evals/suite.yaml": suite(), **tasks, **own})
    write(pytester.path, {"deaf/task.json": task("greet", agent="deaf")})

    result = run(pytester, "evals", "--agent-prompt=long=long", workers=workers)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --agent-prompt long: no agent reads its prompt 'sytem'; did you mean 'system'?",
            "  prompts of the agent made: again, system",
            "  prompts of the agent saying: again, system",
            "  prompts of the agent tool_calling: system",
        ]
    )
    assert "tone" not in result.stderr.str()
    assert not list(pytester.path.glob(".agenteval/runs/*/journal*"))
    deaf = run(pytester, "deaf", "--agent-prompt=a=long/system.md", workers=workers)
    assert deaf.ret == pytest.ExitCode.USAGE_ERROR
    deaf.stderr.fnmatch_lines(
        [
            "ERROR: --agent-prompt a: no agent reads its prompt 'system'",
            "  the agent deaf takes no prompt; *templates*",
        ]
    )
    nothing = run(pytester, "deaf", "--agent-prompt=a=long/system.md", "-k", "nothing", workers=workers)
    assert nothing.ret == pytest.ExitCode.NO_TESTS_COLLECTED


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
    assert [line.partition(" sent")[0] for line in remarks] == ["scripted@short and scripted@brief"]
    assert "in 2 trials: the different prompts have no effect" in remarks[0]
    (unread,) = [line for line in parts if "no trial read" in line]
    assert (
        "the prompt 'again' of --agent-prompt again, so it has no effect; the system message was 'plain'"
        in unread
    )


BOT = """
PLAIN = "plain"

def with_parameter(question, system_prompt=PLAIN):
    return f"{system_prompt.strip()}!"

def needing(q, system_prompt):
    return f"{system_prompt.strip()}!"

def renamed(q, system=PLAIN):
    return f"{system.strip()}!"

def with_texts(question, ctx):
    return ctx.prompts.texts.get("system", PLAIN).strip() + "!"

def with_all_texts(question, ctx):
    return dict(ctx.prompts.texts.items()).get("system", PLAIN).strip() + "!"

async def rendering(question, ctx):
    return ctx.prompts.render("system") + "!"

def deaf(question, ctx):
    return f"{PLAIN}!"

def without(question):
    return f"{PLAIN}!"

class Templated:
    templates = {"system": PLAIN}

    def run(self, question, ctx):
        return ctx.prompts.render("system") + "!"

class Naming:
    prompt_names = ["system"]

    def __call__(self, question, ctx):
        return ctx.prompts.texts.get("system", PLAIN).strip() + "!"

async def asking(question, chat, system_prompt):
    messages = [{"role": "system", "content": system_prompt}, {"role": "user", "content": question}]
    return (await chat.ask(messages)).text

async def ignoring(question, chat, system_prompt=PLAIN):
    return await asking(question, chat, "Another prompt.")

def without_requests(question, system_prompt=PLAIN):
    return PLAIN

class Made:
    def __init__(self, system_prompt=PLAIN):
        self.system = system_prompt

    def run(self, question):
        return f"{self.system.strip()}!"

class MadeOfPrompt(Made):
    def __init__(self, system_prompt, tone="!"):
        self.system = system_prompt

class MadeIgnoring(Made):
    async def run(self, question, chat):
        return await asking(question, chat, "Another prompt.")

class MadeAsking(Made):
    async def run(self, question, chat):
        return await asking(question, chat, self.system)

class Both:
    templates = {"system": PLAIN}

    def __init__(self, tone="!"):
        self.tone = tone

    def run(self, question, system):
        return f"{system.strip()}{self.tone}"
"""


def called(*names: str, wants: str, more: str = "") -> dict[str, Any]:
    """Give suites, each with an agent of ``BOT``, which answers with its system prompt."""
    files: dict[str, Any] = {
        "bot.py": BOT,
        "prompts/short/system.md": "be brief\n",
        "prompts/plain.md": "plain",
    }
    for name in names:
        own = suite(name, more=f"agent: {{call: bot:{name}}}\n{more}")
        files[f"evals/{name}/suite.yaml"] = own.replace("scripted", "own")
        files[f"evals/{name}/task.json"] = task("greet", wants=wants)
    return files


def endings(result: pytest.RunResult) -> dict[str, str]:
    """Give how each trial ended, by its suite and what stands in brackets."""
    lines = re.findall(r"evals/(\w+)/task.json::greet(\[[^]]+\]) (\w+)", str(result.stdout))
    return {f"{name}{bracket}": ending for name, bracket, ending in lines}


GIVEN = "prompts: {system: ../../prompts/plain.md}\n"


READING = ("with_parameter", "renamed", "with_texts", "with_all_texts", "Templated", "Naming", "Made")


def test_functions_and_classes_by_call_read_variants(pytester: pytest.Pytester) -> None:
    """By a parameter that is called like the prompt, whose default is the agent's own; or by ``ctx``.

    Variants lie over what a suite gives; who requires a prompt that nobody else gives runs with them alone.
    """
    given = ("rendering", "Both", "MadeOfPrompt")
    write(pytester.path, called(*READING, "needing", wants="be brief!"))
    write(pytester.path, called(*given, wants="be brief!", more=GIVEN))

    result = run(pytester, "--agent-prompt=short=prompts/short", "-v")

    assert endings(result) == {
        **{f"{name}[own-1]": "FAILED" for name in (*READING, *given)},
        **{f"{name}[own@short-1]": "PASSED" for name in (*READING, *given, "needing")},
    }
    assert "no trial read" not in str(result.stdout)


@pytest.mark.parametrize(
    ("agent", "advice"),
    [
        ("call: bot:without", "*prompts: {system: ../../prompts/system.md}*"),
        ('http: "http://127.0.0.1:9/chat"', '*system_prompt: "{system_prompt}"*'),
    ],
)
def test_a_prompt_for_who_cannot_read_one_is_refused(
    pytester: pytest.Pytester, agent: str, advice: str
) -> None:
    """Before any trial, with what is true for an agent of this kind."""
    files = called("without", wants="plain")
    files["evals/without/suite.yaml"] = f"name: greetings\nagent: {{{agent}}}\n"
    write(pytester.path, files)

    result = run(pytester, "--agent-prompt=short=prompts/short")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert fnmatch(str(result.stdout) + str(result.stderr), f"*{advice}")
    assert not list(pytester.path.glob(".agenteval/runs/*/journal*"))


def test_a_prompt_that_a_function_accepts_and_does_not_send_is_named(pytester: pytest.Pytester) -> None:
    """The requests decide; where none was seen, there is no warning."""
    names = ("ignoring", "asking", "without_requests", "MadeIgnoring", "MadeAsking")
    files = called(*names, wants="Mina", more=GIVEN)
    for name in names:
        path = f"evals/{name}/suite.yaml"
        files[path] = files[path].replace("model: own", "model: scripted")
    write(pytester.path, files)

    text = " ".join(str(run(pytester).stdout).split())

    line = "no trial read the prompt 'system' of `prompts` in suite or task, so it has no effect"
    for name in ("ignoring", "MadeIgnoring"):
        assert f"{name}: {line}; the system message was 'Another prompt.'" in text
    assert text.count("no trial read") == 2


@pytest.mark.parametrize(("args", "name"), [((), "asking"), (("--agent-prompt=a=a,b=b",), "MadeOfPrompt")])
def test_a_prompt_that_a_function_requires_and_nobody_gives_is_refused(
    pytester: pytest.Pytester, args: tuple[str, ...], name: str
) -> None:
    """The hint names the keys that give it, and no key of a task; every variant has to give it.

    An agent that asks for a prompt in its trial is told the same, without a traceback of jinja2's.
    """
    write(pytester.path, {**called(name, wants="x"), "a/system.md": "x", "b/other.md": "x"})
    write(pytester.path, called("rendering", wants="plain"))

    result = run(pytester, "--continue-on-collection-errors", *args)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*hint: *`prompts: {system: FILE}` in suite.yaml*or give it a default"])
    out = str(result.stdout)
    assert "content}" not in out
    assert "the agent reads the prompt 'system', which does not exist; `prompts: {system: FILE}`" in out
    assert "Traceback" not in out


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
    """Both may be mixed, the order is kept; aliases come from pyproject.toml, and no slash is a path."""
    table = "[tool.agenteval.models]\nquick = 'nop'\nclaude = {id = 'anthropic/c', temperature = 0.5}\n"
    write(pytester.path, {"evals/task.json": task("greet"), "pyproject.toml": table})
    models = ("--agent-model=quick, oracle", "--agent-model", "openai/gpt-x")
    named = "evals/task.json::greet[openai/gpt-x-1]"

    found = collected_ids(pytester, *models)

    assert [name.partition("[")[2] for name in found] == ["quick-1]", "oracle-1]", "openai/gpt-x-1]"]
    assert collected_ids(pytester, named, *models) == [named]
    run(pytester, "--co", "--agent-model=quick,claude").stdout.fnmatch_lines(
        ["agenteval: 2 trials of 1 task: quick (does nothing*), claude (anthropic/c, via litellm)"]
    )
