"""The task files and suites that ship are the first users of our own rules."""

from __future__ import annotations

from pathlib import Path

from pytest_agenteval.cli.schema import schema_named
from pytest_agenteval.tasks.documents import read_document
from pytest_agenteval.tasks.file_names import find_suite, is_data_name
from pytest_agenteval.tasks.load import load_suite, load_tasks
from pytest_agenteval.text.errors import ProblemsFound
from tests.cli.test_schema import valid

EVALS = Path(__file__).parents[3] / "evals"


def test_our_own_evals_follow_the_schemas_and_are_read_without_a_problem() -> None:
    """An editor that validates by the schema and our reader say the same of them: nothing."""
    mistakes: list[str] = []
    for path in sorted(EVALS.rglob("*")):
        suite_file = find_suite(path.parent, EVALS)
        if path == suite_file:
            mistakes += [] if valid(schema_named("suite"), read_document(path).value) else [str(path)]
        elif is_data_name(path.name) and "workspace" not in path.parts:
            try:
                tasks = load_tasks(path, load_suite(suite_file) if suite_file else None)
            except ProblemsFound as found:
                mistakes.append(str(found))
                continue
            mistakes += (
                [] if not tasks or valid(schema_named("task"), read_document(path).value) else [str(path)]
            )

    assert mistakes == []
