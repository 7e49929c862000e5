"""What an author is told of files that have to be mended: the place, and the word that mends it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


def printed_text(result: pytest.RunResult) -> str:
    """Give what was printed; no user's mistake shows a traceback or a line of our code."""
    text = str(result.stdout)
    assert "Traceback" not in text
    assert ".py:" not in text
    return text


def grader(id: str = "greet", **more: Any) -> dict[str, Any]:
    """Give a task whose only grader is the one described."""
    return task(id, graders=[{"name": "answer_contains", "config": {"text": "a"}, **more}])


MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "grader": (
        grader("grader", name="answer_contain"),
        [
            "evals/grader.json:13: graders?0?.name",
            "*one of answer_contains, answer_*",
            "*'answer_contain'*",
            "  hint: *did you mean 'answer_contains'?",
        ],
    ),
    "key": (
        grader("key", config={"txt": "a"}),
        [
            "evals/key.json:15: graders?0?.config.txt",
            "*one of ignore_case, text",
            "*unknown key 'txt'",
            "  hint: *did you mean 'text'?",
        ],
    ),
    "flag": (
        grader("flag", config={"text": "a", "ignore_case": "yes"}),
        ["evals/flag.json:16: graders?0?.config.ignore_case", "*true or false", "*'yes' (text)"],
    ),
    "text": (
        grader("text", config={"text": 5}),
        ["evals/text.json:15: graders?0?.config.text", "*a text", "*5 (number)"],
    ),
    "missing": (
        grader("missing", config={}),
        ["evals/missing.json:14: graders?0?.config.text", "*a value: it has no default", "*no key 'text'"],
    ),
    "refusal": (
        grader("refusal", config={"text": ""}),
        [
            "evals/refusal.json:14: graders?0?.config",
            "*settings that answer_contains takes",
            "  found: *an empty text is contained in every answer",
        ],
    ),
    "agent": (
        task("agent", agent="tool_caling"),
        [
            "evals/agent.json:*: agent",
            "*one of *tool_calling",
            "*'tool_caling'",
            "*did you mean 'tool_calling'?",
        ],
    ),
    "setting": (
        task("setting", settings={"sytem": "Be kind."}),
        [
            "evals/setting.json:*: settings.sytem",
            "*one of conversation, system, tools",
            "*",
            "*did you mean 'system'?",
        ],
    ),
    "threshold": (
        task("threshold", threshold=0.8),
        ["evals/threshold.json:*: threshold", "*", "*", "*in `graders: [[]{name: ..., threshold: ...}]`"],
    ),
    "fixture": (
        task("fixture", fixture="shop"),
        ["evals/fixture.json:*: fixture", "*", "*", "  hint: *`input: {base_fixture: ...}`"],
    ),
    "tool": (
        task("tool", settings={"tools": ["search"]}),
        [
            "evals/tool.json:*: settings.tools?0?",
            "*nothing: there is none",
            "*'search', no registered tool",
        ],
    ),
}


def test_what_does_not_fit_is_told_at_its_line(pytester: pytest.Pytester) -> None:
    """Unknown names, keys and values of another type are found before any trial starts, in every file.

    What fits elsewhere, or was told of another file, is no reason to pass this one.
    """
    files = {f"evals/{name}.json": content for name, (content, _) in MISTAKES.items()}
    twins = {
        f"evals/more/{name}.json": {**MISTAKES[name][0], "id": f"{name}2"} for name in ("grader", "text")
    }
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/fine.json": task("fine"), **files, **twins})

    result = run(pytester)

    result.assert_outcomes(errors=len(MISTAKES) + 2)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    for _, lines in MISTAKES.values():
        result.stdout.fnmatch_lines(lines, consecutive=True)
    printed_text(result)


BASES = {"typo": "pkm/strater", "outside": "../../../etc"}
INHERITED = {
    "agent": "agent: crad",
    "settings.sytem": "settings: {sytem: hi}",
    "prompts.system": "prompts: {system: none.md}",
    "knid": "knid: capability",
}
PROJECT: dict[str, Any] = {
    "a_twin/suite.yaml": suite("twin"),
    "a_twin/a/task.json": task("twin"),
    "a_twin/b/task.json": task("twin"),
    "b_other/suite.yaml": suite("other"),
    "b_other/task.json": task("twin"),
    "c_two/suite.yaml": suite("two"),
    "c_two/suite.json": {"name": "s"},
    "c_two/a/task.json": task("a"),
    "c_two/b/task.json": task("b"),
    "d_fixture/suite.yaml": suite("fixture"),
    "fixtures/pkm/starter/PKM/a.md": "a",
    "e_prompt/suite.yaml": suite("prompt"),
    "e_prompt/task.json": task("a", prompts={"system": "p.md"}),
    "f_list/suite.yaml": suite("list"),
    "f_list/many.json": [task("a"), grader(name="nope")],
    **{
        f"d_fixture/{name}.json": task(name, input={"content": "", "base_fixture": base})
        for name, base in BASES.items()
    },
    **{f"{key}/suite.yaml": suite(key, more=f"{line}\n") for key, line in INHERITED.items()},
    **{f"{key}/{name}/task.json": task(name) for key in INHERITED for name in "abc"},
}
"""Suites with one mistake each, and one without."""


