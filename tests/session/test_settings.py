"""Where settings may be said, which of them wins, and what is refused."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

import pytest_agenteval
from pytest_agenteval.session.settings_reading import misspelt_variables, read_settings
from pytest_agenteval.text.errors import UsageMistake
from tests.suites import collected_ids, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

GREET = {"evals/suite.yaml": suite(), "evals/task.json": task("greet")}
USAGE = pytest.ExitCode.USAGE_ERROR


def refusal(pytester: pytest.Pytester, *args: str) -> str:
    """Give why the settings of a run are refused, which has not begun."""
    with pytest.raises(UsageMistake) as refused:
        read_settings(pytester.parseconfig(*args))
    return str(refused.value)


def test_the_command_line_beats_the_environment_beats_pyproject_beats_the_suite(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank hides those below it, for names, numbers and switches; ``0`` in a variable is a no."""

    def cases(*args: str) -> list[str]:
        return [name.partition("[")[2].rstrip("]") for name in collected_ids(pytester, *args)]

    write(pytester.path, {"evals/task.json": task("greet", says="Hm.")})
    assert cases() == ["rules-1"]
    write(pytester.path, {"evals/suite.yaml": "name: s\nkind: capability\ndefaults: {model: scripted}\n"})
    assert cases() == ["scripted-1"]
    project = '[tool.agenteval]\nmodel = ["oracle", "nop"]\nrepetitions = "2"\nstrict = true\n'
    write(pytester.path, {"pyproject.toml": project})
    assert cases() == ["oracle-1", "oracle-2", "nop-1", "nop-2"]
    monkeypatch.setenv("AGENTEVAL_MODEL", "scripted,nop")
    monkeypatch.setenv("AGENTEVAL_REPETITIONS", "1")
    assert cases() == ["scripted-1", "nop-1"]
    assert cases("--agent-model=oracle", "--repetitions=2") == ["oracle-1", "oracle-2"]
    run(pytester).assert_outcomes(failed=2)
    monkeypatch.setenv("AGENTEVAL_STRICT", "0")
    run(pytester).assert_outcomes(xfailed=2)
    run(pytester, "--agent-strict").assert_outcomes(failed=2)


