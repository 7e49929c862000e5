"""``--agent-max-steps`` and ``--agent-timeout``: what a trial may take, said for the whole run."""

from __future__ import annotations

import pytest

from tests.journals import trials
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CALL = {"calls": [{"tool": "gone", "args": {}}], "seconds": 0.05}
SCRIPT = [*[CALL] * 6, {"text": "Hello, Mina!"}]


@pytest.mark.parametrize(
    ("options", "limit", "asks"),
    [
        (("--agent-max-steps=3",), "steps", 3),
        (("--agent-timeout=0.12",), "seconds", None),
        (("--agent-max-steps=7", "--agent-timeout=60"), "", 7),
        ((), "steps", 5),
    ],
)
def test_what_the_run_allows_goes_before_what_the_task_does(
    pytester: pytest.Pytester, options: tuple[str, ...], limit: str, asks: int | None
) -> None:
    """More or less than the task allows; what is not said stays the task's own."""
    long = task("long", script=SCRIPT, limits={"steps": 5, "seconds": 30})
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(), "evals/t.json": long})

    run(pytester, "evals", "-q", *options)

    trial = trials(pytester.path)["long"]
    assert (trial.limit or "") == limit
    assert asks is None or trial.usage.asks == asks
    assert asks is not None or trial.usage.asks < 5


@pytest.mark.parametrize(("option", "wrong"), [("--agent-max-steps", "0"), ("--agent-timeout", "soon")])
def test_what_allows_nothing_is_refused(pytester: pytest.Pytester, option: str, wrong: str) -> None:
    """Before anything starts, with the option's name."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(), "evals/t.json": task("a")})
    result = run(pytester, "evals", "-q", f"{option}={wrong}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert option in result.stderr.str() + result.stdout.str()
