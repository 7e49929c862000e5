"""``--agent-dry-run``: what would be run, and what it would take, without running or writing anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

PROJECT = """
[tool.agenteval.models]
mine = {{id = "openai/mine-9", api_base = "{base}"}}
unknown = {{id = "openai/nobodys", api_base = "{base}"}}

[tool.agenteval.prices.mine]
input = 10
output = 100
as_of = 2026-11-01
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A provider of which each reply costs a cent and a half."""
    with ModelServer([ReplyPlan("Hello, Mina!", input_tokens=1000, output_tokens=50)]) as serving:
        yield serving


def project(pytester: pytest.Pytester, server: ModelServer) -> None:
    """Write two suites of three tasks."""
    files = {
        f"evals/{name}/t{n}.json": task(f"t{n}", script=None) for name in ("one", "two") for n in range(3)
    }
    suites = {f"evals/{name}/suite.yaml": suite(name) for name in ("one", "two")}
    write(pytester.path, {"pyproject.toml": PROJECT.format(base=server.openai_base), **suites, **files})


def cells(result: pytest.RunResult, name: str) -> list[str]:
    """Give the cells of a row of the table."""
    (line,) = [line for line in result.outlines if line.startswith(f"  {name} ")]
    return line.split()[1:]


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_is_run_and_nothing_written(
    pytester: pytest.Pytester, server: ModelServer, workers: int
) -> None:
    """What no earlier run tells is unknown; selection holds; no worker is started."""
    project(pytester, server)

    result = run(
        pytester,
        "evals",
        "--agent-dry-run",
        "--agent-model=mine,unknown",
        "--repetitions=2",
        "-k",
        "not t2",
        workers=workers,
    )

    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*worker*")
    for name in ("one[mine]", "two[mine]", "one[unknown]"):
        assert cells(result, name)[0] == "4"
        assert cells(result, name)[-2:] == ["?", "?"]
    assert cells(result, "total") == ["16", "?", "?"]
    result.stdout.fnmatch_lines(
        [
            "  tokens and cost: 16 trials without an earlier run to estimate from",
            "  prices: litellm *; your own: mine as of 2026-11-01",
            "  the price of unknown is unknown: *",
        ]
    )
    assert server.requests == []
    assert not (pytester.path / ".agenteval").exists()


def test_what_was_tried_before_says_what_it_would_take(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """With the tokens of another model for one that was never tried; a budget is compared."""
    project(pytester, server)
    run(pytester, "evals/one", "--agent-model=mine", "--repetitions=3")
    asked = len(server.requests)

    known = run(pytester, "evals", "--agent-dry-run", "--agent-model=mine", "--agent-max-cost=0.01", "-v")
    other = run(pytester, "evals/one", "--agent-dry-run", "--agent-model=unknown", "-q")

    assert cells(known, "one[mine]") == ["3", "3.1k", "$0.045"]
    assert cells(known, "total") == ["6", "3.1k", "+", "?", "$0.045", "+", "?"]
    known.stdout.fnmatch_lines(
        [
            "  tokens and cost: 3 trials of tasks that ran before with the model; 3 trials",
            "    without an earlier run to estimate from",
            "  the budget of $0.0100 is less than this run may take",
        ]
    )
    assert cells(other, "one[unknown]") == ["3", "3.1k", "?"]
    assert other.stdout.str().count("dry run") == 0
    assert len(server.requests) == asked
    assert len(list((pytester.path / ".agenteval" / "runs").glob("2*"))) == 1


def test_offline_models_and_recordings_cost_nothing_and_missing_keys_are_told(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """What is known to be 0 is 0 and needs no price; what would refuse a run is said below the plan."""
    project(pytester, server)

    result = run(pytester, "evals/one", "--agent-dry-run", "--agent-model=rules,openai/gpt-5-mini")

    assert result.ret == pytest.ExitCode.OK
    assert cells(result, "one[rules]") == ["3", "0", "$0"]
    result.stdout.no_fnmatch_line("*price of unknown is*")
    result.stdout.fnmatch_lines(["! --agent-model=openai/gpt-5-mini: no key: *"])


def test_what_would_be_taken_over_costs_nothing(pytester: pytest.Pytester, server: ModelServer) -> None:
    """Of a run that goes on, and of a new one that takes trials over; neither changes a file.

    What a run that is going on would take is said, and whoever is at work on it keeps it.
    """
    project(pytester, server)
    run(pytester, "evals", "--agent-model=mine", "-k", "t0")
    (folder,) = (pytester.path / ".agenteval" / "runs").glob("2*")
    write(folder, {"stop": "", ".held": "1"})
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    reused = run(pytester, "evals", "--agent-model=mine", "--agent-dry-run", "--agent-reuse=latest")
    resumed = run(
        pytester, "evals", "--agent-model=mine", "-k", "t0", "--agent-dry-run", "--agent-resume=latest"
    )

    reused.stdout.fnmatch_lines(["  suite      trials  reused  regraded  to run *"])
    assert cells(reused, "total")[:4] == ["6", "2", "0", "4"]
    assert cells(resumed, "total") == ["2", "2", "0", "0", "0", "$0"]
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before
    assert len(list(folder.parent.glob("2*"))) == 1