IN_PYPROJECT = {
    "[tool.agenteval]\nmodl = 'nop'": "*tool.agenteval.modl: unknown key; did you mean 'model'?",
    "[tool.pytest_agenteval]\nmodel = 'nop'": "*is not read; call it [[]tool.agenteval]",
    "[tool.agenteval]\nrepetitions = 0": "*tool.agenteval.repetitions: *as in 2..6; found 0",
    "[tool.agenteval]\nrepetitions = 2.5": "*as in 2..6; found 2.5",
    "[tool.agenteval]\nrepetitions = true": "*as in 2..6; found True",
    "[tool.agenteval]\nsplit = 'heldout'": "*one of dev, held_out, all; found 'heldout'; did you mean*",
    "[tool.agenteval]\nstrict = 'maybe'": "*.strict: expected true or false; found 'maybe'",
    "[tool.agenteval]\nmodel = 3": "*tool.agenteval.model: *a list of texts; found 3",
    "[tool.agenteval]\nmodels = 'claude'": "*tool.agenteval.models: expected a table; found 'claude'",
    "[tool.agenteval]\nprices = 5": "*tool.agenteval.prices: expected a table for each model; found 5",
    "[tool]\nagenteval = 1": "*tool.agenteval: expected a table; found 1",
    "[tool.agenteval]\nprompt = 'short'": "*tool.agenteval.prompt: expected NAME=PATH; *'short=short'?",
    "[tool.agenteval]\nredact = 'x'": "*tool.agenteval.redact: expected a list of regular *; found 'x'",
}
TYPED = {
    "--repetitions=0": "--repetitions: expected a whole number, 1 or more, or LOW..HIGH*",
    "--repetitions=many": "--repetitions: expected a whole number, 1 or more, or LOW..HIGH*",
    "--agent-concurrency=0": "--agent-concurrency: expected a whole number, 1 or more; found '0'",
    "--agent-sample=-1": "--agent-sample: expected a whole number, 1 or more; found '-1'",
    "--agent-seed=x": "--agent-seed: expected a whole number, 0 or more; found 'x'",
    "--agent-max-steps=0": "--agent-max-steps: expected a whole number, 1 or more; found '0'",
    "--agent-timeout=soon": "--agent-timeout: expected a number of seconds above 0; found 'soon'",
    "--agent-trial-tokens=many": "--agent-trial-tokens: expected a whole number, 1 or more; found 'many'",
    "--agent-trial-cost=-1": "--agent-trial-cost: expected a number of US dollars above 0; found '-1'",
    "--agent-max-cost=0": "--agent-max-cost: expected a number of US dollars above 0; found '0'",
    "--agent-max-cost=5 EUR": "--agent-max-cost: *; found '5 EUR'",
    "--agent-max-tokens=1e6": "--agent-max-tokens: expected a whole number, 1 or more; found '1e6'",
    "--agent-split=dve": "--agent-split: expected one of *; found 'dve'; did you mean 'dev'?",
    "--agent-record=once,all": "--agent-record: expected one of none, once, *",
    "--agent-record=off": "--agent-record: expected one of none, once, *; found 'off'*",
    "--agent-record-chat=on": "--agent-record-chat: expected one of off, none, once, *",
    "--agent-run-name=latest": "--agent-run-name: expected a name for a folder, *; found 'latest'",
    "--agent-run-name=.hidden": "--agent-run-name: expected a name for a folder, *; found '.hidden'",
    "--agent-run-name=a/b": "--agent-run-name: expected a name for a folder, *; found 'a/b'",
    "--agent-prompt=a/short.md": "--agent-prompt: expected NAME=PATH; *; did you mean 'short=a/short.md'?",
    "--agent-prompt=짧은=prompts": "--agent-prompt: the name '짧은' may hold ASCII letters*",
    "--agent-prompt=a@b=prompts": "--agent-prompt: the name 'a@b' may hold ASCII letters*",
    "--agent-prompt=short=nowhere": "--agent-prompt short: no such file or folder: nowhere",
    "--agent-prompt=short=empty": "--agent-prompt short: no prompt file in *empty",
    "--agent-prompt=short=double": "--agent-prompt short: two files for the prompt 'system': *",
    "--agent-prompt=a=x.md,a=x.md": "--agent-prompt: the variant 'a' is named more than once",
    "--agent-prompt=a=x.md,A=x.md": "--agent-prompt: *do not distinguish the variants 'a' and 'A'",
    # A shell's variable may be empty, and what would run instead may cost money.
    "--agent-regrade=": "--agent-regrade: expected a run: *MODEL@YYYYMMDD; found ''",
    "--agent-only=": "--agent-only: expected endings, as in missed,errored; found ''",
    "--agent-model=": "--agent-model: expected the name of a model*; found ''",
    "--agent-judge=,": "--agent-judge: expected the name of a model*; found ','",
    "--agent-prompt=base=README.md": "*base means the agent's own prompts*choose another*",
    "--agent-prompt=": "--agent-prompt: expected NAME=PATH; found ''",
    "--agent-results=": "--agent-results: expected a folder, or none; found ''",
}


def test_a_value_that_cannot_be_obeyed_is_refused_with_its_place(pytester: pytest.Pytester) -> None:
    """On the command line and in pyproject.toml: what was expected, what was found, what may be meant."""
    write(
        pytester.path, {"double/system.md": "a", "double/system.txt": "b", "empty/.hidden": "", "x.md": "x"}
    )
    for option, message in TYPED.items():
        assert fnmatch(refusal(pytester, option), message), option
    for table, message in IN_PYPROJECT.items():
        write(pytester.path, {"pyproject.toml": table})
        assert fnmatch(refusal(pytester), message), table


