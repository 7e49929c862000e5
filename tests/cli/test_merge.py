"""``agenteval merge``: a matrix of shards joined is one run, and what is no part of one run is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.trial import Digests, TapeCounts, Trial
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.notes import NOTES, Note
from pytest_agenteval.store.record_files import VERSION, replace_json
from pytest_agenteval.store.rows import ROW_KINDS
from pytest_agenteval.store.run_documents import (
    ExtraRepetitions,
    ExtraTrials,
    Looks,
    PlannedTrials,
    RunAudit,
    RunGates,
    SuiteGate,
    SuiteLook,
)
from pytest_agenteval.store.run_folder import (
    Levels,
    RepetitionRule,
    RunHeader,
    RunModel,
    RunPrices,
    RunShards,
    RunSuite,
    end_run,
    find_run,
    open_run,
    planned_groups,
    write_planned,
)
from pytest_agenteval.store.run_reader import Run, load_run
from tests.cli.documents import valid_document
from tests.greeters import greet, set_mood, task_names, write_greeters
from tests.journals import junit, properties, write_note
from tests.reports.runs import CAPABILITY, key, trial
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
            {"id": f"code_{mood}", "input": {"content": mood}, "graders": [WANTED]},
            agent="greeter",
            model="nop",
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
def matrix(pytester: pytest.Pytester, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of a suite that fell behind its baseline, and the same as four shards, two with workers."""
    write_greeters(pytester.path, GATE)
    scripted = {
        f"evals/scripted/t{n}.json": task(f"t{n}", wants="Bob" if n == 2 else "Mina") for n in range(6)
    }
    tests = {"tests/test_plain.py": CODE_TESTS}
    more = {"evals/scripted/suite.yaml": suite("scripted"), **scripted, **tests}
    write(pytester.path, more)
    greet(pytester, "--agent-run-name=old", times=2)
    assert main(["baseline", "set", "old", "--to", "kept.json"]) == 0
    set_mood(pytester.path, "tired", [*NIGHT, MORNING[0]])
    told = ("--agent-baseline=kept.json", "evals", "tests")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "one-summary.md")
    files = (
        "--junitxml=one.xml",
        "--agent-report=one.md",
        "--agent-report=one.json",
        "--agent-comment=one-comment.md",
    )
    one = greet(pytester, "--agent-run-name=one", *files, *told, times=2)
    assert one.ret == 1
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "whole-summary.md")
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
    times = r"\d+\.\d s\b(?: -(?:>|&gt;) \d+\.\d s \([^)]*\))?|[+-][\d.]+ %|\d+ times"
    times += r'|"seconds": {[^}]*}|"(?:old|new)_resources": {[^}]*}'
    return re.sub(rf"{times}|run: \S+|\b(one|whole)\b|\d{{4}}-\d\d-\d\d[T ][\d:.+]*", "_", text)


@pytest.mark.usefixtures("matrix")
def test_a_matrix_of_four_is_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Every row, figure, verdict, gate and report is that of one run; each test is in JUnit's file once."""
    files = [f"{name}.xml" for name in SHARDS]
    reports = ("-o=whole.md", "-o=whole.json", "--comment=whole-comment.md", "--json=m.json")
    status, out, _ = merge(capsys, *SHARDS, "--into=whole", "--junit", "whole.xml", *files, *reports)
    one, whole = (load_run(RUNS / name) for name in ("one", "whole"))

    assert (status, whole.header.exit_status, whole.header.shards) == (1, 1, None)
    assert "gate: broken: greetings night 0.00 is below 0.90" in out
    assert {len(list(load_run(RUNS / name).entries)) for name in SHARDS} != {0}
    for kind in ROW_KINDS:
        assert rows(whole, kind) == rows(one, kind)
    assert (whole.planned, whole.begun, whole.odd, whole.looks) == (one.planned, (), (), ())
    verdicts = [json.loads((run.folder / "comparison.json").read_text()) for run in (one, whole)]
    assert without_times(json.dumps(verdicts[0])) == without_times(json.dumps(verdicts[1]))
    texts = []
    for name in ("one", "whole"):
        assert main(["report", name, "-v"]) == 0
        texts.append(without_times(capsys.readouterr().out))
    assert texts[0] == texts[1]
    for file in ("{}.md", "{}-comment.md", "{}-summary.md"):
        before, after = (Path(file.format(name)).read_text(encoding="utf-8") for name in ("one", "whole"))
        assert without_times(after) == without_times(before)
    document = valid_document("merge", Path("m.json").read_text())
    assert (document["merged"], document["missing"], document["exit_status"]) == (SHARDS, [], 1)

    cases = junit(Path("one.xml")), junit(Path("whole.xml"))
    assert {name: [child.tag for child in case] for name, case in cases[0].items()} == {
        name: [child.tag for child in case] for name, case in cases[1].items()
    }
    assert totals("whole.xml") == totals("one.xml")
    transcript = properties(cases[1]["night_0[nop-2]"])["agenteval.transcript"]
    assert (Path(transcript).is_file(), "whole" in transcript) == (True, True)


