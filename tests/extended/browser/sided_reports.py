"""Reports of one side, of several and of a baseline, whose figures and causes can be worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.compare.baseline_file import baseline_text
from pytest_agenteval.records.evidence import Check, Grade
from pytest_agenteval.records.transcript import Ask, Message, ToolCall, Transcript, Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.html_report import write_html
from pytest_agenteval.reports.report_source import ReportSource, report_source
from pytest_agenteval.reports.sides import sides_of_places
from pytest_agenteval.store.notes import write_notes
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.store.run_reader import Run, load_run
from tests.reports.runs import key, store_run, trial

TASKS, REPETITIONS = 24, 2
BUCKETS = ("delivery", "refunds", "opt_out")
SHARES = {"fast": 3, "fast@short": 5, "mid": 4, "mid@short": 6, "slow": 10, "slow@short": 11}
"""Of twelve tasks in a row, how many a side passes."""

LEFT_OUT = 5
"""The task that the side ``mid`` has not tried."""

NOTED = "the tool gave the wrong order"


def sides_run(root: Path, names: tuple[str, ...]) -> Run:
    """Store a run of some models and variants; a trial of the first one is noted, one is errored."""
    models = tuple(RunModel(model, model, offline=True) for model in dict.fromkeys(map(_model, names)))
    run = store_run(root, _trials(names), models=models)
    model, _, variant = names[0].partition("@")
    write_notes(run.folder, {key("delivery_00", 1, model, variant): 1}, comment=NOTED)
    return load_run(run.folder)


def sides_report(folder: Path, *names: str) -> Path:
    """Write the report of a run of some models and variants."""
    return _write(folder, report_source([sides_run(folder / "runs", names)]))


def runs_report(folder: Path) -> Path:
    """Write the report of two runs of two models each, which have rows of their own."""
    return _write(folder, report_source([sides_run(folder / "runs", ("fast", "slow")) for _ in "ab"]))


def baseline_report(folder: Path) -> Path:
    """Write the report of a run beside the file of a baseline, which has no transcripts."""
    old, new = (
        store_run(folder / "runs", _trials((name,), "rules"), models=(RunModel("rules", "rules"),))
        for name in ("slow", "fast")
    )
    (folder / "good.json").write_text(baseline_text(old.header, old.entries), encoding="utf-8")
    return _write(folder, ReportSource(sides_of_places([folder / "good.json", new.folder])))


def _write(folder: Path, source: ReportSource) -> Path:
    write_html(folder / "report.html", source)
    return folder / "report.html"


def _model(name: str) -> str:
    return name.partition("@")[0]


def _trials(names: tuple[str, ...], called: str = "") -> Iterator[Trial]:
    for number in range(TASKS):
        for name in names:
            if name == "mid" and number == LEFT_OUT:
                continue
            model, _, variant = name.partition("@")
            for repetition in range(1, REPETITIONS + 1):
                passed = (7 * number + repetition) % 12 < SHARES[name]
                yield _trial(number, repetition, called or model, variant, passed)


def _trial(number: int, repetition: int, model: str, variant: str, passed: bool) -> Trial:
    bucket = BUCKETS[number % len(BUCKETS)]
    task = f"{bucket}_{number:02}"
    shared = {
        "bucket": bucket,
        "key": key(task, repetition, model, variant),
        "file": f"evals/s/{task}/task.json",
        "tags": ("smoke",) if number % 4 == 0 else (),
        "seconds": 2.0,
    }
    said = _transcript(number, model, passed)
    if (number, repetition, model) == (7, 1, "fast"):
        return trial(task, repetition, None, message="429 after 3 attempts", transcript=said, **shared)
    # Which check does not hold depends on the task: there are two causes.
    claim = "the order was looked up" if number % 2 else "the customer is told"
    check = Check(claim, passed, "yes", "no")
    score = 1.0 if passed else 0.25
    grade = Grade("refunded", score, str(check), (check,))
    return trial(task, repetition, score, grades=(grade,), transcript=said, **shared)


def _transcript(number: int, model: str, passed: bool) -> Transcript:
    tool = "find_order" if number % 2 else "refund"
    call = ToolCall("c1", 1, 0, tool, {"order": f"A-{number:03}"}, result={"paid": "1.000 원"}, ended=0.2)
    cost = 0.004 if model == "slow" else 0.001
    usage = Usage(300, 40, cost_usd=None if model == "mid" else cost, asks=1, attempts=1)
    words = "Your money is on its way." if passed else 'I am "sorry": no Refund.'
    return Transcript(
        messages=(
            Message("user", f"Where is my order {number}?"),
            Message("assistant", "", calls=(call,), turn=1),
            Message("assistant", words, turn=2),
        ),
        calls=(call,),
        asks=(Ask(1, 0.0, 0.4, usage), Ask(2, 0.5, 0.8, usage)),
        usage=usage + usage,
    )
