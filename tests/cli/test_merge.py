"""``agenteval merge``: a matrix of shards joined is one run, and what is no part of one run is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.store.rows.row_kinds import ROW_KINDS
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.store.runs import list_runs
from tests.greeters import greet, set_mood, task_names, write_greeters
from tests.journals import junit, properties
from tests.suites import import_multiprocessing, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")
import_multiprocessing()
RUNS = Path(".agenteval/runs")
SHARDS = [f"shard{number}" for number in range(1, 5)]
NIGHT, MORNING = task_names("night"), task_names("morning")
GATE = {"score": 0.2, "not_worse": True, "buckets": {"night": 0.9}}
CODE_TESTS = """
import pytest

WANTED = {"name": "answer_contains", "config": {"text": "Mina"}}

def test_by_code(agenteval):
    for mood in ("a", "b"):
        agenteval.run(
            {"id": f"code_{mood}", "input": {"content": mood}, "graders": [WANTED]}, agent="greeter", model="nop"
        )

@pytest.mark.parametrize("number", range(3))
def test_plain(number):
    pass

def test_other(record_testsuite_property):
    record_testsuite_property("team", "greeters")
    assert False
"""


def merge(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Give exit status, output and complaints of a merge."""
    capsys.readouterr()
    status = main(["merge", *args])
    return (status, *capsys.readouterr())


@pytest.fixture
def matrix(pytester: pytest.Pytester, quick: None) -> None:
    """One run of a suite that has fallen behind its baseline, and the same as four shards, two with workers."""
    write_greeters(pytester.path, GATE)
    scripted = {f"evals/scripted/t{n}.json": task(f"t{n}", wants="Bob" if n == 2 else "Mina") for n in range(6)}
    tests = {"tests/test_plain.py": CODE_TESTS}
    more = {"evals/scripted/suite.yaml": suite("scripted"), **scripted, **tests}
    write(pytester.path, more)
    greet(pytester, "--agent-run-name=old", times=2)
    assert main(["baseline", "set", "old", "--to", "kept.json"]) == 0
    set_mood(pytester.path, "tired", [*NIGHT, MORNING[0]])
    told = ("--agent-baseline=kept.json", "evals", "tests")
    one = greet(pytester, "--agent-run-name=one", "--junitxml=one.xml", *told, times=2)
    assert one.ret == 1
    for number, name in enumerate(SHARDS, 1):
        own = (f"--agent-shard={number}/4", f"--agent-run-name={name}", f"--junitxml={name}.xml")
        greet(pytester, *own, *told, times=2, workers=2 * (number in (2, 4)))


def rows(run: Run, kind: str) -> list[dict[str, Any]]:
    """Give a run's rows without what no two runs have alike: names, times and places."""
    return [
        {
            name: value
            for name, value in row.items()
            if not re.search("run|started|ended|second|transcript|folder|command", name)
        }
        for row in run.rows(kind)
    ]


def without_times(text: str) -> str:
    """Leave out of a report what no two runs have alike."""
    return re.sub(r'\d+\.\d s\b|"seconds": {[^}]*}|\b(one|whole)\b|\d{4}-\d\d-\d\d[T ][\d:.+]*', "_", text)


@pytest.mark.usefixtures("matrix")
def test_a_matrix_of_four_is_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Every row, figure, verdict, gate and report is that of one run, and every test is in JUnit's file once."""
    files = [f"{name}.xml" for name in SHARDS]
    status, out, _ = merge(capsys, *SHARDS, "--into=whole", "--junit", "whole.xml", *files, "--json=m.json")
    one, whole = (load_run(RUNS / name) for name in ("one", "whole"))

    assert (status, whole.header.exit_status, whole.header.shards) == (1, 1, None)
    assert "gate: broken: greetings night 0.00 is below 0.90" in out
    assert {len(list(load_run(RUNS / name).entries)) for name in SHARDS} != {0}
    for kind in ROW_KINDS:
        assert rows(whole, kind) == rows(one, kind)
    assert (whole.planned, whole.begun, whole.odd, whole.looks) == (one.planned, (), (), ())
    verdicts = [json.loads((run.folder / "comparison.json").read_text()) for run in (one, whole)]
    assert verdicts[0].pop("new", None) != "" and verdicts[1].pop("new", None) != ""
    assert without_times(json.dumps(verdicts[0])) == without_times(json.dumps(verdicts[1]))
    texts = []
    for name in ("one", "whole"):
        assert main(["report", name, "-v"]) == 0
        texts.append(without_times(capsys.readouterr().out))
    assert texts[0] == texts[1]
    document = json.loads(Path("m.json").read_text())
    assert (document["merged"], document["missing"], document["exit_status"]) == (SHARDS, [], 1)

    cases = junit(Path("one.xml")), junit(Path("whole.xml"))
    assert {name: [child.tag for child in case] for name, case in cases[0].items()} == {
        name: [child.tag for child in case] for name, case in cases[1].items()
    }
    assert totals("whole.xml") == totals("one.xml")
    transcript = properties(cases[1]["night_0[nop-2]"])["agenteval.transcript"]
    assert Path(transcript).is_file() and "whole" in transcript


def totals(file: str) -> dict[str, str]:
    """Give counts and properties of a JUnit file, without names and times."""
    from xml.etree import ElementTree

    (found,) = ElementTree.parse(file).getroot().iter("testsuite")
    counts = {name: found.attrib[name] for name in ("tests", "errors", "failures", "skipped", "name")}
    own = {name: value for name, value in properties(found).items() if "[" in name or "." not in name}
    return counts | own
