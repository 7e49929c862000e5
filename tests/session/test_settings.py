"""Where settings may be said, which of them wins, and what is refused."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest

from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.text.errors import UsageMistake
from tests.suites import collected_ids, journaled, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

GREET = {"evals/suite.yaml": suite(), "evals/task.json": task("greet")}
USAGE = pytest.ExitCode.USAGE_ERROR


def refusal(pytester: pytest.Pytester, *args: str) -> str:
    """Give why the settings of a run are refused, which has not begun."""
    with pytest.raises(UsageMistake) as refused:
        read_settings(pytester.parseconfig(*args))
    return str(refused.value)


def models(pytester: pytest.Pytester, *args: str) -> list[str]:
    """Give the models of the trials that would be run."""
    return [name.partition("[")[2].rpartition("-")[0] for name in collected_ids(pytester, *args)]


def test_the_command_line_beats_the_environment_beats_pyproject_beats_the_suite(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank hides those below it; nothing is mixed."""
    (pytester.path / "evals").mkdir()
    write(pytester.path, {"evals/task.json": task("greet")})
    assert models(pytester) == ["rules"]
    write(pytester.path, GREET)
    assert models(pytester) == ["scripted"]
    write(pytester.path, {"pyproject.toml": '[tool.agenteval]\nmodel = ["oracle", "nop"]\n'})
    assert models(pytester) == ["oracle", "nop"]
    monkeypatch.setenv("AGENTEVAL_MODEL", "scripted,nop")
    assert models(pytester) == ["scripted", "nop"]
    assert models(pytester, "--agent-model=oracle") == ["oracle"]


@pytest.mark.parametrize("value", ["3", '"3"'])
def test_numbers_may_be_said_at_every_rank(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """``repetitions`` as one that is a number."""
    write(pytester.path, GREET | {"pyproject.toml": f"[tool.agenteval]\nrepetitions = {value}\n"})
    assert len(collected_ids(pytester)) == 3
    monkeypatch.setenv("AGENTEVAL_REPETITIONS", "2")
    assert len(collected_ids(pytester)) == 2
    assert len(collected_ids(pytester, "--repetitions=1")) == 1


def test_flags_may_be_said_at_every_rank(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """``strict`` as one that is a flag: ``0`` in the environment hides what pyproject says."""
    capability = "name: s\nkind: capability\ndefaults: {model: scripted}\n"
    miss = {"evals/suite.yaml": capability, "evals/task.json": task("greet", says="Hm.")}
    write(pytester.path, miss | {"pyproject.toml": "[tool.agenteval]\nstrict = true\n"})

    run(pytester).assert_outcomes(failed=1)
    monkeypatch.setenv("AGENTEVAL_STRICT", "0")
    run(pytester).assert_outcomes(xfailed=1)
    run(pytester, "--agent-strict").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--agent-regrade", "a run: a path, name, prefix, latest or MODEL@YYYYMMDD"),
        ("--agent-only", "endings, as in missed,errored"),
        ("--agent-model", "the name of a model*"),
        ("--agent-judge", "the name of a model*"),
        ("--agent-prompt", "NAME=PATH"),
        ("--agent-results", "a folder, or none"),
    ],
)
def test_an_empty_text_is_not_taken_for_nothing(
    pytester: pytest.Pytester, option: str, expected: str
) -> None:
    """A shell's variable may be empty: nobody is asked, and paid, in place of what was meant."""
    text = f"{option}: expected {expected}; found ''"
    assert fnmatch(refusal(pytester, f"{option}="), text)


def test_an_empty_text_begins_no_run(pytester: pytest.Pytester) -> None:
    """The refusal is the run's: exit status 4, and nothing is left behind."""
    write(pytester.path, GREET)

    result = run(pytester, "--agent-model=")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["ERROR: --agent-model: expected the name of a model*; found ''"])
    assert not (pytester.path / ".agenteval").exists()


