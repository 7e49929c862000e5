"""Rubrics: read strictly, and every mistake of their authors told with its line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.judge.rubric import packaged_rubric, read_rubric
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake
from tests.fresh_imports import imported_by
from tests.graders.judge.judges import BODY, FRONT, rubric, rubric_text

RUBRICS = installed_registry()


def problem_lines(text: str) -> list[str]:
    """Give what is said of a rubric's mistakes, each in one line."""
    with pytest.raises(ProblemsFound) as caught:
        read_rubric(text, "own.jinja")
    return [" | ".join(line.strip() for line in str(one).splitlines()) for one in caught.value.problems]


def test_a_rubric_says_what_judges_are_asked() -> None:
    """Name, version, scale, dimensions in their order, what is shown and what of it is judged."""
    changed = {"  clarity": "  clarity: |\n    is it\n    clear?"}
    made = rubric(scale="scale: {low: 1, high: 5}", combine="combine: median", **changed)

    assert (made.name, made.version, made.low, made.high) == ("tone", "3", 1, 5)
    assert [(each.name, each.says) for each in made.dimensions] == [
        ("warmth", "is it warm?"),
        ("clarity", "is it clear?"),
    ]
    assert (made.combine, made.output, made.candidates) == ("median", "answer", False)
    assert dict(made.shows) == {"task": "what was asked for", "answer": "what was said"}
    assert (made.body, made.text) == (BODY, f"{made.text.removesuffix(BODY)}{BODY}")


KEYS = "name, version, scale, dimensions, combine, shows, output"
NO_STEPS = {"scale": "scale: {low: 0, high: 0.5}", "combine": "combine: majority"}
TWICE = {"output": "output: answer\ncandidates: 2"}


@pytest.mark.parametrize(
    ("changed", "place", "expected", "found"),
    [
        ({"version": "versoin: 3"}, "3: versoin", "one of ", "unknown key 'versoin'"),
        ({"version": "version: [3]"}, "3: version", "a text or a whole number", "a list of 1"),
        ({"name": "name: A b"}, "2: name", "a name of small letters, digits and _", "'A b' (text)"),
        ({"scale": "scale: {low: 0}"}, "4: scale.high", "a number", "no key 'high'"),
        ({"scale": "scale: {low: 1, high: 1}"}, "4: scale.high", "a number above 1", "1"),
        ({"scale": "scale: {low: a, high: 1}"}, "4: scale.low", "a number", "'a' (text)"),
        ({"scale": "scale: {low: true, high: 1}"}, "4: scale.low", "a number", "true (true or false)"),
        ({"combine": "combine: best"}, "8: combine", "one of mean, median, majority", "'best' (text)"),
        (NO_STEPS, "8: combine", "mean or median on a scale that", "majority from 0 to 0.5"),
        ({"output": "output: reply"}, "12: output", "one of task, answer", "'reply'"),
        (TWICE, "13: candidates", "true or false", "2 (number)"),
        ({"  clarity": "  clarity: 5"}, "7: dimensions.clarity", "what it asks, as text", "5 (number)"),
        ({"  task": "  Task: x"}, "10: shows.Task", "a name of small letters", "'Task'"),
        ({"version": "version: ' '"}, "3: version", "a text or a whole number", "' ' (text)"),
        ({"  clarity": "  Clear: x"}, "7: dimensions.Clear", "a name of small letters", "'Clear'"),
        ({"  clarity": "  rationale: x"}, "7: dimensions.rationale", "another name than", "'rationale'"),
        ({"  clarity": "  warmth: x"}, "7: dimensions.warmth", "each key only once", "a second time"),
        ({"shows": "shows: []", "  task": "", "  answer": ""}, "9: shows", "a map of names", "an empty list"),
    ],
    ids=lambda value: value.partition(": ")[2] if isinstance(value, str) else "",
)
def test_a_mistake_in_the_front_matter_is_told_with_its_line(
    changed: dict[str, str], place: str, expected: str, found: str
) -> None:
    """File, line, key, what was expected and what stands there."""
    head = f"own.jinja:{place} | expected: {expected}"
    assert any(
        line.startswith(head) and found in line.partition("found: ")[2]
        for line in problem_lines(rubric_text(**changed))
    )


