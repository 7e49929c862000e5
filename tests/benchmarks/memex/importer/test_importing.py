"""Memex's folders: a made-up one in the same shape, with texts of our own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_agenteval.cli.main import main
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake
from tests.benchmarks.ko_agentbench.importer.made_up_clone import agenteval_import, dump
from tests.suites import run

pytest_plugins = ["pytester"]

DAY = "2026/02/11"
FACT_ID = f"{DAY}.md#ts_1"
NOTE = "Repotted the basil; the roots had filled the old pot."
MARKER = "fact_pkm_garden_001"
GARDEN = f"# Balcony garden\n\n<!-- fact_id: {MARKER} -->\n- The mint wants shade.\n"
NEW_LINE = f"- The basil outgrew its pot in February.\n<!-- fact_id: {FACT_ID} -->\n"


def facts(task: Path, content: str) -> None:
    """Write what a task's day looks like before the agent comes."""
    file = task.parent / "workspace" / "Facts" / f"{DAY}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'## <id:ts_1> 09:00:00 "{{}}"\n\n{content}\n', encoding="utf-8")


def pkm_task(suite: Path, name: str, **more: Any) -> Path:
    """Write a task in Memex's way: fixtures are named from the suite's folder."""
    place = suite / "tasks" / name / "task.json"
    given = {"fact_id": FACT_ID, "content": NOTE, "fixture_dir": f"tasks/{name}/workspace"}
    path = "/Areas/Garden.md"
    line = "- The mint wants shade.\n"
    edit = {"file_path": path, "old_string": line, "new_string": line + NEW_LINE}
    insight = {"fact_id": FACT_ID, "insight_text": "The basil grows faster than its pots."}
    turns = [
        {"calls": [{"tool": "Read", "args": {"file_path": path}}]},
        {"calls": [{"tool": "Edit", "args": edit}]},
        {"calls": [{"tool": "update_timeline_card_insight", "args": insight}]},
        {"text": "Filed."},
    ]
    graders = [
        {"name": "pkm_completion"},
        {"name": "pkm_routed_correctly", "config": {"expected_buckets": ["Areas/"]}},
        {"name": "pkm_no_overwrite", "config": {"seed_marker": MARKER}},
    ]
    whole = {
        "id": f"made_up_{Path(name).name}",
        "description": "A note that belongs into a file that is there.",
        "metadata": {"failure_bucket": "route_into_existing_file"},
        "input": {**given, "base_fixture": "_garden_pkm"},
        "reference_solution": {"source": "manual", "expected_outcome": {"is_complete": True}, "turns": turns},
        "graders": graders,
    }
    dump(place, {**whole, **more})
    facts(place, NOTE)
    return place


@pytest.fixture
def memex(tmp_path: Path) -> Path:
    """Give a folder in Memex's layout with one suite of one task."""
    suite = tmp_path / "memex" / "pkm_agent" / "suites" / "capability"
    suite_json = {
        "name": "made_up_pkm",
        "agent_name": "pkm_agent",
        "kind": "capability",
        "task_pass_threshold": 1.0,
    }
    dump(suite / "suite.json", suite_json)
    garden = suite / "_garden_pkm" / "PKM" / "Areas" / "Garden.md"
    garden.parent.mkdir(parents=True)
    garden.write_text(GARDEN, encoding="utf-8")
    pkm_task(suite, "garden/basil")
    return tmp_path / "memex"


def card_task(suite: Path, name: str, **more: Any) -> None:
    """Write a card task in Memex's way."""
    args = {"fact_id": FACT_ID, "title": "Basil", "ui_configs": [{"template_id": "task", "data": {}}]}
    whole = {
        "id": f"made_up_{name.replace('/', '_')}",
        "description": "A note that becomes a card.",
        "trials_per_run": 2,
        "timeout_seconds": 240,
        "metadata": {"failure_bucket": "template_task"},
        "input": {"fact_id": FACT_ID, "content": NOTE, "fixture_dir": f"tasks/{name}/workspace"},
        "reference_solution": {
            "source": "manual",
            "expected_outcome": {"completed": True, "template_ids": ["task"]},
            "turns": [{"calls": [{"tool": "save_timeline_card", "args": args}]}],
        },
        "graders": [
            {"name": "card_completion"},
            {"name": "card_template_choice", "config": {"expected_template_ids": ["task"]}},
        ],
    }
    place = suite / "tasks" / name / "task.json"
    dump(place, {**whole, **more})
    facts(place, NOTE)


