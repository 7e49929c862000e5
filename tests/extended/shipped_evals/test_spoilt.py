"""What the graders of the card and PKM evals see: every reference is spoilt in every way that code sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.trial import Trial
from tests.extended.shipped_evals.spoiling import (
    FACT_MARK,
    Spoilt,
    Turns,
    a_day_off,
    acted_out,
    before_insight,
    call,
    calls,
    fact_of,
    is_filed,
    new_text,
    notes,
    numbers_in,
    other_entries,
    rewrite,
    swapped,
    target,
    tasks,
    turns_of,
)
from tests.yaml_files import read_yaml

RIGHT = read_yaml(Path(__file__).parent / "right_answers.yaml")
Spoil = Callable[[PlannedTask], Iterator[Turns]]
FLOOR = 0.9
REFUSED = "pkm: empty insight"
"""What no tool takes: in every other way all that is done can be done, so that graders have to see it."""


def _one_of(task: PlannedTask, ways: Sequence[str]) -> Sequence[str]:
    """Give one of the ways that come to the same: about every other task is spoilt in the other."""
    at = crc32(task.id.encode()) % max(len(ways), 1)
    return ways[at : at + 1]


def _skipped(task: PlannedTask) -> Iterator[Turns]:
    if is_filed(task):
        yield [{"calls": [call("skip_pkm_organization", evidence=str(task.input["content"])[:40])]}]


def _greeting_filed(task: PlannedTask) -> Iterator[Turns]:
    if not is_filed(task):
        text = f"# Notes\n\n- {task.input['content']}\n{FACT_MARK.format(fact_of(task))}\n"
        insight = call("update_timeline_card_insight", fact_id=fact_of(task), insight_text="A day begins.")
        yield [{"calls": [call("Write", file_path="/Areas/Notes.md", content=text)]}, {"calls": [insight]}]


def _others_filed(task: PlannedTask, mark: bool) -> Iterator[Turns]:
    others = other_entries(task) if is_filed(task) else []
    if others:
        turns = turns_of(task)
        last = [*calls(turns, "Edit", "Write")][-1]
        key = "content" if last["tool"] == "Write" else "new_string"
        for id, text in others:
            last["args"][key] += f"\n- {text}" + (f"\n{FACT_MARK.format(id)}" if mark else "") + "\n"
        yield turns


def _only_id(task: PlannedTask) -> Iterator[Turns]:
    turns = turns_of(task)
    mark = FACT_MARK.format(fact_of(task))

    def stripped(text: str) -> str:
        heading = re.match(r"# .*\n\n", text)
        return f"{heading[0] if heading else ''}\n{mark}\n"

    if is_filed(task) and rewrite(turns, stripped):
        yield turns


def _half(task: PlannedTask, first: bool) -> Iterator[Turns]:
    turns = turns_of(task)
    mark = FACT_MARK.format(fact_of(task))

    def halved(text: str) -> str:
        heading = re.match(r"# .*\n\n", text)
        body = text[heading.end() :] if heading else text
        words = re.findall(r"[\u3040-\u9fff]|[^\s\u3040-\u9fff]+\s*|\s+", body.replace(mark, ""))
        half = len(words) // 2
        part = words[half:] if first else words[:half]
        return f"{heading[0] if heading else ''}{''.join(part)}\n{mark}\n"

    if is_filed(task) and rewrite(turns, halved):
        yield turns


def _pasted(task: PlannedTask) -> Iterator[Turns]:
    turns = turns_of(task)
    writes = [*calls(turns, "Edit", "Write")]
    if (
        is_filed(task)
        and len(str(task.input["content"]).split()) + 2 * task.input["content"].count("，") > 12
    ):
        text = f"\n{task.input['content']}\n{FACT_MARK.format(fact_of(task))}\n"
        for tool_call in writes:
            args = tool_call["args"]
            if tool_call["tool"] == "Write":
                args["content"] = re.sub(r"\n\n[\s\S]*", "\n", args["content"], count=1) + text
            else:
                args["new_string"] = args["old_string"] + text
        yield turns


def _remove_and_write(task: PlannedTask) -> Iterator[Turns]:
    turns = turns_of(task)
    for move in [*calls(turns, "Move")]:
        new = "\n".join(new_text(tool_call) for tool_call in calls(turns, "Edit"))
        gone = call("Remove", path=move["args"]["source_path"], confirm=True)
        path = move["args"]["destination_path"]
        reads = [turn for turn in turns if any(tool_call["tool"] == "Read" for tool_call in turn["calls"])]
        insight = [
            turn for turn in turns if any("insight" in tool_call["tool"] for tool_call in turn["calls"])
        ]
        last = [
            tool_call for turn in insight for tool_call in turn["calls"] if "insight" in tool_call["tool"]
        ]
        new_note = call("Write", file_path=path, content=f"# Closed\n{new}")
        yield [*reads, {"calls": [gone]}, {"calls": [new_note]}, {"calls": last}]


def _destroyed(task: PlannedTask) -> Iterator[Turns]:
    turns = turns_of(task)
    if is_filed(task):
        touched = {
            str(tool_call["args"].get("file_path", "")).strip("/")
            for tool_call in calls(turns, "Edit", "Write")
        }
        touched |= {str(tool_call["args"]["source_path"]).strip("/") for tool_call in calls(turns, "Move")}
        others = [path for path in notes(task.layers) if path not in touched]
        for path in _one_of(task, others[:1] + others[-1:]):
            spare = call("Write", file_path=f"/{path}", content="# Notes\n\nRewritten.\n")
            yield before_insight(turns_of(task), call("Read", file_path=f"/{path}"), spare)


def _line_gone(task: PlannedTask) -> Iterator[Turns]:
    turns = turns_of(task)
    path = target(turns).strip("/") if is_filed(task) else ""
    old = "\n".join(tool_call["args"]["old_string"] for tool_call in calls(turns, "Edit"))
    text = notes(task.layers).get(path, "")
    lines = [
        line for line in text.splitlines() if len(line.split()) > 3 and line not in old and "<!--" not in line
    ]
    for line in _one_of(task, [line for line in lines if text.count(line) == 1][1:3]):
        cut = call("Edit", file_path=f"/{path}", old_string=f"{line}\n", new_string="\n")
        yield before_insight(turns_of(task), cut)


def _number(task: PlannedTask) -> Iterator[Turns]:
    given = numbers_in(str(task.input["content"]))
    new = (
        "\n".join(new_text(tool_call) for tool_call in calls(turns_of(task), "Edit", "Write"))
        if is_filed(task)
        else ""
    )
    for number in [number for number in numbers_in(new) if number in given]:
        turns = turns_of(task)
        if rewrite(turns, lambda text, number=number: swapped(text, number)):
            yield turns


def _day_off(task: PlannedTask) -> Iterator[Turns]:
    turns = turns_of(task)
    if is_filed(task) and rewrite(turns, a_day_off):
        yield turns


def _empty_insight(task: PlannedTask) -> Iterator[Turns]:
    turns = turns_of(task)
    for tool_call in calls(turns, "update_timeline_card_insight"):
        tool_call["args"]["insight_text"] = " "
        yield turns


def _stray(task: PlannedTask) -> Iterator[Turns]:
    if is_filed(task):
        beside = f"{target(turns_of(task)).rpartition('/')[0]}/More Thoughts.md"
        for path in _one_of(task, ["/Stray.md", beside]):
            stray = call("Write", file_path=path, content="# More thoughts\n\nTo be filled in later.\n")
            yield before_insight(turns_of(task), stray)


PKM: dict[str, Spoil] = {
    "durable entry skipped": _skipped,
    "greeting or opt-out filed": _greeting_filed,
    "other entries filed too, with ids": lambda task: _others_filed(task, mark=True),
    "other entries filed too, without ids": lambda task: _others_filed(task, mark=False),
    "only the id written": _only_id,
    "first half of the facts dropped": lambda task: _half(task, first=True),
    "second half of the facts dropped": lambda task: _half(task, first=False),
    "entry pasted as it is": _pasted,
    "project removed, not archived": _remove_and_write,
    "another file destroyed": _destroyed,
    "one line of the file deleted": _line_gone,
    "number + 100": _number,
    "date off a day": _day_off,
    "empty insight": _empty_insight,
    "stray extra file": _stray,
}


def _saves(turns: Turns) -> dict[str, Any]:
    return next(calls(turns, "save_timeline_card"))["args"]


def _leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {
            key: inner if key in ("color", "color_hex", "template_id") else _leaves(inner, change)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_leaves(inner, change) for inner in value]
    return change(value)


def _data_changed(task: PlannedTask, change: Callable[[Any], Any]) -> Iterator[Turns]:
    turns = turns_of(task)
    args = _saves(turns)
    changed = _leaves(args["ui_configs"], change)
    if changed != args["ui_configs"]:
        args["ui_configs"] = changed
        yield turns


def _as_number(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    changed = change(str(value))
    if changed == str(value):
        return value
    return changed if isinstance(value, str) else type(value)(float(changed))


def _card_number(task: PlannedTask) -> Iterator[Turns]:
    args = _saves(turns_of(task))
    given = numbers_in(str(task.input["content"]))
    on_card = numbers_in(" ".join(map(str, _every_leaf(args["ui_configs"]))))
    for number in [number for number in on_card if number in given]:
        yield from _data_changed(
            task, lambda value, number=number: _as_number(value, lambda text: swapped(text, number))
        )


def _longer_number(task: PlannedTask) -> Iterator[Turns]:
    args = _saves(turns_of(task))
    given = numbers_in(str(task.input["content"]))
    on_card = numbers_in(" ".join(map(str, _every_leaf(args["ui_configs"]))))
    for number in [number for number in on_card if number in given]:
        pattern = re.compile(rf"(?<![\w.,#:/-]){re.escape(number)}(?![\w:/-]|[.,]\d)")
        for turns in _data_changed(
            task, lambda value, by=pattern: _as_number(value, lambda text: by.sub(r"1\g<0>", text))
        ):
            _saves(turns)["title"] = pattern.sub(r"1\g<0>", _saves(turns)["title"])
            yield turns


def _every_leaf(value: Any) -> Iterator[Any]:
    leaves: list[Any] = []
    _leaves(value, leaves.append)
    return (leaf for leaf in leaves if not isinstance(leaf, bool))


def _card_day(task: PlannedTask) -> Iterator[Turns]:
    yield from _data_changed(task, lambda value: a_day_off(value) if isinstance(value, str) else value)


def _other_host(task: PlannedTask, form: str) -> Iterator[Turns]:
    yield from _data_changed(
        task,
        lambda value: re.sub(r"https?://([^/]+)(\S*)", form, value) if isinstance(value, str) else value,
    )


def _second_template(task: PlannedTask) -> Iterator[Turns]:
    turns = turns_of(task)
    choice = next(grader for grader in task.graders if grader.name == "card_template_choice")
    extra = {"template_id": "procedure", "data": {"title": "How to", "steps": ["Think", "Do"]}}
    if "procedure" not in choice.config["expected_template_ids"]:
        _saves(turns)["ui_configs"].append(extra)
        yield turns


def _title_is_entry(task: PlannedTask) -> Iterator[Turns]:
    turns, content = turns_of(task), str(task.input["content"])
    if len(content) > 30:
        _saves(turns)["title"] = content
        yield turns


def _other_card(task: PlannedTask) -> Iterator[Turns]:
    for id, _ in other_entries(task):
        turns = turns_of(task)
        other = call("save_timeline_card", **{**_saves(turns_of(task)), "fact_id": id})
        at = next(
            n
            for n, turn in enumerate(turns)
            if any("save" in tool_call["tool"] for tool_call in turn["calls"])
        )
        turns[at]["calls"].append(other)
        yield turns


def _emptied(task: PlannedTask) -> Iterator[Turns]:
    needles = next((grader for grader in task.graders if grader.name == "card_must_contain"), None)
    if needles is not None:
        turns = turns_of(task)
        _saves(turns)["title"] = "A note"
        _saves(turns)["ui_configs"] = _leaves(
            _saves(turns)["ui_configs"],
            lambda value: "Noted" if isinstance(value, str) and value[:2] != "20" else value,
        )
        yield turns


CARD: dict[str, Spoil] = {
    "words of the card dropped": _emptied,
    "number + 100 in the data": _card_number,
    "a digit before a number": _longer_number,
    "date off a day": _card_day,
    "address on another host, path kept": lambda task: _other_host(task, r"https://elsewhere.example/\1\2"),
    "longer host": lambda task: _other_host(task, r"https://\1.elsewhere.example\2"),
    "invented second template": _second_template,
    "title = entry": _title_is_entry,
    "another entry's card saved too": _other_card,
}
SPOILS = {f"pkm: {name}": ("pkm", spoil) for name, spoil in PKM.items()} | {
    f"card: {name}": ("card", spoil) for name, spoil in CARD.items()
}


@pytest.fixture(scope="module")
def detections() -> dict[str, tuple[int, int, list[str]]]:
    """Act out every reference spoilt in every way; give what was seen, of how many, and what was not."""
    spoilt = [
        (name, Spoilt(task, turns))
        for name, (suite, spoil) in SPOILS.items()
        for task in tasks(suite)
        for turns in spoil(task)
    ]
    trials = acted_out([each for _, each in spoilt])
    table: dict[str, tuple[int, int, list[str]]] = {}
    for (name, each), trial in zip(spoilt, trials, strict=True):
        assert trial.ending in ("passed", "missed", "limited"), (name, each.task.id, trial)
        failed = [str(done.error) for done in trial.transcript.calls if done.error]
        assert bool(failed) is (name == REFUSED), (name, each.task.id, failed)
        passed = _is_passed(trial)
        count, of, missed = table.get(name, (0, 0, []))
        table[name] = count + (not passed), of + 1, [*missed, *([each.task.id] if passed else [])]
    for name, (count, of, _) in table.items():
        print(f"{name:45} seen {count:3} of {of:3}")
    return table


def _is_passed(trial: Trial) -> bool:
    return all(grade.passed is not False for grade in trial.grades)


@pytest.mark.parametrize("row", SPOILS)
def test_a_spoilt_reference_is_seen(row: str, detections: dict[str, tuple[int, int, list[str]]]) -> None:
    """Of the references that are spoilt in one way, code sees nine in ten at least."""
    count, of, missed = detections[row]

    assert of > 0
    assert count >= FLOOR * of, f"{row}: seen {count} of {of}; not in {', '.join(missed)}"


def test_every_reference_passes_as_it_stands() -> None:
    """A reference that nobody spoilt gets full marks from every grader that can tell."""
    whole = [Spoilt(task, turns_of(task)) for suite in ("card", "pkm") for task in tasks(suite)]
    wrong = {
        trial.key.task: [str(grade.rationale) for grade in trial.grades if grade.score not in (None, 1.0)]
        for trial in acted_out(whole)
    }

    assert len(whole) >= 100
    assert {id: grades for id, grades in wrong.items() if grades} == {}


def _other_notes(task: PlannedTask, texts: Sequence[str]) -> Turns:
    turns, left = turns_of(task), iter(texts)
    mark = FACT_MARK.format(fact_of(task))
    for tool_call in calls(turns, "Edit", "Write"):
        text = next(left).replace("@", mark) if mark in new_text(tool_call) else ""
        if not text:
            # A second place in the same file, which no entry needs.
            tool_call["tool"], tool_call["args"] = "Read", {"file_path": tool_call["args"]["file_path"]}
        elif tool_call["tool"] == "Write":
            tool_call["args"]["content"] = text
        else:
            old = tool_call["args"]["old_string"]
            whole = old.strip() in text
            tool_call["args"]["new_string"] = (
                text if whole else old + ("" if old.endswith("\n") else "\n") + text
            )
    assert not [*left]
    return turns


@pytest.fixture(scope="module")
def right() -> list[tuple[str, Trial]]:
    """Act out right answers that no reference gives."""
    by_id = {task.id: task for suite in ("card", "pkm") for task in tasks(suite)}
    spoilt = []
    for outcome in RIGHT["notes"]:
        task = by_id[f"pkm_{outcome['task']}"]
        spoilt.append(Spoilt(task, _other_notes(task, outcome["texts"])))
    for outcome in RIGHT["cards"]:
        task = by_id[f"card_{outcome['task']}"]
        turns = turns_of(task)
        _saves(turns).update(title=outcome["title"], ui_configs=outcome["templates"])
        spoilt.append(Spoilt(task, turns))
    return [(outcome.task.id, trial) for outcome, trial in zip(spoilt, acted_out(spoilt), strict=True)]


def test_right_answers_in_other_words_pass(right: list[tuple[str, Trial]]) -> None:
    """Other words, spellings of dates and numbers, orders and forms: what is right is not taken for wrong."""
    wrong = {
        id: [f"{grade.grader}: {grade.rationale}" for grade in trial.grades if grade.passed is False]
        or [trial.ending, trial.message]
        for id, trial in right
        if trial.ending != "passed"
    }

    assert len(right) >= 50
    assert wrong == {}