def test_a_misspelled_name_gets_a_hint() -> None:
    """Keys and values that are near to what there is are told with it."""
    assert "did you mean 'version'?" in " ".join(problem_lines(rubric_text(version="versoin: 3")))
    assert "did you mean 'answer'?" in " ".join(problem_lines(rubric_text(body=f"{BODY}{{{{ anwser }}}}")))


ONLY_VALUES = "text with values as {{ name }} and {% if name %}, nothing that changes them"


@pytest.mark.parametrize(
    ("body", "place", "expected", "found"),
    [
        (f"{BODY}\n{{{{ anwser }}}}", "22", "one of task, answer", "the unknown value 'anwser'"),
        ("{{ answer }}", "10: shows.task", "{{ task }} in the text below", "a text without it"),
        ("{{ task }}\n{{ answer | upper }}", "15", ONLY_VALUES, "filter in the template"),
        ("{{ task }}\n\n{{ answer }", "16", ONLY_VALUES, "unexpected '}'"),
    ],
)
def test_a_mistake_in_the_text_is_told_with_its_line(
    body: str, place: str, expected: str, found: str
) -> None:
    """Values that are unknown, not shown or changed: lines are those of the file."""
    problems = [line.partition(" | hint")[0] for line in problem_lines(rubric_text(body=body))]

    assert f"own.jinja:{place} | expected: {expected} | found:    {found}" in problems


@pytest.mark.parametrize(
    ("front", "message"),
    [
        ("- a\n- b\n", f"own.jinja:2 | expected: a map with {KEYS} (and, as needed, candidates)"),
        ("name: [\n", "own.jinja:3 | expected: a YAML document | found:    "),
    ],
)
def test_a_front_matter_that_is_no_map_is_refused(front: str, message: str) -> None:
    """What cannot be read as a map is told once, not once for every key."""
    (line,) = problem_lines(rubric_text(front))

    assert line.startswith(message)


def test_a_rubric_written_on_any_system_is_the_same() -> None:
    """Line ends and marks that an editor puts in are no part of what judges are told."""
    text = rubric_text()

    assert read_rubric("\ufeff" + text.replace("\n", "\r\n")) == read_rubric(text)


@pytest.mark.parametrize(
    "text", ["", "Judge this: {{ answer }}", "---\nname: tone\n", " ---\nname: x\n---\n"]
)
def test_a_text_without_front_matter_is_no_rubric(text: str) -> None:
    """Both lines of dashes have to be there, the first one at the top."""
    (problem,) = problem_lines(text)

    assert "--- on the first line, then YAML, then --- on a line of its own" in problem


def test_all_mistakes_are_told_at_once() -> None:
    """Nobody mends a rubric one mistake at a time."""
    found = problem_lines(
        rubric_text(name="name: 5", scale="scale: 5", combine="combine: 5", body="{{ tsk }}")
    )

    assert [line.partition(" | ")[0] for line in found] == [
        "own.jinja:2: name",
        "own.jinja:4: scale",
        "own.jinja:8: combine",
        "own.jinja:10: shows.task",
        "own.jinja:11: shows.answer",
        "own.jinja:14",
    ]


@pytest.mark.parametrize("key", ["name", "version", "scale", "dimensions", "combine", "shows", "output"])
def test_every_key_is_needed(key: str) -> None:
    """There are no silent defaults: a rubric says everything that its scores depend on."""
    lines = rubric_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"{key}:"))
    end = next(at for at in range(start + 1, len(lines)) if not lines[at].startswith("  "))
    found = problem_lines("\n".join(lines[:start] + lines[end:]))

    assert any(f": {key} | " in line and f"no key {key!r}" in line for line in found)


