"""What stands in the config of a Korean grader, what its groups hold, and evidence as a trace."""

from __future__ import annotations

import json
from typing import Any
from unicodedata import normalize

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.graders import GRADERS, GROUPS
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import JudgedMetricGrader
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    ComputedGrader,
    KoCall,
    KoMessage,
    trace_of,
)
from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome
from pytest_agenteval.records.transcript import Message, ToolCall, ToolError, Transcript
from tests.benchmarks.ko_agentbench.clone import TASKS, needs_clone
from tests.benchmarks.ko_agentbench.graders.sample_trials import grader_class

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"mode": "readme"}, "mode"),
    ({"combine": "majority"}, "combine"),
    ({"golden_action": {"tool": "A"}}, "golden_action"),
    ({"golden_action": ["A"]}, "golden_action[0]"),
    ({"golden_action": [{"args": {}}]}, "golden_action[0].tool"),
    ({"golden_action": [{"tool": "A", "args": []}]}, "golden_action[0].args"),
    ({"golden_action": [{"tool": "A", "step": "1"}]}, "golden_action[0].step"),
    ({"golden_action": [{"tool": "A", "weight": 0}]}, "golden_action[0].weight"),
    ({"golden_action": [{"tool": "A", "weight": float("inf")}]}, "golden_action[0].weight"),
    ({"golden_action": [{"action": " "}]}, "golden_action[0].action"),
    ({"arg_schema": {"q": "string"}}, "arg_schema.q"),
    ({"resp_schema": "string"}, "resp_schema"),
    ({"available_tools": "A"}, "available_tools"),
    ({"available_tools": [""]}, "available_tools[0]"),
    ({"golden_fields": [{"tool": "A"}]}, "golden_fields[0].fields"),
    ({"golden_fields": [{"tool": "A", "fields": ["a..b"]}]}, "golden_fields[0].fields[0]"),
    ({"minimum_steps": -1}, "minimum_steps"),
    ({"minimum_steps": True}, "minimum_steps"),
    ({"minimum_calls": "2"}, "minimum_calls"),
    ({"minimum_sources": 1.5}, "minimum_sources"),
    ({"data_flow": [{"from_step": 1, "from_output": "x", "to_step": 2}]}, "data_flow[0].to_parameter"),
    ({"error_injection": {"tool": "A"}}, "error_injection.error_type"),
    ({"fallback_options": [{"tool": 1}]}, "fallback_options[0].tool"),
    ({"task_level": 1.5}, "task_level"),
    ({"instruction": ""}, "instruction"),
]


def computed(name: str, **config: Any) -> ComputedGrader:
    """Give a grader that needs no judge."""
    made = grader_class(name)(**config)
    assert isinstance(made, ComputedGrader)
    return made


@pytest.mark.parametrize(("config", "place"), WRONG, ids=[place for _, place in WRONG])
def test_a_value_that_cannot_be_meant_is_refused(config: dict[str, Any], place: str) -> None:
    """The mistake names the key, with the place in it, and every grader of a group refuses it alike."""
    for name in ("ko_fsm", "ko_success"):
        with pytest.raises(WrongSetting) as refused:
            grader_class(name)(**config)
        assert str(refused.value).startswith(f"{place}: expected ")


def test_every_key_may_be_null() -> None:
    """The benchmark's logs write null for what a task does not say."""
    keys = (*(key for config, _ in WRONG for key in config if key not in ("mode", "combine")),)
    empty = dict.fromkeys(keys)

    for name in GRADERS:
        for mode in ("default", "upstream"):
            assert grader_class(name)(mode=mode, **empty) == grader_class(name)(mode=mode, **empty)


@needs_clone
def test_the_benchmarks_tasks_can_be_graded() -> None:
    """All keys of its 91 tasks are taken as they stand, with all that is odd about them."""
    keys = {key for config, _ in WRONG for key in config}
    tasks = [task for file in sorted(TASKS.glob("L?.json")) for task in json.loads(file.read_text("utf-8"))]

    assert len(tasks) == 91
    for task in tasks:
        config = {key: value for key, value in task.items() if key in keys}
        assert grader_class("ko_fsm")(**config).golden == list(task.get("golden_action", ()))