def test_settings_hold_in_workers_too(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers read the same project and the same environment."""
    monkeypatch.setenv("AGENTEVAL_REPETITIONS", "2")
    write(pytester.path, GREET | {"pyproject.toml": "[tool.agenteval.models]\nplay = 'scripted'\n"})

    run(pytester, "--agent-model=play", workers=1).assert_outcomes(passed=2)

    assert journaled(pytester.path) == ["greet[play-1]", "greet[play-2]"]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("[tool.agenteval]\nmodl = 'nop'", "*tool.agenteval.modl: unknown key; did you mean 'model'?"),
        ("[tool.pytest_agenteval]\nmodel = 'nop'", "*is not read; call it [[]tool.agenteval]"),
        ("[tool.agenteval]\nrepetitions = 0", "*tool.agenteval.repetitions: *as in 2..6; found 0"),
        ("[tool.agenteval]\nrepetitions = 2.5", "*as in 2..6; found 2.5"),
        ("[tool.agenteval]\nrepetitions = true", "*as in 2..6; found True"),
        (
            "[tool.agenteval]\nsplit = 'heldout'",
            "*one of dev, held_out, all; found 'heldout'; did you mean*",
        ),
        (
            "[tool.agenteval]\nstrict = 'maybe'",
            "*.strict: expected true or false; found 'maybe'",
        ),
        ("[tool.agenteval]\nmodel = 3", "*tool.agenteval.model: *a list of texts; found 3"),
        ("[tool.agenteval]\nmodels = 'claude'", "*tool.agenteval.models: expected a table; found 'claude'"),
        ("[tool]\nagenteval = 1", "*tool.agenteval: expected a table; found 1"),
        ("[tool.agenteval]\nprompt = 'short'", "*tool.agenteval.prompt: expected NAME=PATH; found 'short'"),
    ],
)
def test_what_pyproject_says_wrong_is_a_usage_error(
    pytester: pytest.Pytester, table: str, complaint: str
) -> None:
    """Unknown keys and values that cannot be obeyed are refused with their place."""
    write(pytester.path, {"pyproject.toml": table})

    assert fnmatch(refusal(pytester), complaint)


def test_a_mistake_in_pyproject_ends_the_run(pytester: pytest.Pytester) -> None:
    """With exit status 4 and one clean message."""
    write(pytester.path, GREET | {"pyproject.toml": "[tool.agenteval]\nmodl = 'nop'"})

    result = run(pytester)

    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["ERROR: *tool.agenteval.modl: unknown*did you mean 'model'?"])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--repetitions=0", "--repetitions: expected a whole number, 1 or more, or LOW..HIGH*"),
        ("--repetitions=many", "--repetitions: expected a whole number, 1 or more, or LOW..HIGH*"),
        ("--agent-concurrency=0", "--agent-concurrency: expected a whole number, 1 or more; found '0'"),
        ("--agent-sample=-1", "--agent-sample: expected a whole number, 1 or more; found '-1'"),
        ("--agent-seed=x", "--agent-seed: expected a whole number, 0 or more; found 'x'"),
        ("--agent-split=dve", "--agent-split: expected one of *; found 'dve'; did you mean 'dev'?"),
        ("--agent-record=once,all", "--agent-record: expected one of none, once, *"),
        ("--agent-record=off", "--agent-record: expected one of none, once, *; found 'off'*"),
        ("--agent-record-chat=on", "--agent-record-chat: expected one of off, none, once, *"),
        ("--agent-prompt=short", "--agent-prompt: expected NAME=PATH; found 'short'"),
        ("--agent-prompt=짧은=prompts", "--agent-prompt: the name '짧은' may hold ASCII letters*"),
        ("--agent-prompt=a@b=prompts", "--agent-prompt: the name 'a@b' may hold ASCII letters*"),
        ("--agent-prompt=short=nowhere", "--agent-prompt short: no such file or folder: nowhere"),
        ("--agent-prompt=short=empty", "--agent-prompt short: no prompt file in *empty"),
        ("--agent-prompt=short=double", "--agent-prompt short: two files for the prompt 'system': *"),
        ("--agent-prompt=a=x.md,a=x.md", "--agent-prompt: the variant 'a' is named more than once"),
    ],
)
def test_a_value_that_cannot_be_obeyed_is_refused(
    pytester: pytest.Pytester, option: str, message: str
) -> None:
    """With the flag, what was expected and what was found."""
    prompts = {"double/system.md": "a", "double/system.txt": "b", "empty/.hidden": "", "x.md": "x"}
    write(pytester.path, prompts)

    assert fnmatch(refusal(pytester, option), message)


def test_a_suites_model_that_is_none_is_told_as_a_suites(pytester: pytest.Pytester) -> None:
    """Nobody typed it: the message says where such a name stands."""
    write(pytester.path, {"evals/suite.yaml": suite("greetings", "model: scriptd\n")})
    write(pytester.path, {"evals/a.yaml": task("a")})

    result = run(pytester, "evals")

    result.stderr.fnmatch_lines(["ERROR: `model` of a suite or a task: unknown model 'scriptd'; *"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--agent-split=dve", "--agent-split: expected one of *; found 'dve'; did you mean 'dev'?"),
        ("--agent-only=mised", "--agent-only: expected endings: *; found 'mised'; did you mean 'missed'?"),
        ("--agent-only=@latest", "--agent-only: expected endings: *; found '@latest'"),
        ("--agent-only=missed", "--agent-only: *no run 'latest'*there are no runs yet"),
        (
            "--agent-model=scriptd",
            "--agent-model: unknown model 'scriptd'; known: *; did you mean 'scripted'?",
        ),
        ("--agent-model=nop,nop", "--agent-model: the model 'nop' is named more than once"),
        ("--agent-model=a@b/c", "--agent-model: the model name 'a@b/c' cannot stand in a test id*"),
    ],
)
def test_an_option_that_cannot_be_obeyed_is_a_usage_error(
    pytester: pytest.Pytester, option: str, message: str
) -> None:
    """Exit status 4, one clean message, nothing run, nothing left behind; also when only collecting."""
    write(pytester.path, GREET)

    for dry in ((), ("--collect-only",)) if "split" in option else ((),):
        result = run(pytester, option, *dry, "-p", "no:cacheprovider")

        assert result.ret == USAGE
        result.stderr.fnmatch_lines([f"ERROR: {message}"])
        assert "Traceback" not in str(result.stdout) + str(result.stderr)
        assert not (pytester.path / ".agenteval").exists()


@pytest.mark.parametrize(
    ("said_in", "name", "value", "mistake"),
    [
        ("environment", "model", "scriptd", "unknown model 'scriptd'; *"),
        ("pyproject.toml", "model", "scriptd", "unknown model 'scriptd'; *"),
        ("environment", "judge", "cluade", "unknown model 'cluade'; *"),
        ("pyproject.toml", "executor", "localy", "unknown executor 'localy'; *"),
        ("environment", "executor", "processes:x", "*expected a number of processes, 1 or more"),
        ("pyproject.toml", "only", "missd", "expected endings: *; found 'missd'; *"),
        ("environment", "only", "missed@1999", "there is no run '1999' in *"),
        ("pyproject.toml", "regrade", "1999", "there is no run '1999' in *"),
        ("environment", "split", "dve", "expected one of *; found 'dve'; *"),
    ],
)
def test_a_refusal_names_the_place_also_where_it_comes_late(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    said_in: str,
    name: str,
    value: str,
    mistake: str,
) -> None:
    """What shows only when a name is looked up is told of the variable or key that holds it."""
    write(pytester.path, GREET)
    place = f"AGENTEVAL_{name.upper()}"
    if said_in == "environment":
        monkeypatch.setenv(place, value)
    else:
        place = f"pyproject.toml: tool.agenteval.{name}"
        write(pytester.path, {"pyproject.toml": f'[tool.agenteval]\n{name} = "{value}"\n'})

    result = run(pytester, "-p", "no:cacheprovider")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines([f"ERROR: {place}: {mistake}"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "--repetitions=0",
            "--repetitions: expected a whole number, 1 or more, or LOW..HIGH",
        ),
        ("--agent-model=scriptd", "unknown model 'scriptd'; known: "),
        ("--agent-only=missed", "there is no run 'latest'"),
    ],
)
def test_with_workers_the_controller_says_it_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, option: str, message: str
) -> None:
    """No worker crashes, and no word, file or folder is left behind."""
    write(pytester.path, GREET)
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))

    result = run(pytester, option, "-p", "no:cacheprovider", workers=1)

    assert result.ret == USAGE
    printed = str(result.stdout) + str(result.stderr)
    assert printed.count(message) == 1
    assert not any(word in printed for word in ("Traceback", "INTERNALERROR", "crashed"))
    assert list((pytester.path / "temporary").iterdir()) == []
    assert not (pytester.path / ".agenteval").exists()


def test_keeping_workspaces_needs_a_run_folder(pytester: pytest.Pytester) -> None:
    """What cannot be kept anywhere is not lost in silence."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/task.json": task("greet")})

    result = run(pytester, "--agent-keep-workspaces", "--agent-results=none")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --agent-keep-workspaces: *run's folder*"])
