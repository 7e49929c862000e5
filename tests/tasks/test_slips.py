"""What a file that cannot be read is answered with: the way out, where the slip is a common one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.tasks.documents import parse_document
from pytest_agenteval.text.errors import ProblemsFound


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ('{"a": 1, // one\n "b": 2}', "task.json", "JSON has no comments"),
        ('// one\n{"a": 1}', "task.json", "JSON has no comments"),
        ('{"a": [1, 2, ]}', "task.json", "no comma stands behind the last entry"),
        ('{"a": 1,\n}', "task.json", "no comma stands behind the last entry"),
        ("{'a': 1}", "task.json", "JSON has texts in double quotes"),
        ("a: 1\n---\nb: 2\n", "task.yaml", "several tasks of one file are a list"),
        ("a: b: c\n", "task.yaml", "a text with ': ' in it stands in quotes"),
        (" a: 1\nb: 2\n", "task.yaml", "begin in the same column"),
        ("a:\n  - b\n - c\n", "task.yaml", "begin in the same column"),
        ("a: 1\n b: 2\n", "task.yaml", "begin in the same column"),
        ("a: {b: 1\nc: 2\n", "task.yaml", "a bracket or brace above is not closed"),
        ('a: "b\nc: 2\n', "task.yaml", "a quote above is not closed"),
        ("a: *b\n", "task.yaml", "a text that begins with * stands in quotes"),
        ("a: @b\n", "task.yaml", "stands in quotes"),
        ("a: é\n".encode("latin-1"), "task.yaml", "save the file as UTF-8"),
        ("{}".encode("utf-16"), "task.json", "save the file as UTF-8"),
    ],
)
def test_a_common_slip_is_told_with_the_way_out(text: str | bytes, name: str, hint: str) -> None:
    """Readers' own words speak of tokens and property names."""
    with pytest.raises(ProblemsFound) as caught:
        parse_document(Path(name), text if isinstance(text, bytes) else text.encode())

    (problem,) = caught.value.problems
    assert hint in problem.hint