def test_each_group_has_the_common_graders_first() -> None:
    """Seven levels; a name has one label, wherever it stands, and each grader stands somewhere."""
    assert list(GROUPS) == [f"ko_L{level}" for level in range(1, 8)]
    for members in GROUPS.values():
        assert [label for _, label in members][:4] == ["SR", "EPR_CVR", "pass@k share", "RRR"]
    members = {member for group in GROUPS.values() for member in group}
    assert len({name for name, _ in members}) == len(members) == len({label for _, label in members})
    assert {name for name, _ in members} == set(GRADERS)


@pytest.mark.parametrize("name", sorted(GRADERS))
def test_each_grader_is_where_it_is_said_to_be(name: str) -> None:
    """Its class is found, carries its name, and says how it decides."""
    made = grader_class(name)()

    assert isinstance(made, ComputedGrader | JudgedMetricGrader)
    assert isinstance(made, JudgedMetricGrader) == hasattr(made, "with_judges")
    decides = name in ("ko_success", "ko_tool_acc", "ko_select_acc", "ko_response_rate")
    assert (made.name, made.threshold, made.version) == (name, 1.0 if decides else 0.0, "3")


@pytest.mark.parametrize("task_form", ["NFC", "NFD"])
@pytest.mark.parametrize(("mode", "score"), [("default", 1.0), ("upstream", 0.0)])
def test_texts_compare_in_one_unicode_form(mode: Any, score: float, task_form: Any) -> None:
    """Hangul that a Mac spells in parts is the same word; the benchmark's code compares it as it is."""
    evidence_form = {"NFC": "NFD", "NFD": "NFC"}[task_form]
    golden = [{"tool": "Place", "args": {"q": normalize(task_form, "서울역")}}]
    call = ToolCall("c", 1, 0, "Place", {"q": normalize(evidence_form, "서울역")}, result={"items": [1]})
    evidence = Evidence({}, Transcript(calls=(call,)), Outcome(Answer("네")))

    assert computed("ko_call_em", golden_action=golden, mode=mode).grade(evidence).score == score


GARBLED = ToolCall("g", 1, 0, "A", {}, raw_args="{oops", error=ToolError("bad_args", "no JSON object"))
CALLS = (
    ToolCall("s", 0, 0, "A", {"q": 1}, result=[1], by="seed"),
    ToolCall("a", 2, 0, "B", {}, error=ToolError("timeout", "Request timeout")),
)
MESSAGES = (
    Message("system", "be kind"),
    Message("user", "하나", seeded=True),
    Message("assistant", "둘", seeded=True),
    Message("user", "셋"),
)
SAID = Message("assistant", "넷", turn=1)


def evidence(*messages: Message, answer: str = "넷", state: Any = None) -> Evidence:
    """Give evidence of a conversation of several turns."""
    turns = [{"role": "user", "content": "하나"}, {"role": "user", "content": "셋"}]
    outcome = Outcome(Answer(answer, state or {}))
    return Evidence({"turns": turns}, Transcript((*MESSAGES, *messages), CALLS), outcome)


def test_a_trial_of_our_own_is_seen_as_the_benchmark_sees_it() -> None:
    """Steps are the model's replies, given calls are marked, instructions to the agent are left out."""
    trace = trace_of(evidence(SAID))

    assert trace.calls == (
        KoCall(0, "A", {"q": 1}, True, None, [1], seeded=True),
        KoCall(2, "B", {}, False, "Request timeout"),
    )
    assert trace.own == trace.calls[1:]
    assert trace.messages is not None
    assert trace.messages[1] == KoMessage("assistant", "둘", seeded=True)
    assert [message.content for message in trace.messages] == ["하나", "둘", "셋", "넷"]
    assert (trace.instruction, trace.question) == ("하나", "셋")
    assert (trace.success, trace.repetition_results, trace.final_response) == (True, (True,), "넷")
    assert trace_of(Evidence({"content": "부탁"}, Transcript(), Outcome())).question == "부탁"
    assert not trace_of(Evidence({}, Transcript((), (GARBLED,)), Outcome())).calls[0].readable
    # Seeded words are nobody's reply.
    silent = trace_of(evidence(answer=""))
    assert (silent.success, silent.repetition_results, silent.final_response) == (False, (False,), None)
    greeted = {"turns": [{"role": "assistant", "content": "안녕"}, {"role": "user", "content": "부탁"}]}
    assert trace_of(Evidence(greeted, Transcript(), Outcome())).instruction == "부탁"