@pytest.mark.parametrize("workers", [0, 2])
def test_each_mistake_is_told_once_at_its_place_and_the_rest_is_run(
    pytester: pytest.Pytester, workers: int
) -> None:
    """What a suite says wrong is told there, however many tasks inherit it, and no task is run without it."""
    write(pytester.path, PROJECT)
    (pytester.path / "e_prompt" / "p.md").write_bytes(b"caf\xe9")

    # xdist's workers run what could be collected; pytest alone has to be told.
    options = () if workers else ("--continue-on-collection-errors",)
    result = run(pytester, *options, workers=workers)

    text = printed_text(result)
    result.assert_outcomes(errors=6 + len(INHERITED), passed=2)
    for place, *lines in (
        ("a_twin/b/task.json:2: id", "an id that no other", "'twin', which is also in a_twin/a/task.json:2"),
        ("c_two/suite.yaml", "one suite file in a folder"),
        ("d_fixture/typo.json:5: input.base_fixture", "did you mean 'pkm/starter'?"),
        ("e_prompt/p.md", "a text in UTF-8", "0xe9"),
        ("knid/suite.yaml:4: knid", "did you mean 'kind'?"),
    ):
        (told,) = [part for part in text.split("\n_____") if f"\n{place}\n" in part]
        assert all(line in told for line in lines), told
    (outside,) = [part for part in text.split("\n_____") if "\nd_fixture/outside.json:5: input.base" in part]
    assert "did you mean" not in outside
    result.stdout.fnmatch_lines(["f_list/many.json:*: ?1?.graders?0?.name"])
    assert all(text.count(f"\n{key}/suite.yaml:4: {key}\n") == 1 for key in INHERITED)
    assert not any(f"{key}/a/task.json:" in text for key in INHERITED)


LOOKING = """
from pytest_agenteval.tools.toolsets import tool_of

def look() -> str:
    "Look around."
    return "seen"

def pytest_agenteval_register(registry):
    registry.tool(tool_of(look, taped=True))
"""


@pytest.mark.parametrize("workers", [0, 1], ids=["one-process", "one-worker"])
def test_a_recording_that_cannot_be_written_is_told_by_its_trial_and_at_the_end(
    pytester: pytest.Pytester, workers: int
) -> None:
    """A file is at fault and no code of anybody's; the trial beside it keeps its recording."""
    script = [{"calls": [{"tool": "look"}]}, {"text": "Hello, Mina!"}]
    tasks = {f"evals/{name}.json": task(name, script=script) for name in "ab"}
    asked = suite(more="settings: {tools: [look]}\n")
    write(pytester.path, {"conftest.py": LOOKING, "evals/suite.yaml": asked, **tasks})
    (pytester.path / "cassettes" / ".b.yaml.lock").mkdir(parents=True)

    result = run(pytester, "--agent-record=once", workers=workers)

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "file_problem: cassettes/b.yaml",
            "  expected: a file that can be written",
            "recordings not written: cassettes/b.yaml: *",
        ]
    )
    assert (pytester.path / "cassettes" / "a.yaml").is_file()
    printed_text(result)


SLIPS = {
    "config.json": task(
        "a", graders=[{"name": "answer_contains", "text": "Mina"}], steps=3, system="Be kind.", bucket="b"
    ),
    "weight.json": task("b", graders=[{"name": "answer_contains", "config": {"text": "a"}, "wieght": 2}]),
    "depth.json": task("c", graders=[{"name": "own", "depth": 2, "config": {"text": "a"}}]),
    "quotes.yaml": "id: 2024\ntrials_per_run: '3'\nbase_fixture: x\ninput: {}\ngraders: [{name: judge}]\n",
    "name.json": task("d", graders=[{"name": "answer_contain", "config": {}}]),
    # Which graders would be told of the outcome cannot be known before; the mistake is the name.
    "outcome.json": {
        **task("e", graders=[{"name": "answer_contians"}]),
        "reference_solution": {"expected_outcome": {"count": 1}},
    },
}
HINTS = (
    "it stands in `config: {text: ...}`",
    "it stands in `limits: {steps: ...}`",
    "it stands in `settings: {system: ...}`",
    "it stands in `input: {base_fixture: ...}`",
    "it stands in `metadata: {failure_bucket: ...}`",
    "it stands in `defaults: {trials_per_run: ...}`",
    "a grader's own settings stand in `config: {...}`",
    "did you mean 'weight'?",
    '  found:    2024 (number)\n  hint:     write "2024" with quotes: then it is a text\n',
    "  found:    '3' (text)\n  hint:     without quotes it is a number\n",
)


