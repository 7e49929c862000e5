"""Each spoiler does one thing to a reference, and nothing where the reference has nothing of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.chat.offline.reference_solution import FileWriter, Spoilt, reference_turns
from pytest_agenteval.chat.offline.scripted import spoiler
from pytest_agenteval.chat.offline.spoilers import SPOILERS, spoilt_references
from pytest_agenteval.records.plan import Model, Plan, PlannedTask

ENTRY = "The ferry from pier C costs 18 euros now, cash only. It leaves on 2026-05-12 at 07:40 sharp."
NOTE = "# Ferry\n\n- From 2026-05-12 the ferry costs 18 euros. It leaves pier C at 07:40 sharp.\n"


def _call(tool: str, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


def _task(turns: list[dict[str, Any]], layer: Path | None = None, **more: Any) -> PlannedTask:
    fields: dict[str, Any] = {"input": {"content": ENTRY}, **more}
    layers = (str(layer),) if layer else ()
    return PlannedTask("s", "t", "a", "mixed", "b", (), reference={"turns": turns}, layers=layers, **fields)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A knowledge base with a few notes."""
    notes = {"Trips/Boat.md": "# Boat\n\n- Leaks.\n", "Trips/Bus.md": "# Bus\n", "Food/Soup.md": "# Soup\n"}
    for name, text in notes.items():
        (tmp_path / "KB" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "KB" / name).write_text(text)
    return tmp_path


def _filed(tree: Path, **more: Any) -> PlannedTask:
    write = _call("save", path="Trips/Ferry.md", content=NOTE)
    return _task([{"calls": [_call("look", path="Trips/Bus.md")]}, {"calls": [write]}], tree, **more)


def _answered(text: str, **more: Any) -> PlannedTask:
    return _task([{"calls": [_call("fare", place="pier_c")]}, {"text": text}], **more)


def _forms(name: str, task: PlannedTask, writer: FileWriter | None = None) -> tuple[Spoilt, ...]:
    return spoilt_references(task, writer)[name]


def _content(form: Spoilt) -> str:
    return str(form.turns[-1]["calls"][-1]["args"]["content"])


def test_what_only_prepares_is_not_left_out(tree: Path) -> None:
    """A call that changes something is left out, and one that an answer rests on; a look before it is not."""
    assert [form.done for form in _forms("skip_call", _filed(tree))] == ["save not called"]
    turns = [{"calls": [_call("find", q="x")]}, {"calls": [_call("fare", id="$1.id")]}, {"text": "18 euros."}]
    assert [form.done for form in _forms("skip_call", _task(turns))] == ["fare not called"]


def test_what_later_calls_refer_to_keeps_its_number() -> None:
    """With a call left out, references to later results count one less, and those to it are empty."""
    turns = [
        {"calls": [_call("find", q="a"), _call("find", q="b")]},
        {"calls": [_call("find", q="$1, $2.id")]},
    ]
    first = _forms("skip_call", _task([*turns, {"text": "Both."}]))[0]
    assert first.turns[1]["calls"] == [_call("find", q=", $1.id")]


def test_a_wrong_argument_is_another_name_and_no_other_wording(tree: Path) -> None:
    """Files and names that the task says become others; free text and what the agent may choose do not."""
    (form,) = _forms("wrong_argument", _filed(tree))
    assert form.done == "save.path: Trips/Ferry.md -> Food/Ferry.md"
    (other,) = _forms("wrong_argument", _answered("18 euros."))
    assert other.turns[0]["calls"] == [_call("fare", place="pier_d")]
    free = _task([{"calls": [_call("search", q="ferry from pier C")]}, {"text": "18 euros."}])
    assert _forms("wrong_argument", free) == ()


def test_each_number_is_wrong_in_turn(tree: Path) -> None:
    """What is written counts where the task says it, what is answered where the user has not."""
    assert [form.done for form in _forms("number_plus_one", _filed(tree))] == ["07:40 -> 07:41", "18 -> 19"]
    answered = _answered("18 euros, and 2.50 for a bicycle, or 1,200 a year.")
    assert [form.done for form in _forms("number_plus_one", answered)] == ["2.50 -> 3.50", "1,200 -> 1,201"]
    assert _forms("number_plus_one", _answered("Cash only.")) == ()


def test_every_day_is_off_by_one(tree: Path) -> None:
    """In any spelling; ids of entries stay, and a text without a day is left alone."""
    (form,) = _forms("date_off_by_a_day", _filed(tree))
    assert _content(form) == NOTE.replace("2026-05-12", "2026-05-13")
    (other,) = _forms(
        "date_off_by_a_day", _answered("On 30 April, 5월 3일 and May 9, see 2026/05/12.md#ts_1.")
    )
    assert other.turns[1]["text"] == "On 29 April, 5월 4일 and May 10, see 2026/05/12.md#ts_1."
    assert _forms("date_off_by_a_day", _answered("Cash only.")) == ()


def test_each_fact_is_left_out(tree: Path) -> None:
    """A sentence that says what the task says, and of an answer one that says what the user has not."""
    forms = _forms("fact_dropped", _filed(tree))
    assert [_content(form) for form in forms] == [
        "# Ferry\n\nIt leaves pier C at 07:40 sharp.\n",
        "# Ferry\n\n- From 2026-05-12 the ferry costs 18 euros. ",
    ]
    answered = _answered("The ferry costs 18 euros now. Bicycles travel free of charge.")
    assert [form.turns[1]["text"] for form in _forms("fact_dropped", answered)] == [
        "The ferry costs 18 euros now. "
    ]