LATE = [
    ("--agent-model=", "*: expected the name of a model*; found ''"),
    ("--agent-only=mised", "*: expected endings: *; found 'mised'; did you mean 'missed'?"),
    ("--agent-only=@latest", "*: expected endings: *; found '@latest'; -k NAME selects tasks"),
    ("--agent-only=missed", "*: *no run 'latest'*there are no runs yet; pytest makes one"),
    ("--agent-model=scriptd", "*: unknown model 'scriptd'; known: *; did you mean 'scripted'?"),
    ("--agent-model=nop,nop", "*: the model 'nop' is named more than once"),
    ("--agent-model=a@b/c", "*: the model name 'a@b/c' cannot stand in a test id*"),
    ("--agent-keep-workspaces --agent-results=none", "*run's folder*"),
    ("AGENTEVAL_MODEL=scriptd", "AGENTEVAL_MODEL: unknown model 'scriptd'; *"),
    ("AGENTEVAL_JUDGE=cluade", "AGENTEVAL_JUDGE: unknown model 'cluade'; *"),
    ("AGENTEVAL_EXECUTOR=processes:x", "AGENTEVAL_EXECUTOR: *expected a number of processes, 1 or more"),
    ("AGENTEVAL_ONLY=missed@1999", "AGENTEVAL_ONLY: there is no run '1999' in *"),
    ("executor = 'localy'", "pyproject.toml: tool.agenteval.executor: unknown executor 'localy'; *"),
    ("regrade = '1999'", "pyproject.toml: tool.agenteval.regrade: there is no run '1999' in *"),
    ("modl = 'nop'", "*tool.agenteval.modl: unknown*did you mean 'model'?"),
]


@pytest.mark.parametrize(("where", "message"), LATE)
def test_an_option_that_cannot_be_obeyed_is_a_usage_error_that_names_its_place(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, where: str, message: str
) -> None:
    """Exit status 4, one clean message, nothing run, nothing left, also for what shows only when used."""
    write(pytester.path, GREET)
    options = where.split() if where.startswith("--") else []
    if where.startswith("AGENTEVAL_"):
        monkeypatch.setenv(*where.split("=", 1))
    elif not options:
        write(pytester.path, {"pyproject.toml": f"[tool.agenteval]\n{where}\n"})

    result = run(pytester, *options, "-p", "no:cacheprovider")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert "Traceback" not in str(result.stdout) + str(result.stderr)
    assert not (pytester.path / ".agenteval").exists()


def test_a_suites_model_that_is_none_is_told_as_a_suites(pytester: pytest.Pytester) -> None:
    """Nobody typed it: the message says where such a name stands."""
    write(pytester.path, {"evals/suite.yaml": suite("greetings", "model: scriptd\n")})
    write(pytester.path, {"evals/a.yaml": task("a")})
    lines = ["ERROR: `model` of a suite or a task: unknown model 'scriptd'; *"]
    run(pytester, "evals").stderr.fnmatch_lines(lines)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--repetitions=0", "--repetitions: expected a whole number, 1 or more, or LOW..HIGH"),
        ("--agent-model=scriptd", "unknown model 'scriptd'; known: "),
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


@pytest.mark.parametrize(("workers", "quiet"), [(0, ()), (0, ("-q",)), (2, ())])
def test_a_misspelt_variable_is_named_once_with_the_nearest(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: int, quiet: tuple[str, ...]
) -> None:
    """A budget that is not read costs money; names that are not alike are of plugins and benchmarks."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a")})
    for name in ("MODLE", "MODEL_FOLDER", "PROMPTS", "TOOLS_BASE_SHOP", "SHOP_LEVEL"):
        monkeypatch.setenv(f"AGENTEVAL_{name}", "x")

    result = run(pytester, "evals", *quiet, workers=workers)

    told = [line for line in result.outlines if "not read" in line]
    hint = "the variable AGENTEVAL_MODLE is not read: did you mean AGENTEVAL_MODEL?"
    assert [line.removeprefix("agenteval: ") for line in told] == [hint]


def test_variables_of_ours_are_not_taken_for_misspelt_ones() -> None:
    """Each that the package names is an option's or known; one in small letters is not read."""
    source = Path(pytest_agenteval.__file__).parent
    texts = "\n".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    ours = set(re.findall(r"\bAGENTEVAL_[A-Z_]+[A-Z]\b", texts)) - {"AGENTEVAL_NAME"}

    assert list(misspelt_variables(dict.fromkeys(ours, "x"))) == []
    assert [line.split()[2] for line in misspelt_variables({"agenteval_model": "x"})] == ["agenteval_model"]