def test_a_slip_in_a_file_is_answered_with_the_word_that_mends_it(pytester: pytest.Pytester) -> None:
    """A key's place, a number's quotes, the five names nearest to an unknown one, another suite's name."""
    files = {f"one/{name}": content for name, content in SLIPS.items()}
    suites = {"one/suite.yaml": suite(), "two/suite.yaml": suite("two", "trials_per_run: 3\n")}
    same = {"three/suite.yaml": suite(), "three/y.json": task("y"), "three/z.json": task("z")}
    write(pytester.path, {**files, **suites, "two/d.json": task("d"), **same})

    result = run(pytester, "--continue-on-collection-errors")

    result.assert_outcomes(errors=len(SLIPS) + 2)
    out = str(result.stdout)
    assert [hint for hint in HINTS if hint not in out] == []
    names = out.partition("one/name.json:")[2].partition("  found:")[0]
    assert names.count(",") == 5
    assert " in all)" in names
    assert out.count("  hint:     did you mean 'answer_contains'?") == 2
    result.stdout.fnmatch_lines(["three/suite.yaml:1: name", "*a name that no other*", "*of one/suite.yaml"])


AGENTS = """
from pytest_agenteval.records.evidence import Answer


def plain(task_input, ctx):
    return "Mina, plain"


async def waits(anything, context):
    return Answer("Mina, async")


class Agent:
    def __init__(self, word="none"):
        self.word = word

    def run(self, task_input, ctx):
        return f"Mina, {self.word}"


def factory(word, other):
    return Agent(word + other)


def one_too_few(task_input):
    return "Mina"


def polite(evidence):
    return "Mina" in evidence.answer


class Polite:
    def grade(self, evidence):
        return 1.0 if "Mina" in evidence.answer else 0.0


class Nothing:
    pass


def pytest_agenteval_register(registry):
    registry.agent("plain", plain)
    registry.agent("waits", waits)
    registry.agent("instance", Agent("instance"))
    registry.agent("class", Agent)
    registry.agent("factory", factory)
    registry.agent("one_too_few", one_too_few)
    registry.agent("no_agent", Nothing)
    registry.agent("made_nothing", lambda: Nothing())
    registry.agent("lost", "no_such_module:Agent")
    registry.agent("spoilt", "spoilt:Agent")
    registry.grader("polite", polite)
    registry.grader("other_word", lambda record: True)
    registry.grader("polite_instance", Polite())
"""


def test_agents_and_graders_may_be_functions_objects_or_classes(pytester: pytest.Pytester) -> None:
    """Whatever can be called with a task and a context acts; what cannot, or cannot be imported, is told how.

    The agent's own module may be the reason: its line is named, and nobody sees a traceback of ours.
    """
    by = [{"name": "polite"}, {"name": "polite_instance"}]
    settings: dict[str, dict[str, Any]] = {
        "plain": {},
        "waits": {},
        "instance": {},
        "class": {"word": "class"},
        "factory": {"word": "fac", "other": "tory"},
    }
    good = [task(name, agent=name, settings=setting, graders=by) for name, setting in settings.items()]
    bad = {
        "few": task("few", agent="one_too_few"),
        "set": task("set", agent="instance", settings={"word": "x"}),
        "no": task("no", agent="no_agent"),
        "key": task("key", agent="class", settings={"wrod": "x"}),
        "func": task("func", agent="plain", settings={"word": "x"}),
        "made": task("made", agent="made_nothing"),
        "lost": task("lost", agent="lost"),
        "spoilt": task("spoilt", agent="spoilt"),
        "word": task("word", graders=[{"name": "other_word"}]),
    }
    pytester.syspathinsert()
    files: dict[str, Any] = {f"evals/{name}.json": one for name, one in bad.items()}
    files |= {"conftest.py": AGENTS, "spoilt.py": "import os\nos.no_such_thing\n"}
    write(pytester.path, {**files, "evals/suite.yaml": suite(), "evals/good.json": good})

    result = run(pytester, "--continue-on-collection-errors", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=len(good), errors=len(bad))
    out = str(result.stdout)
    for told in (
        "settings.word\n  expected: no settings: it was registered as an object",
        "no settings: it was registered as a function",
        "did you mean 'word'?",
        "expected: 'no_such_module:Agent', which ",
        "found:    ModuleNotFoundError: No module named 'no_such_module'\n",
        "found:    AttributeError: module 'os' has no attribute 'no_such_thing' (",
        "spoilt.py:2)",
        "hint:     a function that grades has one parameter, and its name is evidence",
    ):
        assert told in out
    how = "an agent: a class with run(task_input, ctx), an object of such a class, or a function"
    assert out.count(how) >= 3
    assert "Traceback" not in out
    assert "registry.py" not in out


