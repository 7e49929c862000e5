"""The ways to spoil a reference solution, each of which a grader has to notice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from os.path import commonpath
from typing import Any

from pytest_agenteval.chat.offline.reference_solution import (
    FileWriter,
    ReferenceTurns,
    Spoilt,
    Turns,
    ValuePlace,
    with_values,
    without_call,
)
from pytest_agenteval.chat.offline.scripted import EVERYTHING
from pytest_agenteval.chat.offline.text_changes import (
    a_day_later,
    days_in,
    facts_in,
    is_prose,
    numbers_in,
    plus_one,
    shortened,
    with_number,
    with_spans,
    words_of,
)
from pytest_agenteval.records.plan import PlannedTask

STRAY_NAME, STRAY_TEXT = "More Thoughts", "# More thoughts\n\nTo be filled in later.\n"


def stray_file(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Write one more file, beside the last that is to be written."""
    if solution.writer is not None and solution.written_files:
        folder, _, name = solution.written_files[-1].rpartition("/")
        path = f"{folder}/{STRAY_NAME}.{name.rpartition('.')[2]}".lstrip("/")
        call = solution.writer.call(path, STRAY_TEXT)
        yield Spoilt(f"{path} written too", (), _before_last_action(solution, call))


def neighbour_overwritten(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Overwrite a file that the reference does not touch: the nearest to those to be written."""
    writer, written = solution.writer, solution.written_files
    if writer is None or not written:
        return
    kind = written[-1].rpartition(".")[2]
    alike = [path for path in solution.tree.texts if path.endswith(f".{kind}")]
    others = [path for path in alike if path not in written and path.startswith(writer.root)]
    if others:
        nearest = max(others, key=lambda path: len(commonpath([path, written[-1]])))
        call = writer.call(nearest, "# Notes\n\nRewritten.\n")
        yield Spoilt(f"{nearest} replaced", (), _before_last_action(solution, call))


def act_on_nothing(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Act where there is nothing to do: write the question into a file, or repeat a call."""
    if not solution.calls and solution.given_calls:
        given = solution.given_calls[0]
        turns = _with_first_call(solution, given["tool"], given.get("args"))
        yield Spoilt(f"{given['tool']} called again", (), turns)
    writer = solution.writer
    if writer is not None and not solution.written_files and solution.question:
        path = f"{writer.root}/Notes.md".lstrip("/")
        call = writer.call(path, f"# Notes\n\n{solution.question}\n")
        turns = _with_first_call(solution, call["tool"], call["args"])
        yield Spoilt(f"the question written into {path}", (), turns)


def _with_first_call(solution: ReferenceTurns, tool: str, args: Mapping[str, Any] | None) -> Turns:
    first = {"text": "", "calls": [{"tool": tool, "args": dict(args or {})}]}
    return [first, *with_values(solution.turns, {})]


def _before_last_action(solution: ReferenceTurns, call: dict[str, Any]) -> Turns:
    turns = with_values(solution.turns, {})
    turn, place = solution.acting[-1]
    turns[turn]["calls"].insert(place, call)
    return turns


def skip_call(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Leave out each call that changes something or that the answer rests on."""
    for place in (*solution.acting, *solution.looking):
        tool = solution.call(place)["tool"]
        turns = without_call(solution.turns, place, len(solution.given_calls))
        yield Spoilt(f"{tool} not called", (tool,), turns)


def wrong_argument(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Replace each argument that has one right value by another name.

    In calls that look something up, these are texts of one word: free text has no single right form, and the
    agent may choose amounts. In calls that change something, they are files, and names from the task wherever
    the reference writes them: the rest may be right in another form.
    """
    for spot, value in solution.values((*solution.writing, *solution.looking)):
        acts = (spot.turn, spot.call) in solution.writing
        is_name = isinstance(value, str) and not is_prose(value) and not days_in(value)
        is_file = is_name and solution.tree.is_file_name(value)
        is_in_task = is_name and len(value) >= 3 and value.casefold() in solution.task_text
        # In an action, only files count, and names from the task with three letters or more.
        wrong = _wrong_value(solution, value) if not acts or is_file or is_in_task else None
        if wrong is not None:
            place = solution.place(spot)
            elsewhere = _texts_renamed(solution, value, wrong) if acts and not is_file else {}
            done = f"{place}: {shortened(value)} -> {shortened(wrong)}"
            yield Spoilt(done, (place,), with_values(solution.turns, {**elsewhere, spot: wrong}))


def _texts_renamed(solution: ReferenceTurns, name: str, other: str) -> dict[ValuePlace, Any]:
    """Give every written text that holds a name, with the name replaced by another."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    texts = [(spot, value) for spot, value in solution.values(solution.writing) if isinstance(value, str)]
    return {spot: word.sub(lambda _: other, text) for spot, text in texts if word.search(text)}


def _wrong_value(solution: ReferenceTurns, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if not isinstance(value, str) or "$" in value or is_prose(value):
        return None
    if solution.tree.is_file_name(value):
        return solution.tree.other_file(value)
    for at in range(len(value) - 1, -1, -1):
        letter = value[at]
        if letter.isalnum():  # the last letter or digit becomes the next one
            other = {"9": "0", "z": "a", "Z": "A", "힣": "가"}.get(letter, chr(ord(letter) + 1))
            return value[:at] + other + value[at + 1 :]
    return None


# A question needs this many words to be pasted in place of a text.
LEAST_WORDS = 3


def number_plus_one(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Make each number greater by one, wherever the reference writes or answers it.

    A written number counts if the task states it, an answered one if the user did not.
    """
    places: dict[str, list[ValuePlace]] = {}
    for spot, text, spans in solution.texts:
        for number in numbers_in("\n".join(text[start:end] for start, end in spans)):
            places.setdefault(number, []).append(spot)
    for spot, value in _amounts(solution):
        places.setdefault(str(value), []).append(spot)
    for number, spots in places.items():
        is_known = number in numbers_in(solution.user_words)
        answered = any(spot.call is None for spot in spots)
        if is_known != answered or (not answered and number in numbers_in(solution.task_text)):
            other = plus_one(number)
            changes = _changed_texts(solution, lambda text: with_number(text, number, other))  # noqa: B023
            changes |= {spot: value + 1 for spot, value in _amounts(solution) if str(value) == number}
            yield _spoilt_by(solution, f"{number} -> {other}", changes)


def _amounts(solution: ReferenceTurns) -> Iterator[tuple[ValuePlace, int | float]]:
    for spot, value in solution.values(solution.writing):
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield spot, value


def date_off_by_a_day(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Move every written or answered date by a day."""
    changes = _changed_texts(solution, a_day_later)
    if changes:
        days = (day for spot, text, _ in solution.texts if spot in changes for day in days_in(text))
        yield _spoilt_by(solution, f"{', '.join(dict.fromkeys(days))}: a day later", changes)


def _changed_texts(solution: ReferenceTurns, change: Callable[[str], str]) -> dict[ValuePlace, Any]:
    """Give the texts whose new spans a change alters."""
    changes: dict[ValuePlace, Any] = {}
    for spot, text, spans in solution.texts:
        changed = with_spans(text, spans, [change(text[start:end]) for start, end in spans])
        if changed != text:
            changes[spot] = changed
    return changes


def fact_dropped(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Leave out each fact: a written or answered sentence, or a clause of a single one."""
    for spot, text, spans in solution.texts:
        for start, end in spans:
            for fact in facts_in(text[start:end]):
                left = text[:start] + text[start:end].replace(fact, "", 1) + text[end:]
                if _is_needed(solution, spot, fact, left):
                    done = f"{solution.place(spot)}: without {shortened(fact)}"
                    yield _spoilt_by(solution, done, {spot: left})


def _is_needed(solution: ReferenceTurns, spot: ValuePlace, fact: str, left: str) -> bool:
    """Whether a part of a text is required, and found nowhere else."""
    # In an answer, what the user did not mention is required; in a written text, what the task states.
    words = words_of(fact)
    if spot.call is None:
        return 2 * len(words & words_of(solution.user_words)) < len(words)
    named = words & solution.named_words
    others = [left if other == spot else text for other, text, _ in solution.texts]
    others += [str(amount) for _, amount in _amounts(solution)]
    return len(named) > 1 and 2 * len(named) >= len(words) and not named <= words_of("\n".join(others))


def verbatim_paste(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Write or answer the question itself in place of the reference's own words."""
    question = solution.question
    if len(words_of(question)) < LEAST_WORDS:
        return
    changes = {}
    for spot, text, spans in solution.texts:
        if is_prose(text) and text.strip() not in question:
            changes[spot] = with_spans(text, spans, [f"{question}\n", *[""] * (len(spans) - 1)])
    if changes:
        yield _spoilt_by(solution, "each text is replaced by the question", changes)


def answer_everything(solution: ReferenceTurns) -> Iterator[Spoilt]:
    """Answer with, or add to a written text, everything that the user and the tools gave."""
    texts = [each for each in solution.texts if is_prose(each[1])]
    if solution.has_answer:
        spot = ValuePlace(len(solution.turns) - 1, None)
        yield _spoilt_by(solution, "the answer is all that the agent was given and found", {spot: EVERYTHING})
    elif texts:
        spot, text, spans = texts[0]
        end = spans[-1][1]
        changed = f"{text[:end]}\n{EVERYTHING}\n{text[end:]}"
        yield _spoilt_by(solution, "all that it was given and found is written too", {spot: changed})


def _spoilt_by(solution: ReferenceTurns, done: str, changes: Mapping[ValuePlace, Any]) -> Spoilt:
    places: Sequence[str] = [solution.place(spot) for spot in changes]
    return Spoilt(done, tuple(dict.fromkeys(places)), with_values(solution.turns, changes))


def _answer_or_do_everything(solution: ReferenceTurns) -> Iterator[Spoilt]:
    yield from answer_everything(solution)
    yield from act_on_nothing(solution)


# Each makes the spoilt forms of a task; none if it does not apply.
SPOILERS: Mapping[str, Callable[[ReferenceTurns], Iterator[Spoilt]]] = {
    "skip_call": skip_call,
    "wrong_argument": wrong_argument,
    "number_plus_one": number_plus_one,
    "date_off_by_a_day": date_off_by_a_day,
    "fact_dropped": fact_dropped,
    "stray_file": stray_file,
    "neighbour_overwritten": neighbour_overwritten,
    "verbatim_paste": verbatim_paste,
    "answer_everything": _answer_or_do_everything,
}


def spoilt_references(task: PlannedTask, writer: FileWriter | None) -> Mapping[str, tuple[Spoilt, ...]]:
    """Give the spoilt forms of a task's reference by the spoiler's name, the same in each run.

    ``writer`` is how the agent writes a file, if a benchmark registers it.
    """
    solution = ReferenceTurns(task, writer)
    forms: dict[str, tuple[Spoilt, ...]] = {}
    for name, spoil in SPOILERS.items():
        distinct = [each for each in spoil(solution) if each.turns != solution.turns]
        # Forms with the same turns are one, the first of them.
        once = list({str(each.turns): each for each in reversed(distinct)}.values())
        forms[name] = tuple(once[::-1][:20])  # no more: a reference may be long
    return forms