def both_suites(memex: Path) -> None:
    """Add a suite, as Memex has two: 4 card tasks in three folders, and 6 PKM tasks in five."""
    cards = memex / "card_agent" / "suites" / "capability"
    dump(cards / "suite.json", {"name": "made_up_card", "agent_name": "card_agent", "kind": "capability"})
    for number in range(4):
        card_task(cards, f"{('positive', 'negative', 'ambiguous')[number % 3]}/card_{number}")
    for number in range(5):
        pkm_task(suite_of(memex), f"folder_{number % 4}/note_{number}")


def suite_of(memex: Path) -> Path:
    """Give the folder of the one suite."""
    return memex / "pkm_agent" / "suites" / "capability"


def test_an_imported_folder_of_memex_runs(memex: Path, pytester: pytest.Pytester) -> None:
    """Imported and acted out, a task in Memex's spelling starts from its two trees and passes its graders."""
    theirs = (suite_of(memex) / "tasks" / "garden" / "basil" / "task.json").read_bytes()

    ours = pytester.path / "evals" / "garden"
    assert agenteval_import("memex", memex, "--to", ours) == 0
    result = run(pytester, "evals", "--agent-model=oracle")

    result.assert_outcomes(passed=1)
    assert (ours / "tasks" / "garden" / "basil" / "task.json").read_bytes() == theirs
    assert yaml.safe_load((ours / "suite.yaml").read_text(encoding="utf-8"))["agent_name"] == "pkm_agent"
    assert not (ours / "suite.json").exists()


def test_a_clone_of_memex_runs_as_it_is(memex: Path, pytester: pytest.Pytester) -> None:
    """Tasks of both suites are collected and acted out where they lie, by their own agents' names."""
    both_suites(memex)
    result = run(pytester, str(memex), "--agent-model=oracle", "--repetitions=1", "-q")
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["made_up_card  1.00*", "made_up_pkm   1.00*"])


