"""``agenteval report`` on runs of this benchmark: its option, its tables, its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.text.errors import UsageMistake
from tests.benchmarks.ko_agentbench.report.sample_runs import every_level, ko_run
from tests.cli.test_report import RUNS, here, run_report

__all__ = ["here"]


def test_a_run_of_the_korean_benchmark_has_its_levels(capsys: pytest.CaptureFixture[str]) -> None:
    """The composite in a line, with -v the levels below the tables; other weights make another one."""
    trials = [trial for trial in every_level(0.5) if trial.bucket != "L7"] + [
        trial for trial in every_level(1.0) if trial.bucket == "L7"
    ]
    ko_run(Path(RUNS), trials)

    run_report("gpt@20261121", "-v")
    whole = capsys.readouterr().out
    run_report("gpt@20261121")
    first = capsys.readouterr().out
    run_report("latest", "--weights", "basic=0.25, robustness=0.25, efficiency=0.25, context=0.25")
    second = capsys.readouterr().out

    assert "ko with gpt (capability)" in whole
    assert "levels of ko with gpt" in whole
    assert "composite 0.57 " in whole
    assert "\nko composite 0.57\n" in first
    assert "\nko composite 0.62\n" in second
    assert "next: agenteval report gpt@20261121 -v" in first


def test_several_runs_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Compared, and on the benchmark's board best first; each run once however often it is named."""
    root = Path(RUNS)
    first = ko_run(root, every_level(0.5))
    ko_run(root, every_level(0.75, "claude"), (RunModel("claude", "x"),))

    run_report("claude@latest", "gpt@latest", first.folder.name, str(first.folder))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ko: ")
    board = lines.index("ko: 2 runs, best first")
    assert [line.split()[0] for line in lines[board + 2 : board + 4]] == ["claude", "gpt"]


def test_machines_and_pages_get_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text is printed all the same; a dash puts one of them instead."""
    ko_run(Path(RUNS), every_level(0.5))

    run_report("latest", "--json", "found.json", "--markdown", "found.md")
    printed = capsys.readouterr().out
    run_report("latest", "--json", "-")
    data = json.loads(capsys.readouterr().out)
    run_report("latest", "--markdown", "-")

    assert "ko composite 0.50" in printed
    assert json.loads((here / "found.json").read_text(encoding="utf-8")) == data
    assert data["boards"][0]["rows"][0]["composite"]["value"] == 0.5
    assert capsys.readouterr().out == (here / "found.md").read_text(encoding="utf-8")


def test_a_run_is_written_in_the_benchmarks_shape(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every path that was written is printed."""
    results = Path("kept")
    ko_run(results, every_level(0.5))

    assert run_report("latest", "--results", "kept", "--as", "ko-agentbench", "-o", "out") == 0

    paths = capsys.readouterr().out.splitlines()
    folder = Path("out") / "azure_gpt-4o_20261121"
    assert paths == [
        str(folder / name)
        for name in ("evaluation_report.json", "evaluation_summary.csv", "evaluation_report.md")
    ]
    assert all((here / path).is_file() for path in paths)


@pytest.mark.parametrize(
    ("args", "mistake"),
    [
        (["latest", "--as", "ko-agentbench"], "needs one -o DIR"),
        (["latest", "--as", "ko-agentbench", "-o", "out", "--json", "x"], "leave out --json"),
        (
            ["latest", "--weights", "basic=1"],
            "--weights: expected basic=N,robustness=N,efficiency=N,context=N with weights",
        ),
    ],
)
def test_what_cannot_be_done_is_said(args: list[str], mistake: str) -> None:
    """Without a traceback, and without having done half of it."""
    ko_run(Path(RUNS), every_level(0.5))

    with pytest.raises(UsageMistake, match=mistake):
        run_report(*args)
