"""Importing a small made-up clone: what is written, what is told, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pytest_agenteval.benchmarks.ko_agentbench.graders.common_metrics import KoSuccess
from pytest_agenteval.benchmarks.ko_agentbench.graders.tool_calls import KoToolAcc
from pytest_agenteval.cassettes.cassette_files import read_cassette
from pytest_agenteval.cassettes.interaction import tool_answer, tool_call
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.run_folder import RunHeader, find_run, new_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake
from tests.benchmarks.ko_agentbench.importer.made_up_clone import (
    MODEL,
    PLACE,
    QUESTION,
    agenteval_import,
    cached,
    dump,
    log,
    result,
    small_clone,
    task,
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Give a clone of one task."""
    return small_clone(tmp_path / "clone")


@pytest.fixture
def to(tmp_path: Path) -> Path:
    """Give the folder that imports write into."""
    return tmp_path / "mine"


def read_task(to: Path, id: str) -> dict[str, object]:
    """Read a task file that was written."""
    path = to / "evals" / "ko-agentbench" / id[:2] / f"{id}.yaml"
    content: dict[str, object] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def only_trial(to: Path) -> Trial:
    """Read the one trial of the latest run."""
    run = load_run(find_run(to / ".agenteval" / "runs", "latest"))
    (entry,) = run.entries
    return run.trial(entry)


def test_a_task_keeps_the_benchmarks_keys_as_the_config_of_its_level(clone: Path, to: Path) -> None:
    """A task file holds the question, the tools to offer, a solution, and the data as it stands."""
    assert agenteval_import("ko-agentbench", clone, "--to", to, "--no-runs") == 0

    content = read_task(to, "L1-001")
    (grader,) = content["graders"]  # type: ignore[misc]
    assert content["input"] == {"content": QUESTION}
    assert content["settings"] == {"tools": ["PlaceSearch_kakao"]}
    assert grader["name"] == "ko_L1"
    assert grader["config"]["golden_action"] == task("L1-001")["golden_action"]
    assert content["reference_solution"]["turns"][-1] == {"text": "확인한 내용: places[0].name = 한빛도서관"}  # type: ignore[index]
    assert QUESTION in (to / "evals" / "ko-agentbench" / "L1" / "L1-001.yaml").read_text(encoding="utf-8")


def test_a_second_tool_gets_a_part_of_what_the_first_one_gave(clone: Path, to: Path) -> None:
    """Placeholders become references where the recorded answer has a part of that name, else they stay."""
    first = {"step": 1, "tool": "PlaceSearch_kakao", "args": {"keyword": "한빛역 도서관"}}
    where = {"x": "{x}", "y": "{nowhere}", "category": "CE7"}
    second = {"step": 2, "tool": "CategorySearch_kakao", "args": where}
    third = {"step": 3, "tool": "BlogSearch_naver", "args": {"query": "{step1.places[0].name}후기 $5"}}
    flow = {"from_step": 1, "from_output": "longitude", "to_step": 2, "to_parameter": "x"}
    more = {"golden_action": [first, second, third], "data_flow": [flow], "minimum_steps": 3}
    dump(clone / "bench" / "tasks" / "L3.json", [task("L3-001", essential_tools=[], **more)])

    agenteval_import("ko-agentbench", clone, "--to", to, "--no-runs")

    turns = read_task(to, "L3-001")["reference_solution"]["turns"]  # type: ignore[index]
    calls = [call["args"] for turn in turns for call in turn.get("calls", ())]
    assert calls[1] == {"x": "$1.places[0].longitude", "y": "{nowhere}", "category": "CE7"}
    assert calls[2] == {"query": "$1.places[0].name 후기 $$5"}
    page = (to / "evals" / "ko-agentbench" / "ANOMALIES.md").read_text(encoding="utf-8")
    assert "L3-001: a placeholder leads nowhere in the recorded answers: CategorySearch_kakao(y)" in page
    assert "has a space after the reference" in page
    assert "is not of type" not in page


