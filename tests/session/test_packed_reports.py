"""Reports that workers send as one piece: the controller has them as if there were no workers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pytest_agenteval.session.worker_messages import PACKED, ReportPacking, unpack_report
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

TOLD = """
import pytest

is_worker = False


def pytest_configure(config):
    global is_worker
    is_worker = hasattr(config, "workerinput")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.of_another_plugin = {"pairs": [("a", 1), (None, 0.1)], "text": "\\u20ac"}
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_from_serializable(config, data):
    with open("sent.txt", "a") as file:
        print("agenteval_packed" in data, file=file)
    return (yield)


def pytest_runtest_logreport(report):
    if is_worker:
        return
    keys = ("nodeid", "location", "keywords", "outcome", "longrepr", "when", "sections", "of_another_plugin")
    told = {key: getattr(report, key) for key in keys}
    told["longrepr"] = str(report.longrepr)
    ours = [each for each in report.user_properties if each[0] != "agenteval.transcript"]
    with open("told.txt", "a") as file:
        print(repr((told, ours, hasattr(report, "wasxfail"))), file=file)
"""


def test_what_a_worker_sends_arrives_as_it_was(pytester: pytest.Pytester) -> None:
    """Each report of a trial crosses in one piece, and is what it is without workers: pairs, texts, words."""
    files = {"evals/suite.yaml": "name: demo\nkind: capability\ndefaults: {model: scripted}\n"}
    files |= {f"evals/{name}/task.json": task(name, says=name) for name in ("Mina", "Tom")}
    write(pytester.path, files)
    pytester.makeconftest(TOLD)
    told = pytester.path / "told.txt"
    run(pytester, "evals")
    alone = sorted(told.read_text().splitlines())
    told.unlink()
    run(pytester, "evals", workers=1)
    assert sorted(told.read_text().splitlines()) == alone
    assert len(alone) == 6
    assert (pytester.path / "sent.txt").read_text().split() == ["True"] * 6


def packed(data: dict[str, Any]) -> Any:
    """Give what a worker sends in the place of a report's data."""
    report = pytest.TestReport("a", ("a", None, "a"), {}, "passed", None, "call")
    hook = ReportPacking().pytest_report_to_serializable(report)
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send(data)
    return ended.value.value


def test_data_is_one_piece_where_marshal_can_write_it() -> None:
    """What xdist puts beside it stays; what is no plain data goes the usual way, as other tests' does."""
    for odd in (Fraction(1, 2), type("Text", (str,), {})("x")):
        data = {"nodeid": "a", "odd": odd}
        assert packed(data) is data
    report = {"nodeid": "a::b", "location": ("a", None, "b"), "user_properties": [("x", "\ud800")]}
    sent = packed(report)
    assert list(sent) == [PACKED]
    sent["worker_id"] = "gw0"
    unpack_report(sent)
    assert sent == {**report, "worker_id": "gw0"}