@pytest.mark.parametrize(
    "body",
    [
        "{{ answer | truncate(9) }}",
        "{{ answer ~ task }}",
        "{{ answer[:9] }}",
        "{{ answer.text }}",
        "{{ [answer] }}",
        '{{ "%s" % answer }}',
        '{{ answer.replace("<", "") }}',
        "{% set x %}{{ answer }}{% endset %}{{ x | upper }}",
        "{% filter upper %}{{ answer }}{% endfilter %}",
        "{% macro m() %}{{ answer }}{% endmacro %}{{ m() | upper }}",
        "{% call m() %}{{ answer }}{% endcall %}",
        "{% block b %}{{ answer }}{% endblock %}",
        "{% for c in answer %}{{ c }}{% endfor %}",
        '{% if answer == "x" %}y{% endif %}',
        '{% if "x" in task %}y{% endif %}',
        '{% include "x" %}',
        "{{ self }}",
    ],
)
def test_nothing_in_a_rubric_can_take_a_value_apart(body: str) -> None:
    """A value is written whole, in its fence, or not at all: whatever computes is refused when it is read."""
    assert any(
        "nothing that changes them" in line for line in problem_lines(rubric_text(body=f"{body}\n{BODY}"))
    )


@given(st.text())
def test_no_text_breaks_the_reading(text: str) -> None:
    """Whatever stands in a file, it is a rubric or told as problems."""
    for whole in (text, f"---\n{text}\n---\n", f"---\n{FRONT}---\n{text}"):
        try:
            made = read_rubric(whole)
        except ProblemsFound:
            continue
        assert made.dimensions


def test_the_digest_is_of_all_that_judges_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another word in the rubric is another rubric, and so is another word in what every judge is told."""
    from pytest_agenteval.graders.judge import rubric as rubric_module
    from pytest_agenteval.records.prompts import Prompts

    own = rubric().digest()
    assert own == rubric().digest()
    assert own != rubric(dimensions="dimensions: # asked").digest()
    frame = rubric_module._frame()
    changed = Prompts({**frame.texts, "system": frame.texts["system"] + " "}, {})
    monkeypatch.setattr(rubric_module, "_frame", lambda: changed)
    assert own != rubric().digest()


def test_the_reply_is_asked_for_as_a_strict_schema() -> None:
    """Every dimension is a number or unknown, with a reason; nothing may be missing and nothing added."""
    schema: Any = rubric().schema()

    assert schema["required"] == ["warmth", "clarity", "rationale"]
    assert schema["additionalProperties"] is False
    score = {"anyOf": [{"type": "number"}, {"type": "string", "enum": ["unknown"]}]}
    assert schema["properties"] == {"warmth": score, "clarity": score, "rationale": {"type": "string"}}
    assert list(rubric().schema(candidates=2)["properties"]) == ["A", "B", "rationale"]


def test_values_must_be_those_that_are_shown() -> None:
    """A value too many or too few is a mistake of whoever asks, and says what is wanted."""
    with pytest.raises(ValueError, match="rubric tone shows task, answer; the values given are task"):
        rubric().messages({"task": "x"})
    with pytest.raises(ValueError, match="the values given are task, answer, mood"):
        rubric().messages({"task": "x", "answer": "y", "mood": "z"})
    with pytest.raises(ValueError, match="takes no candidates, not 2"):
        rubric().messages({"task": "x", "answer": "y"}, candidates=["a", "b"])


@pytest.mark.parametrize("name", RUBRICS.rubric_names)
def test_packaged_rubrics_can_be_read(name: str) -> None:
    """Each has its file's name, offers a way out, and says what the lowest and highest mean."""
    found = RUBRICS.rubric(name)

    assert found.name == name
    for dimension in found.dimensions:
        assert '"unknown":' in dimension.says
        assert f" {found.low:g}: " in dimension.says
        assert f" {found.high:g}: " in dimension.says


def test_a_rubric_that_there_is_none_of_gets_a_hint() -> None:
    """A misspelled name is told with the nearest one, or with all."""
    with pytest.raises(UsageMistake, match="did you mean 'task_fulfilment'"):
        RUBRICS.rubric("task_fulfilmnt")
    with pytest.raises(UsageMistake, match="unknown rubric 'zzz'; known: "):
        RUBRICS.rubric("zzz")
    with pytest.raises(ValueError, match="no rubric 'task_fulfilmnt'; did you mean 'task_fulfilment'"):
        packaged_rubric("task_fulfilmnt")


def test_importing_the_judges_imports_nothing_heavy() -> None:
    """Whoever only collects tests pays for no template engine and no provider."""
    assert imported_by("import pytest_agenteval.graders.judge", "jinja2", "litellm", "pydantic", "vcr") == []
