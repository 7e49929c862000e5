"""Names in the package say what a value is, and a class name means one thing."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.source_code import MODULES, text

OURS = [path for path in MODULES if "templates" not in path.parts]

HISTORY = {"told", "said", "asked", "kept", "odd", "begun"}
"""Words that tell what happened to a value and not what it is."""
STORED = {
    "odd": "a field of JSON documents, and of Run",
    "begun": "a field of Run",
    "kept": "a field of progress files and of a grade's details",
    "said": "a field of the calibration document",
    "add_asked_calls": "a public method of Recorder",
}
"""Names that users' files and code hold, so that they stay."""

TWICE = {
    "Agreement": "a figure, and its form in the calibration document",
    "Confusion": "a figure, and its form in the calibration document",
    "Figure": "a part of two published documents",
    "JudgeNoise": "a figure, and its form in the calibration document",
    "Limits": "a part of two published schemas",
    "Suite": "the public suite in code, and the form of suite.yaml",
    "Task": "the public task in code, and the form of a task file",
}
"""Class names of two classes: users' files and published schemas hold them."""


_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
_QUOTED = re.compile(r"""(?s:[rb]?\"""(.*?)\""")|(f?)[rb]?("(?:\\.|[^"\n\\])*"|'(?:\\.|[^'\n\\])*')|#.*""")
"""A docstring, a text of one line, or a comment: what is left of a module are its names."""
_EXPLANATION = re.compile(r'''^ *(?s:[rb]?"""(.*?)""")|# (.*)''', re.MULTILINE)
"""A docstring or a comment."""


def _identifiers(source: str) -> set[str]:
    """Give the words of a module that stand in code; parsing the package for them would take seconds."""
    code = _QUOTED.sub(lambda text: " ".join(re.findall(r"{([^{}\"']*)", text[3])) if text[2] else "", source)
    return set(re.findall(r"[A-Za-z_]\w*", code))


def _history(name: str) -> bool:
    """Whether a part of an identifier, between underscores or capitals, is such a word."""
    inside = any(word in name.lower() for word in HISTORY)
    return inside and not HISTORY.isdisjoint(part.lower() for part in re.findall("[a-z]+|[A-Z][a-z]*", name))


def test_words_of_texts_and_comments_are_no_identifiers() -> None:
    """An identifier within an f-string is one."""
    source = '''
def named(given):  # a comment
    """A docstring of
    two lines."""
    return f"a text {given.field}" + 'another "text"'
'''
    assert _identifiers(source) == {"def", "named", "given", "return", "field"}


def test_no_identifier_tells_what_happened_to_a_value() -> None:
    """A reader learns from a name what the value is: ``unreadable``, and not ``odd``."""
    names = {(name, path.stem) for path in OURS for name in {path.stem, *_identifiers(text(path))}}
    named = {key for key in names if _history(key[0])}
    assert {key for key in named if key[0] not in STORED} == set()
    assert {name for name, _ in named} == set(STORED)


def test_docstrings_and_comments_use_the_words_of_the_field() -> None:
    """Requested, returned and unreadable are understood at once; names of fields stand in backticks."""
    word = re.compile(rf"\b({'|'.join(HISTORY)})\b", re.IGNORECASE)
    texts = (
        (path, "".join(found.groups(""))) for path in OURS for found in _EXPLANATION.finditer(text(path))
    )
    assert [(path.name, each) for path, each in texts if word.search(re.sub(r"`[^`]+`", "", each))] == []


def test_a_class_name_means_one_thing() -> None:
    """Whoever searches for a class by its name finds one."""
    names = Counter(name for path in OURS for name in _CLASS.findall(text(path)))
    assert {name for name, count in names.items() if count > 1} == set(TWICE)


def test_no_fixture_of_the_tests_has_the_name_of_ours() -> None:
    """A test that uses a fixture ``agenteval`` is one that tries agents: its run would become ``latest``."""
    ours = re.compile(r"^@pytest\.fixture.*\n(?:async )?def agenteval\(", re.MULTILINE)
    assert [path for path in Path(__file__).parent.rglob("*.py") if ours.search(text(path))] == []