def totals(file: str) -> dict[str, str]:
    """Give counts and properties of a JUnit file, without names and times."""
    (found,) = ElementTree.parse(file).getroot().iter("testsuite")
    counts = {name: found.attrib[name] for name in ("tests", "errors", "failures", "skipped", "name")}
    own = {name: value for name, value in properties(found).items() if "[" in name or "." not in name}
    return counts | own


CLAUDE = RunModel("claude", "anthropic/claude-x")
DIGESTS = Digests("in", "", "", "set", ruler="r", model="m", code="c", graders={"g": "1:0123456789ab"})
HEADER = RunHeader("2026-11-21T09:30:15+00:00", models=(CLAUDE,), suites=(CAPABILITY,), judges=(CLAUDE,))
PLANNED = planned_groups((key(name, 1, "claude"), "x") for name in "ab")
SHARD = RunShards((1,), 2, PLANNED, "digest", "")


def tried(task: str, **fields: Any) -> Trial:
    """Give a trial of a task with a real model, and with digests that differ where a test says so."""
    digests = replace(DIGESTS, **fields.pop("digests", {}))
    return trial(task, 1, fields.pop("score", 1.0), key=key(task, 1, "claude"), digests=digests, **fields)


def stored(
    name: str, trials: Sequence[Trial], header: RunHeader = HEADER, status: int | None = 0, gate: float = 0.0
) -> Path:
    """Store a run of this name."""
    folder = RUNS / name
    open_run(folder, header)
    write_planned(folder, planned_groups((each.key, each.bucket) for each in trials))
    writer = JournalWriter(folder, "main-1")
    writer.finished(trials)
    writer.close()
    if gate:
        RunGates((SuiteGate("s", {"score": gate}, {"x": 2}),)).write(folder)
    if status is not None:
        end_run(folder, "2026-11-21T10:30:15+00:00", status)
    return folder


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a trial twice": (
        {}, {"task": "a", "score": 0.5}, "s/a[claude-1] is in A and in B, with different results"),
    "a grader's version": (
        {}, {"digests": {"graders": {"g": "2:0123456789ab"}}},
        "the grader g of s: version 1 in A, version 2 in B"),
    "an agent's code": (
        {}, {"digests": {"code": "d"}}, "the code of the agent card of s: c in A, d in B"),
    "a model's parameters": (
        {}, {"digests": {"model": "n"}}, "the model claude: m in A, n in B"),
    "what a task asks": (
        {}, {"task": "a", "model": "gpt", "digests": {"input": "other"}},
        "the input of s/a: in in A, other in B"),
    "a task's graders": (
        {}, {"task": "a", "model": "gpt", "digests": {"ruler": "other"}},
        "the graders of s/a: r in A, other in B"),
    "a model's id": (
        {}, {"header": {"models": (RunModel("claude", "openai/gpt-9"),)}},
        "the model claude: anthropic/claude-x in A, openai/gpt-9 in B"),
    "prices": (
        {"header": {"prices": RunPrices("litellm 1.80")}},
        {"header": {"prices": RunPrices("litellm 1.81", {"claude": "2026-11-01"})}},
        "the price of claude: litellm 1.80 in A, the user's own, as of 2026-11-01 in B"),
    "a seed": ({}, {"header": {"seed": 7}}, "the seed: 0 in A, 7 in B"),
    "judges": ({}, {"header": {"judges": ()}}, "the judges: claude (anthropic/claude-x) in A, none in B"),
    "a user": (
        {"header": {"user": "openai/u"}}, {}, "the model that plays users: openai/u in A, none in B"),
    "a kind": (
        {}, {"header": {"suites": (RunSuite("s", "regression", "card"),)}},
        "the suite s: capability, agent card, threshold 1 in A, regression, agent card, threshold 1 in B"),
    "recording": (
        {"header": {"record": "none"}, "tool_tape": TapeCounts(1)},
        {"header": {"record": "all"}, "tool_tape": TapeCounts(recorded=1)},
        "--agent-record: none in A, all in B"),
    "recording of chats": (
        {"header": {"record_chat": "none"}}, {"header": {"record_chat": "off"}},
        "--agent-record-chat: none in A, off in B"),
    "a rule of repetitions": (
        {"header": {"repetition_rule": RepetitionRule(2, 6)}},
        {"header": {"repetition_rule": RepetitionRule(2, 5)}},
        "the rule of repetitions: 2..6 in A, 2..5 in B\n  s with claude: its repetitions were "
        "decided by A alone, and trials of it are in B"),
    "a look at a part": (
        {"header": {"repetition_rule": RepetitionRule(2, 6)}}, {},
        "s with claude: its repetitions were decided by A alone, and trials of it are in B"),
    "regrading": ({}, {"header": {"regraded": ("C",)}}, "regrading: False in A, True in B"),
    "gates": ({"gate": 0.5}, {"gate": 0.6}, 'the gate of s: {"score":0.5} in A, {"score":0.6} in B'),
    "a shard and none": ({"header": {"shards": SHARD}}, {}, "A is shard 1 of 2, and B is no shard"),
    "shards of other matrices": (
        {"header": {"shards": SHARD}}, {"header": {"shards": replace(SHARD, numbers=(2,), total=4)}},
        "shards: of 2 in A, of 4 in B"),
    "a shard twice": (
        {"header": {"shards": SHARD}}, {"header": {"shards": SHARD}}, "shard 1 of 2 is here twice: A and B"),
    "shards of other commits": (
        {"header": {"shards": SHARD}}, {"header": {"shards": replace(SHARD, numbers=(2,), tasks="other")}},
        "A and B planned different trials: run all shards from one commit, with the same options"),
    "shards of other baselines": (
        {"header": {"shards": SHARD}}, {"header": {"shards": replace(SHARD, numbers=(2,), baseline="x")}},
        "the baseline: none in A, x in B"),
}  # fmt: skip


