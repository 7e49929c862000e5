"""What a suite's file says of rows that are tasks: where they are, and what a task is made of."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.tasks.field_types import (
    Count,
    Map,
    Named,
    NamedBesideOthers,
    Spec,
    check_named,
    expects,
)

OneCharacter = Annotated[str, Meta(min_length=1, max_length=1)]
_FILLED = "; {{ column }} stands for a row's value"


class RowSource(Spec, frozen=True, kw_only=True):
    """A table, with what its name does not say: a file in another encoding, or one split of a dataset."""

    file: Annotated[Named | None, expects("the path of a .csv, .tsv, .jsonl or .json file")] = None
    encoding: Annotated[Named, expects("the name of an encoding, as in cp949")] = "utf-8"
    delimiter: Annotated[OneCharacter | None, expects("what stands between cells: one character")] = None
    dataset: Annotated[
        Named | None, expects("the name of a Hugging Face dataset, as in owner/name, or a saved one's folder")
    ] = None
    config: Annotated[Named | None, expects("the name of the dataset's configuration")] = None
    split: Annotated[Named | None, expects("the name of one of the dataset's splits")] = None
    revision: Annotated[Named | None, expects("the dataset's revision: a tag, a branch or a commit")] = None


class Rows(Spec, frozen=True, kw_only=True):
    """Rows that are tasks: a task as in a task file, in which ``{{ column }}`` stands for a row's value."""

    rows: Annotated[
        RowSource | NamedBesideOthers,
        expects(
            "the path of a .csv, .tsv, .jsonl or .json file, hf://owner/name, the folder of a saved "
            "dataset, or a map with `file` or `dataset`"
        ),
    ]
    input: Annotated[
        Map | NamedBesideOthers,
        expects(f"a column, whose text the agent is given, or a map as a task's input{_FILLED}"),
    ]
    graders: Annotated[tuple[Map, ...], Meta(min_length=1), expects(f"a list of 1 grader or more{_FILLED}")]
    id: Annotated[Named | None, expects(f"a column, or a text with columns in it{_FILLED}")] = None
    bucket: Annotated[Named | None, expects(f"a column, or a text with columns in it{_FILLED}")] = None
    where: Annotated[
        Map, expects("a map from columns to the value, or a list of values, of the rows meant")
    ] = NOTHING
    limit: Annotated[Count | None, expects("a whole number, 1 or more: the first so many rows")] = None
    split: Annotated[
        Named | None,
        expects(f"dev or held_out, or the name of one of the dataset's splits{_FILLED}"),
    ] = None
    description: Annotated[Any, expects(f"a text{_FILLED}")] = None
    metadata: Annotated[Any, expects(f"a map{_FILLED}")] = None
    tags: Annotated[Any, expects(f"a list of texts without spaces{_FILLED}")] = None
    trials_per_run: Annotated[Any, expects("a whole number, 1 or more")] = None
    limits: Annotated[Any, expects("a map of limits: steps, seconds, tokens, cost_usd")] = None
    clock: Annotated[Any, expects("a date and time, as in 2026-05-25T09:00:00+09:00")] = None
    timeout_seconds: Annotated[
        Any, expects("a number of seconds above 0; `limits.seconds` comes before it")
    ] = None
    agent: Annotated[Any, expects(f"the name of a registered agent{_FILLED}")] = None
    user: Annotated[
        Any, expects(f"a map of persona, goal and stop: the user, whom a model plays{_FILLED}")
    ] = None
    settings: Annotated[Any, expects(f"a map of the agent's settings{_FILLED}")] = None
    prompts: Annotated[Any, expects(f"a map from names of prompts to paths of files{_FILLED}")] = None
    script: Annotated[Any, expects(f"a list of the replies that the scripted model gives{_FILLED}")] = None
    faults: Annotated[Any, expects("a list of faults: which tools fail on purpose, and how")] = None
    reference_solution: Annotated[Any, expects(f"a map: how it is solved{_FILLED}")] = None

    def __post_init__(self) -> None:
        for value in (self.rows, self.input):
            check_named(value)


TASK_KEYS = (
    "description",
    "metadata",
    "tags",
    "trials_per_run",
    "limits",
    "clock",
    "timeout_seconds",
    "agent",
    "user",
    "settings",
    "prompts",
    "script",
    "faults",
    "reference_solution",
)
"""Keys that mean what they mean in a task file."""