def test_several_suites_become_folders_in_the_one_that_is_named(
    memex: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written anywhere else, and each place is printed."""
    both_suites(memex)
    assert agenteval_import("memex", memex, "--to", tmp_path / "mine") == 0
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["made_up_card", "made_up_pkm"]
    assert f"made_up_card: 4 task files: {tmp_path / 'mine' / 'made_up_card'}" in (capsys.readouterr().out)


def test_an_import_says_how_its_graders_count(memex: Path, pytester: pytest.Pytester) -> None:
    """In mode upstream every grader that has modes is given it; others are left alone, and all can run."""
    suite, to = suite_of(memex), pytester.path / "evals" / "garden"
    exists = {"name": "file_exists", "config": {"paths": ["PKM/**"]}}
    pkm_task(suite, "odd/mixed", graders=[{"name": "pkm_completion"}, exists])
    assert agenteval_import("memex", memex, "--to", to, "--mode", "upstream") == 0
    modes = {
        grader["name"]: grader.get("config")
        for path in sorted(to.rglob("task.json"))
        for grader in json.loads(path.read_text(encoding="utf-8"))["graders"]
    }
    assert modes == {
        "pkm_completion": {"mode": "upstream"},
        "pkm_routed_correctly": {"expected_buckets": ["Areas/"], "mode": "upstream"},
        "pkm_no_overwrite": {"seed_marker": MARKER, "mode": "upstream"},
        "file_exists": exists["config"],
    }
    run(pytester, "evals", "--agent-model=oracle").assert_outcomes(passed=2)
    # Both modes can stand side by side.
    assert agenteval_import("memex", memex, "--to", pytester.path / "evals" / "plain") == 0
    run(pytester, "evals", "--agent-model=oracle").assert_outcomes(passed=4)


def test_what_their_suite_file_says_is_carried_over_or_told(
    memex: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys that we know are kept, unknown ones are named with the nearest; a wrong value stops the import."""
    suite_json = {
        "name": "mine",
        "agent_name": "pkm_agent",
        "kind": "capability",
        "desciption": "x",
        "owner": "me",
    }
    carried_over = {"defaults": {"trials_per_run": 3}, "taskPassThreshold": 0.5, "on_miss": "tool_error"}
    dump(suite_of(memex) / "suite.json", {**suite_json, **carried_over})
    assert agenteval_import("memex", memex, "--to", tmp_path / "mine") == 0
    out = capsys.readouterr().out
    assert "suite.json: unknown key 'desciption', left out; did you mean 'description'?" in out
    assert "suite.json: unknown key 'owner', left out" in out
    suite_yaml = yaml.safe_load((tmp_path / "mine" / "suite.yaml").read_text("utf-8"))
    assert (suite_yaml["taskPassThreshold"], suite_yaml["on_miss"]) == (0.5, "tool_error")
    assert suite_yaml["defaults"] == {"trials_per_run": 3, "clock": "2026-02-11T20:30:00+00:00"}

    dump(suite_of(memex) / "suite.json", {**suite_json, "kind": "capabilty"})
    with pytest.raises(ProblemsFound, match=r"suite.json:\d+: kind"):
        agenteval_import("memex", memex, "--to", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_is_written_otherwise_than_the_suite_file_says_is_told(
    memex: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock is that of the entries, and each change is printed."""
    assert agenteval_import("memex", memex, "--to", tmp_path / "mine") == 0

    suite_yaml = yaml.safe_load((tmp_path / "mine" / "suite.yaml").read_text("utf-8"))
    assert suite_yaml["defaults"]["clock"] == "2026-02-11T20:30:00+00:00"
    out = capsys.readouterr().out
    assert "made_up_pkm: 1 task file: " in out
    assert "the clock stands at 2026-02-11T20:30:00+00:00, the day of its entries" in out
    assert "GPL-3.0" in out


def test_a_shared_tree_that_lies_elsewhere_is_found(
    memex: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A base fixture outside of the suite's folder is put where tasks look for it, as the import's own."""
    (suite_of(memex) / "_garden_pkm").rename(memex / "_garden_pkm")
    out_of_it = {"fact_id": FACT_ID, "content": NOTE, "base_fixture": "../_garden_pkm"}
    pkm_task(suite_of(memex), "odd/tree", input=out_of_it)

    assert agenteval_import("memex", memex, "--to", tmp_path / "mine") == 0
    assert agenteval_import("memex", memex, "--to", tmp_path / "mine", "--force") == 0

    assert (tmp_path / "mine" / "_garden_pkm" / "PKM" / "Areas" / "Garden.md").is_file()
    assert "not of this import" not in capsys.readouterr().out
    assert not (tmp_path / "_garden_pkm").exists()


def test_what_cannot_run_is_said_by_the_command_that_it_ends_with(
    memex: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown grader and broken JSON come over as they are; ``agenteval validate`` names both."""
    suite = suite_of(memex)
    pkm_task(suite, "odd/grader", graders=[{"name": "pkm_completeness"}])
    (suite / "tasks" / "odd" / "json").mkdir()
    (suite / "tasks" / "odd" / "json" / "task.json").write_text('{\n "id": }', encoding="utf-8")

    assert agenteval_import("memex", memex, "--to", tmp_path / "mine") == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"next: agenteval validate {tmp_path / 'mine'}"

    assert main(last.split()[2:]) == 1
    out = "".join(capsys.readouterr())
    assert "did you mean 'pkm_completion'?" in out
    assert "json/task.json:2" in out


def test_nothing_but_an_earlier_import_is_written_over(memex: Path, tmp_path: Path) -> None:
    """An import needs --force the second time; a folder of the user's is never replaced."""
    to = tmp_path / "mine"
    agenteval_import("memex", memex, "--to", to)
    with pytest.raises(UsageMistake, match=r"imported before: .*--force replaces it"):
        agenteval_import("memex", memex, "--to", to)
    assert agenteval_import("memex", memex, "--to", to, "--force") == 0

    (to / "suite.yaml").write_text("name: mine\n", encoding="utf-8")
    with pytest.raises(UsageMistake, match="no import of Memex's"):
        agenteval_import("memex", memex, "--to", to, "--force")


def test_what_the_user_put_into_the_suite_is_never_removed(
    memex: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A conftest of one's own outlives --force, and is named."""
    to = tmp_path / "mine"
    agenteval_import("memex", memex, "--to", to)
    own = to / "conftest.py"
    own.write_text("# mine\n", encoding="utf-8")

    agenteval_import("memex", memex, "--to", to, "--force")

    assert own.read_text(encoding="utf-8") == "# mine\n"
    assert f"not part of this import, not changed: {own}" in capsys.readouterr().out


def test_what_is_no_folder_of_memex_is_refused(memex: Path, tmp_path: Path) -> None:
    """A folder that is not there, one without tasks, a target inside, two suites of a name: one sentence."""
    (tmp_path / "empty").mkdir()
    for source, target, message in (
        (tmp_path / "nothing", "mine", "there is no such folder"),
        (tmp_path / "empty", "mine", "there is no task.json"),
        (memex, "memex/mine", "expected a folder outside"),
    ):
        with pytest.raises(UsageMistake, match=message):
            agenteval_import("memex", source, "--to", tmp_path / target)
    bare = pkm_task(tmp_path / "bare" / "suite", "garden/mint")
    with pytest.raises(UsageMistake, match=f"{bare.name}: expected a suite.json in a folder above it"):
        agenteval_import("memex", tmp_path / "bare", "--to", tmp_path / "mine")
    again = memex / "pkm_agent" / "suites" / "regression"
    dump(again / "suite.json", {"name": "made_up_pkm", "agent_name": "pkm_agent"})
    pkm_task(again, "garden/mint")
    with pytest.raises(UsageMistake, match="two suites have the name 'made_up_pkm'"):
        agenteval_import("memex", memex, "--to", tmp_path / "mine")


def test_the_expected_outcome_of_a_task_is_graded(memex: Path, pytester: pytest.Pytester) -> None:
    """Where a task says that its entry is filed, or skipped, the other ending misses; upstream takes both."""
    suite, to = suite_of(memex), pytester.path / "evals" / "garden"
    shutil.rmtree(suite / "tasks")
    skip = {"calls": [{"tool": "skip_pkm_organization", "args": {"evidence": "it is only a note"}}]}
    path, mark = "/Resources/Note.md", f"<!-- fact_id: {FACT_ID} -->"
    write = {"tool": "Write", "args": {"file_path": path, "content": f"# Note\n\n- Basil. {mark}\n"}}
    insight = {
        "tool": "update_timeline_card_insight",
        "args": {"fact_id": FACT_ID, "insight_text": "So it is."},
    }
    filed = [{"calls": [write]}, {"calls": [insight]}]
    upstream = [{"name": "pkm_completion", "config": {"mode": "upstream"}}]
    either = [{"name": "pkm_completion", "config": {"expected_path": "either"}}]
    outcomes = {"durable": {"wrote_para": True}, "trivial": {"wrote_para": False, "skipped_pkm": True}}
    for kind, outcome in outcomes.items():
        for name, turns in (("skipped", [skip]), ("filed", filed)):
            for mode, graders in (("", None), ("_upstream", upstream), ("_either", either)):
                reference = {"source": "manual", "expected_outcome": outcome, "turns": turns}
                graders_of_task = graders or [{"name": "pkm_completion"}]
                pkm_task(suite, f"{kind}_{name}{mode}", reference_solution=reference, graders=graders_of_task)
    assert agenteval_import("memex", memex, "--to", to) == 0
    run(pytester, "evals", "--agent-model=oracle", "--repetitions=1")

    latest = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve())
    passed = {entry.key.task.removeprefix("made_up_") for entry in latest.entries if entry.ending == "passed"}
    everywhere = {
        f"{kind}_{name}{mode}"
        for kind in outcomes
        for name in ("skipped", "filed")
        for mode in ("_upstream", "_either")
    }
    assert passed == {"durable_filed", "trivial_skipped"} | everywhere