def test_a_number_or_a_time_is_no_two_facts() -> None:
    """The comma of 19,120 and the colon of 07:40 part nothing."""
    forms = _forms("fact_dropped", _answered("It costs 19,120 won, leaves at 07:40"))
    assert [form.turns[1]["text"] for form in forms] == ["leaves at 07:40"]


def test_a_file_too_many_is_written_as_the_reference_writes(tree: Path) -> None:
    """How a file is written is learnt from a call of the reference, or said by a benchmark."""
    (form,) = _forms("stray_file", _filed(tree))
    assert [call["args"]["path"] for call in form.turns[1]["calls"]] == [
        "Trips/More Thoughts.md",
        "Trips/Ferry.md",
    ]
    edit = _call("edit", path="Trips/Boat.md", old="- Leaks.", new="- Leaks. The ferry costs 18 euros.")
    edited = _task([{"calls": [edit]}], tree)
    assert _forms("stray_file", edited) == ()
    writer = FileWriter("write", "file", "body", "KB")
    (said,) = _forms("stray_file", edited, writer)
    assert said.turns[0]["calls"][0]["args"]["file"] == "/Trips/More Thoughts.md"
    (over,) = _forms("neighbour_overwritten", edited, writer)
    assert (over.done, over.turns[0]["calls"][0]["args"]["file"]) == (
        "KB/Trips/Bus.md replaced",
        "/Trips/Bus.md",
    )


def test_the_question_stands_in_the_place_of_what_was_to_be_written(tree: Path) -> None:
    """Only what the reference says in its own words is replaced: an edit's old text stays."""
    assert ENTRY in _content(_forms("verbatim_paste", _filed(tree))[0])
    edit = _call("edit", path="Trips/Boat.md", old="- Leaks.", new="- Leaks.\n- The ferry costs 18 euros.")
    (form,) = _forms("verbatim_paste", _task([{"calls": [edit]}], tree))
    assert form.turns[0]["calls"][0]["args"] == {**edit["args"], "new": f"- Leaks.\n{ENTRY}\n"}


async def _said(form: Spoilt, task: PlannedTask) -> str:
    plan = Plan(
        PlannedTask(task.suite, task.id, task.agent, "mixed", "b", (), reference={"turns": form.turns}),
        Model("spoiler:x", "spoiler", offline=True),
    )
    chat = spoiler(plan.model, plan)
    await chat.ask([{"role": "user", "content": ENTRY}])
    return (
        await chat.ask([{"role": "user", "content": ENTRY}, {"role": "tool", "content": "{fare: $18}"}])
    ).text


def test_a_first_file_keeps_its_name() -> None:
    """In an empty workspace a path is known by the argument that holds it: its words are no text to spoil."""
    task = _task([{"calls": [_call("save", path="/Boat trips/The Ferry.md", content=NOTE)]}])
    writer = FileWriter("save", "path", "content", "KB")
    for spoiler_name in ("verbatim_paste", "answer_everything", "fact_dropped"):
        forms = _forms(spoiler_name, task, writer)
        assert forms
        for form in forms:
            assert form.turns[0]["calls"][0]["args"]["path"] == "/Boat trips/The Ferry.md"
            assert set(form.places) == {"save.content"}
    assert [form.done for form in _forms("stray_file", task, writer)] == [
        "KB/Boat trips/More Thoughts.md written too"
    ]


def test_everything_is_all_that_was_heard() -> None:
    """Said is what the user said and what the tools gave; where nothing was to be done, something is."""
    task = _answered("18 euros.")
    (form,) = _forms("answer_everything", task)
    assert asyncio.run(_said(form, task)) == f"{ENTRY}\n{{fare: $18}}"
    turns = [
        {"role": "assistant", "calls": [{"tool": "fare", "args": {"place": "c"}, "result": 18}]},
        {"role": "user", "content": "So how much was it?"},
    ]
    known = _task([{"text": "18 euros."}], input={"turns": turns})
    assert "fare called again" in [form.done for form in _forms("answer_everything", known)]


def test_nothing_is_written_where_nothing_is_to_be_done(tree: Path) -> None:
    """Of a task whose agent had better not act, the act that declines is left out, and a file is written."""
    skip = _task([{"calls": [_call("skip", why="a ferry that costs 18 euros")]}], tree, label="negative")
    forms = spoilt_references(skip, FileWriter("write", "file", "body"))
    assert {name: len(of_name) for name, of_name in forms.items() if of_name} == {
        "skip_call": 1,
        "answer_everything": 1,
    }


def test_the_same_reference_is_always_spoilt_alike(tree: Path) -> None:
    """Nothing is drawn, the task is left as it is, and no spoilt form is the reference itself."""
    task = _filed(tree)
    before = reference_turns(task.reference)
    assert spoilt_references(task, None) == spoilt_references(task, None)
    assert reference_turns(task.reference) == before
    forms = [form for name in SPOILERS for form in _forms(name, task)]
    assert all(form.turns != before for form in forms)