def test_an_agent_with_a_model_of_its_own_has_an_answer() -> None:
    """One that does not talk through our chat leaves no message: its answer counts all the same, and what
    was asked is what the task gave, the last turn as the question."""
    turns = ["하나", {"role": "assistant", "content": "둘"}, {"role": "user", "content": "셋"}]
    silent = Evidence({"turns": turns}, Transcript(), Outcome(Answer("넷")))
    trace = trace_of(silent)

    assert (trace.success, trace.answer) == (True, "넷")
    assert (trace.instruction, trace.question) == ("하나", "셋")
    assert [(message.role, message.seeded) for message in trace.messages or ()] == [
        ("user", True),
        ("assistant", True),
        ("user", True),
    ]
    assert trace_of(Evidence({"content": "부탁"}, Transcript(), Outcome(Answer("넷")))).question == "부탁"


def test_calls_of_replies_that_nobody_saw_come_one_after_another() -> None:
    """An agent with a model of its own asks for tools in replies unknown: values travel all the same."""
    source = ToolCall("a", 0, 0, "A", {}, result={"x": 126.97})
    calls = (source, ToolCall("b", 0, 0, "B", {"q": 126.97}))
    trial = Evidence({"content": "부탁"}, Transcript((), calls), Outcome(Answer("넷")))
    flow = {"from_step": 1, "from_output": "x", "to_step": 2, "to_parameter": "q"}
    made = computed("ko_prov_acc", golden_action=[{"tool": "A"}, {"tool": "B"}], data_flow=[flow])

    assert made.grade(trial).score == 1.0


def test_an_imported_trial_is_seen_as_its_log_says() -> None:
    """The log's flags go before what can be worked out: also the answer that nobody gave."""
    log = {"success": False, "repetition_results": [True, False], "repetitions": 3, "conversation": False}
    trace = trace_of(evidence(SAID, state={"ko_agentbench": {**log, "task_level": 0}}))

    assert (trace.success, trace.answer, trace.final_response) == (False, "", "넷")
    assert (trace.repetition_results, trace.repetitions) == ((True, False), 3)
    assert (trace.messages, trace.level) == (None, 0)
    from_log = trace_of(evidence(SAID, state={"ko_agentbench": {**log, "expected_tools": ["A"]}}))
    assert (from_log.offered, trace.offered) == (("A",), ())
    assert trace_of(evidence(SAID, state={"ko_agentbench": None})).success


def test_a_grade_is_never_below_nothing_and_says_what_it_found() -> None:
    """Upstream's rate of repeats may be -8: the grade is 0, and the details hold what it really is.

    The benchmark's own details are there only in its mode.
    """
    calls = tuple(ToolCall(str(place), place, 0, "A", {}) for place in range(10))
    trial = Evidence({}, Transcript((SAID,), calls), Outcome(Answer("넷")))
    below = computed("ko_redundant_calls", mode="upstream", golden_action=[{"action": "context_used"}])
    grade, fine = below.grade(trial), computed("ko_redundant_calls", mode="upstream").grade(trial)

    assert (grade.score, grade.unclamped, grade.details["upstream"]["redundant_calls"]) == (0.0, -8.0, 9)
    assert (fine.unclamped, fine.details["upstream"]["non_redundant_rate"]) == (None, 1.0)
    valid = computed("ko_valid_calls", mode="upstream").grade(evidence(SAID))
    assert (valid.grader, valid.score) == ("ko_valid_calls", 0.0)
    assert valid.details["upstream"] == {"total_calls": 1, "valid_calls": 0}
    assert dict(computed("ko_valid_calls").grade(evidence(SAID)).details) == {}