def test_a_conversation_is_evaluated_at_a_users_turn(clone: Path, to: Path) -> None:
    """Where the data names an assistant's turn, the user's turn before it is evaluated, and that is said."""
    call = {"tool": "PlaceSearch_kakao", "args": {"keyword": "한빛역 도서관"}}
    turns = [
        {"turn_number": 1, "role": "user", "content": QUESTION},
        {
            "turn_number": 2,
            "role": "assistant",
            "content": "한빛도서관이요.",
            "action": {**call, "result": PLACE},
        },
        {"turn_number": 3, "role": "user", "content": "아까 그 도서관 이름이 뭐였지?"},
        {
            "turn_number": 4,
            "role": "assistant",
            "content": "한빛도서관이었어요.",
            "action": {**call, "result": PLACE},
        },
    ]
    tests = {"context_tests": [{"turn": 4, "should_remember": "이름", "expected_action": call}]}
    tracking = {"conversation_id": "conv-L7-001", "turns": turns, "evaluation_context": tests}
    dump(
        clone / "bench" / "tasks" / "L7.json",
        [task("L7-001", golden_action=[], conversation_tracking=tracking)],
    )

    agenteval_import("ko-agentbench", clone, "--to", to, "--no-runs")

    content = read_task(to, "L7-001")
    given = content["input"]["turns"]  # type: ignore[index]
    assert [turn["role"] for turn in given] == ["user", "assistant", "user"]
    assert given[1]["calls"] == [{**call, "result": PLACE}]
    assert content["reference_solution"]["turns"] == [{"calls": [call]}, {"text": "한빛도서관이었어요."}]  # type: ignore[index]
    page = (to / "evals" / "ko-agentbench" / "ANOMALIES.md").read_text(encoding="utf-8")
    assert "L7-001: evaluated at turn 3, the last user turn before the named turn 4" in page


def test_the_failing_tool_of_a_task_fails_on_purpose(clone: Path, to: Path) -> None:
    """An injected error becomes a fault, the fallback is offered, and one that nobody knows is named."""
    broken = {"error_injection": {"tool": "PlaceSearch_kakao", "error_type": "meteor"}}
    other = {"fallback_options": [{"tool": "WebSearch_naver", "args": {"query": "한빛역 도서관"}}]}
    dump(clone / "bench" / "tasks" / "L5.json", [task("L5-001", **broken, **other)])

    agenteval_import("ko-agentbench", clone, "--to", to, "--no-runs")

    content = read_task(to, "L5-001")
    assert content["faults"] == [{"tool": "PlaceSearch_kakao", "type": "complete_unavailable"}]
    assert content["settings"] == {"tools": ["PlaceSearch_kakao", "WebSearch_naver"]}
    page = (to / "evals" / "ko-agentbench" / "ANOMALIES.md").read_text(encoding="utf-8")
    assert "L5-001: the fault 'meteor' is acted out as complete_unavailable" in page


