"""Datasets as Hugging Face keeps them, read by its package ``datasets``, which is named here alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pytest_agenteval.tasks.rows.tables import Row, Table
from pytest_agenteval.text.json_values import jsonable

SCHEME = "hf://"
_SAVED = ("dataset_info.json", "dataset_dict.json", "state.json")


class DatasetProblem(Exception):
    """Why a dataset cannot be read: what is expected, what there is, and what to do."""

    def __init__(self, expected: str, found: str, hint: str = "") -> None:
        super().__init__(expected)
        self.expected, self.found, self.hint = expected, found, hint


class DatasetName(NamedTuple):
    """Which rows of which dataset; ``name`` is ``owner/name``, or the folder of a saved one."""

    name: str
    config: str | None = None
    split: str | None = None
    revision: str | None = None


def is_saved_dataset(path: Path) -> bool:
    """Whether a folder is what ``Dataset.save_to_disk`` writes."""
    return path.is_dir() and any((path / name).is_file() for name in _SAVED)


def read_dataset(wanted: DatasetName, folder: Path | None) -> Table:
    """Read one split of a dataset, from its folder or by its name; rows are counted from 1.

    Raises DatasetProblem.
    """
    try:
        import datasets
    except ImportError:
        raise DatasetProblem(
            "the package datasets, which reads Hugging Face's datasets",
            "it is not installed",
            "pip install 'pytest-agenteval[datasets]'",
        ) from None
    try:
        if folder is not None:
            every = datasets.load_from_disk(str(folder))
        else:
            every = datasets.load_dataset(
                wanted.name, wanted.config, split=wanted.split, revision=wanted.revision
            )
    except Exception as raised:  # whatever the hub, the network or a loading script says
        found = " ".join(f"{type(raised).__name__}: {raised}".split())[:400]
        raise DatasetProblem("a dataset that can be read", found) from None
    return _table(_one_split(every, wanted.split if folder is not None else None))


def _one_split(every: Any, split: str | None) -> Any:
    """Give the split that is meant, of a dataset that has several."""
    if not isinstance(every, dict):  # DatasetDict is one
        return every
    names = ", ".join(map(str, every))
    if split is None and len(every) == 1:
        (split,) = every
    if split not in every:
        found = "none is named" if split is None else repr(split)
        raise DatasetProblem(f"the name of one of the dataset's splits: {names}", found, "say `split: ...`")
    return every[split]


def _table(dataset: Any) -> Table:
    rows = [Row(number, jsonable(values)) for number, values in enumerate(dataset, start=1)]
    return Table(tuple(map(str, dataset.column_names)), rows)
