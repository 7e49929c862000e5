"""Which run a name means, and what is said where it means none or several."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.store.run_folder import RunHeader, RunModel, find_run, list_runs, new_run
from pytest_agenteval.text.errors import UsageMistake


def make_run(root: Path, at: str, *models: str) -> Path:
    """Make a run of these models at this time."""
    return new_run(root, RunHeader(at, models=tuple(RunModel(name, name) for name in models)))


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Give a results folder with runs of two days; ``latest`` is the rules's of the second."""
    for at, model in (
        ("2026-11-20T08:00:00", "rules"),
        ("2026-11-20T09:00:00", "azure/gpt-4o"),
        ("2026-11-21T09:00:00", "claude"),
        ("2026-11-21T10:00:00", "claude"),
        ("2026-11-21T11:00:00", "rules"),
    ):
        make_run(tmp_path, at, model)
    return tmp_path


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("latest", "20261121-110000-rules"),
        ("20261120-080000-rules", "20261120-080000-rules"),
        ("20261120-08", "20261120-080000-rules"),
        ("claude@20261121", "20261121-100000-claude"),
        ("claude@latest", "20261121-100000-claude"),
        ("azure/gpt-4o@20261120", "20261120-090000-azure-gpt-4o"),
        ("azure/gpt-4o@latest", "20261120-090000-azure-gpt-4o"),
    ],
)
def test_every_way_of_naming_leads_to_a_folder(several: Path, named: str, found: str) -> None:
    """A model's name may hold a slash; the newest run of the day, or of all, is meant."""
    assert find_run(several, named) == several / found


def test_a_path_is_a_name_wherever_it_leads(several: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A run that was copied elsewhere can be read where it is."""
    moved = (several / "20261120-080000-rules").rename(tmp_path_factory.mktemp("x") / "copy")

    assert find_run(several, str(moved)) == moved


def test_a_full_name_beats_longer_ones_that_begin_with_it(tmp_path: Path) -> None:
    """``…-claude`` means itself, though ``…-claude-2`` begins alike."""
    first, second = (make_run(tmp_path, "2026-11-21T09:00:00", "claude") for _ in range(2))

    assert second.name == f"{first.name}-2"
    assert find_run(tmp_path, first.name) == first


def test_a_run_of_several_models_is_found_by_each(tmp_path: Path) -> None:
    """The header says which models a run has, not its folder's name."""
    run = make_run(tmp_path, "2026-11-21T09:00:00", "claude", "gpt")

    assert {find_run(tmp_path, f"{name}@20261121") for name in ("claude", "gpt")} == {run}


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (
            "20261121",
            "several runs begin with '20261121'.*110000-rules, .*100000-claude, .*090000-claude$",
        ),
        ("claude@20261120", "no run 'claude@20261120'.*the nearest: claude@20261121$"),
        ("claud@20261121", "no run 'claud@20261121'.*the nearest: claude@20261121$"),
        ("20261121-110000-rulse", "the nearest: 20261121-110000-rules"),
        ("zzz", "no run 'zzz'.*runs there, newest first: 20261121-110000-rules, "),
        ("", "no run ''"),
    ],
)
def test_a_name_that_leads_to_no_single_run_says_what_could_be_meant(
    several: Path, named: str, message: str
) -> None:
    """The matching runs where there are several, else the nearest, else what is there."""
    with pytest.raises(UsageMistake, match=message):
        find_run(several, named)


@pytest.mark.parametrize("named", ["latest", "x", "claude@latest"])
def test_without_any_run_it_is_said(tmp_path: Path, named: str) -> None:
    """The first use of ``latest`` comes before the first run."""
    with pytest.raises(UsageMistake, match="there are no runs yet"):
        find_run(tmp_path, named)


def test_latest_is_the_newest_run_where_the_link_is_lost(several: Path) -> None:
    """A downloaded archive holds no links; and somebody deletes the run to which it leads."""
    linked = find_run(several, "latest")
    shutil.rmtree(linked)
    newest = list_runs(several)[0].path

    assert find_run(several, "latest") == newest != linked
    (several / "latest").unlink()
    assert find_run(several, "latest") == newest


def test_the_newest_of_a_day_is_taken_and_the_others_are_named(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who names a day may mean any of them; who names the latest, a path or a run means one."""
    newest, other = (several / f"20261121-{time}0000-claude" for time in ("10", "09"))

    for words in (
        ["report"],
        ["sql", "select 1"],
        ["show", "worst", "--run"],
        ["compare", "latest"],
    ):
        main([*words, "claude@20261121", "--results", str(several)])
        line = f"claude@20261121 is {newest.name}, the newest of that day; also there: {other.name}\n"
        assert line in capsys.readouterr().err
    for name in ("claude@latest", "rules@20261121", newest.name, str(newest)):
        main(["report", name, "--results", str(several)])
        assert "also there" not in capsys.readouterr().err
