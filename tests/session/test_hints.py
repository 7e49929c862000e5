"""What a mistake in a file or in a registration is answered with: the word that mends it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


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
    """Nine crashes of one cause are one block and one line of pytest's summary, with their number."""
    crash = "def answer(question):\n    raise ValueError('no key in config')\n"
    odd = "def answer(question):\n    raise ValueError('another')\n"
    write(pytester.path, {"bot.py": crash, "odd.py": odd})
    write(pytester.path, {"evals/suite.yaml": suite(more="agent: {call: bot:answer}\nmodel: own\n")})
    write(pytester.path, {f"evals/t{n}.json": task(f"t{n}") for n in range(9)})
    write(pytester.path, {"evals/odd/suite.yaml": suite("odd", "agent: {call: odd:answer}\nmodel: own\n")})
    write(pytester.path, {"evals/odd/o.json": task("o")})

    result = run(pytester, *workers)

    result.assert_outcomes(errors=10)
    out = str(result.stdout)
    assert out.count("Traceback") == 2  # the other cause has a block of its own
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
        (("-k", "zzzz"), "-k zzzz matches none of 2 trials"),
    ],
)
def test_a_slip_on_the_command_line_is_answered_with_the_nearest_name(
    pytester: pytest.Pytester, options: tuple[str, ...], hint: str
) -> None:
    """pytest itself names no option and no test that could be meant."""
    tasks = {f"evals/{name}.json": task(name) for name in ("a", "b")}
    write(pytester.path, {"evals/suite.yaml": suite("helpdesk"), **tasks})

    result = run(pytester, *options)

    assert hint in f"{result.stdout}{result.stderr}"


def test_a_missing_key_does_not_look_like_a_filter_that_matched_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "1 deselected" above the error would say that ``-k`` was wrong."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": task("b")})

    result = run(pytester, "-k", "a.json", "--agent-model=claude")

    assert "ANTHROPIC_API_KEY is not set" in f"{result.stdout}{result.stderr}"
    assert "deselected" not in str(result.stdout)


def test_a_judge_that_no_grader_uses_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line above the trials names the judge, though it grades none of them."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a")})

    out = str(run(pytester, "--agent-judge=claude").stdout)

    assert "no grader of these tasks asks a judge: claude" in out
