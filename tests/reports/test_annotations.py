"""Annotations: one for each task that was not passed, worst first, at the line of what it missed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import compare_runs
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.reports.markdown_report import MOST, annotation_lines
from pytest_agenteval.store.run_reader import Run
from tests.actions_runner import Command, commands_in

from .runs import MIXED, store_run, trial

TASK = "- id: {}\n  graders:\n    - {{name: other}}\n    - {{name: g}}\n"


def annotations(run: Run, root: Path) -> list[Command]:
    """Give what the runner makes of a run's annotations."""
    return commands_in("\n".join(annotation_lines(run, root)))


def test_each_task_is_annotated_once_at_what_it_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Misses are warnings, failed and errored trials errors; paths are those of the repository."""
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    (tmp_path / "pack/evals").mkdir(parents=True)
    (tmp_path / "pack/evals/t.yaml").write_text("".join(map(TASK.format, "abcd")), encoding="utf-8")
    failed = trial("d", 1, 0.25, ending="failed", file="evals/gone.yaml")
    run = store_run(tmp_path, [*(replace(each, file="evals/t.yaml") for each in MIXED), failed])

    assert annotations(run, tmp_path / "pack") == [
        Command(
            "error",
            {"file": "pack/evals/gone.yaml", "title": "FAILED 0.25 s/d"},
            "g 0.25: found 0.25\ns/d[rules-1]",
        ),
        Command(
            "error",
            {"file": "pack/evals/t.yaml", "line": "5", "title": "ERROR s/b"},
            "provider: 503 from the provider\n1 of 2 trials, the worst: s/b[rules-2]",
        ),
        Command(
            "warning",
            {"file": "pack/evals/t.yaml", "line": "12", "title": "MISSED 0.00 s/c"},
            "g 0.00: found 0.0\n2 of 2 trials, the worst: s/c[rules-1]",
        ),
        Command(
            "warning",
            {"file": "pack/evals/t.yaml", "line": "4", "title": "MISSED 0.50 s/a"},
            "g 0.50: found 0.5\n1 of 2 trials, the worst: s/a[rules-2]",
        ),
    ]


def test_what_fell_since_the_baseline_comes_first(tmp_path: Path) -> None:
    """Who looks at a change looks for what it broke, and not for what was never any better."""
    old, new = (
        store_run(tmp_path / name, [trial(f"t{at}", 1, score) for at, score in enumerate(scores)])
        for name, scores in (("old", (0.0, 0.5, 0.75, 1.0)), ("new", (0.0, 0.25, 0.75, 0.25)))
    )
    shown = commands_in(
        "\n".join(annotation_lines(new, tmp_path, compare_runs(compared_run(old), compared_run(new))))
    )

    assert [each.properties["title"][-2:] for each in shown] == ["t3", "t1", "t0", "t2"]


def test_a_miss_that_fails_the_run_is_an_error(tmp_path: Path) -> None:
    """Under ``--agent-strict`` the job is red for it."""
    run = store_run(tmp_path, [trial("a", 1, 0.5)])
    (error,) = commands_in("\n".join(annotation_lines(run, tmp_path, strict=True)))

    assert (error.name, error.properties["title"]) == ("error", "MISSED 0.50 s/a")


def test_no_more_than_github_shows_and_the_rest_is_counted(tmp_path: Path) -> None:
    """Ten of a level, worst first; a passed run has none at all."""
    scores = [0.5 + at / 100 for at in range(MOST + 3)]
    run = store_run(tmp_path, [trial(f"t{at:02}", 1, score) for at, score in enumerate(scores)])
    *shown, rest = annotations(run, tmp_path)

    assert [command.properties["title"] for command in shown] == [
        f"MISSED {score:.2f} s/t{at:02}" for at, score in enumerate(scores[:MOST])
    ]
    assert (rest.name, rest.data.split(",")[0]) == ("notice", "3 more tasks with trials not passed")
    assert annotations(store_run(tmp_path, [trial("a", 1, 1.0)]), tmp_path) == []
