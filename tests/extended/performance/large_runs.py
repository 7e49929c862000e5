"""Runs of a hundred thousand trials: what they hold in memory, and how long whoever reads them waits."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_agenteval.store.record_files import add_checksum
from tests.extended.performance.measuring import Taken, median, pytest, run
from tests.extended.performance.suites import PLAIN

MANY, FEW = 100_000, 10_000
SUITE = """
name: table
kind: capability
tasks:
  rows: questions.jsonl
  id: id
  input: question
  bucket: topic
  script: [{text: "{{ answer }}"}]
  graders:
    - {name: answer_contains, config: {text: "It is"}}
    - {name: answer_contains, label: even, config: {text: "even"}}
"""
AGENTEVAL = str(Path(sys.executable).with_name("agenteval"))


class Figure(NamedTuple):
    """One figure beside its goal."""

    what: str
    figure: float
    goal: float
    unit: str
    note: str = ""


def write_table(folder: Path, count: int) -> Path:
    """Write a suite whose tasks are the rows of a table, and as many plain tests beside it."""
    evals = folder / "evals"
    evals.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (evals / "suite.yaml").write_text(SUITE)
    with (evals / "questions.jsonl").open("w") as rows:
        for number in range(count):
            answer = f"It is {number + 1}, {'even' if number % 2 else 'odd'}."
            row = {
                "id": f"q{number}",
                "question": f"{number} + 1?",
                "answer": answer,
                "topic": f"t{number % 9}",
            }
            rows.write(json.dumps(row) + "\n")
    (folder / "test_plain.py").write_text(PLAIN.format(count=count))
    return folder


def figures(place: Path, many: int = MANY, few: int = FEW) -> Iterator[Figure]:
    """Run, collect and read; all figures of time are CPU, for the readers with their start-up."""
    small, large = (write_table(place / f"large_{count}", count) for count in (few, many))
    yield from _collecting(small, large, few, many)
    yield from _memory(small, large, few, many)
    runs = large / ".agenteval" / "runs"
    (newest,) = (path for path in runs.iterdir() if path.is_dir() and not path.is_symlink())
    # Figures of a large run are stored when it is listed for the first time.
    first = run((AGENTEVAL, "runs"), large).cpu
    yield Figure(f"runs for the first time, {many:,} trials, CPU", first, 4, "s")
    for what, arguments in (
        ("report", ("report", "latest")),
        ("show one trial", ("show", "q777[scripted-1]")),
        ("runs", ("runs",)),
    ):
        yield Figure(f"{what}, {many:,} trials, CPU", _reading(large, arguments), 2, "s")
    other_run(newest)
    seconds = _reading(large, ("compare", "2000", newest.name), (0, 1))
    yield Figure(f"compare, {many:,} trials with {many:,}, CPU", seconds, 4, "s", "2 s for each side")


def _collecting(small: Path, large: Path, few: int, many: int) -> Iterator[Figure]:
    model = "--agent-model=scripted"
    start = pytest(small, "evals", model, "--collect-only", "-k", "nothing_of_that_name", expected=(5,)).cpu
    fewer = pytest(small, "evals", model, "--collect-only").cpu
    all_of_them = pytest(large, "evals", model, "--collect-only").cpu
    chosen = pytest(large, "evals", model, "--collect-only", "-k", "q777 or t3").cpu
    plain = pytest(large, "test_plain.py", "--collect-only").cpu
    growth = (all_of_them / many) / (fewer / few)
    note = f"{all_of_them:.1f} s, plain items {plain:.1f} s, all deselected of {few:,} {start:.1f} s"
    yield Figure(f"collecting a task at {many:,} over {few:,}, CPU", growth, 1.15, "x", note)
    yield Figure(f"-k over {many:,} tasks, beyond collecting", chosen - all_of_them, 1, "s")


def _memory(small: Path, large: Path, few: int, many: int) -> Iterator[Figure]:
    """Compare what each further item adds to the peak: a trial's, and a plain test's."""
    plain = _growth(pytest(small, "test_plain.py"), pytest(large, "test_plain.py"), many - few)
    less, more = (pytest(folder, "evals", "--agent-model=scripted") for folder in (small, large))
    ours = _growth(less, more, many - few)
    note = f"{ours:.2f} kB, plain {plain:.2f} kB, peak {more.peak:.0f} MiB, {more.wall:.0f} s"
    yield Figure(f"memory per trial beyond {few:,}", ours / plain, 1.5, "x plain item", note)


def _growth(less: Taken, more: Taken, items: int) -> float:
    return 1024 * (more.peak - less.peak) / items


def _reading(folder: Path, arguments: Sequence[str], expected: Sequence[int] = (0,)) -> float:
    return median(3, lambda: run((AGENTEVAL, *arguments), folder, expected=expected).cpu)


def other_run(newest: Path) -> None:
    """Store the same run once more, with every tenth trial passed that had missed."""
    other = newest.with_name("20000101-000000-scripted")
    shutil.copytree(newest, other)
    for journal in newest.glob("journal-*.jsonl"):
        # Line by line: a process that is started has at least the peak of the one that starts it.
        with journal.open() as lines, (other / journal.name).open("w") as changed:
            for number, line in enumerate(lines):
                if number % 10 == 0:
                    line = line.replace('"ending":"missed","score":0.5', '"ending":"passed","score":1.0')
                    whole = line.partition(',"crc"')[0] + "}\n"
                    line = add_checksum(whole.encode()).decode()
                changed.write(line)
    header = other / "run.json"
    header.write_text(header.read_text().replace(newest.name, other.name))