def test_of_several_answers_to_a_call_one_is_kept(
    clone: Path, to: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry that can be reached wins, else the newest; retired tools are left out; all is counted."""
    args = {"keyword": "한빛역 도서관"}
    cached(clone, "PlaceSearch_kakao", args, {"places": []}, "2026-02-02T00:00:00", key="ab" * 32)
    for day, key in (("01", "cd" * 32), ("03", "ef" * 32), ("02", "12" * 32)):
        cached(
            clone, "AddressToCoord_kakao", {"address": "한빛동 1"}, day, f"2026-01-{day}T00:00:00", key=key
        )
    gone = {"key": "9" * 64, "tool": "OldSearch", "input_params": {}, "data": None}
    dump(clone / "bench" / "cache" / "OldSearch" / "99" / f"{'9' * 64}.json", gone)

    agenteval_import("ko-agentbench", clone, "--to", to, "--no-runs")

    (place,) = read_cassette(to / "cassettes" / "ko-agentbench" / "PlaceSearch_kakao.json").interactions
    (address,) = read_cassette(to / "cassettes" / "ko-agentbench" / "AddressToCoord_kakao.json").interactions
    assert tool_call(place.request) == ("PlaceSearch_kakao", {"keyword": "한빛역 도서관", "sort": "accuracy"})
    assert tool_answer(place.response).result == PLACE
    assert "stale" not in place.response.extra
    assert tool_answer(address.response).result == "03"
    assert address.response.extra["stale"] is True
    out = capsys.readouterr().out
    assert "2 recorded calls of 2 tools, 1 of them stale" in out
    assert "2 collisions, 1 files of retired tools left out, 1 without data" in out
    page = (to / "evals" / "ko-agentbench" / "ANOMALIES.md").read_text(encoding="utf-8")
    assert "2 collisions, 1 files of retired tools left out" in page


def test_a_logged_result_becomes_a_trial_with_everything_the_log_says(clone: Path, to: Path) -> None:
    """Messages, calls, times and tokens stand in the trial; without a report its answer stays unjudged."""
    agenteval_import("ko-agentbench", clone, "--to", to, "--runs-only")

    trial = only_trial(to)
    transcript, grades = trial.transcript, {grade.grader: grade for grade in trial.grades}
    assert find_run(to / ".agenteval" / "runs", f"{MODEL}@20260301").name.startswith("20260301-090000")
    assert (trial.key.suite, trial.key.task, trial.bucket) == ("ko-agentbench", "L1-001", "L1")
    assert [message.turn for message in transcript.messages] == [0, 1, 1, 2]
    assert [(call.id, call.turn, call.result) for call in transcript.calls] == [("abc", 1, PLACE)]
    assert [call.id for message in transcript.messages for call in message.calls] == ["abc"]
    assert [ask.ended - ask.started for ask in transcript.asks] == [1.0, 2.0]
    assert (trial.usage.input_tokens, trial.usage.output_tokens, trial.usage.cost_usd) == (30, 12, None)
    assert (trial.seconds, trial.started_at, trial.outcome.answer.text) == (
        3.0,
        "2026-03-01T09:04:57.000",
        "한빛도서관입니다.",
    )
    assert trial.outcome.answer.state["ko_agentbench"]["success"] is True
    assert grades["SR"].score is None
    assert grades["ToolAcc"].score == 1.0
    assert trial.file == "evals/ko-agentbench/L1/L1-001.yaml"
    assert trial.digests.graders.keys() == grades.keys()
    versions = {label: entry.partition(":")[0] for label, entry in trial.digests.graders.items()}
    assert (versions["SR"], versions["ToolAcc"]) == (KoSuccess.version, KoToolAcc.version)
    assert trial.ending == "passed"
    assert not (to / "evals").exists()


def test_a_reply_right_after_a_reply_begins_the_second_conversation(clone: Path, to: Path) -> None:
    """The log leaves out its question; after what a tool gave, the conversation goes on."""
    logged = result("L1-001")
    messages = [*logged["conversation_log"]["messages"], {"role": "assistant", "content": "다시"}]
    log(clone, "L1", {**logged, "conversation_log": {"messages": messages}})

    agenteval_import("ko-agentbench", clone, "--to", to, "--runs-only")

    shown = only_trial(to).transcript.messages
    assert [(message.role, message.phase) for message in shown[1:]] == [
        ("assistant", 1),
        ("tool", 1),
        ("assistant", 1),
        ("assistant", 2),
    ]


def test_published_verdicts_are_replayed_not_copied(clone: Path, to: Path) -> None:
    """Judged metrics come from the published votes: a score that contradicts them is not believed."""
    votes = {"votes": [True, False, False], "reasons": ["a", "b", "c"]}
    metrics = {
        "SR": {"score": 1.0, "details": votes},
        "ArgAcc": {"score": 0.0, "details": {"llm_judge_score": 0.75}},
    }
    about = {"model": MODEL, "judge_model": "maker/judge", "execution_date": "20260301"}
    levels = {"L1": {"task_evaluations": [{"task_id": "L1-001", "metrics": metrics}]}}
    dump(clone / "reports" / "small" / "evaluation_report.json", {"summary": about, "by_level": levels})

    agenteval_import("ko-agentbench", clone, "--to", to, "--runs-only")

    grades = {grade.grader: grade for grade in only_trial(to).grades}
    assert grades["SR"].score == 0.0
    assert grades["SR"].details["upstream"]["votes"] == [True, False, False]
    assert grades["ArgAcc"].score == 0.75


def test_a_result_that_broke_off_is_kept_with_its_reason(clone: Path, to: Path) -> None:
    """A task that ran out of time is a trial like the others: its error is an event, its limit is named."""
    late = {
        "success": False,
        "steps_taken": 0,
        "tool_calls": [],
        "final_response": None,
        "ttft_stats": {"count": 0},
    }
    broke = {**late, "error": "Task exceeded timeout of 60 seconds", "conversation_log": {"messages": []}}
    log(clone, "L1", result("L1-001", **broke))

    agenteval_import("ko-agentbench", clone, "--to", to, "--runs-only")

    trial = only_trial(to)
    assert (trial.ending, trial.limit) == ("missed", "seconds")
    assert [event.text for event in trial.transcript.events if event.kind == "agent_error"] == [
        broke["error"]
    ]
    assert next(grade.score for grade in trial.grades if grade.grader == "RRR") == 0.0


def test_each_level_comes_from_the_latest_folder_that_has_it(clone: Path, to: Path) -> None:
    """A level that was run again counts once, with its last log."""
    again = result("L1-001", final_response="다시 찾은 한빛도서관")
    log(clone, "L1", again, stamp="20260302_080000")

    agenteval_import("ko-agentbench", clone, "--to", to, "--runs-only")

    assert only_trial(to).outcome.answer.text == "다시 찾은 한빛도서관"


def test_a_second_import_needs_force_and_leaves_what_is_not_its_own(clone: Path, to: Path) -> None:
    """--force replaces the suite and the imported runs; other files, other runs and the latest run stay."""
    agenteval_import("ko-agentbench", clone, "--to", to)
    mine = new_run(to / ".agenteval" / "runs", RunHeader("2026-05-05T10:00:00", ("pytest",)))
    (to / "evals" / "mine.txt").write_text("mine", encoding="utf-8")
    ini = (to / "pytest.ini").read_text(encoding="utf-8")

    with pytest.raises(UsageMistake, match=r"imported before: .*ko-agentbench.*--force replaces it"):
        agenteval_import("ko-agentbench", clone, "--to", to)
    with pytest.raises(UsageMistake, match="imported before"):
        agenteval_import("ko-agentbench", clone, "--to", to, "--runs-only")
    agenteval_import("ko-agentbench", clone, "--to", to, "--force")

    runs = to / ".agenteval" / "runs"
    assert len(list(runs.glob("*/run.json"))) == 3  # one of each, and `latest`
    assert find_run(runs, "latest").name == mine.name
    assert (to / "evals" / "mine.txt").exists()
    assert (to / "pytest.ini").read_text(encoding="utf-8") == ini


def test_what_the_user_put_into_the_suite_is_never_removed(
    clone: Path, to: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task, a conftest and a recorded cassette of one's own outlive --force, and are named."""
    agenteval_import("ko-agentbench", clone, "--to", to)
    suite, cassettes = to / "evals" / "ko-agentbench", to / "cassettes" / "ko-agentbench"
    own = [suite / "L1" / "mine.yaml", suite / "conftest.py", cassettes / "L1" / "L1-001.yaml"]
    for path in own:
        path.parent.mkdir(exist_ok=True)
        path.write_text("# mine\n", encoding="utf-8")
    (suite / "L1" / "L1-001.yaml").write_text("changed", encoding="utf-8")
    capsys.readouterr()

    agenteval_import("ko-agentbench", clone, "--to", to, "--force")

    assert [path.read_text(encoding="utf-8") for path in own] == ["# mine\n"] * 3
    assert read_task(to, "L1-001")["id"] == "L1-001"
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert last_line == f"not part of this import, not changed: {own[2]}, {own[0]}, {own[1]}"


def test_a_suite_that_is_no_import_is_never_written_over(clone: Path, to: Path) -> None:
    """A folder that merely has the suite's name is somebody's own, --force or not."""
    mine = to / "evals" / "ko-agentbench" / "suite.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("name: mine\n", encoding="utf-8")

    with pytest.raises(UsageMistake, match="no import of Ko-AgentBench: nothing was written"):
        agenteval_import("ko-agentbench", clone, "--to", to, "--force")

    assert [path for path in to.rglob("*") if path.is_file()] == [mine]


def test_what_cannot_be_written_is_said_in_a_sentence(clone: Path, to: Path) -> None:
    """A file in the place of a folder is no traceback."""
    to.mkdir()
    (to / "evals").write_text("", encoding="utf-8")

    with pytest.raises(UsageMistake, match=r"evals.*: (Not a directory|File exists)"):
        agenteval_import("ko-agentbench", clone, "--to", to)


def test_a_clone_may_lack_all_but_tasks(clone: Path, to: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without cache and logs there are task files alone, and the suite names no cassettes."""
    bare = clone.parent / "bare"
    dump(bare / "bench" / "tasks" / "L1.json", [task("L1-001")])

    assert agenteval_import("ko-agentbench", bare, "--to", to) == 0

    suite = yaml.safe_load((to / "evals" / "ko-agentbench" / "suite.yaml").read_text(encoding="utf-8"))
    assert "cassettes" not in suite
    assert "1 tasks" in capsys.readouterr().out


def test_what_is_no_clone_is_refused(tmp_path: Path, clone: Path, to: Path) -> None:
    """A folder without tasks, one that is not there, and a target inside of the clone: one sentence each."""
    for source, target, message in (
        (tmp_path / "nothing", to, "there is no such folder"),
        (clone / "bench", to, "there is no bench/tasks"),
        (clone, clone / "mine", "expected a folder outside of the clone"),
        (clone, clone / "bench" / "tasks" / "L1.json", "outside of the clone"),
    ):
        with pytest.raises(UsageMistake, match=message):
            agenteval_import("ko-agentbench", source, "--to", target)
    assert not to.exists()


@pytest.mark.parametrize("file", ["bench/tasks/L1.json", "log", "cache", "report"])
def test_broken_json_is_told_by_its_line_and_nothing_is_written(clone: Path, to: Path, file: str) -> None:
    """Whichever file is broken: its name, its line, and no half of an import."""
    places = {
        "log": next(clone.glob("logs/**/L1.json")),
        "cache": next(clone.glob("bench/cache/**/*.json")),
        "report": clone / "reports" / "small" / "evaluation_report.json",
    }
    path = places.get(file, clone / file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[\n {"task_id": "L1-001",\n  oops}\n]', encoding="utf-8")

    with pytest.raises(ProblemsFound) as refused:
        agenteval_import("ko-agentbench", clone, "--to", to)

    (problem,) = refused.value.problems
    assert (problem.file, problem.line, problem.expected) == (str(path), 3, "JSON")
    assert not to.exists()


@pytest.mark.parametrize(
    ("level", "content", "message"),
    [
        ("L1", [7], ": [0]\n  expected: a task"),
        ("L1", [{"task_id": "L1 001", "instruction": "?"}], ": [0].task_id\n  expected: an id with no space"),
        ("L1", [{"task_id": "L1-001"}], ": [0].instruction\n  expected: a text"),
        ("L6", {}, "\n  expected: a list of tasks"),
    ],
)
def test_a_task_of_another_shape_is_told_by_its_place(
    clone: Path, to: Path, level: str, content: list[object], message: str
) -> None:
    """What the benchmark itself would stumble over is a problem with file and key."""
    path = dump(clone / "bench" / "tasks" / f"{level}.json", content)

    with pytest.raises(ProblemsFound) as refused:
        agenteval_import("ko-agentbench", clone, "--to", to)

    assert f"{path}{message}" in str(refused.value)


def test_a_golden_path_that_is_none_is_an_oddity(clone: Path, to: Path) -> None:
    """A text where golden calls are listed is listed itself, and the task is imported without them."""
    dump(clone / "bench" / "tasks" / "L1.json", [task("L1-001", golden_action="none")])

    assert agenteval_import("ko-agentbench", clone, "--to", to) == 0

    assert "L1-001" in (to / "evals" / "ko-agentbench" / "ANOMALIES.md").read_text(encoding="utf-8")