@pytest.mark.parametrize("workers", [(), ("-p", "xdist.plugin", "-n2")])
def test_one_mistake_in_many_trials_is_written_once(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    """Nine crashes of one cause are one block and one line of pytest's summary, with their number.

    So are crashes at one place whose messages differ in values alone.
    """
    crash = "def answer(question):\n    raise ValueError('no key in config')\n"
    late = "from time import time_ns\n\ndef answer(question):\n    raise OSError(f'late by {time_ns()}')\n"
    odd = "def answer(question):\n    raise ValueError('another')\n"
    write(pytester.path, {"bot.py": crash, "odd.py": odd, "late.py": late})
    write(pytester.path, {"evals/suite.yaml": suite(more="agent: {call: bot:answer}\nmodel: own\n")})
    write(pytester.path, {f"evals/t{n}.json": task(f"t{n}") for n in range(9)})
    write(pytester.path, {"evals/odd/suite.yaml": suite("odd", "agent: {call: odd:answer}\nmodel: own\n")})
    write(pytester.path, {"evals/odd/o.json": task("o")})
    write(pytester.path, {"evals/late/suite.yaml": suite("late", "agent: {call: late:answer}\nmodel: own\n")})
    write(pytester.path, {f"evals/late/l{n}.json": task(f"l{n}") for n in range(3)})

    result = run(pytester, *workers)

    result.assert_outcomes(errors=13)
    out = str(result.stdout)
    assert out.count("Traceback") == 3  # each of the other causes has a block of its own
    assert "\nlike it in 2 more: " in out
    assert "crash: OSError: late by … (3 trials)" in out or "crash: OSError: late by … (3 tri..." in out
    assert "the same in 8 more: " in out
    assert "(9 trials)" in out or "(9 tri..." in out


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (("--agent-modle=x",), "--agent-modle: did you mean '--agent-model'?"),
        (("--repetition", "3"), "--repetition: did you mean '--repetitions'?"),
        (("-k", "helpdeks"), "-k helpdeks matches none of 2 trials; did you mean 'helpdesk'?"),
        (
            ("-k", "helpdeks", "-p", "xdist.plugin", "-n1"),
            "-k helpdeks matches none of 2 trials; did you mean 'helpdesk'?",
        ),
        (("-k", "zzzz"), "-k zzzz matches none of 2 trials; suites and tasks: a, b, helpdesk"),
        (
            ("--agent-split=held_out", "-p", "xdist.plugin", "-n1"),
            "--agent-split=held_out: none of 2 trials is in this split",
        ),
    ],
)
def test_a_slip_on_the_command_line_is_answered_with_the_nearest_name(
    pytester: pytest.Pytester, options: tuple[str, ...], hint: str
) -> None:
    """pytest itself names no option and no test that could be meant; a split without tasks is named too."""
    tasks = {f"evals/{name}.json": task(name) for name in ("a", "b")}
    write(pytester.path, {"evals/suite.yaml": suite("helpdesk"), **tasks})

    result = run(pytester, *options)

    assert f"{result.stdout}{result.stderr}".count(hint) == 1


def test_a_judge_that_no_grader_uses_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line above the trials names the judge of the command line, though it grades none of them."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a")})

    out = str(run(pytester, "--agent-judge=claude").stdout)

    assert "no grader of these tasks needs a judge: claude" in out

    write(pytester.path, {"pyproject.toml": '[tool.agenteval]\njudge = "claude"\n'})

    assert "claude" not in str(run(pytester).stdout)


def test_a_conftest_that_imports_the_project_is_answered_with_what_to_do(pytester: pytest.Pytester) -> None:
    """Python looks for modules in the folder of the conftest, and not in that of the project."""
    folder = "src"  # the root itself is on the path of a pytester's processes
    conftest = "from shop.bot import Bot\n"
    files = {f"{folder}/shop/__init__.py": "", f"{folder}/shop/bot.py": "Bot = None\n"}
    write(pytester.path, {**files, "evals/conftest.py": conftest, "evals/suite.yaml": suite("shop")})
    write(pytester.path, {"evals/a.json": task("a"), "pyproject.toml": "[tool.pytest.ini_options]\n"})

    result = pytester.runpytest_subprocess("evals")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    error = " ".join(str(result.stderr).split())
    assert "ModuleNotFoundError: No module named 'shop'" in error
    assert f"hint: shop is in {(pytester.path / folder).resolve()}, where Python does not look" in error
    assert f'pythonpath = ["{folder}"]' in error