def store_like(name: str, task: str, said: dict[str, Any]) -> Path:
    """Store a run with one trial of a task, and with what is said of both."""
    fields = dict(said)
    header = replace(HEADER, **fields.pop("header", {}))
    gate, model = fields.pop("gate", 0.0), fields.pop("model", "claude")
    made = tried(fields.pop("task", task), **fields)
    if model != "claude":
        made = replace(made, key=made.key._replace(model=model))
        header = replace(header, models=(RunModel(model, model),))
    return stored(name, [made], header, gate=gate)


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_part_of_one_run_is_refused(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one sentence, with both runs named; no run is made, and --partial allows none of it."""
    of_first, of_second, sentence = REFUSED[what]
    store_like("A", "a", of_first)
    store_like("B", "b", of_second)

    for allowed in ((), ("--partial",)):
        status, out, err = merge(capsys, "A", "B", "--into=C", *allowed)
        assert (status, out) == (2, "")
        assert err == f"agenteval: these runs cannot be merged:\n  {sentence}\n"
    assert not (RUNS / "C").exists()


def test_files_of_other_formats_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a newer version of the package, which nobody here can read, and of different older ones."""
    stored("A", [tried("a")])
    folder = stored("B", [tried("b")])
    header = json.loads((folder / "run.json").read_text())
    replace_json(folder / "run.json", header | {"v": VERSION - 1})
    assert "the format of its files: 1 in A, 0 in B" in merge(capsys, "A", "B")[2]

    replace_json(folder / "run.json", header | {"v": VERSION + 1})
    status, _, err = merge(capsys, "A", "B")
    assert (status, "knows none above 1: upgrade pytest-agenteval" in err) == (2, True)


def test_what_is_missing_is_named_and_joined_only_if_that_is_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A shard that is not here, and one that was killed; the rest can be joined later."""
    stored("A", [tried("a")], replace(HEADER, shards=replace(SHARD, total=3)), None, gate=0.5)
    stored("B", [], replace(HEADER, shards=replace(SHARD, numbers=(3,), total=3)), gate=0.5)
    status, _, err = merge(capsys, "A", "B", "--into=C")
    assert (status, err.splitlines()) == (2, [
        "agenteval: incomplete:",
        "  A never ended",
        "  shard 2 of 3 is not here",
        "--agent-resume=RUN completes a run; --partial merges what exists",
    ])  # fmt: skip

    status, out, _ = merge(capsys, "A", "B", "--partial", "--into=C", "--json=c.json")
    assert (status, load_run(RUNS / "C").header.exit_status) == (1, 2)
    assert "gate: not judged, A never ended; shard 2 of 3 is not here" in out
    assert "shards 1, 3 of 3: suites are incomplete; without 2" in out
    assert "1 of s's 2 trials not run" in out
    document = json.loads(Path("c.json").read_text())
    assert (document["planned"], document["ended"], len(document["missing"])) == (2, 1, 2)

    stored("D", [tried("b")], replace(HEADER, shards=replace(SHARD, numbers=(2,), total=3)), gate=0.5)
    end_run(RUNS / "C", "2026-11-21T10:30:15+00:00", 0)
    status, out, err = merge(capsys, "A", "B", "C", "D", "--into=E")
    assert (status, "gate: held (s score 1.00)" in out) == (0, True), err
    assert [line.partition(":")[0] for line in err.splitlines()] == ["A", "B"]
    assert [entry.key.task for entry in load_run(RUNS / "E").entries] == ["a", "b"]


def test_a_run_that_was_interrupted_is_no_whole_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever has ended of it; one with failures has ended by itself."""
    stored("A", [tried("a")], status=1)
    stored("B", [tried("b")], status=2)
    assert merge(capsys, "A", "--into=C", "-q")[0] == 1
    assert "B did not end by itself (exit status 2)" in merge(capsys, "A", "B", "--into=D")[2]


def test_runs_of_several_machines_are_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Other models, other tasks and other repetitions: plans and notes add up; a task of two runs is one."""
    both = [tried("a"), tried("b")]
    again = replace(tried("b"), key=key("b", 2, "claude"))
    of_gpt = [replace(each, key=each.key._replace(model="gpt")) for each in both]
    stored("A", both, replace(HEADER, repetitions=1))
    stored("B", [again, tried("c")], replace(HEADER, repetitions=2, reused=("before",)))
    later = replace(HEADER, started_at="2026-11-21T09:45:00+00:00", models=(RunModel("gpt", "openai/gpt"),))
    stored("C", of_gpt, replace(later, variants=("",)), 1)
    notes = {again.key: Note("", "flaky?"), of_gpt[0].key: Note("2026-11-21T11:00:00Z")}
    for name, (of_trial, note) in zip("BC", notes.items(), strict=True):
        write_note(RUNS / name, of_trial, note)
    # Half a line, which a crash left.
    with (RUNS / "B" / NOTES).open("ab") as file:
        file.write(b'{"v":1,"suite":"s"')

    status, out, _ = merge(capsys, "A", "B", "C", "--into=D", "-q")
    run = load_run(RUNS / "D")
    assert (status, run.header.repetitions, run.header.exit_status) == (1, None, 1)
    assert [(group.model, group.tasks, group.trials) for group in run.planned] == [
        ("claude", 3, 4),
        ("gpt", 2, 2),
    ]
    assert run.header.reused == ("before",)
    assert (run.header.started_at, run.header.ended_at) == (HEADER.started_at, "2026-11-21T10:30:15+00:00")
    assert [model.name for model in run.header.models] == ["claude", "gpt"]
    assert ("claude" in out, "gpt" in out) == (True, True)
    # It began with its first part; as the one that was made last it is the latest, wherever runs are listed.
    assert [find_run(RUNS, name).name for name in ("latest", "claude@latest")] == ["D", "D"]
    (RUNS / "latest").unlink()
    assert find_run(RUNS, "latest").name == "D"
    assert main(["runs", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["name"] == "D"
    assert {entry.key: entry.note for entry in run.entries if entry.note} == notes
    assert len(run.odd) == 1


@pytest.mark.parametrize("both", [True, False])
def test_a_joined_run_knows_its_trials_where_all_its_parts_do(
    capsys: pytest.CaptureFixture[str], both: bool
) -> None:
    """A list without those of one part would have them run again, or never."""
    for name, is_written in (("a", True), ("b", both)):
        folder = stored(name.upper(), [tried(name)])
        if is_written:
            PlannedTrials.of([key(name, 1, "claude")]).write(folder)

    assert merge(capsys, "A", "B", "--into=C", "-q")[0] == 0
    planned = PlannedTrials.read(RUNS / "C")
    assert (planned.keys if planned else None) == (
        {key(name, 1, "claude") for name in "ab"} if both else None
    )


def test_looks_of_several_suites_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Who was looked at, what was added by it, and the levels of their verdicts; others are as planned."""
    rule = replace(HEADER, repetition_rule=RepetitionRule(1, 2))
    for name in ("s", "t"):
        made = [replace(tried("a"), key=key("a", number, "claude")._replace(suite=name)) for number in (1, 2)]
        folder = stored(name.upper(), made, replace(rule, suites=(RunSuite(name, "capability", "card"),)))
        planned = planned_groups([(made[0].key, "x")])
        write_planned(folder, planned)
        both = planned_groups((each.key, "x") for each in made)
        ExtraRepetitions((ExtraTrials(name, "claude", "", ("id",)),), both).write(folder)
        Looks((SuiteLook(name, "claude", "", "open", 2, 1, 2, Levels(0.9, 0.9)),)).write(folder)
    fixed = replace(tried("a"), key=key("a", 1, "claude")._replace(suite="u"))
    stored("U", [fixed], replace(HEADER, suites=(RunSuite("u", "capability", "card"),)))

    assert merge(capsys, "S", "T", "U", "--into=C", "-q")[0] == 0
    whole = load_run(RUNS / "C")
    assert whole.looks == (*load_run(RUNS / "S").looks, *load_run(RUNS / "T").looks)
    assert [(group.suite, group.trials) for group in whole.planned] == [("s", 2), ("t", 2), ("u", 1)]
    assert [group.suite for group in ExtraRepetitions.read(whole.folder).groups] == ["s", "t"]


def test_runs_are_found_below_the_folder_of_artifacts(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a link to the latest has become a copy of it; a name that is taken is refused first."""
    for name, number in (("a", 1), ("b", 2)):
        folder = stored(name, [tried(name)], replace(HEADER, shards=replace(SHARD, numbers=(number,))))
        place = Path("artifacts") / f"evals-shard-{number}" / "runs"
        place.mkdir(parents=True)
        folder.rename(place / name)
        shutil.copytree(place / name, place / "latest")
        (place / name / "recheck" / "inner").mkdir(parents=True)
        (place / name / "recheck" / "inner" / "run.json").write_text("{}")

    assert merge(capsys, "artifacts", "--into=whole", "-q")[0] == 0
    assert [entry.key.task for entry in load_run(RUNS / "whole").entries] == ["a", "b"]
    assert "--into: expected a new name; found 'whole'" in merge(capsys, "artifacts", "--into=whole")[2]
    assert "--into: expected a name for a folder" in merge(capsys, "artifacts", "--into=../x")[2]
    for place, seed in (("x", 0), ("y", 7)):
        shutil.move(stored("evals", [tried(place)], replace(HEADER, seed=seed)), f"{place}/evals")
    assert "the seed: 0 in x/evals, 7 in y/evals" in merge(capsys, "x", "y")[2]
    Path("empty").mkdir()
    assert "empty: expected a run, or a folder with runs below it" in merge(capsys, "empty")[2]


def test_a_merge_that_fails_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a run nor a link to one: the latest is what it was."""
    stored("A", [tried("a")], gate=0.5)
    gates = RUNS / "A" / "gates.json"
    gates.write_text(gates.read_text().replace('"score"', '"shade"'))
    stored("B", [tried("b")])

    status, out, err = merge(capsys, "A", "B", "--into=C")
    assert (status, out, "the run's gates cannot be read" in err) == (2, "", True)
    assert not (RUNS / "C").exists()
    assert (RUNS / "latest").resolve().name == "B"
    assert merge(capsys, "B", "--into=C", "-q")[0] == 0
    assert (RUNS / "latest").resolve().name == "C"


def test_parts_of_a_run_are_no_runs_of_a_suite(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever looks back over several runs would count their trials twice, and no suite is whole in them."""
    for name, number in (("a", 1), ("b", 2)):
        stored(name, [tried(name)], replace(HEADER, shards=replace(SHARD, numbers=(number,))))
    assert main(["trend", "s"]) == 2
    assert merge(capsys, "a", "b", "--into=whole", "-q")[0] == 0
    assert main(["trend", "s", "--json=t.json"]) == 0
    text = Path("t.json").read_text()
    assert [name in text for name in ('"whole"', '"a"', '"b"')] == [True, False, False]


def test_junit_files_that_cannot_be_joined_are_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Which file it is, and what it is instead."""
    stored("A", [tried("a")])
    Path("no.xml").write_text("<html/>")
    Path("half.xml").write_text("<testsuites><test")
    for files, problem in (
        (["all.xml"], "--junit: expected a file to write, and those to read; found all.xml alone"),
        (["all.xml", "no.xml"], "no.xml: expected a JUnit file; found <html>"),
        (["all.xml", "half.xml"], "half.xml: expected a JUnit file; it is no XML"),
        (["all.xml", "gone.xml"], "gone.xml: cannot be read"),
    ):
        status, _, err = merge(capsys, "A", "--into=B", "--junit", *files)
        assert (status, problem in err) == (2, True)
    assert not (RUNS / "B").exists()


def test_a_case_of_several_files_counts_once_and_by_its_worst_ending(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file that no shard can collect is in the file of each."""
    stored("A", [tried("a")])
    for number, inner in enumerate(("", "<error message='x'/>", "<skipped/>")):
        case = f"<testcase classname='' name='tests.test_x' time='0.1'>{inner}</testcase>"
        own = f"<testcase classname='t' name='own{number}'/>"
        Path(f"{number}.xml").write_text(f"<testsuite name='pytest' time='1.5'>{case}{own}</testsuite>")

    merge(capsys, "A", "--into=B", "--junit", "all.xml", "0.xml", "1.xml", "2.xml")
    found = next(ElementTree.parse("all.xml").getroot().iter("testsuite")).attrib
    assert (found["tests"], found["errors"], found["skipped"], found["time"]) == ("4", "1", "0", "4.500")


@pytest.mark.usefixtures("quick")
def test_shards_of_an_audit_are_one_audit(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is audited, each spoiler, and what the graders saw of it; an audit and a run are not joined."""
    solution = {"reference_solution": {"turns": [{"text": "Hello, Mina!"}]}}
    tasks = {f"evals/t{n}.json": {**task(f"t{n}"), **(solution if n else {})} for n in range(4)}
    write(pytester.path, {"evals/suite.yaml": suite(), **tasks})
    run(pytester, "--agent-audit", "--agent-run-name=one")
    for number in (1, 2):
        run(pytester, "--agent-audit", f"--agent-shard={number}/2", f"--agent-run-name=part{number}")

    assert merge(capsys, "part1", "part2", "--into=whole", "-q")[0] in (0, 1)
    one, whole = (load_run(RUNS / name) for name in ("one", "whole"))
    audits = [RunAudit.read(each.folder) for each in (one, whole)]
    assert all(audits)
    for part in ("tasks", "unaudited", "spoilers"):
        before, after = (sorted(getattr(audit, part), key=str) for audit in audits)
        assert before == after
    assert rows(whole, "trials") == rows(one, "trials")
    assert whole.header.exit_status == one.header.exit_status
    stored("C", [tried("c")])
    assert "an audit: False in C, True in whole" in merge(capsys, "whole", "C")[2]


def test_calibrations_and_workspaces_come_along(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where both runs have kept workspaces, and of a run that tried nothing else."""
    for name in "ab":
        folder = stored(name, [tried(name)])
        write(
            folder, {f"workspaces/{name}/notes.md": name, f"calibration-{name}.json": "{}", "servers/x": ""}
        )
    write(stored("judged", []), {"calibration-judges.json": "{}"})
    assert merge(capsys, "a", "b", "judged", "--into=c", "-q")[0] == 0
    found = sorted(
        path.relative_to(RUNS / "c").as_posix() for path in (RUNS / "c").rglob("*") if path.is_file()
    )
    assert [path for path in found if "/" in path or path.startswith("cal")] == [
        "calibration-a.json",
        "calibration-b.json",
        "calibration-judges.json",
        "workspaces/a/notes.md",
        "workspaces/b/notes.md",
    ]
