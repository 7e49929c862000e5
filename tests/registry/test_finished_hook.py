"""``pytest_agenteval_trial_finished``: what hooks may do with a trial, and what they cannot do to it."""

from __future__ import annotations

import pytest

from tests.journals import finished
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

FAILING = """
import pytest


def pytest_agenteval_trial_finished(config, trial):
    {raises}
"""
SENDING = """
import copy, dataclasses, json, pickle

from pytest_agenteval.records.trial import Trial


def pytest_agenteval_trial_finished(config, trial):
    assert pickle.loads(pickle.dumps(trial)) == copy.deepcopy(trial) == trial
    assert Trial.from_json(json.loads(json.dumps(trial.to_json()))) == trial
    dataclasses.asdict(trial)
    with open(config.rootpath / f"{trial.key.task}.sent", "w") as sent:
        sent.write(str(hash(trial)))
"""


@pytest.mark.parametrize(
    ("workers", "raises"),
    [
        (2, "raise ValueError('nobody listens')"),
        (0, "pytest.skip('not now')"),
        (0, "exit(3)"),
    ],
)
def test_a_hook_that_raises_changes_no_ending(pytester: pytest.Pytester, workers: int, raises: str) -> None:
    """The trials end as they do, other plugins' hooks are called, and one warning names the hook's file."""
    write(
        pytester.path,
        {
            "pytest.ini": "[pytest]\n",
            "conftest.py": SENDING,
            "evals/conftest.py": FAILING.format(raises=raises),
            "evals/suite.yaml": suite(),
            "evals/all.yaml": [task("good"), task("fine"), task("bad", says="Bye.")],
        },
    )
    result = run(pytester, "evals", "-v", "-W", "error", workers=workers)

    result.assert_outcomes(passed=2, failed=1)
    assert {name: line["ending"] for name, line in finished(pytester.path).items()} == {
        "good": "passed",
        "fine": "passed",
        "bad": "failed",
    }
    assert sorted(path.name for path in pytester.path.glob("*.sent")) == [
        "bad.sent",
        "fine.sent",
        "good.sent",
    ]
    warnings = [line for line in result.outlines if "warning: hook" in line]
    assert len(warnings) == 1
    place = str(pytester.path / "evals" / "conftest.py")
    result.stdout.fnmatch_lines(
        [
            "*warning: hook pytest_agenteval_trial_finished*",
            f'*File "{place}", line 6, in *',
            f"*{raises[:9]}*",
        ]
    )


def test_a_hook_that_says_nothing_costs_no_word(pytester: pytest.Pytester) -> None:
    """Only what raised is told."""
    write(
        pytester.path,
        {"conftest.py": SENDING, "evals/suite.yaml": suite(), "evals/t.json": task("t")},
    )
    result = run(pytester, "evals", "-q")
    result.assert_outcomes(passed=1)
    assert "warning" not in str(result.stdout)
